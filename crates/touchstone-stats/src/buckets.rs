//! What the buckets of a histogram that somebody else kept say about a quantile.

/// Between which bounds the quantile `q` lies, from cumulative counts: pairs of upper bound and how many observations are
/// at or below it, ascending by bound.
///
/// The first number is exclusive (the bound of the bucket before, or `floor`), the second inclusive and +infinity where the
/// last bucket has no end. The quantile is the value of nearest rank, `ceil(q n)`. Nothing is interpolated: a histogram
/// does not know where in a bucket its values are. `None` without observations, for counts that fall, or `q` outside (0, 1].
#[must_use]
pub fn quantile_between(buckets: &[(f64, f64)], floor: f64, q: f64) -> Option<(f64, f64)> {
    let n = buckets.last()?.1;
    let rising = buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1 && pair[0].0 <= pair[1].0);
    if !(rising && n > 0.0 && n.is_finite() && q > 0.0 && q <= 1.0) {
        return None;
    }
    // Counts are whole; a difference of large ones may miss that by rounding.
    let rank = (q * n - 1e-9).ceil().max(1.0);
    let at = buckets.iter().position(|(_, below)| *below + 1e-9 >= rank)?;
    let lower = if at == 0 { floor } else { buckets[at - 1].0 };
    Some((lower, buckets[at].0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_of_the_nearest_rank_is_found() {
        let buckets = [(1.0, 10.0), (2.0, 10.0), (5.0, 99.0), (f64::INFINITY, 100.0)];
        assert_eq!(quantile_between(&buckets, 0.0, 0.10), Some((0.0, 1.0)));
        assert_eq!(quantile_between(&buckets, 0.0, 0.11), Some((2.0, 5.0)));
        assert_eq!(quantile_between(&buckets, 0.0, 0.99), Some((2.0, 5.0)));
        assert_eq!(quantile_between(&buckets, 0.0, 1.0), Some((5.0, f64::INFINITY)));
    }

    #[test]
    fn what_cannot_be_said_is_none() {
        assert_eq!(quantile_between(&[], 0.0, 0.5), None);
        assert_eq!(quantile_between(&[(1.0, 0.0)], 0.0, 0.5), None);
        assert_eq!(quantile_between(&[(1.0, 3.0), (2.0, 2.0)], 0.0, 0.5), None);
        assert_eq!(quantile_between(&[(1.0, 3.0)], 0.0, 0.0), None);
        assert_eq!(quantile_between(&[(1.0, f64::NAN)], 0.0, 0.5), None);
    }
}
