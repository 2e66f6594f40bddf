//! Chip profiles: what differs from one simulated device to another, one row each.
//!
//! A profile decides numerics (docs/numerics.md) and sizes. `ieee` is no chip: it has StableHLO's semantics with every
//! op rounded to its dtype, and the memory of a mid-sized one. The chips' figures are those of one device as JAX shows
//! it: all of a chip, but half of a v7x, whose two cores are two devices.
//!
//! Sources: depth of the matrix unit and memory from Google Cloud's page on each chip (docs.cloud.google.com/tpu/docs)
//! and JAX's table of them (`jax/_src/tpu_info.py`).

use std::fmt;
use std::str::FromStr;

use systole_kernels::arithmetic::Arithmetic;
use systole_kernels::program::Mxu;

use crate::error::{ErrorKind, HalError};

/// A chip, or the plain IEEE device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Profile {
    /// StableHLO semantics, no chip's particulars.
    #[default]
    Ieee,
    /// TPU v4.
    V4,
    /// TPU v5e.
    V5e,
    /// TPU v5p.
    V5p,
    /// TPU v6e (Trillium).
    V6e,
    /// TPU7x (Ironwood).
    V7x,
}

struct Row {
    name: &'static str,
    about: &'static str,
    arithmetic: Arithmetic,
    memory_limit: u64,
}

const GIB: u64 = 1 << 30;

const IEEE: Row = Row {
    name: "ieee",
    about: "StableHLO semantics, every op rounded to its dtype",
    arithmetic: Arithmetic::Ieee,
    memory_limit: 16 * GIB,
};

const V4: Row = Row {
    name: "v4",
    about: "TPU v4: bf16 dots in blocks of 128, subnormals flushed",
    arithmetic: Arithmetic::Chip(Mxu::Depth128),
    memory_limit: 32 * GIB,
};

const V5E: Row = Row {
    name: "v5e",
    about: "TPU v5e: bf16 dots in blocks of 128, subnormals flushed",
    arithmetic: Arithmetic::Chip(Mxu::Depth128),
    memory_limit: 16 * GIB,
};

const V5P: Row = Row {
    name: "v5p",
    about: "TPU v5p: bf16 dots in blocks of 128, subnormals flushed",
    arithmetic: Arithmetic::Chip(Mxu::Depth128),
    memory_limit: 95 * GIB,
};

const V6E: Row = Row {
    name: "v6e",
    about: "TPU v6e (Trillium): bf16 dots in blocks of 256, subnormals flushed",
    arithmetic: Arithmetic::Chip(Mxu::Depth256),
    memory_limit: 32 * GIB,
};

const V7X: Row = Row {
    name: "v7x",
    about: "half a TPU7x (Ironwood): bf16 dots in blocks of 256, subnormals flushed",
    arithmetic: Arithmetic::Chip(Mxu::Depth256),
    memory_limit: 96 * GIB,
};

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 6] = [Profile::Ieee, Profile::V4, Profile::V5e, Profile::V5p, Profile::V6e, Profile::V7x];

    const fn row(self) -> &'static Row {
        match self {
            Profile::Ieee => &IEEE,
            Profile::V4 => &V4,
            Profile::V5e => &V5E,
            Profile::V5p => &V5P,
            Profile::V6e => &V6E,
            Profile::V7x => &V7X,
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

    /// Whose arithmetic it has.
    pub const fn arithmetic(self) -> Arithmetic {
        self.row().arithmetic
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
        expect!["unavailable: unknown profile `v99` (known: ieee, v4, v5e, v5p, v6e, v7x)"]
            .assert_eq(&"v99".parse::<Profile>().unwrap_err().to_string());
    }
}
