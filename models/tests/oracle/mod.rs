//! Expected results from outside the project, in NumPy's archives.

use systole::Element;
use systole::files::Archive;

use crate::testdata;

/// Arrays by name.
pub(crate) struct Oracle(Archive);

impl Oracle {
    /// The archive of that name, if it is at hand.
    pub(crate) fn find(name: &str) -> Option<Self> {
        let path = testdata::find(&format!("oracles/{name}"))?;
        Some(Oracle(Archive::load_npz(path).expect("the oracle is whole")))
    }

    /// The elements of an array.
    #[track_caller]
    pub(crate) fn array<T: Element>(&self, name: &str) -> Vec<T> {
        self.0.tensor(name).and_then(|array| array.to_vec()).expect("the oracle has such an array")
    }
}
