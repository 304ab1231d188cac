//! What happened to a server's metrics between the first and the last of several pages.
//!
//! Counters are followed label set by label set. One that falls began anew: what it shows then was added since, and the
//! page counts as one restart. A label set that appears later than on the first page began at 0.

use std::collections::{BTreeMap, BTreeSet};

use touchstone_model::server::{BucketBounds, CounterDelta, DistributionDelta};
use touchstone_model::{ServerMetric, Statistic};
use touchstone_stats::buckets::quantile_between;

use crate::prometheus::{Page, Sample};
use crate::serving::{EngineMap, Names, Over, Source};

/// Greatest number of label sets that are followed; a server with more has lost its way.
const MAX_SERIES: usize = 50_000;
/// Quantiles of distributions that are reported.
const QUANTILES: [Statistic; 3] = [Statistic::P50, Statistic::P90, Statistic::P99];

#[derive(Debug, Clone)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    last: f64,
    delta: f64,
}

/// Follows the pages of one server.
#[derive(Debug, Clone)]
pub struct Tally {
    map: &'static EngineMap,
    wanted: BTreeSet<String>,
    series: BTreeMap<String, Series>,
    pages: u64,
    restarts: u64,
}

impl Tally {
    /// Begins with the table of a product.
    #[must_use]
    pub fn new(map: &'static EngineMap) -> Self {
        let mut wanted = BTreeSet::new();
        for (_, source) in map.entries {
            match source {
                Source::Counter { terms, .. } => {
                    wanted.extend(terms.iter().flat_map(|names| names.iter()).map(|name| (*name).to_owned()));
                }
                Source::Histogram { names, .. } => {
                    let ends = ["_bucket", "_sum", "_count"];
                    wanted.extend(names.iter().flat_map(|name| ends.map(|end| format!("{name}{end}"))));
                }
                Source::Mean { spent, times, .. } => {
                    wanted.extend(spent.iter().chain(times.iter()).map(|name| (*name).to_owned()));
                }
                Source::Gauge { .. } | Source::None { .. } => {}
            }
        }
        Self { map, wanted, series: BTreeMap::new(), pages: 0, restarts: 0 }
    }

    /// The table.
    #[must_use]
    pub fn map(&self) -> &'static EngineMap {
        self.map
    }

    /// Pages so far.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages on which counters had begun anew.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Takes the next page.
    pub fn push(&mut self, page: &Page) {
        let first = self.pages == 0;
        let mut fell = false;
        for sample in page.samples.iter().filter(|sample| sample.value.is_finite()) {
            if !self.wanted.contains(&sample.name) {
                continue;
            }
            let key = key(sample);
            if let Some(series) = self.series.get_mut(&key) {
                let grown = sample.value - series.last;
                fell |= grown < 0.0;
                series.delta += if grown < 0.0 { sample.value } else { grown };
                series.last = sample.value;
            } else if self.series.len() < MAX_SERIES {
                let series = Series {
                    name: sample.name.clone(),
                    labels: sample.labels.clone(),
                    last: sample.value,
                    delta: if first { 0.0 } else { sample.value },
                };
                self.series.insert(key, series);
            }
        }
        self.pages += 1;
        self.restarts += u64::from(fell);
    }

    /// The gauges of a page; what it does not have is left out.
    #[must_use]
    pub fn gauges(&self, page: &Page) -> BTreeMap<ServerMetric, f64> {
        let value = |source: &Source| {
            let Source::Gauge { names, over } = source else { return None };
            names.iter().find_map(|name| match over {
                Over::Sum => page.sum(name),
                Over::Max => page.max(name),
            })
        };
        self.map.entries.iter().filter_map(|(metric, source)| Some((*metric, value(source)?))).collect()
    }

    /// How much each counter grew.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<ServerMetric, CounterDelta> {
        let grown = |source: &Source| {
            let Source::Counter { terms, reason, scale } = source else { return None };
            let mut all = CounterDelta::default();
            for names in *terms {
                for series in self.named(names)? {
                    all.delta += series.delta * scale;
                    if let Some(reason) = reason.and_then(|label| series.labels.get(label)) {
                        *all.by_reason.entry(reason.clone()).or_default() += series.delta * scale;
                    }
                }
            }
            Some(all)
        };
        self.map.entries.iter().filter_map(|(metric, source)| Some((*metric, grown(source)?))).collect()
    }

    /// What was added to each distribution, in ms.
    #[must_use]
    pub fn distributions(&self) -> BTreeMap<ServerMetric, DistributionDelta> {
        let added = |source: &Source| match source {
            Source::Histogram { names, scale } => names.iter().find_map(|name| self.histogram(name, *scale)),
            Source::Mean { spent, times, scale } => {
                let total = |names| Some(self.named(names)?.map(|series| series.delta).sum::<f64>());
                let (spent, times) = (total(spent)?, total(times)?);
                Some(DistributionDelta {
                    count: times,
                    mean: (times > 0.0).then(|| spent * scale / times),
                    quantiles: BTreeMap::new(),
                })
            }
            _ => None,
        };
        self.map.entries.iter().filter_map(|(metric, source)| Some((*metric, added(source)?))).collect()
    }

    fn histogram(&self, name: &str, scale: f64) -> Option<DistributionDelta> {
        let of = |end: &str| {
            let name = format!("{name}{end}");
            self.series.values().filter(move |series| series.name == name)
        };
        of("_count").next()?;
        let count: f64 = of("_count").map(|series| series.delta).sum();
        let sum: f64 = of("_sum").map(|series| series.delta).sum();
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for series in of("_bucket") {
            let bound = series.labels.get("le").and_then(|le| le.parse::<f64>().ok());
            let Some(bound) = bound.filter(|bound| !bound.is_nan()) else { continue };
            match buckets.binary_search_by(|(known, _)| known.total_cmp(&bound)) {
                Ok(at) => buckets[at].1 += series.delta,
                Err(at) => buckets.insert(at, (bound, series.delta)),
            }
        }
        let between = |statistic: Statistic| {
            let (lower, upper) = quantile_between(&buckets, 0.0, statistic.level()?)?;
            let bounds = BucketBounds {
                lower: lower * scale,
                upper: Some(upper * scale).filter(|upper| upper.is_finite()),
            };
            Some((statistic, bounds))
        };
        Some(DistributionDelta {
            count,
            mean: (count > 0.0).then(|| sum * scale / count),
            quantiles: QUANTILES.into_iter().filter_map(between).collect(),
        })
    }

    /// Every metric that is not there, with the reason.
    #[must_use]
    pub fn missing(&self, gauges: &BTreeSet<ServerMetric>) -> BTreeMap<ServerMetric, String> {
        let (counters, distributions) = (self.counters(), self.distributions());
        let engine = self.map.engine;
        let reason = |metric: ServerMetric| match self.map.source(metric) {
            _ if gauges.contains(&metric)
                || counters.contains_key(&metric)
                || distributions.contains_key(&metric) =>
            {
                None
            }
            Some(Source::None { why }) => Some(why.to_owned()),
            None => Some(format!("{engine} is not known to report it")),
            Some(source) => Some(format!("the page has no `{}`", first_name(&source))),
        };
        ServerMetric::ALL.iter().filter_map(|metric| Some((*metric, reason(*metric)?))).collect()
    }

    /// The series of the first name that there is; none when there is no such name.
    fn named(&self, names: Names) -> Option<impl Iterator<Item = &Series>> {
        let name = names.iter().find(|name| self.series.values().any(|series| series.name == **name))?;
        Some(self.series.values().filter(move |series| series.name == **name))
    }
}

fn first_name(source: &Source) -> &'static str {
    let names: Names = match source {
        Source::Gauge { names, .. } | Source::Histogram { names, .. } => names,
        Source::Counter { terms, .. } => terms.last().copied().unwrap_or_default(),
        Source::Mean { spent, .. } => spent,
        Source::None { .. } => &[],
    };
    names.first().copied().unwrap_or_default()
}

fn key(sample: &Sample) -> String {
    let mut key = sample.name.clone();
    for (label, value) in &sample.labels {
        key.extend(["\u{1}", label, "\u{2}", value]);
    }
    key
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
