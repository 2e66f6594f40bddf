//! Chip profiles: what differs from one simulated device to another, one row each.
//!
//! A profile decides numerics (docs/numerics.md) and sizes. `ieee` is no chip: it has StableHLO's semantics with every
//! op rounded to its dtype, and the memory of a mid-sized one.

use std::fmt;
use std::str::FromStr;

use crate::error::{ErrorKind, HalError};

/// A chip, or the plain IEEE device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Profile {
    /// StableHLO semantics, no chip's particulars.
    #[default]
    Ieee,
}

struct Row {
    name: &'static str,
    about: &'static str,
    memory_limit: u64,
}

const IEEE: Row =
    Row { name: "ieee", about: "StableHLO semantics, every op rounded to its dtype", memory_limit: 16 << 30 };

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 1] = [Profile::Ieee];

    const fn row(self) -> &'static Row {
        match self {
            Profile::Ieee => &IEEE,
        }
    }

    /// The name that opens it.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// One line for people.
    pub const fn about(self) -> &'static str {
        self.row().about
    }

    /// Bytes of device memory.
    pub const fn memory_limit(self) -> u64 {
        self.row().memory_limit
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = HalError;

    fn from_str(name: &str) -> Result<Self, HalError> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| {
            let known: Vec<_> = Profile::ALL.into_iter().map(Profile::name).collect();
            HalError::new(ErrorKind::Unavailable, format!("unknown profile `{name}` (known: {})", known.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn names_round_trip() {
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse::<Profile>().unwrap(), profile);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        expect!["unavailable: unknown profile `v99` (known: ieee)"]
            .assert_eq(&"v99".parse::<Profile>().unwrap_err().to_string());
    }
}
