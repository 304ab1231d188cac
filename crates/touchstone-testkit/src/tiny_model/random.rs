//! A seeded generator whose numbers are the same on every platform.

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` - 1. The bias for bounds this small is far below anything visible here.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Bell-shaped with mean 0 and standard deviation 1: the sum of four uniform 16-bit numbers, centred and scaled.
    /// All arithmetic is on exact integers but for the last multiplication, which IEEE 754 rounds in one way only.
    fn bell(&mut self) -> f32 {
        /// 1 / sqrt(4 * (65536^2 - 1) / 12).
        const SCALE: f32 = 2.642_901e-5;
        let bits = self.next();
        let sum: i64 = (0..4).map(|part| ((bits >> (16 * part)) & 0xffff) as i64).sum();
        (sum - 131_070) as f32 * SCALE
    }

    /// `rows * columns` independent numbers with standard deviation `scale`.
    pub(super) fn matrix(&mut self, rows: usize, columns: usize, scale: f32) -> Vec<f32> {
        (0..rows * columns).map(|_| self.bell() * scale).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_the_published_ones() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn the_bell_has_mean_zero_and_deviation_one() {
        let numbers = Random::new(1).matrix(200, 200, 1.0);
        let n = numbers.len() as f64;
        let mean = numbers.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = numbers.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
    }
}
