//! Operands for the functions of two and three arguments: random, and aimed at where rounding is hard.

/// A SplitMix64 generator: operand `i` of a seed is the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1) as u32) as i32
    }

    fn bits(&mut self) -> f32 {
        f32::from_bits(self.next() as u32)
    }

    /// A significand that is full, or has few ones, or few zeros, or is short.
    fn fraction(&mut self) -> u32 {
        let random = self.next() as u32 & 0x7f_ffff;
        let sparse = (0..self.below(3)).fold(0, |bits, _| bits | 1 << self.below(23));
        match self.below(4) {
            0 => random,
            1 => sparse,
            2 => sparse ^ 0x7f_ffff,
            _ => random & !0 << self.below(23),
        }
    }

    /// ±2^exponent·(1.fraction), or an extreme value if the exponent is out of range.
    fn with_exponent(&mut self, exponent: i32) -> f32 {
        let field = (exponent + 127).clamp(0, 255) as u32;
        f32::from_bits((self.below(2) << 31) | (field << 23) | self.fraction())
    }

    fn near(&mut self, x: f32, places: i32) -> f32 {
        let offset = self.between(-places, places);
        f32::from_bits(x.to_bits().wrapping_add(offset as u32))
    }

    fn special(&mut self) -> f32 {
        const SPECIAL: [f32; 14] = [
            0.0,
            1.0,
            0.5,
            2.0,
            3.0,
            f32::MIN_POSITIVE,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
            f32::EPSILON,
            f32::from_bits(1),
            f32::from_bits(0x7f_ffff),
            f32::from_bits(0x7f80_0001),
            8_388_609.0,
        ];
        let x = SPECIAL[self.below(14) as usize];
        if self.below(2) == 0 { x } else { -x }
    }

    /// Base and exponent of a power.
    pub(crate) fn power(&mut self) -> (f32, f32) {
        match self.below(8) {
            0 => (self.bits(), self.bits()),
            1 => match self.below(2) {
                0 => (self.special(), self.bits()),
                _ => (self.special(), self.special()),
            },
            // A small number to a small multiple of 1/16: powers that are exact or nearly so.
            2 => {
                let x = self.between(1, 5000) as f32 * 2.0f32.powi(self.between(-12, 12));
                (x, self.between(-256, 256) as f32 / 16.0)
            }
            // (t^(2^j)·2^(E·2^j))^(n/2^j), exact and often the middle of two results.
            3 => {
                let j = self.between(0, 3);
                let t = self.between(1, 64) as f64;
                let x = t * 2.0f64.powi(self.between(-20, 20));
                (x.powi(1 << j) as f32, self.between(-40, 40) as f32 / (1 << j) as f32)
            }
            // A base near 1 and an exponent to match.
            4 => {
                let places = 1 << self.between(1, 22);
                let x = self.near(1.0, places);
                self.aimed(x)
            }
            // A negative base with an integer exponent, odd or even.
            5 => {
                let x = self.with_exponent(0);
                (x, self.between(-200, 200) as f32)
            }
            // Results near the ends of the range: subnormal, smallest, largest.
            6 => {
                let x = self.bits().abs();
                let edge = if self.below(4) == 0 { 88.72 } else { -87.0 - f64::from(self.below(1800)) * 0.01 };
                (x, (edge / f64::from(x).ln()) as f32)
            }
            _ => {
                let x = self.bits().abs();
                self.aimed(x)
            }
        }
    }

    /// `x` and an exponent for which the power is somewhere in range.
    fn aimed(&mut self, x: f32) -> (f32, f32) {
        let logarithm = f64::from(self.between(-104_000, 89_000)) * 0.001;
        (x, (logarithm / f64::from(x).ln()) as f32)
    }

    /// Dividend and divisor.
    pub(crate) fn remainder(&mut self) -> (f32, f32) {
        match self.below(4) {
            0 => (self.bits(), self.bits()),
            1 => (self.special(), self.bits()),
            2 => (self.bits(), self.special()),
            _ => {
                let exponent = self.between(-130, 127);
                let distance = self.between(-3, 30);
                (self.with_exponent(exponent), self.with_exponent(exponent - distance))
            }
        }
    }

    /// Factors and addend of a fused multiply-add.
    pub(crate) fn fma(&mut self) -> (f32, f32, f32) {
        match self.below(8) {
            0 => (self.bits(), self.bits(), self.bits()),
            1 => (self.special(), self.bits(), self.special()),
            // The addend cancels the product, up to its last places.
            2 => {
                let (a, b) = (self.bits(), self.bits());
                let c = self.near(-(a * b), 3);
                (a, b, c)
            }
            // The product falls below, on and above the half place of the addend, or the other way round.
            3..6 => {
                let (e, f) = (self.between(-60, 60), self.between(-60, 60));
                let apart = self.between(-60, 60);
                (self.with_exponent(e), self.with_exponent(f), self.with_exponent(e + f + apart))
            }
            // Subnormal sums.
            6 => {
                let e = self.between(-126, 0);
                let f = self.between(-155, -120) - e;
                let g = self.between(-150, -120);
                (self.with_exponent(e), self.with_exponent(f), self.with_exponent(g))
            }
            // Sums about the largest number.
            _ => {
                let e = self.between(0, 127);
                let f = self.between(100, 128) - e;
                let g = self.between(100, 127);
                (self.with_exponent(e), self.with_exponent(f), self.with_exponent(g))
            }
        }
    }
}
