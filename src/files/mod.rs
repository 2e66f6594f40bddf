//! Tensors in files: NumPy's `.npy` and `.npz`, and `.safetensors`.
//!
//! A file with one tensor is [`Tensor::load_npy`] and [`Tensor::save_npy`]; a file of named ones is an [`Archive`], which
//! is a value of its own: read once, it gives its tensors to any number of devices, and what was read from one format
//! can be saved in the other.
//!
//! ```
//! use systole::files::Archive;
//! use systole::{Device, Tensor};
//!
//! # fn main() -> systole::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("layer.safetensors");
//! let device = Device::simulator()?;
//! let weight = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
//! let bias = Tensor::full(&device, 0.5f32, [2])?;
//! Archive::of([("weight", &weight), ("bias", &bias)])?.save_safetensors(&path)?;
//!
//! let layer = Archive::load_safetensors(&path)?;
//! let weight = layer.tensor("weight")?.to_device(&device)?;
//! assert_eq!(weight.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok(()) }
//! ```
//!
//! **Bits.** Elements are moved, never computed with: a NaN keeps its payload. Nothing is converted either: an element type
//! that Systole does not have is an error of whoever asks for that tensor, and other tensors of the file can be had.
//! NumPy has no bfloat16. What extensions of it save is an opaque `V2`, two bytes of any kind, so `.npy` and `.npz`
//! refuse bf16 both ways, and `.safetensors` keeps it.
//!
//! **Damage.** A file is believed in nothing: sizes are compared with each other and with what is there before memory is
//! taken for them, overlaps and doubled names are refused, and whatever is wrong is an error that names file and tensor.
//! The formats are strict: bytes that belong to no tensor are damage too.
//!
//! **Memory.** A file is read whole. Where its bytes are a tensor's as they stand (`.safetensors`, and `.npy` but for
//! big-endian and Fortran-ordered ones) they are not copied again, not even to a device ([`Tensor::from_host`]); they
//! stay as long as any tensor of the file does. Mapping files instead would need `unsafe`, and could not promise that the
//! bytes stay what they are.
//!
//! **Writing** goes to a file beside the target, which then takes its name: an interruption leaves the old file or the
//! new one, whole.

mod archive;
mod npy;
mod npz;
mod replacement;
mod safetensors;
mod stored_tensor;

use std::fmt;
use std::fs;
use std::path::Path;

use systole_fusion::ir::Origin;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

pub use archive::Archive;
pub use stored_tensor::StoredTensor;

impl Tensor {
    /// Reads a `.npy` file onto `device`.
    ///
    /// # Errors
    /// The file cannot be read or is damaged, its elements are of no [`DType`](crate::DType), or the device is out of
    /// memory.
    #[track_caller]
    pub fn load_npy(device: &Device, path: impl AsRef<Path>) -> Result<Tensor> {
        let (path, origin) = (path.as_ref(), Origin::caller());
        let file = read(path, &origin)?;
        let tensor = npy::decode(file).map_err(|reason| in_file(path, &origin, &reason))?;
        tensor.to_device(device)
    }

    /// Waits for the elements and writes them to a `.npy` file.
    ///
    /// # Errors
    /// The value failed: then the error is that of the op that failed first. The dtype is bf16, or the file cannot be
    /// written.
    #[track_caller]
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, origin) = (path.as_ref(), Origin::caller());
        let tensor = StoredTensor::lent(self, &origin)?;
        let header = npy::header(tensor.ty()).map_err(|reason| in_file(path, &origin, &reason))?;
        replacement::write(path, |file| {
            use std::io::Write;
            file.write_all(&header)?;
            file.write_all(tensor.bytes())
        })
        .map_err(|error| unwritable(path, &origin, &error))
    }
}

/// What is wrong with a file or a tensor in it, before it is known whose call it was.
type Reason = String;

fn read(path: &Path, origin: &Origin) -> Result<Vec<u8>> {
    fs::read(path)
        .map_err(|error| Error::file(path, origin.clone(), format!("cannot read {}: {error}", path.display())))
}

fn in_file(path: &Path, origin: &Origin, reason: &dyn fmt::Display) -> Error {
    Error::file(path, origin.clone(), format!("{}: {reason}", path.display()))
}

fn unwritable(path: &Path, origin: &Origin, error: &dyn fmt::Display) -> Error {
    Error::file(path, origin.clone(), format!("cannot write {}: {error}", path.display()))
}
