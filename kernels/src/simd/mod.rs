//! Instruction sets, chosen at run time.
//!
//! Every loop in this crate is written once, in safe Rust, as a [`Vectorized`] value. [`Isa::vectorize`] compiles it
//! once per instruction set: inlined into a function that has the wider vectors enabled, LLVM vectorises the same
//! source for them. Bits cannot differ between the copies, because Rust never contracts, reassociates or approximates
//! float arithmetic; only the explicit `mul_add` of contractions needs hardware FMA, and [`Isa::has_fma`] tells where
//! `numerics::fma` must stand in.

use std::fmt;
use std::str::FromStr;

mod environment;
mod vector;

pub use environment::with_default_float_environment;
pub use vector::{OverVectors, Vectors};

/// A loop that [`Isa::vectorize`] compiles per instruction set. Mark `run` and all it calls `#[inline(always)]`.
pub trait Vectorized {
    /// Result of the loop.
    type Output;
    /// The loop.
    fn run(self) -> Self::Output;
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// An instruction set that this machine has. A value is proof that it was detected.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Isa(Kind);

impl Isa {
    /// What every machine of the target architecture has.
    pub const PORTABLE: Isa = Isa(Kind::Portable);

    /// All that this machine has, narrowest first.
    pub fn available() -> Vec<Isa> {
        #[allow(unused_mut, reason = "only x86-64 has wider sets to detect; NEON is in the aarch64 baseline")]
        let mut all = vec![Isa::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(Isa(Kind::Avx2));
                if ["avx512f", "avx512bw", "avx512dq", "avx512vl"].iter().all(|name| match *name {
                    "avx512f" => is_x86_feature_detected!("avx512f"),
                    "avx512bw" => is_x86_feature_detected!("avx512bw"),
                    "avx512dq" => is_x86_feature_detected!("avx512dq"),
                    _ => is_x86_feature_detected!("avx512vl"),
                }) {
                    all.push(Isa(Kind::Avx512));
                }
            }
        }
        all
    }

    /// The widest that this machine has.
    pub fn best() -> Isa {
        *Isa::available().last().expect("every machine has the portable set")
    }

    /// `portable`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
        }
    }

    /// Whether `f32::mul_add` is one instruction under [`vectorize`](Self::vectorize).
    pub fn has_fma(self) -> bool {
        match self.0 {
            Kind::Portable => cfg!(any(target_arch = "aarch64", target_feature = "fma")),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 | Kind::Avx512 => true,
        }
    }

    /// f32 lanes of one vector register.
    pub fn f32_lanes(self) -> usize {
        match self.0 {
            Kind::Portable => 4,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => 8,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => 16,
        }
    }

    /// Runs `op`, compiled for this instruction set.
    #[inline]
    pub fn vectorize<V: Vectorized>(self, op: V) -> V::Output {
        match self.0 {
            Kind::Portable => op.run(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value of this kind is only made by `available`, after these features were detected.
            Kind::Avx2 => unsafe { avx2(op) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Avx512 => unsafe { avx512(op) },
        }
    }
}

/// # Safety
/// The machine has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn avx2<V: Vectorized>(op: V) -> V::Output {
    op.run()
}

/// # Safety
/// The machine has AVX-512 F, BW, DQ and VL, and AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
#[inline]
unsafe fn avx512<V: Vectorized>(op: V) -> V::Output {
    op.run()
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = String;

    /// The instruction set of that name, if this machine has it.
    fn from_str(name: &str) -> Result<Self, String> {
        Isa::available().into_iter().find(|isa| isa.name() == name).ok_or_else(|| {
            let names: Vec<_> = Isa::available().into_iter().map(Isa::name).collect();
            format!("no instruction set `{name}` on this machine (it has {})", names.join(", "))
        })
    }
}
