//! Seeded random streams: the same seed gives the same numbers, on every platform and in every version.
//!
//! The generator is xoshiro256++ 1.0 (Blackman & Vigna, "Scrambled linear pseudorandom number generators",
//! 2021), seeded by SplitMix64 (Steele, Lea & Flood, 2014), both checked against known answers. It is not for
//! secrets.
//!
//! Which draws are bit-identical everywhere: [`Rng::next_u64`], [`Rng::uniform`], [`Rng::below`],
//! [`Rng::shuffle`] use integer arithmetic and exact scaling only. [`Rng::exponential`], [`Rng::normal`],
//! [`Rng::gamma`] and [`Rng::log_normal`] call the platform's `ln`, `exp` or `powf`, whose last bit may
//! differ between C libraries. A schedule of exponential gaps may thus differ between platforms by parts in
//! 10^16 of its instants, and a rejection step (normal, gamma) by a whole draw, though only when a comparison
//! falls on that bit. On one platform every stream is exact.

/// The golden-ratio increment of SplitMix64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of SplitMix64: a bijection in which each input bit flips each output bit with chance
/// 1/2.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// SplitMix64: a counter and a mixing function. Used for seeding; a period of 2^64 is short for anything
/// else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A stream that begins at `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }
}

/// xoshiro256++: period 2^256 - 1, 32 bytes of state, about a nanosecond a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator for `seed`: its state is the next four numbers of [`SplitMix64`], as the authors advise.
    pub const fn new(seed: u64) -> Self {
        let mut fill = SplitMix64::new(seed);
        Self { state: [fill.next_u64(), fill.next_u64(), fill.next_u64(), fill.next_u64()] }
    }

    /// The generator of draw `k` for the thing whose digest (or name) is `key`.
    ///
    /// Streams depend on what is drawn and not on its position, so one more candidate moves nobody's draws.
    /// The seed, each 8-byte little-endian word of the key (the last padded with zeros), the key's length and
    /// `k` are absorbed in turn: `h = mix((h xor word) + golden)`. Each step is a bijection of `h`, so for
    /// one seed and key different `k` always start from different states; two keys collide with probability
    /// 2^-64. Not collision-resistant against an adversary: give it a cryptographic digest where that
    /// matters.
    pub fn keyed(seed: u64, key: &[u8], k: u64) -> Self {
        let absorb = |h: u64, word: u64| mix((h ^ word).wrapping_add(GOLDEN));
        let mut h = absorb(0, seed);
        for chunk in key.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            h = absorb(h, u64::from_le_bytes(word));
        }
        h = absorb(h, key.len() as u64);
        Self::new(absorb(h, k))
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub const fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform over `0..bound` without bias; 0 when `bound` is 0.
    ///
    /// Lemire, "Fast random integer generation in an interval" (2019): a multiplication, and rarely a
    /// rejection.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = self.next_u64() as u128 * bound as u128;
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A uniform index into a collection of `len` items; 0 when it is empty.
    pub const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Uniformly random order, in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }

    /// Exponential with the given mean, by inversion: one number of the stream per draw. Finite: at most 36.8
    /// means.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - uniform is in (0, 1] and exact.
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Standard normal by the polar method (Marsaglia & Bray, 1964). The pair's second number is thrown away,
    /// so that a generator's state is its four words and nothing else.
    pub fn normal(&mut self) -> f64 {
        loop {
            let u = 2.0 * self.uniform() - 1.0;
            let v = 2.0 * self.uniform() - 1.0;
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * (-2.0 * s.ln() / s).sqrt();
            }
        }
    }

    /// Log-normal: `exp(mu + sigma Z)`. `mu` and `sigma` are those of the logarithm; the median is `exp(mu)`.
    pub fn log_normal(&mut self, mu: f64, sigma: f64) -> f64 {
        (mu + sigma * self.normal()).exp()
    }

    /// Gamma with the given shape and scale, both positive (NaN otherwise): mean `shape * scale`, coefficient
    /// of variation `1 / sqrt(shape)`.
    ///
    /// Marsaglia & Tsang, "A simple method for generating gamma variables" (2000); shapes below 1 by their
    /// boost.
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        if !(shape > 0.0 && scale > 0.0 && shape.is_finite()) {
            return f64::NAN;
        }
        if shape < 1.0 {
            let boost = (1.0 - self.uniform()).powf(1.0 / shape);
            return self.gamma(shape + 1.0, scale) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            let u = 1.0 - self.uniform();
            if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::special::normal_cdf;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        let mut s = SplitMix64::new(1_234_567);
        for expected in [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ] {
            assert_eq!(s.next_u64(), expected);
        }
        let mut x = Rng { state: [1, 2, 3, 4] };
        for expected in [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
            9_228_616_714_210_784_205,
            9_973_669_472_204_895_162,
            14_011_001_112_246_962_877,
            12_406_186_145_184_390_807,
            15_849_039_046_786_891_736,
            10_450_023_813_501_588_000,
        ] {
            assert_eq!(x.next_u64(), expected);
        }
    }

    #[test]
    fn keys_of_every_part_change_the_stream() {
        let first = |seed, key: &[u8], k| Rng::keyed(seed, key, k).next_u64();
        let base = first(1, b"candidate", 0);
        assert_eq!(base, first(1, b"candidate", 0));
        let mut seen = vec![base, first(2, b"candidate", 0), first(1, b"candidatf", 0), first(1, b"", 0)];
        // Padding must not make a key equal to its zero-extended self.
        seen.extend([first(1, b"\0", 0), first(1, b"\0\0", 0), first(1, b"candidate\0", 0)]);
        seen.extend((1..1000).map(|k| first(1, b"candidate", k)));
        let total = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), total);
    }

    /// Kolmogorov-Smirnov distance of `n` draws from a distribution function; the 0.1 % critical value is
    /// 1.95/sqrt(n). The seeds are fixed, so these tests either always pass or always fail.
    fn assert_follows(mut draw: impl FnMut() -> f64, cdf: impl Fn(f64) -> f64) {
        let n = 20_000;
        let mut xs: Vec<f64> = (0..n).map(|_| draw()).collect();
        xs.sort_by(f64::total_cmp);
        let distance = xs
            .iter()
            .enumerate()
            .map(|(i, &x)| {
                let f = cdf(x);
                (f - i as f64 / f64::from(n)).abs().max((f - (i + 1) as f64 / f64::from(n)).abs())
            })
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / f64::from(n).sqrt(), "distance {distance}");
    }

    #[test]
    fn draws_follow_their_distributions() {
        let mut r = Rng::new(7);
        assert_follows(|| r.uniform(), |x| x);
        assert_follows(|| r.exponential(3.0), |x| 1.0 - (-x / 3.0).exp());
        assert_follows(|| r.normal(), normal_cdf);
        assert_follows(|| r.log_normal(1.0, 0.5), |x| normal_cdf((x.ln() - 1.0) / 0.5));
        // Gamma in closed form: shape 1/2 is half a squared normal, whole shapes are Erlang.
        assert_follows(|| r.gamma(0.5, 2.0), |x| 2.0 * normal_cdf(x.sqrt()) - 1.0);
        assert_follows(|| r.gamma(1.0, 4.0), |x| 1.0 - (-x / 4.0).exp());
        assert_follows(|| r.gamma(3.0, 1.0), |x| 1.0 - (-x).exp() * (1.0 + x + x * x / 2.0));
        assert!(r.gamma(0.0, 1.0).is_nan() && r.gamma(1.0, -1.0).is_nan());
    }

    #[test]
    fn shuffle_gives_each_order_its_share() {
        let mut r = Rng::new(11);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            r.shuffle(&mut items);
            *counts.entry(items).or_insert(0.0) += 1.0;
        }
        assert_eq!(counts.len(), 24);
        // Chi-squared with 23 degrees of freedom: 49.7 is its 0.1 % point.
        let chi: f64 = counts.values().map(|c: &f64| (c - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 49.7, "chi-squared {chi}");
    }

    proptest! {
        #[test]
        fn below_stays_below(seed: u64, bound in 1_u64..) {
            prop_assert!(Rng::new(seed).below(bound) < bound);
        }

        #[test]
        fn uniform_is_in_the_unit_interval(seed: u64) {
            let u = Rng::new(seed).uniform();
            prop_assert!((0.0..1.0).contains(&u));
        }
    }

    #[test]
    fn below_is_unbiased_where_a_modulus_would_not_be() {
        // With bound 3 * 2^62 a plain modulus would favour the first third two to one.
        let bound = 3 << 62;
        let mut r = Rng::new(5);
        let low = (0..30_000).filter(|_| r.below(bound) < bound / 3).count();
        assert!((9_700..10_300).contains(&low), "{low}");
        assert_eq!(r.below(0), 0);
        assert_eq!(r.below(1), 0);
    }
}
