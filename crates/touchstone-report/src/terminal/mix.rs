//! The classes of a mixed load beside each other.

use touchstone_model::{RunDocument, Statistic};

use crate::terminal::Style;
use crate::text::{Align, Table, clean};
use crate::{number, reading, words};

/// A table with a row for each class, given as (name, run), and the sum of what adds up.
#[must_use]
pub fn mix_summary(classes: &[(&str, &RunDocument)], style: &Style) -> String {
    let w = style.lang.words();
    let mut table = Table::new(&[
        (style.lang.pick("class", "类别"), Align::Left),
        (w.arrival, Align::Left),
        (w.offered, Align::Right),
        (w.throughput, Align::Right),
        (w.failed, Align::Right),
        (w.metric, Align::Left),
        ("p50", Align::Right),
        ("p95", Align::Right),
        ("p99", Align::Right),
        (w.slo, Align::Left),
    ]);
    for (name, run) in classes {
        let leading = reading::leading(run);
        let at = |statistic| {
            let summary = leading.and_then(|metric| run.metrics.get(&metric));
            number::optional(summary.and_then(|summary| summary.statistic(statistic)), 4)
        };
        let outcomes = run.slo.iter().map(|slo| words::outcome(style.lang, slo.outcome));
        let outcomes = outcomes.collect::<Vec<_>>().join(", ");
        table.row(vec![
            clean(name).to_string(),
            clean(&run.workload.arrival).to_string(),
            number::optional(run.rates.offered, 4),
            number::optional(run.rates.throughput, 4),
            number::count(run.counts.failed),
            leading.map_or_else(|| number::NONE.to_owned(), |metric| metric.to_string()),
            at(Statistic::P50),
            at(Statistic::P95),
            at(Statistic::P99),
            if outcomes.is_empty() { number::NONE.to_owned() } else { outcomes },
        ]);
    }
    let sum = |of: fn(&RunDocument) -> Option<f64>| {
        number::optional(classes.iter().map(|(_, run)| of(run)).sum::<Option<f64>>(), 4)
    };
    let none = || number::NONE.to_owned();
    table.row(vec![
        style.lang.pick("all", "合计").to_owned(),
        none(),
        sum(|run| run.rates.offered),
        sum(|run| run.rates.throughput),
        number::count(classes.iter().map(|(_, run)| run.counts.failed).sum()),
        none(),
        none(),
        none(),
        none(),
        none(),
    ]);
    let mut out = String::new();
    for (index, line) in table.lines("").iter().enumerate() {
        out += &if index == 0 { style.head(line) } else { line.clone() };
        out.push('\n');
    }
    out
}
