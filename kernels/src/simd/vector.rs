//! Explicit vectors, for the one loop whose registers must be allotted by hand.
//!
//! [`Isa::vectorize`] leaves vectorisation to LLVM, and for loops over slices that is reliable. The tile of accumulators
//! of a contraction is not such a loop: written over arrays it compiles to perfect code for one tile shape and to scalar
//! code, sixty times slower, for the next. So contractions say which vectors they mean, through [`Vectors`]: the few
//! operations they need, over the registers of an instruction set.
//!
//! A value of a type that implements [`Vectors`] is the proof that the machine has the set. [`Isa::with_vectors`] hands
//! it out inside a function compiled for that set, which everything marked `#[inline(always)]` is inlined into.

use bytemuck::Pod;

use super::{Isa, Kind, Vectorized};
use crate::numerics;

/// Operations on the `f32` vectors of an instruction set. The value is the proof that the machine has it.
pub trait Vectors: Copy {
    /// A register of [`LANES`](Self::LANES) elements.
    type F32: Copy;
    /// The elements in memory.
    type Array: Pod;
    /// Elements of a register.
    const LANES: usize;
    /// Registers that a loop may hold accumulators in, the rest being enough for its other operands.
    const ACCUMULATORS: usize;

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::F32;
    /// The elements of an array.
    fn load(self, from: &Self::Array) -> Self::F32;
    /// Writes the elements to an array.
    fn store(self, x: Self::F32, to: &mut Self::Array);
    /// a + b.
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a·b + c rounded once; a NaN result is some NaN.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// x, or the canonical NaN for any NaN.
    fn canonical(self, x: Self::F32) -> Self::F32;
    /// Rows become columns. Bits are moved as they are.
    fn transpose(self, rows: &[[f32; 8]; 8]) -> [[f32; 8]; 8];
}

/// Work over explicit vectors. Mark `run` and all it calls `#[inline(always)]`.
pub trait OverVectors {
    /// Result of the work.
    type Output;
    /// The work.
    fn run<V: Vectors>(self, vectors: V) -> Self::Output;
}

impl Isa {
    /// Runs `op`, compiled for this instruction set, with its vectors.
    #[inline]
    pub fn with_vectors<O: OverVectors>(self, op: O) -> O::Output {
        match self.0 {
            Kind::Portable => self.vectorize(Bound { op, vectors: Portable(()) }),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => self.vectorize(Bound { op, vectors: x86::Avx2::proven(self) }),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => self.vectorize(Bound { op, vectors: x86::Avx512::proven(self) }),
        }
    }
}

struct Bound<O, V> {
    op: O,
    vectors: V,
}

impl<O: OverVectors, V: Vectors> Vectorized for Bound<O, V> {
    type Output = O::Output;
    #[inline(always)]
    fn run(self) -> O::Output {
        self.op.run(self.vectors)
    }
}

/// Arrays that LLVM turns into vectors of the architecture's baseline.
#[derive(Clone, Copy)]
struct Portable(());

const PORTABLE_LANES: usize = 4;

impl Portable {
    #[inline(always)]
    fn lanes(lane: impl FnMut(usize) -> f32) -> [f32; PORTABLE_LANES] {
        std::array::from_fn(lane)
    }
}

impl Vectors for Portable {
    type F32 = [f32; PORTABLE_LANES];
    type Array = [f32; PORTABLE_LANES];
    const LANES: usize = PORTABLE_LANES;
    const ACCUMULATORS: usize = if cfg!(target_arch = "aarch64") { 24 } else { 8 };

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F32 {
        [x; PORTABLE_LANES]
    }
    #[inline(always)]
    fn load(self, from: &Self::Array) -> Self::F32 {
        *from
    }
    #[inline(always)]
    fn store(self, x: Self::F32, to: &mut Self::Array) {
        *to = x;
    }
    #[inline(always)]
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        Self::lanes(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        if Isa::PORTABLE.has_fma() {
            Self::lanes(|i| a[i].mul_add(b[i], c[i]))
        } else {
            Self::lanes(|i| numerics::fma(a[i], b[i], c[i]))
        }
    }
    #[inline(always)]
    fn canonical(self, x: Self::F32) -> Self::F32 {
        Self::lanes(|i| numerics::canonical(x[i]))
    }
    #[inline(always)]
    fn transpose(self, rows: &[[f32; 8]; 8]) -> [[f32; 8]; 8] {
        std::array::from_fn(|j| std::array::from_fn(|i| rows[i][j]))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Isa, Kind, Vectors};

    /// NaN tests are on the bits, for the reason that `numerics::canonical` gives.
    const MAGNITUDE: i32 = 0x7fff_ffff;
    const INFINITY: i32 = 0x7f80_0000;
    const NAN: i32 = 0x7fc0_0000;

    /// Proof of AVX2 and FMA.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(());

    impl Avx2 {
        pub(super) fn proven(isa: Isa) -> Self {
            assert!(isa.0 == Kind::Avx2, "the instruction set proves its own vectors");
            Avx2(())
        }
    }

    /// Proof of AVX-512 F, BW, DQ and VL.
    #[derive(Clone, Copy)]
    pub(super) struct Avx512(());

    impl Avx512 {
        pub(super) fn proven(isa: Isa) -> Self {
            assert!(isa.0 == Kind::Avx512, "the instruction set proves its own vectors");
            Avx512(())
        }
    }

    impl Vectors for Avx2 {
        type F32 = __m256;
        type Array = [f32; 8];
        const LANES: usize = 8;
        const ACCUMULATORS: usize = 12;

        #[inline(always)]
        fn splat(self, x: f32) -> __m256 {
            // SAFETY: `self` exists only where `Isa::available` detected AVX2 and FMA.
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        fn load(self, from: &[f32; 8]) -> __m256 {
            // SAFETY: as above; the array has the eight elements that are read.
            unsafe { _mm256_loadu_ps(from.as_ptr()) }
        }
        #[inline(always)]
        fn store(self, x: __m256, to: &mut [f32; 8]) {
            // SAFETY: as above; the array has the eight elements that are written.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
        }
        #[inline(always)]
        fn add(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: `self` exists only where `Isa::available` detected AVX2 and FMA.
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
            // SAFETY: `self` exists only where `Isa::available` detected AVX2 and FMA.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn canonical(self, x: __m256) -> __m256 {
            // SAFETY: `self` exists only where `Isa::available` detected AVX2 and FMA.
            unsafe {
                let magnitude = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(MAGNITUDE));
                let is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(INFINITY));
                let nan = _mm256_castsi256_ps(_mm256_set1_epi32(NAN));
                _mm256_blendv_ps(x, nan, _mm256_castsi256_ps(is_nan))
            }
        }
        #[inline(always)]
        fn transpose(self, rows: &[[f32; 8]; 8]) -> [[f32; 8]; 8] {
            // SAFETY: `self` exists only where `Isa::available` detected AVX2 and FMA.
            unsafe { transpose(rows) }
        }
    }

    impl Vectors for Avx512 {
        type F32 = __m512;
        type Array = [f32; 16];
        const LANES: usize = 16;
        const ACCUMULATORS: usize = 24;

        #[inline(always)]
        fn splat(self, x: f32) -> __m512 {
            // SAFETY: `self` exists only where `Isa::available` detected AVX-512 F.
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        fn load(self, from: &[f32; 16]) -> __m512 {
            // SAFETY: as above; the array has the sixteen elements that are read.
            unsafe { _mm512_loadu_ps(from.as_ptr()) }
        }
        #[inline(always)]
        fn store(self, x: __m512, to: &mut [f32; 16]) {
            // SAFETY: as above; the array has the sixteen elements that are written.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
        }
        #[inline(always)]
        fn add(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: `self` exists only where `Isa::available` detected AVX-512 F.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: `self` exists only where `Isa::available` detected AVX-512 F.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn canonical(self, x: __m512) -> __m512 {
            // SAFETY: `self` exists only where `Isa::available` detected AVX-512 F.
            unsafe {
                let magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(MAGNITUDE));
                let is_nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(INFINITY));
                let nan = _mm512_castsi512_ps(_mm512_set1_epi32(NAN));
                _mm512_mask_blend_ps(is_nan, x, nan)
            }
        }
        #[inline(always)]
        fn transpose(self, rows: &[[f32; 8]; 8]) -> [[f32; 8]; 8] {
            // SAFETY: `self` exists only where `Isa::available` detected the AVX-512 sets, of which each implies AVX2.
            unsafe { transpose(rows) }
        }
    }

    /// # Safety
    /// The machine has AVX2.
    #[inline(always)]
    unsafe fn transpose(rows: &[[f32; 8]; 8]) -> [[f32; 8]; 8] {
        // SAFETY: the machine has AVX2, and every array has the eight elements that are read or written.
        unsafe {
            // Written out: a closure in this function would be compiled without the instruction set and called.
            let mut r = [_mm256_setzero_ps(); 8];
            for i in 0..8 {
                r[i] = _mm256_loadu_ps(rows[i].as_ptr());
            }
            // Pairs of rows interleaved, then pairs of pairs, then the halves.
            let mut pairs = [_mm256_setzero_pd(); 8];
            for i in 0..4 {
                pairs[2 * i] = _mm256_castps_pd(_mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]));
                pairs[2 * i + 1] = _mm256_castps_pd(_mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]));
            }
            let mut quads = [_mm256_setzero_ps(); 8];
            for i in 0..2 {
                for half in 0..2 {
                    let (x, y) = (pairs[4 * i + half], pairs[4 * i + half + 2]);
                    quads[4 * i + 2 * half] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, y));
                    quads[4 * i + 2 * half + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, y));
                }
            }
            let mut columns = [[0.0; 8]; 8];
            for i in 0..4 {
                let (upper, lower) = (quads[i], quads[4 + i]);
                _mm256_storeu_ps(columns[i].as_mut_ptr(), _mm256_permute2f128_ps::<0x20>(upper, lower));
                _mm256_storeu_ps(columns[i + 4].as_mut_ptr(), _mm256_permute2f128_ps::<0x31>(upper, lower));
            }
            columns
        }
    }
}
