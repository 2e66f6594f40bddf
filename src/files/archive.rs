//! Named tensors in an order.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use systole_fusion::ir::Origin;

use super::{Reason, StoredTensor, in_file, npz, read, replacement, safetensors, unwritable};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Named tensors on the host, in the order of the file that they come from or of whoever named them.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    path: Option<PathBuf>,
    members: Vec<Member>,
    positions: HashMap<String, usize>,
    metadata: BTreeMap<String, String>,
}

/// A name, and its tensor or why there is none to be had.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) tensor: Result<StoredTensor, Reason>,
}

impl Archive {
    /// The archive of these tensors.
    ///
    /// # Errors
    /// Two have the same name.
    #[track_caller]
    pub fn new<N: Into<String>>(tensors: impl IntoIterator<Item = (N, StoredTensor)>) -> Result<Self> {
        let origin = Origin::caller();
        let members = tensors.into_iter().map(|(name, tensor)| Member { name: name.into(), tensor: Ok(tensor) });
        Archive::from_members(members.collect()).map_err(|reason| Error::argument(origin, reason))
    }

    /// Waits for these tensors' elements, and makes an archive of them.
    ///
    /// # Errors
    /// A value failed: then the error is that of the op that failed first. Two tensors have the same name.
    #[track_caller]
    pub fn of<'a, N: Into<String>>(tensors: impl IntoIterator<Item = (N, &'a Tensor)>) -> Result<Self> {
        let origin = Origin::caller();
        let members = tensors
            .into_iter()
            .map(|(name, tensor)| Ok(Member { name: name.into(), tensor: Ok(StoredTensor::lent(tensor, &origin)?) }));
        let members = members.collect::<Result<_>>()?;
        Archive::from_members(members).map_err(|reason| Error::argument(origin, reason))
    }

    pub(super) fn from_members(members: Vec<Member>) -> Result<Self, Reason> {
        let mut positions = HashMap::with_capacity(members.len());
        for (position, member) in members.iter().enumerate() {
            if positions.insert(member.name.clone(), position).is_some() {
                return Err(format!("there are two tensors `{}`", member.name));
            }
        }
        Ok(Archive { path: None, members, positions, metadata: BTreeMap::new() })
    }

    /// Reads a `.npz` file, as `numpy.savez` and `numpy.savez_compressed` write them.
    ///
    /// # Errors
    /// The file cannot be read or is damaged. A member that is no array, or whose elements are of no
    /// [`DType`](crate::DType), is an error of whoever asks for it.
    #[track_caller]
    pub fn load_npz(path: impl AsRef<Path>) -> Result<Self> {
        Archive::load(path.as_ref(), &Origin::caller(), npz::decode)
    }

    /// Reads a `.safetensors` file.
    ///
    /// # Errors
    /// The file cannot be read or is damaged. A tensor whose elements are of no [`DType`](crate::DType) is an error of
    /// whoever asks for it.
    #[track_caller]
    pub fn load_safetensors(path: impl AsRef<Path>) -> Result<Self> {
        Archive::load(path.as_ref(), &Origin::caller(), safetensors::decode)
    }

    fn load(path: &Path, origin: &Origin, decode: impl FnOnce(Vec<u8>) -> Result<Self, Reason>) -> Result<Self> {
        let archive = decode(read(path, origin)?).map_err(|reason| in_file(path, origin, &reason))?;
        Ok(Archive { path: Some(path.to_path_buf()), ..archive })
    }

    /// Writes a `.npz` file, uncompressed. Metadata has no place in it.
    ///
    /// # Errors
    /// A dtype is bf16, a tensor could not be read, or the file cannot be written.
    #[track_caller]
    pub fn save_npz(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, origin) = (path.as_ref(), Origin::caller());
        let tensors = self.all(&origin)?;
        let headers = npz::headers(&tensors).map_err(|reason| in_file(path, &origin, &reason))?;
        replacement::write(path, |file| npz::encode(&tensors, &headers, file))
            .map_err(|error| unwritable(path, &origin, &error))
    }

    /// Writes a `.safetensors` file. The tensors with the widest elements come first, so that all are aligned; of one
    /// width they keep their order.
    ///
    /// # Errors
    /// A tensor is named `__metadata__` or could not be read, or the file cannot be written.
    #[track_caller]
    pub fn save_safetensors(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, origin) = (path.as_ref(), Origin::caller());
        let tensors = safetensors::ordered(self.all(&origin)?);
        let header = safetensors::header(&tensors, &self.metadata).map_err(|reason| in_file(path, &origin, &reason))?;
        replacement::write(path, |file| safetensors::encode(&tensors, &header, file))
            .map_err(|error| unwritable(path, &origin, &error))
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// There is none, or its elements are of no [`DType`](crate::DType).
    #[track_caller]
    pub fn tensor(&self, name: &str) -> Result<&StoredTensor> {
        let origin = Origin::caller();
        match self.positions.get(name) {
            Some(&position) => self.readable(&self.members[position], &origin),
            None => Err(self.error(&origin, &format!("there is no tensor `{name}`"))),
        }
    }

    /// Every name with its tensor, in order.
    ///
    /// # Errors
    /// Elements of a tensor are of no [`DType`](crate::DType).
    #[track_caller]
    pub fn tensors(&self) -> Result<Vec<(&str, &StoredTensor)>> {
        self.all(&Origin::caller())
    }

    fn all(&self, origin: &Origin) -> Result<Vec<(&str, &StoredTensor)>> {
        self.members.iter().map(|member| Ok((&*member.name, self.readable(member, origin)?))).collect()
    }

    fn readable<'a>(&self, member: &'a Member, origin: &Origin) -> Result<&'a StoredTensor> {
        member.tensor.as_ref().map_err(|reason| self.error(origin, &format!("tensor `{}` {reason}", member.name)))
    }

    /// An error of what the archive holds, which names its file if it has one.
    fn error(&self, origin: &Origin, reason: &dyn fmt::Display) -> Error {
        match &self.path {
            Some(path) => in_file(path, origin, reason),
            None => Error::argument(origin.clone(), reason.to_string()),
        }
    }

    /// Every name, in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.members.iter().map(|member| &*member.name)
    }

    /// What a `.safetensors` file says about itself, by key.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The same tensors with other metadata.
    #[must_use]
    pub fn with_metadata(self, metadata: BTreeMap<String, String>) -> Self {
        Archive { metadata, ..self }
    }
}
