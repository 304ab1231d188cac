//! A mergeable log-linear histogram of `u64` values: nanoseconds, counts, bytes.
//!
//! Values below 2^11 have a bucket each. Above, every power of two is divided into 2^10 buckets of equal
//! width, so that a bucket's width is at most [`RELATIVE_ERROR`] of its values. The whole range of `u64` is
//! covered; nothing is clipped. Counts live in pages of 1,024 buckets (8 KiB), one page per power of two,
//! allocated when a magnitude is first seen: a latency distribution between 1 ms and 10 s takes 15 pages, 120
//! KiB.
//!
//! Count, minimum, maximum and mean are exact. Quantiles are reported as the upper bound of their bucket,
//! never below the true order statistic and never more than [`RELATIVE_ERROR`] above it. Merging loses
//! nothing: merged histograms equal the histogram of all values, whatever the order.
//!
//! An operation that failed or did not finish is worse than any limit. It is recorded as *censored*, an
//! observation at +infinity, counted apart and ranked after every finite value. Leaving it out would make the
//! worst system look best.

use crate::quantile::nearest_rank;
use std::fmt;

/// Base-two logarithm of the number of buckets per power of two.
const PRECISION_BITS: u32 = 10;
/// Buckets per page, which is buckets per power of two.
const PAGE: usize = 1 << PRECISION_BITS;
/// Pages 0 and 1 hold the exact values below 2^11; each further one a power of two up to 2^63.
const PAGES: usize = 64 - PRECISION_BITS as usize + 1;

/// Greatest relative amount by which a reported quantile exceeds the value it stands for: 2^-10, about 0.1 %.
pub const RELATIVE_ERROR: f64 = 1.0 / PAGE as f64;

/// Number of buckets over the range of `u64`; every index in a [`SparseHistogram`] is below it.
pub const BUCKETS: u32 = (PAGES * PAGE) as u32;

/// The bucket of a value. No branches: or-ing in 2^10 makes all values below 2^11 take the shift 0.
const fn index_of(value: u64) -> usize {
    let shift = 63 - PRECISION_BITS - (value | PAGE as u64).leading_zeros();
    ((shift as usize) << PRECISION_BITS) + (value >> shift) as usize
}

/// Least and greatest value of a bucket.
const fn bounds_of(index: usize) -> (u64, u64) {
    let shift = (index >> PRECISION_BITS).saturating_sub(1);
    let lower = ((index - (shift << PRECISION_BITS)) as u64) << shift;
    (lower, lower + ((1 << shift) - 1))
}

/// Quantile of a distribution that may contain observations at +infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// Nothing was recorded, or the level was outside [0, 1].
    Undefined,
    /// An upper bound of the quantile, within [`RELATIVE_ERROR`] of it.
    Value(u64),
    /// The rank falls among the censored observations: the quantile exceeds every limit.
    Censored,
}

impl Quantile {
    /// The finite value, if there is one.
    pub const fn value(self) -> Option<u64> {
        match self {
            Self::Value(v) => Some(v),
            Self::Undefined | Self::Censored => None,
        }
    }
}

/// How many observations exceed a limit: certain only to the bucket that holds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountAbove {
    /// Observations that certainly exceed the limit; censored ones always do.
    pub at_least: u64,
    /// The same and those in the limit's own bucket, which may.
    pub at_most: u64,
}

/// A bucket that holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Least value that belongs to the bucket.
    pub lower: u64,
    /// Greatest value that belongs to the bucket.
    pub upper: u64,
    /// Number of observations in it, above 0.
    pub count: u64,
}

/// A histogram's whole content in the form to be stored or sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparseHistogram {
    /// Bucket index (below [`BUCKETS`]) and count (above 0), indices strictly ascending.
    pub buckets: Vec<(u32, u64)>,
    /// Exact least value; 0 when there are no finite observations.
    pub min: u64,
    /// Exact greatest value; 0 when there are no finite observations.
    pub max: u64,
    /// Exact sum of the finite observations.
    pub sum: u128,
    /// Observations at +infinity.
    pub censored: u64,
}

/// Why a [`SparseHistogram`] is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseError {
    /// A bucket index is not below [`BUCKETS`].
    IndexOutOfRange {
        /// The index found.
        index: u32,
    },
    /// Indices are not strictly ascending.
    NotAscending {
        /// The first index that does not exceed the one before it.
        index: u32,
    },
    /// A bucket is listed with a count of 0.
    EmptyBucket {
        /// The index of the bucket.
        index: u32,
    },
    /// The counts add up to more than `u64::MAX`.
    CountOverflow,
    /// Minimum or maximum does not lie in the first or last bucket, or they are in the wrong order.
    ExtremesDisagree {
        /// The minimum found.
        min: u64,
        /// The maximum found.
        max: u64,
    },
    /// The sum is impossible for these buckets.
    SumDisagrees {
        /// The sum found.
        sum: u128,
    },
}

impl fmt::Display for SparseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IndexOutOfRange { index } => write!(f, "bucket index {index} is not below {BUCKETS}"),
            Self::NotAscending { index } => {
                write!(f, "bucket index {index} does not exceed the one before it")
            }
            Self::EmptyBucket { index } => write!(f, "bucket {index} is listed with a count of 0"),
            Self::CountOverflow => write!(f, "counts add up to more than {}", u64::MAX),
            Self::ExtremesDisagree { min, max } => {
                write!(f, "minimum {min} and maximum {max} disagree with the buckets")
            }
            Self::SumDisagrees { sum } => write!(f, "sum {sum} is impossible for these buckets"),
        }
    }
}

impl std::error::Error for SparseError {}

/// A log-linear histogram; the [module](self) describes it.
///
/// Counts saturate at `u64::MAX`, which recording one value at a time cannot reach.
#[derive(Clone)]
pub struct Histogram {
    pages: [Option<Box<[u64; PAGE]>>; PAGES],
    count: u64,
    censored: u64,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram; allocates nothing.
    pub const fn new() -> Self {
        Self { pages: [const { None }; PAGES], count: 0, censored: 0, min: u64::MAX, max: 0, sum: 0 }
    }

    /// An empty histogram whose pages for `lower..=upper` exist already, so that recording within that range
    /// never allocates.
    pub fn preallocated(lower: u64, upper: u64) -> Self {
        let mut histogram = Self::new();
        for page in index_of(lower) >> PRECISION_BITS..=index_of(upper) >> PRECISION_BITS {
            histogram.pages[page] = Some(empty_page());
        }
        histogram
    }

    /// Records one observation. Allocates only at the first value of a new magnitude.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Records `n` observations of the same value.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        let index = index_of(value);
        let page = self.pages[index >> PRECISION_BITS].get_or_insert_with(empty_page);
        let slot = &mut page[index & (PAGE - 1)];
        *slot = slot.saturating_add(n);
        self.count = self.count.saturating_add(n);
        self.sum = self.sum.saturating_add(u128::from(value) * u128::from(n));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Records one observation at +infinity: an operation that failed, or that was cut off before it ended.
    #[inline]
    pub const fn record_censored(&mut self) {
        self.record_censored_n(1);
    }

    /// Records `n` observations at +infinity.
    #[inline]
    pub const fn record_censored_n(&mut self, n: u64) {
        self.censored = self.censored.saturating_add(n);
    }

    /// Adds all observations of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.pages.iter_mut().zip(&other.pages) {
            if let Some(theirs) = theirs {
                let mine = mine.get_or_insert_with(empty_page);
                for (a, b) in mine.iter_mut().zip(theirs.iter()) {
                    *a = a.saturating_add(*b);
                }
            }
        }
        self.count = self.count.saturating_add(other.count);
        self.censored = self.censored.saturating_add(other.censored);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all observations but keeps the pages, for the next window.
    pub fn clear(&mut self) {
        for page in self.pages.iter_mut().flatten() {
            page.fill(0);
        }
        (self.count, self.censored, self.min, self.max, self.sum) = (0, 0, u64::MAX, 0, 0);
    }

    /// Number of finite observations.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Number of observations at +infinity.
    pub const fn count_censored(&self) -> u64 {
        self.censored
    }

    /// Number of all observations, finite and censored.
    pub const fn count_total(&self) -> u64 {
        self.count.saturating_add(self.censored)
    }

    /// Exact least finite observation.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Exact greatest finite observation.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Exact sum of the finite observations.
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// Mean of the finite observations, exact but for the final rounding to `f64`. With any censored
    /// observation it is the mean of those that finished, which understates; report it with
    /// [`Histogram::count_censored`].
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The `q` quantile by nearest rank over all observations, censored ones last.
    pub fn quantile_nearest_rank(&self, q: f64) -> Quantile {
        nearest_rank(q, self.count_total()).map_or(Quantile::Undefined, |rank| self.value_at_rank(rank))
    }

    /// The observation of the given rank, counted from 1 in ascending order; the first and last finite ones
    /// exactly, others as the upper bound of their bucket. [`Quantile::Undefined`] for rank 0 and beyond the
    /// total.
    pub fn value_at_rank(&self, rank: u64) -> Quantile {
        if rank == 0 || rank > self.count_total() {
            return Quantile::Undefined;
        }
        if rank > self.count {
            return Quantile::Censored;
        }
        if rank == 1 {
            return Quantile::Value(self.min);
        }
        let mut seen = 0_u64;
        for bucket in self.iter_buckets() {
            seen = seen.saturating_add(bucket.count);
            if seen >= rank {
                return Quantile::Value(bucket.upper.min(self.max));
            }
        }
        Quantile::Value(self.max)
    }

    /// How many observations exceed `limit`.
    ///
    /// Both counts agree below 2^11, at a bucket's upper bound, and outside the recorded range; against an
    /// SLO use `at_most`.
    pub fn count_above(&self, limit: u64) -> CountAbove {
        let mut above = CountAbove { at_least: self.censored, at_most: self.censored };
        if self.count == 0 || limit >= self.max {
            return above;
        }
        for bucket in self.iter_buckets() {
            if bucket.lower > limit || self.min > limit {
                above.at_least = above.at_least.saturating_add(bucket.count);
            }
            if bucket.upper > limit {
                above.at_most = above.at_most.saturating_add(bucket.count);
            }
        }
        above
    }

    /// The buckets that hold something, in ascending order.
    pub fn iter_buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.iter_counts().map(|(index, count)| {
            let (lower, upper) = bounds_of(index);
            Bucket { lower, upper, count }
        })
    }

    fn iter_counts(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.pages
            .iter()
            .enumerate()
            .filter_map(|(p, page)| page.as_deref().map(|counts| (p << PRECISION_BITS, counts)))
            .flat_map(|(base, counts)| counts.iter().enumerate().map(move |(i, &count)| (base + i, count)))
            .filter(|&(_, count)| count > 0)
    }

    /// The whole content, in a form that can be stored: [`Histogram::from_sparse`] restores an equal
    /// histogram.
    pub fn to_sparse(&self) -> SparseHistogram {
        SparseHistogram {
            buckets: self.iter_counts().map(|(index, count)| (index as u32, count)).collect(),
            min: self.min().unwrap_or(0),
            max: self.max,
            sum: self.sum,
            censored: self.censored,
        }
    }

    /// Restores a histogram.
    ///
    /// # Errors
    /// Refuses content that no sequence of records could have produced.
    pub fn from_sparse(sparse: &SparseHistogram) -> Result<Self, SparseError> {
        let mut histogram = Self::new();
        let (mut least_sum, mut greatest_sum) = (0_u128, 0_u128);
        let mut previous = None;
        for &(index, n) in &sparse.buckets {
            if index >= BUCKETS {
                return Err(SparseError::IndexOutOfRange { index });
            }
            if previous.is_some_and(|p| index <= p) {
                return Err(SparseError::NotAscending { index });
            }
            if n == 0 {
                return Err(SparseError::EmptyBucket { index });
            }
            previous = Some(index);
            let index = index as usize;
            histogram.count = histogram.count.checked_add(n).ok_or(SparseError::CountOverflow)?;
            histogram.pages[index >> PRECISION_BITS].get_or_insert_with(empty_page)[index & (PAGE - 1)] = n;
            // The count fits in 64 bits, so these fit in 128.
            let (lower, upper) = bounds_of(index);
            least_sum += u128::from(lower) * u128::from(n);
            greatest_sum += u128::from(upper) * u128::from(n);
        }
        if histogram.count.checked_add(sparse.censored).is_none() {
            return Err(SparseError::CountOverflow);
        }
        let extremes_agree = match (sparse.buckets.first(), sparse.buckets.last()) {
            (Some(&(first, _)), Some(&(last, _))) => {
                index_of(sparse.min) == first as usize
                    && index_of(sparse.max) == last as usize
                    && sparse.min <= sparse.max
            }
            _ => sparse.min == 0 && sparse.max == 0,
        };
        if !extremes_agree {
            return Err(SparseError::ExtremesDisagree { min: sparse.min, max: sparse.max });
        }
        if !(least_sum..=greatest_sum).contains(&sparse.sum) {
            return Err(SparseError::SumDisagrees { sum: sparse.sum });
        }
        if histogram.count > 0 {
            histogram.min = sparse.min;
            histogram.max = sparse.max;
        }
        histogram.sum = sparse.sum;
        histogram.censored = sparse.censored;
        Ok(histogram)
    }
}

#[cold]
fn empty_page() -> Box<[u64; PAGE]> {
    Box::new([0; PAGE])
}

/// Equal content; which pages happen to be allocated does not matter.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.censored, self.min, self.max, self.sum)
            == (other.count, other.censored, other.min, other.max, other.sum)
            && self.iter_counts().eq(other.iter_counts())
    }
}

impl Eq for Histogram {}

/// A summary: the buckets themselves would fill screens.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("censored", &self.censored)
            .field("min", &self.min())
            .field("max", &self.max())
            .field("mean", &self.mean())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut h = Histogram::new();
        values.iter().for_each(|&v| h.record(v));
        h
    }

    #[test]
    fn buckets_tile_the_whole_range() {
        let mut next = 0_u128;
        for index in 0..BUCKETS as usize {
            let (lower, upper) = bounds_of(index);
            assert_eq!(u128::from(lower), next);
            assert_eq!((index_of(lower), index_of(upper)), (index, index));
            assert!((upper - lower) as f64 <= RELATIVE_ERROR * lower as f64, "bucket {index}");
            next = u128::from(upper) + 1;
        }
        assert_eq!(next, 1 << 64);
        assert_eq!(bounds_of(2047), (2047, 2047), "exact below 2^11");
    }

    #[test]
    fn an_empty_histogram_knows_nothing() {
        let h = Histogram::new();
        assert_eq!((h.count(), h.min(), h.max(), h.mean()), (0, None, None, None));
        assert_eq!(h.quantile_nearest_rank(0.5), Quantile::Undefined);
        assert_eq!(h.count_above(0), CountAbove { at_least: 0, at_most: 0 });
        assert_eq!(Histogram::from_sparse(&h.to_sparse()), Ok(h));
    }

    #[test]
    fn censored_observations_rank_last_and_exceed_every_limit() {
        let mut h = Histogram::new();
        (1..=98).for_each(|v| h.record(v));
        h.record_censored();
        h.record_censored();
        assert_eq!((h.count(), h.count_censored(), h.count_total()), (98, 2, 100));
        assert_eq!(h.quantile_nearest_rank(0.98), Quantile::Value(98));
        assert_eq!(h.quantile_nearest_rank(0.99), Quantile::Censored);
        assert_eq!(h.quantile_nearest_rank(0.99).value(), None);
        assert_eq!(h.count_above(u64::MAX), CountAbove { at_least: 2, at_most: 2 });
        assert_eq!(h.count_above(90), CountAbove { at_least: 10, at_most: 10 });
        assert_eq!(h.max(), Some(98));
        let mut only = Histogram::new();
        only.record_censored();
        assert_eq!(only.quantile_nearest_rank(0.0), Quantile::Censored);
        assert_eq!(Histogram::from_sparse(&only.to_sparse()), Ok(only));
    }

    #[test]
    fn a_limit_inside_a_bucket_gives_a_range() {
        // 4000..4003 straddles two buckets of width 2.
        let h = of(&[3000, 4000, 4001, 4002, 5000]);
        assert_eq!(h.count_above(4000), CountAbove { at_least: 2, at_most: 4 });
        assert_eq!(h.count_above(4001), CountAbove { at_least: 2, at_most: 2 });
        assert_eq!(h.count_above(2999), CountAbove { at_least: 5, at_most: 5 });
        assert_eq!(h.count_above(5000), CountAbove { at_least: 0, at_most: 0 });
    }

    #[test]
    fn recording_in_a_preallocated_range_touches_no_new_page() {
        let mut h = Histogram::preallocated(1_000, 1_000_000);
        let pages = |h: &Histogram| h.pages.iter().flatten().count();
        let before = pages(&h);
        [1_000, 2_047, 2_048, 65_536, 1_000_000].into_iter().for_each(|v| h.record(v));
        assert_eq!(pages(&h), before);
        let same = of(&[1_000, 2_047, 2_048, 65_536, 1_000_000]);
        assert_eq!(h, same, "spare pages do not make a difference");
        h.clear();
        assert_eq!(h, Histogram::new());
        assert_eq!(pages(&h), before);
    }

    #[test]
    fn the_sum_of_greatest_values_does_not_overflow() {
        let mut h = Histogram::new();
        h.record_n(u64::MAX, u64::MAX);
        assert_eq!(h.mean(), Some(u64::MAX as f64));
        assert_eq!(Histogram::from_sparse(&h.to_sparse()), Ok(h));
    }

    #[test]
    fn impossible_sparse_content_is_refused() {
        let good = of(&[10, 20, 5_000]).to_sparse();
        let broken = |change: fn(&mut SparseHistogram)| {
            let mut s = good.clone();
            change(&mut s);
            Histogram::from_sparse(&s).unwrap_err()
        };
        assert_eq!(broken(|s| s.buckets[2].0 = BUCKETS), SparseError::IndexOutOfRange { index: BUCKETS });
        assert_eq!(broken(|s| s.buckets.swap(0, 1)), SparseError::NotAscending { index: 10 });
        assert_eq!(broken(|s| s.buckets[1].1 = 0), SparseError::EmptyBucket { index: 20 });
        assert_eq!(broken(|s| s.buckets[1].1 = u64::MAX), SparseError::CountOverflow);
        assert_eq!(broken(|s| s.censored = u64::MAX), SparseError::CountOverflow);
        assert_eq!(broken(|s| s.min = 9), SparseError::ExtremesDisagree { min: 9, max: 5_000 });
        assert_eq!(broken(|s| s.sum = 1), SparseError::SumDisagrees { sum: 1 });
        assert_eq!(broken(|s| s.buckets.clear()), SparseError::ExtremesDisagree { min: 10, max: 5_000 });
        assert_eq!(broken(|s| s.sum = 1).to_string(), "sum 1 is impossible for these buckets");
    }

    /// Values of every magnitude, not only huge ones.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((any::<u64>(), 0_u32..64).prop_map(|(v, shift)| v >> shift), 1..200)
    }

    proptest! {
        #[test]
        fn quantiles_are_upper_bounds_within_the_stated_error(mut v in values(), q in 0.0..=1.0) {
            let h = of(&v);
            v.sort_unstable();
            let exact = v[nearest_rank(q, v.len() as u64).unwrap() as usize - 1];
            let reported = h.quantile_nearest_rank(q).value().unwrap();
            prop_assert!(reported >= exact);
            prop_assert!((reported - exact) as f64 <= RELATIVE_ERROR * exact as f64);
            prop_assert_eq!((h.min(), h.max()), (v.first().copied(), v.last().copied()));
            prop_assert_eq!(h.sum(), v.iter().map(|&x| u128::from(x)).sum::<u128>());
            prop_assert_eq!(h.quantile_nearest_rank(1.0).value(), h.max());
        }

        #[test]
        fn merging_equals_recording_everything(a in values(), b in values(), censored in 0..3) {
            let (mut left, right) = (of(&a), of(&b));
            (0..censored).for_each(|_| left.record_censored());
            let mut merged = left.clone();
            merged.merge(&right);
            let mut swapped = right;
            swapped.merge(&left);
            prop_assert_eq!(&merged, &swapped);
            let mut all = of(&[a, b].concat());
            (0..censored).for_each(|_| all.record_censored());
            prop_assert_eq!(merged, all);
        }

        #[test]
        fn sparse_form_restores_the_histogram(v in values()) {
            let h = of(&v);
            prop_assert_eq!(Histogram::from_sparse(&h.to_sparse()), Ok(h));
        }

        #[test]
        fn count_above_brackets_the_truth(v in values(), limit in values()) {
            let h = of(&v);
            let truth = v.iter().filter(|&&x| x > limit[0]).count() as u64;
            let found = h.count_above(limit[0]);
            prop_assert!(found.at_least <= truth && truth <= found.at_most);
        }
    }
}
