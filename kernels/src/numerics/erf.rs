//! The error function.
//!
//! erf is odd, and erf(x) rounds to 1 from 3.9192… on, so |x| ≤ 3.96 is all there is. The range is cut into four; every
//! element evaluates one polynomial of degree 16 whose coefficients are picked by comparison, which vector units do
//! with blends.
//!
//! * |x| < 1: erf(x) = x·c + x·(c′ + z·p(z)) with z = x² and 2/√π = c + c′. c has 29 bits, so that x·c is exact, and the
//!   second part is what carries error: p interpolates (erf(√z)/√z − 2/√π)/z at 12 Chebyshev points of
//!   [0, 1 + 2⁻²⁰]; error of z·p below 2⁻⁵⁵·⁹.
//! * otherwise, in [1, 1.75), [1.75, 2.625) and [2.625, 3.96]: erf(m + u) = erf(m) + u·p(u) around the middle m, with
//!   erf(m) as the sum of two `f64` and p interpolating at 17 points; error below 2⁻⁵⁵.
//!
//! The sum of the two parts is formed without error and rounded to odd.

use super::{canonical, fast_two_sum, round_to_odd};

/// Where the polynomials begin, in |x|.
const EDGES: [f64; 3] = [1.0, 1.75, 2.625];
/// Beyond it the result is ±1.
const LAST: f64 = 3.96;
/// 2/√π, its leading 29 bits and the rest.
const SLOPE_HIGH: f64 = 1.128_379_166_126_251_2;
const SLOPE_LOW: f64 = 9.692_613_531_930_338e-10;
/// The middles of the outer ranges.
const MIDDLES: [f64; 3] = [1.375, 2.1875, 3.2925];
/// erf of the middles, as a sum of two.
const MIDDLE_HIGH: [f64; 3] = [0.948_170_072_782_090_3, 0.998_022_508_816_389_2, 0.999_996_780_543_925];
const MIDDLE_LOW: [f64; 3] = [1.071_691_533_519_912e-17, -5.888_411_957_796_996e-18, -9.025_543_987_115_336e-18];

/// Coefficients of the polynomials, lowest degree first; of each degree those of the four ranges, inner one first.
const P: [[f64; 4]; 17] = [
    [-0.376_126_389_031_837_54, 0.170_359_773_687_515_6, 0.009_425_146_402_332_227, 2.210_351_278_852_422_7e-05],
    [0.112_837_916_709_551_11, -0.234_244_688_820_333_95, -0.020_617_507_755_101_75, -7.277_581_585_674_13e-05],
    [-0.026_866_170_645_123_838, 0.157_937_706_856_134_26, 0.026_925_483_342_079_313, 0.000_152_375_078_208_514_46],
    [0.005_223_977_625_303_517, -0.030_500_610_523_483_605, -0.022_577_244_820_365_47, -0.000_226_588_867_158_335_27],
    [-0.000_854_832_701_003_323, -0.030_605_976_268_925_4, 0.011_677_444_215_194_288, 0.000_252_705_014_627_728_6],
    [
        0.000_120_553_322_147_114_32,
        0.022_161_235_263_113_605,
        -0.002_494_204_454_805_496_5,
        -0.000_216_920_057_437_717_97,
    ],
    [
        -1.492_562_250_434_031_2e-05,
        -0.001_419_062_360_695_668_4,
        -0.001_221_466_076_385_131_8,
        0.000_143_891_935_588_613_52,
    ],
    [1.646_144_665_397_437e-06, -0.004_261_033_452_956_041, 0.001_202_461_643_394_012, -7.195_815_466_822_89e-05],
    [-1.635_511_857_349_792e-07, 0.001_577_911_234_242_87, -0.000_347_022_676_864_740_6, 2.467_039_998_915_004_3e-05],
    [
        1.469_248_456_624_001_5e-08,
        0.000_323_591_744_495_460_8,
        -6.194_853_261_791_803e-05,
        -3.453_087_748_924_529_7e-06,
    ],
    [
        -1.150_035_586_601_302_3e-09,
        -0.000_339_101_558_792_164_7,
        8.142_421_821_387_072e-05,
        -1.969_837_956_318_415_6e-06,
    ],
    [6.174_094_758_920_844e-11, 2.867_801_790_897_480_5e-05, -2.029_982_028_467_827e-05, 1.604_952_411_307_172_2e-06],
    [0.0, 4.175_519_816_336_904_4e-05, -4.651_903_590_529_83e-06, -5.352_143_924_137_726e-07],
    [0.0, -1.195_528_110_804_427_2e-05, 4.130_886_073_333_243e-06, 3.814_187_396_821_508_7e-08],
    [0.0, -2.976_293_281_370_585e-06, -6.251_309_865_551_7e-07, 4.975_080_703_602_526e-08],
    [0.0, 1.791_187_232_667_609_5e-06, -3.117_803_760_827_786_7e-07, -2.241_074_244_532_434_4e-08],
    [0.0, 3.450_983_009_898_393e-08, 1.379_958_186_777_350_3e-07, 2.771_616_920_214_475e-09],
];

/// erf x, correctly rounded. erf(±0) = ±0, erf(±inf) = ±1.
#[inline(always)]
#[must_use]
pub fn erf(x: f32) -> f32 {
    let wide = f64::from(x);
    let magnitude = wide.abs();
    let magnitude = if magnitude > LAST { LAST } else { magnitude };
    let range = [magnitude >= EDGES[0], magnitude >= EDGES[1], magnitude >= EDGES[2]];
    let outer = range[0];
    let near = SLOPE_HIGH * magnitude;
    let leading = pick(range, [near, MIDDLE_HIGH[0], MIDDLE_HIGH[1], MIDDLE_HIGH[2]]);
    let added = pick(range, [SLOPE_LOW, MIDDLE_LOW[0], MIDDLE_LOW[1], MIDDLE_LOW[2]]);
    let offset = magnitude - pick(range, [0.0, MIDDLES[0], MIDDLES[1], MIDDLES[2]]);
    let variable = if outer { offset } else { magnitude * magnitude };
    let factor = if outer { 1.0 } else { magnitude };
    let rest = factor * (added + variable * polynomial(range, variable));
    let (sum, error) = fast_two_sum(leading, rest);
    canonical(round_to_odd(sum, error).copysign(wide) as f32)
}

/// The value for the range that |x| lies in.
#[inline(always)]
fn pick(range: [bool; 3], values: [f64; 4]) -> f64 {
    let value = if range[0] { values[1] } else { values[0] };
    let value = if range[1] { values[2] } else { value };
    if range[2] { values[3] } else { value }
}

/// In pairs (Estrin), whose terms do not wait for one another.
#[inline(always)]
fn polynomial(range: [bool; 3], v: f64) -> f64 {
    let c = |degree: usize| pick(range, P[degree]);
    let square = v * v;
    let fourth = square * square;
    let eighth = fourth * fourth;
    let pair = |degree: usize| c(degree) + c(degree + 1) * v;
    let four = |degree: usize| pair(degree) + pair(degree + 2) * square;
    let eight = |degree: usize| four(degree) + four(degree + 4) * fourth;
    eight(0) + (eight(8) + c(16) * eighth) * eighth
}
