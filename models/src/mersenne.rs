//! The Mersenne Twister MT19937 of Matsumoto and Nishimura (1998), as NumPy's `RandomState` draws from it.
//!
//! It is here so that whoever has NumPy can start from the same numbers: the initial parameters of the digits are the
//! first of `RandomState(1)`.

const WORDS: usize = 624;
const OFFSET: usize = 397;

/// A generator; equal seeds give equal sequences.
pub(crate) struct MersenneTwister {
    state: [u32; WORDS],
    next: usize,
    /// The polar method makes normal numbers in pairs; the second waits here.
    spare: Option<f64>,
}

impl MersenneTwister {
    pub(crate) fn new(seed: u32) -> Self {
        let mut state = [seed; WORDS];
        for i in 1..WORDS {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(before ^ before >> 30).wrapping_add(i as u32);
        }
        MersenneTwister { state, next: WORDS, spare: None }
    }

    /// The next 32 bits.
    pub(crate) fn bits(&mut self) -> u32 {
        if self.next == WORDS {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    fn refill(&mut self) {
        for i in 0..WORDS {
            let joined = self.state[i] & 0x8000_0000 | self.state[(i + 1) % WORDS] & 0x7fff_ffff;
            let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + OFFSET) % WORDS] ^ joined >> 1 ^ twist;
        }
        self.next = 0;
    }

    /// A multiple of 2^-53 in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        let high = f64::from(self.bits() >> 5);
        let low = f64::from(self.bits() >> 6);
        (high * f64::from(1u32 << 26) + low) / (1u64 << 53) as f64
    }

    /// A number of the standard normal distribution, by Marsaglia's polar method.
    ///
    /// The host's logarithm may differ from NumPy's in the last bit of an f64; rounded to f32 that is not seen.
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.uniform() - 1.0;
            let y = 2.0 * self.uniform() - 1.0;
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(scale * x);
                return scale * y;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // C++ requires this of std::mt19937, whose default seed is 5489: the 10000th number is 4123659995.
        let mut generator = MersenneTwister::new(5489);
        assert_eq!(generator.bits(), 3_499_211_612);
        let last = (1..10_000).map(|_| generator.bits()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn normal_numbers_are_those_of_numpy() {
        // numpy.random.RandomState(1).randn(4)
        let expected = [1.6243453636632417, -0.6117564136500754, -0.5281717522634557, -1.0729686221561705];
        let mut generator = MersenneTwister::new(1);
        for value in expected {
            assert!((generator.normal() - value).abs() < 1e-15);
        }
    }
}
