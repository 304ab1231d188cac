//! The statistics of Touchstone: everything that turns observations into statements with a stated error.
//!
//! No crate above this level implements statistics of its own, so that a method has one definition, one set
//! of tests and one list of assumptions. Each function says where its method comes from, what it assumes
//! about the data, and how large its numerical error is.
//!
//! What this crate deliberately does not do: it does no I/O, reads no clock, and draws no randomness except
//! from a seed it is given; it knows nothing of metrics, units or file formats, and it has no dependencies.
//! Serialising a [`histogram::Histogram`] is left to others, by way of [`histogram::SparseHistogram`].
//!
//! What is undefined is `None`, never 0 and never NaN: a quantile of nothing, a slope through one point, an
//! upper bound that the sample is too small to give.
//!
//! | module | answers |
//! | --- | --- |
//! | [`histogram`] | how were the values distributed, in bounded memory, with +infinity as an outcome |
//! | [`quantile`] | which order statistics bound a quantile, and how many samples does that need |
//! | [`autocorrelation`] | how many independent samples is this series worth |
//! | [`steady`] | where does the start-up transient end |
//! | [`trend`] | is there a trend, how steep is it, with what interval |
//! | [`compare`] | do two sets of runs differ, by what ratio |
//! | [`equivalence`] | better, equivalent within a margin, or not resolved; how many runs that needs; what varies where |
//! | [`multiple`] | p-values of a family of comparisons |
//! | [`sequential`] | may a measurement stop early without being wrong more often |
//! | [`bootstrap`] | the interval of any statistic of runs and their windows |
//! | [`buckets`] | where a quantile lies in somebody else's cumulative buckets |
//! | [`simplex`] | all weightings that agree with a preference order: samples and vertices |
//! | [`rng`] | seeded and keyed random streams |
//! | [`special`] | the special functions beneath the above |

pub mod autocorrelation;
pub mod bootstrap;
pub mod buckets;
pub mod compare;
pub mod equivalence;
mod fourier;
pub mod histogram;
pub mod multiple;
pub mod quantile;
pub mod rng;
pub mod sequential;
pub mod simplex;
pub mod special;
pub mod steady;
pub mod trend;
