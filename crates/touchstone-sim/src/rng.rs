//! Randomness that depends on nothing but a seed.

/// Mixes a 64-bit value so that neighbouring inputs give unrelated outputs (the finaliser of SplitMix64).
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The increment of SplitMix64 (Steele, Lea, Flood 2014): 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A small generator (SplitMix64) for jitter and fault draws. Not for cryptography.
#[derive(Debug, Clone)]
pub struct SeededRng {
    state: u64,
}

impl SeededRng {
    /// A generator whose whole output follows from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator for item `index` of the stream named by `seed`: unlike successive draws, item `k` does not depend
    /// on how many draws items before it made.
    #[must_use]
    pub const fn keyed(seed: u64, index: u64) -> Self {
        Self { state: mix(seed.wrapping_add(STEP)) ^ mix(index.wrapping_mul(STEP).wrapping_add(1)) }
    }

    /// The next 64 uniform bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Uniform in `[0, 1)`, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Standard normal, by Box and Muller's method (one of the pair is discarded: steps are keyed one by one).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Log-normal with mean 1, where `sigma` is the standard deviation of the logarithm. `sigma = 0` gives exactly 1.
    pub fn jitter(&mut self, sigma: f64) -> f64 {
        if sigma == 0.0 {
            return 1.0;
        }
        sigma.mul_add(self.normal(), -sigma * sigma / 2.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::SeededRng;

    #[test]
    fn known_answers_of_splitmix64() {
        // The first outputs for seed 0 of the published reference implementation.
        let mut rng = SeededRng::new(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn jitter_has_mean_one_and_the_stated_sigma() {
        let (sigma, n) = (0.3, 100_000_u64);
        let logs: Vec<f64> = (0..n).map(|k| SeededRng::keyed(5, k).jitter(sigma)).collect();
        let mean = logs.iter().sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        let mean_log = logs.iter().map(|x| x.ln()).sum::<f64>() / n as f64;
        let var = logs.iter().map(|x| (x.ln() - mean_log).powi(2)).sum::<f64>() / n as f64;
        assert!((var.sqrt() - sigma).abs() < 0.01, "{var}");
        assert_eq!(SeededRng::new(1).jitter(0.0), 1.0);
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut rng = SeededRng::new(9);
        let mean = (0..100_000).map(|_| rng.exponential(4.0)).sum::<f64>() / 100_000.0;
        assert!((mean - 4.0).abs() < 0.06, "{mean}");
    }
}
