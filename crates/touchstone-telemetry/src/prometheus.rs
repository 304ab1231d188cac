//! The Prometheus text format: a tolerant, bounded parser.
//!
//! Lines that cannot be understood are counted and skipped; a page of a server under load is worth more with a hole than
//! not at all. Exemplars and timestamps of OpenMetrics are read over.

use std::collections::BTreeMap;

/// Greatest number of samples that are kept.
pub const MAX_SAMPLES: usize = 200_000;
/// Greatest number of labels of a sample.
const MAX_LABELS: usize = 64;

/// The declared type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows, except when the server starts again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets with upper bounds, a sum and a count.
    Histogram,
    /// Quantiles, a sum and a count.
    Summary,
    /// Another word, or `untyped`.
    Other,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The name.
    pub name: String,
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
    /// The value; may be NaN or infinite.
    pub value: f64,
}

/// A page of metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The samples, in the order of the page.
    pub samples: Vec<Sample>,
    /// Declared types by metric (without `_bucket`, `_sum`, `_count`).
    pub types: BTreeMap<String, MetricType>,
    /// Lines that were not understood.
    pub malformed: u64,
    /// Whether samples were left out because there are more than [`MAX_SAMPLES`].
    pub truncated: bool,
}

/// A histogram of a page, over all its label sets.
#[derive(Debug, Clone, PartialEq)]
pub struct PageHistogram {
    /// Upper bounds and how many observations are at or below them, ascending; the last bound is +infinity.
    pub buckets: Vec<(f64, f64)>,
    /// Sum of the observations.
    pub sum: f64,
    /// Number of observations.
    pub count: f64,
}

impl Page {
    /// Reads a page.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(comment) = line.strip_prefix('#') {
                page.comment(comment.trim_start());
            } else if page.samples.len() == MAX_SAMPLES {
                page.truncated = true;
                break;
            } else {
                match sample(line) {
                    Some(sample) => page.samples.push(sample),
                    None => page.malformed += 1,
                }
            }
        }
        page
    }

    fn comment(&mut self, text: &str) {
        let mut words = text.split_whitespace();
        if let (Some("TYPE"), Some(name), Some(kind)) = (words.next(), words.next(), words.next()) {
            let kind = match kind {
                "counter" => MetricType::Counter,
                "gauge" => MetricType::Gauge,
                "histogram" => MetricType::Histogram,
                "summary" => MetricType::Summary,
                _ => MetricType::Other,
            };
            if self.types.len() < MAX_SAMPLES {
                self.types.insert(name.to_owned(), kind);
            }
        }
    }

    /// The finite values of a name, whatever their labels.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = f64> + 'a {
        self.samples.iter().filter(move |s| s.name == name && s.value.is_finite()).map(|s| s.value)
    }

    /// The sum over all label sets; none when there is no finite value.
    #[must_use]
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.values(name).fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }

    /// The greatest value over all label sets; none when there is no finite value.
    #[must_use]
    pub fn max(&self, name: &str) -> Option<f64> {
        self.values(name).reduce(f64::max)
    }

    /// The histogram of a name, added up over all label sets; none when it has no bucket.
    #[must_use]
    pub fn histogram(&self, name: &str) -> Option<PageHistogram> {
        let bucket = format!("{name}_bucket");
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for sample in self.samples.iter().filter(|s| s.name == bucket && s.value.is_finite()) {
            let bound = sample.labels.get("le").and_then(|le| number(le)).filter(|bound| !bound.is_nan())?;
            match buckets.binary_search_by(|(known, _)| known.total_cmp(&bound)) {
                Ok(at) => buckets[at].1 += sample.value,
                Err(at) => buckets.insert(at, (bound, sample.value)),
            }
        }
        let last = buckets.last()?.1;
        let sum = self.sum(&format!("{name}_sum")).unwrap_or(f64::NAN);
        Some(PageHistogram { sum, count: self.sum(&format!("{name}_count")).unwrap_or(last), buckets })
    }
}

/// `name{label="value",...} value [timestamp] [# exemplar]`
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(|c: char| !is_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = number(rest.split_whitespace().next()?)?;
    Some(Sample { name: name.to_owned(), labels, value })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// The labels after the opening brace, and what follows the closing one.
fn labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, after) = rest.split_once('=')?;
        let name = name.trim();
        if name.is_empty() || !name.chars().all(is_name) || labels.len() == MAX_LABELS {
            return None;
        }
        let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
        labels.insert(name.to_owned(), value);
        rest = after;
    }
}

/// The value up to the closing quote, with its escapes undone, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped @ ('\\' | '"') => value.push(escaped),
                // Unknown escapes stay as they are.
                other => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
    }
    None
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = r#"
# HELP shop_orders_total Orders, by "kind" and place \\ with a backslash.
# TYPE shop_orders_total counter
shop_orders_total{kind="tea",place="C:\\dir\nline \"x\", }{"} 12 1700000000000
shop_orders_total { kind = "coffee" , } 3e2
# TYPE oven_temperature gauge
oven_temperature NaN
oven_temperature{oven="2"} -1.5
oven_limit +Inf
# a comment of no kind
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.1",door="a"} 1
wait_seconds_bucket{le="+Inf",door="a"} 3
wait_seconds_bucket{le="0.1",door="b"} 2
wait_seconds_bucket{le="+Inf",door="b"} 2 # {trace="1"} 0.05
wait_seconds_sum{door="a"} 1.5
wait_seconds_sum{door="b"} 0.1
wait_seconds_count{door="a"} 3
wait_seconds_count{door="b"} 2
this is no sample
broken{label="unfinished} 1
1abc 2
empty_value{}
# EOF
"#;

    #[test]
    fn names_labels_values_and_types_are_read() {
        let page = Page::parse(PAGE);
        assert_eq!(page.malformed, 4);
        let first = &page.samples[0];
        assert_eq!(first.labels["place"], "C:\\dir\nline \"x\", }{");
        assert_eq!((first.labels["kind"].as_str(), first.value), ("tea", 12.0));
        assert_eq!(page.samples[1].labels["kind"], "coffee");
        assert_eq!(page.sum("shop_orders_total"), Some(312.0));
        assert_eq!(page.types["shop_orders_total"], MetricType::Counter);
        assert!(page.samples[2].value.is_nan());
        assert_eq!(page.max("oven_temperature"), Some(-1.5), "NaN is no value");
        assert_eq!(page.samples[4].value, f64::INFINITY);
        assert_eq!(page.sum("oven_limit"), None);
        assert_eq!(page.max("nothing"), None);
    }

    #[test]
    fn histograms_add_up_over_their_labels() {
        let histogram = Page::parse(PAGE).histogram("wait_seconds").unwrap();
        assert_eq!(histogram.buckets, [(0.1, 3.0), (f64::INFINITY, 5.0)]);
        assert_eq!((histogram.sum, histogram.count), (1.6, 5.0));
        assert_eq!(Page::parse(PAGE).histogram("oven_temperature"), None);
    }

    #[test]
    fn a_page_without_end_is_cut() {
        let page = Page::parse(&"a 1\n".repeat(MAX_SAMPLES + 5));
        assert!(page.truncated);
        assert_eq!(page.samples.len(), MAX_SAMPLES);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_read(text in "(?s).{0,200}") {
            let page = Page::parse(&text);
            prop_assert!(page.samples.len() as u64 + page.malformed <= text.lines().count() as u64);
        }

        #[test]
        fn any_label_value_survives_its_escapes(value in "(?s).{0,40}") {
            let escaped = value.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"");
            // A carriage return ends a line for readers of lines only before a line feed; it cannot be escaped.
            prop_assume!(!value.contains('\r'));
            let page = Page::parse(&format!("m{{l=\"{escaped}\"}} 1"));
            prop_assert_eq!(page.samples.len(), 1);
            prop_assert_eq!(&page.samples[0].labels["l"], &value);
        }
    }
}
