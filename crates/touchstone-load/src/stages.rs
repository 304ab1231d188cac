//! The stages of a run whose load changes on purpose: what was offered, what came of it, and how long it took, in each.

use touchstone_model::run::Stage;
use touchstone_stats::histogram::Histogram;

use crate::aggregate::BlockAcc;
use crate::plan::LoadPlan;
use crate::record::slot;
use crate::shard::{ShardResult, Traits};
use crate::summary;

/// The stages that the measured window reached, in order; none where the load is the same throughout.
pub(crate) fn stages(plan: &LoadPlan, traits: Traits, result: &ShardResult, has_limits: bool) -> Vec<Stage> {
    let number = plan.stages();
    let blocks = &result.aggregate.blocks;
    if number == 0 || blocks.is_empty() {
        return Vec::new();
    }
    let levels = plan.arrival.levels();
    let length_ns = plan.duration_ns / number as u64;
    let measured_ns = result.to_ns.saturating_sub(result.from_ns);
    let series = slot(traits.leading).map(|slot| &result.aggregate.series[slot]);
    blocks
        .chunks(blocks.len().div_ceil(number))
        .enumerate()
        .map_while(|(at, blocks)| {
            let from_ns = at as u64 * length_ns;
            // An interrupted run ends in the middle of a stage.
            let to_ns = (from_ns + length_ns).min(measured_ns);
            let seconds = to_ns.checked_sub(from_ns).filter(|length| *length > 0)? as f64 / 1e9;
            let sum = |of: fn(&BlockAcc) -> u64| blocks.iter().map(of).sum::<u64>();
            let level = levels.get(at).filter(|_| levels.len() == number);
            let series = series.map(|series| series.part(result.from_ns + from_ns, result.from_ns + to_ns));
            let latency = leading(traits, blocks)
                .map(|histogram| summary::summary(&histogram, series.as_ref(), plan.confidence));
            let (intended, completed) = (sum(|block| block.intended), sum(|block| block.completed_flow));
            Some(Stage {
                from_s: from_ns as f64 / 1e9,
                to_s: to_ns as f64 / 1e9,
                planned: level.map(|level| level.per_second),
                returning: level.is_some_and(|level| level.returning),
                intended,
                failed: sum(|block| block.failed),
                offered: intended as f64 / seconds,
                throughput: completed as f64 / seconds,
                goodput: has_limits.then(|| sum(|block| block.good) as f64 / seconds),
                latency,
            })
        })
        .collect()
}

/// The leading latency over some blocks; none when nothing was observed.
fn leading(traits: Traits, blocks: &[BlockAcc]) -> Option<Histogram> {
    let slot = slot(traits.leading)?;
    let mut all: Option<Histogram> = None;
    for histogram in blocks.iter().filter_map(|block| block.histograms[slot].as_deref()) {
        all.get_or_insert_with(Histogram::new).merge(histogram);
    }
    all
}
