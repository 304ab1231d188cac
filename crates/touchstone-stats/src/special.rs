//! Special functions: the gamma and beta functions, and the distributions built on them.
//!
//! Arguments outside a function's domain give NaN, as in `std`. The errors stated here are checked in the
//! tests against values computed with 40 digits. All functions use the platform's `ln` and `exp`; their last
//! bit may differ between platforms, so nothing here may decide a schedule.

use std::f64::consts::PI;

const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// Greatest number of continued-fraction terms. The beta fraction needs about the square root of its greater
/// parameter, so this covers parameters up to 10^10.
const MAX_TERMS: u32 = 200_000;

/// Natural logarithm of the gamma function for `x > 0`.
///
/// Stirling's series after shifting the argument to at least 15 (Abramowitz & Stegun 6.1.41). Error below
/// 1e-13 absolute or 1e-15 relative, whichever is greater.
pub fn ln_gamma(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return f64::NAN;
    }
    let mut shifted = x;
    let mut product = 1.0;
    while shifted < 15.0 {
        product *= shifted;
        shifted += 1.0;
    }
    (shifted - 0.5) * shifted.ln() - shifted + LN_SQRT_2PI + stirling_series(shifted) - product.ln()
}

/// The asymptotic series of `ln_gamma(n) - Stirling's formula`; its first omitted term is below 1e-16 at `n
/// >= 15`.
fn stirling_series(n: f64) -> f64 {
    let r = 1.0 / (n * n);
    (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r / 1188.0)))) / n
}

/// `ln(n!) - [ln sqrt(2 pi n) + n ln n - n]`, the error of Stirling's formula.
fn stirling_error(n: f64) -> f64 {
    if n >= 15.0 { stirling_series(n) } else { ln_gamma(n + 1.0) - (n + 0.5) * n.ln() + n - LN_SQRT_2PI }
}

/// The deviance `x ln(x/m) + m - x`, without cancellation where `x` is near `m`.
fn deviance(x: f64, m: f64) -> f64 {
    if (x - m).abs() >= 0.1 * (x + m) {
        return x * (x / m).ln() + m - x;
    }
    let v = (x - m) / (x + m);
    let mut sum = (x - m) * v;
    let mut term = 2.0 * x * v;
    // |v| < 0.1, so each term is at most 1/100 of the last: 12 terms exceed double precision.
    for k in 1..=12 {
        term *= v * v;
        sum += term / f64::from(2 * k + 1);
    }
    sum
}

/// The binomial probability `C(n, x) p^x q^(n-x)` for real `0 < x < n`, with `q = 1 - p` given separately.
///
/// Loader's saddle-point form ("Fast and accurate computation of binomial probabilities", 2000): it never
/// subtracts two large logarithms, so its relative error stays near 1e-14 even at n = 10^8, where the
/// difference of log-gammas would already have lost eight digits.
fn binomial_density(x: f64, n: f64, p: f64, q: f64) -> f64 {
    let y = n - x;
    let exponent =
        stirling_error(n) - stirling_error(x) - stirling_error(y) - deviance(x, n * p) - deviance(y, n * q);
    exponent.exp() * (n / (2.0 * PI * x * y)).sqrt()
}

/// Regularised incomplete beta function I_x(a, b) for `a, b > 0` and `0 <= x <= 1`.
///
/// Continued fraction (DLMF 8.17.22, evaluated by Lentz's method) with a saddle-point prefactor. Relative
/// error about 1e-13 for parameters up to 10^4 and 1e-11 up to 10^8.
pub fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    incomplete_beta_xy(a, b, x, 1.0 - x)
}

/// [`incomplete_beta`] with `y = 1 - x` given by the caller, who may know it more precisely.
fn incomplete_beta_xy(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if a.is_nan() || b.is_nan() || a <= 0.0 || b <= 0.0 || !(0.0..=1.0).contains(&x) {
        return f64::NAN;
    }
    if x == 0.0 || y == 0.0 {
        return x;
    }
    // x^a y^b / B(a, b), and the fraction converges fast only below the mean.
    let front = binomial_density(a, a + b, x, y) * (a / (a + b)) * b;
    if x < (a + 1.0) / (a + b + 2.0) {
        (front * beta_fraction(a, b, x) / a).min(1.0)
    } else {
        (1.0 - front * beta_fraction(b, a, y) / b).max(0.0)
    }
}

/// Lentz's evaluation of the continued fraction of the incomplete beta function.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for term in 1..=MAX_TERMS {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let factor = d * c;
        h *= factor;
        if (factor - 1.0).abs() < 1e-15 {
            break;
        }
    }
    h
}

/// The `x` with `incomplete_beta(a, b, x) = p`, for `a, b > 0` and `0 <= p <= 1`.
///
/// Newton's method kept inside a shrinking bracket. `incomplete_beta` of the result differs from `p` by no
/// more than about 1e-13 relative, as far as the spacing of doubles near the root allows.
pub fn inverse_incomplete_beta(a: f64, b: f64, p: f64) -> f64 {
    if a.is_nan() || b.is_nan() || a <= 0.0 || b <= 0.0 || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p == 0.0 || p == 1.0 {
        return p;
    }
    let ln_beta = ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
    // Near zero I_x ~ x^a / (a B(a, b)): exact enough when tiny, a start when below the mean, which else
    // serves.
    let near_zero = (((p * a).ln() + ln_beta) / a).exp();
    if near_zero < 1e-290 {
        return near_zero;
    }
    let mut x = if near_zero > 0.0 && near_zero < a / (a + b) { near_zero } else { a / (a + b) };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let error = incomplete_beta(a, b, x) - p;
        if error == 0.0 {
            return x;
        }
        if error < 0.0 {
            low = x;
        } else {
            high = x;
        }
        let density = ((a - 1.0) * x.ln() + (b - 1.0) * (-x).ln_1p() - ln_beta).exp();
        let newton = x - error / density;
        let next = if newton > low && newton < high { newton } else { f64::midpoint(low, high) };
        if (next - x).abs() <= 1e-16 * x {
            return next;
        }
        x = next;
    }
    x
}

/// P(B <= k) for B binomial with `n` trials of probability `p`.
///
/// By the incomplete beta function, so the cost grows with the square root of `n`. Relative error below 1e-10
/// for `n` up to 10^8. NaN for `p` outside [0, 1].
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if k >= n || p == 0.0 {
        return 1.0;
    }
    incomplete_beta_xy((n - k) as f64, k as f64 + 1.0, 1.0 - p, p)
}

/// P(B >= k) for B binomial with `n` trials of probability `p`; the same method and error as
/// [`binomial_cdf`].
///
/// Not computed as a complement, so it keeps its relative precision where it is tiny.
pub fn binomial_sf(k: u64, n: u64, p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if k == 0 {
        return 1.0;
    }
    if k > n || p == 0.0 {
        return 0.0;
    }
    incomplete_beta_xy(k as f64, (n - k) as f64 + 1.0, p, 1.0 - p)
}

/// Standard normal density.
fn normal_density(x: f64) -> f64 {
    (-0.5 * x * x - LN_SQRT_2PI).exp()
}

/// Standard normal cumulative distribution function.
///
/// A power series up to |x| = 2.5 (Marsaglia, "Evaluating the normal distribution", 2004), beyond it
/// Laplace's continued fraction of the tail. Relative error below 1e-13, in the far left tail too.
pub fn normal_cdf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.abs() > 2.5 {
        let tail = normal_tail(x.abs());
        return if x < 0.0 { tail } else { 1.0 - tail };
    }
    let mut term = x;
    let mut sum = x;
    let mut k = 1.0;
    while term.abs() > 1e-17 * sum.abs() {
        k += 2.0;
        term *= x * x / k;
        sum += term;
    }
    0.5 + sum * normal_density(x)
}

/// P(Z > x) for `x > 2.5`: the fraction 1/(x + 1/(x + 2/(x + ...))), evaluated from the 200th term backwards.
fn normal_tail(x: f64) -> f64 {
    if x > 39.0 {
        return 0.0;
    }
    let fraction = (1..=200).rev().fold(x, |below, k| x + f64::from(k) / below);
    normal_density(x) / fraction
}

/// The `x` with `normal_cdf(x) = p`; infinite at 0 and 1, NaN outside [0, 1].
///
/// A rational start (Abramowitz & Stegun 26.2.23, error 4.5e-4), then Halley's method, which cubes the error
/// at each step. Relative error below 1e-13.
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p > 0.5 {
        // 1 - p is exact for p in [0.5, 1].
        return -normal_quantile(1.0 - p);
    }
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    let t = (-2.0 * p.ln()).sqrt();
    let mut x = (2.515_517 + t * (0.802_853 + t * 0.010_328))
        / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)))
        - t;
    for _ in 0..3 {
        let step = (normal_cdf(x) - p) / normal_density(x);
        x -= step / (1.0 + 0.5 * x * step);
    }
    x
}

/// Cumulative distribution function of Student's t with `df > 0` degrees of freedom (need not be whole).
pub fn student_t_cdf(t: f64, df: f64) -> f64 {
    let tail = 0.5 * incomplete_beta_xy(0.5 * df, 0.5, df / (df + t * t), t * t / (df + t * t));
    if t < 0.0 { tail } else { 1.0 - tail }
}

/// The `t` with `student_t_cdf(t, df) = p`, for `df > 0` and `0 < p < 1`; NaN otherwise.
///
/// By the inverse incomplete beta function. Relative error below 1e-10 for `df >= 1`.
pub fn student_t_quantile(p: f64, df: f64) -> f64 {
    if df.is_nan() || df <= 0.0 || p.is_nan() || p <= 0.0 || p >= 1.0 {
        return f64::NAN;
    }
    if p < 0.5 {
        return -student_t_quantile(1.0 - p, df);
    }
    let both_tails = 2.0 * (1.0 - p);
    if both_tails < 0.5 {
        let x = inverse_incomplete_beta(0.5 * df, 0.5, both_tails);
        (df * (1.0 - x) / x).sqrt()
    } else {
        let y = inverse_incomplete_beta(0.5, 0.5 * df, 1.0 - both_tails);
        (df * y / (1.0 - y)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, relative: f64) {
        assert!(
            (found - expected).abs() <= relative * expected.abs(),
            "found {found:e}, expected {expected:e}, relative error {:e}",
            (found / expected - 1.0).abs()
        );
    }

    // Expected values here and below: 40-digit arithmetic, rounded.
    #[test]
    fn ln_gamma_agrees_with_high_precision_values() {
        for (x, expected) in [
            (0.1, 2.252_712_651_734_206),
            (0.5, 0.572_364_942_924_700_1),
            (1.5, -0.120_782_237_635_245_22),
            (3.7, 1.428_072_326_665_388),
            (10.0, 12.801_827_480_081_469),
            (100.25, 360.284_559_637_764_2),
            (1e8, 1_742_068_066.103_834_7),
        ] {
            close(ln_gamma(x), expected, 2e-14);
        }
        assert!(ln_gamma(1.0).abs() < 1e-14 && ln_gamma(2.0).abs() < 1e-14);
        assert!(ln_gamma(0.0).is_nan() && ln_gamma(-1.5).is_nan());
    }

    #[test]
    fn incomplete_beta_agrees_with_high_precision_values() {
        for (a, b, x, expected) in [
            (0.5, 0.5, 0.3, 0.369_010_119_565_545_4),
            (2.0, 3.0, 0.4, 0.5248),
            (10.0, 0.5, 0.99, 0.657_928_175_156_784_5),
            (0.01, 5.0, 0.001, 0.952_795_880_007_072_4),
            (200.0, 300.0, 0.41, 0.677_628_164_772_179_3),
            (1.0, 5.0, 1e-9, 4.999_999_99e-9),
            (5000.0, 50.0, 0.991, 0.732_486_113_888_901_4),
        ] {
            close(incomplete_beta(a, b, x), expected, 1e-12);
            close(1.0 - incomplete_beta(b, a, 1.0 - x), expected, 1e-7);
        }
        assert!(incomplete_beta(2.0, 2.0, 1.5).is_nan() && incomplete_beta(0.0, 2.0, 0.5).is_nan());
        assert_eq!((incomplete_beta(2.0, 2.0, 0.0), incomplete_beta(2.0, 2.0, 1.0)), (0.0, 1.0));
    }

    #[test]
    fn inverse_incomplete_beta_inverts() {
        for a in [0.05, 0.5, 1.0, 3.0, 40.0, 1000.0] {
            for b in [0.5, 1.0, 7.0, 300.0] {
                for p in [1e-12, 1e-4, 0.025, 0.5, 0.9, 0.999] {
                    let x = inverse_incomplete_beta(a, b, p);
                    // Where the function is steep, the neighbouring doubles enclose p and no better x exists.
                    let slack = 1e-11 * p;
                    let below = incomplete_beta(a, b, x.next_down().max(0.0)) - slack;
                    let above = incomplete_beta(a, b, x.next_up().min(1.0)) + slack;
                    assert!(below <= p && p <= above, "a {a} b {b} p {p}: x {x:e}, {below:e}..{above:e}");
                }
            }
        }
        // I_x(1, b) = 1 - (1-x)^b and I_x(a, 1) = x^a in closed form, down to underflow.
        close(inverse_incomplete_beta(1.0, 2.0, 0.19), 0.1, 1e-14);
        close(inverse_incomplete_beta(0.05, 1.0, 1e-12), 1e-240, 1e-11);
        assert_eq!(inverse_incomplete_beta(0.01, 1.0, 1e-12), 0.0);
    }

    #[test]
    fn binomial_agrees_with_sums_and_is_stable_at_a_hundred_million() {
        close(binomial_cdf(3, 10, 0.3), 0.649_610_718_4, 1e-13);
        close(binomial_cdf(298, 299, 0.99), 0.950_463_743_362_337_5, 1e-13);
        close(binomial_cdf(0, 20, 0.1), 0.121_576_654_590_569_3, 1e-13);
        close(binomial_cdf(98_998_000, 100_000_000, 0.99), 0.022_264_598_766_467_438, 1e-10);
        close(binomial_cdf(99_000_500, 100_000_000, 0.99), 0.692_482_288_121_648_7, 1e-10);
        close(binomial_cdf(99_900_000, 100_000_000, 0.999), 0.500_421_153_261_234_9, 1e-10);
        close(binomial_sf(4, 10, 0.3) + binomial_cdf(3, 10, 0.3), 1.0, 1e-14);
        close(binomial_sf(40, 40, 0.1), 1e-40, 1e-11);
        assert_eq!(
            (binomial_cdf(10, 10, 0.3), binomial_sf(0, 10, 0.3), binomial_sf(11, 10, 0.3)),
            (1.0, 1.0, 0.0)
        );
        assert_eq!(
            (binomial_cdf(3, 10, 1.0), binomial_sf(3, 10, 1.0), binomial_cdf(0, 3, 0.0)),
            (0.0, 1.0, 1.0)
        );
    }

    #[test]
    fn normal_agrees_with_high_precision_values_and_inverts() {
        for (x, expected) in [
            (-10.0, 7.619_853_024_160_526e-24),
            (-3.0, 0.001_349_898_031_630_094_5),
            (-1.0, 0.158_655_253_931_457_05),
            (0.5, 0.691_462_461_274_013_1),
            (2.0, 0.977_249_868_051_820_8),
            (6.0, 0.999_999_999_013_412_4),
        ] {
            close(normal_cdf(x), expected, 1e-13);
        }
        for (p, expected) in [
            (1e-20, -9.262_340_089_798_408),
            (1e-6, -4.753_424_308_822_899),
            (0.025, -1.959_963_984_540_054_2),
            (0.3, -0.524_400_512_708_040_8),
            (0.9, 1.281_551_565_544_600_5),
            (0.975, 1.959_963_984_540_054_2),
        ] {
            close(normal_quantile(p), expected, 1e-13);
        }
        assert!(normal_quantile(0.5).abs() < 1e-15);
        assert_eq!((normal_quantile(0.0), normal_quantile(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(normal_quantile(-0.1).is_nan());
    }

    #[test]
    fn student_t_quantiles_agree_with_the_printed_table() {
        // Any textbook's table, three decimals: (df, 95 %, 97.5 %, 99.5 %).
        for (df, t95, t975, t995) in [
            (1.0, 6.314, 12.706, 63.657),
            (2.0, 2.920, 4.303, 9.925),
            (5.0, 2.015, 2.571, 4.032),
            (10.0, 1.812, 2.228, 3.169),
            (30.0, 1.697, 2.042, 2.750),
            (120.0, 1.658, 1.980, 2.617),
        ] {
            for (p, expected) in [(0.95, t95), (0.975, t975), (0.995, t995)] {
                assert!((student_t_quantile(p, df) - expected).abs() < 6e-4, "df {df} p {p}");
            }
        }
        // Closed forms: df = 1 is Cauchy, df = 2 is algebraic.
        for p in [0.55, 0.7, 0.8, 0.99] {
            close(student_t_quantile(p, 1.0), (PI * (p - 0.5)).tan(), 1e-10);
            let q: f64 = 2.0 * p - 1.0;
            close(student_t_quantile(p, 2.0), q * (2.0 / (1.0 - q * q)).sqrt(), 1e-10);
            close(student_t_cdf(student_t_quantile(p, 7.5), 7.5), p, 1e-12);
            close(student_t_quantile(1.0 - p, 4.0), -student_t_quantile(p, 4.0), 1e-10);
        }
    }
}
