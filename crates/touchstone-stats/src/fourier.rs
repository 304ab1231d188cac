//! Autocovariances of a long series in O(n log n), by a radix-2 fast Fourier transform.
//!
//! The twiddle factors come from square roots alone (half-angle formulas), which IEEE 754 rounds correctly on
//! every platform: the result is the same bytes everywhere, which `sin` and `cos` would not promise.

#[derive(Clone, Copy)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn times(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// The biased autocovariances `1/n * sum (x[t] - mean)(x[t+lag] - mean)` at lags `0..n`.
///
/// Error about 1e-15 times the variance, times the logarithm of `n`.
pub(crate) fn autocovariances(series: &[f64]) -> Vec<f64> {
    let n = series.len();
    if n == 0 {
        return Vec::new();
    }
    let mean = series.iter().sum::<f64>() / n as f64;
    // Twice the length, so that the ends do not wrap around onto each other.
    let size = (2 * n).next_power_of_two();
    let mut data = vec![Complex { re: 0.0, im: 0.0 }; size];
    for (slot, x) in data.iter_mut().zip(series) {
        slot.re = x - mean;
    }
    let roots = roots_of_unity(size);
    transform(&mut data, &roots);
    for z in &mut data {
        *z = Complex { re: z.re * z.re + z.im * z.im, im: 0.0 };
    }
    // The power spectrum is real and even, so the forward transform serves as the inverse.
    transform(&mut data, &roots);
    let scale = 1.0 / (size as f64 * n as f64);
    data[..n].iter().map(|z| z.re * scale).collect()
}

/// `exp(-2 pi i k / size)` for `k < size / 2`; `size` is a power of two, at least 2.
fn roots_of_unity(size: usize) -> Vec<Complex> {
    let mut table = vec![Complex { re: 1.0, im: 0.0 }];
    // The primitive root of the next table: exp(-i pi), then half the angle at each doubling.
    let mut root = Complex { re: -1.0, im: 0.0 };
    while table.len() < size / 2 {
        root = if root.re < 0.0 {
            Complex { re: 0.0, im: -1.0 }
        } else {
            let cosine = f64::midpoint(1.0, root.re).sqrt();
            Complex { re: cosine, im: root.im / (2.0 * cosine) }
        };
        table = table.into_iter().flat_map(|even| [even, even.times(root)]).collect();
    }
    table
}

/// In-place decimation-in-time transform; the length is a power of two and `roots` is its table.
fn transform(data: &mut [Complex], roots: &[Complex]) {
    let size = data.len();
    let shift = usize::BITS - size.trailing_zeros();
    for i in 0..size {
        let j = i.reverse_bits() >> shift;
        if i < j {
            data.swap(i, j);
        }
    }
    let mut half = 1;
    while half < size {
        let stride = size / (2 * half);
        for block in data.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let t = b.times(roots[k * stride]);
                *b = Complex { re: a.re - t.re, im: a.im - t.im };
                *a = Complex { re: a.re + t.re, im: a.im + t.im };
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn roots_lie_where_they_should() {
        let size = 1 << 12;
        for (k, z) in roots_of_unity(size).iter().enumerate() {
            let angle = -std::f64::consts::TAU * k as f64 / size as f64;
            assert!((z.re - angle.cos()).abs() < 2e-15 && (z.im - angle.sin()).abs() < 2e-15, "{k}");
        }
    }

    #[test]
    fn agrees_with_the_definition() {
        let mut rng = Rng::new(1);
        for n in [1, 2, 3, 7, 64, 501] {
            let series: Vec<f64> = (0..n).map(|_| 100.0 + rng.normal()).collect();
            let mean = series.iter().sum::<f64>() / n as f64;
            let fast = autocovariances(&series);
            assert_eq!(fast.len(), n);
            for (lag, value) in fast.iter().enumerate() {
                let direct: f64 =
                    series.iter().zip(&series[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>()
                        / n as f64;
                assert!((value - direct).abs() < 1e-13, "n {n} lag {lag}: {value} {direct}");
            }
        }
        assert!(autocovariances(&[]).is_empty());
    }
}
