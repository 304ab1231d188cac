//! The accelerators of this machine while a target on it is loaded.

use std::collections::BTreeMap;

use touchstone_model::run::Phases;
use touchstone_model::server::DeviceSection;
use touchstone_model::{Finding, FindingCode, Target};
use touchstone_net::mono_ns;
use touchstone_telemetry::gpu::{GpuSample, Gpus};

use super::client::ClientTotals;

/// Share of readings from which on clocks that are held down are worth a finding.
const THROTTLED: f64 = 0.05;

/// Follows every device.
#[derive(Debug)]
pub(super) struct DeviceWatch {
    gpus: Gpus,
    points: Vec<(u64, Vec<GpuSample>)>,
}

impl DeviceWatch {
    /// Finds the devices and reads them.
    pub(super) fn open(target: &Target) -> Result<Self, String> {
        if !target.is_loopback() {
            return Err("the target is not on this machine".to_owned());
        }
        let mut watch = Self { gpus: Gpus::open()?, points: Vec::new() };
        watch.read();
        Ok(watch)
    }

    /// Takes a reading.
    pub(super) fn read(&mut self) {
        self.points.push((mono_ns(), self.gpus.read()));
    }

    /// What was seen.
    pub(super) fn conclude(self, phases: &Phases, client: &ClientTotals, dropped: u64) -> Vec<DeviceSection> {
        let tokens = (client.output_tokens > 0 && client.output_unknown == 0 && dropped == 0)
            .then_some(client.output_tokens as f64);
        let Some((_, first)) = self.points.first() else { return Vec::new() };
        let section = |before: &GpuSample| {
            let all: Vec<(u64, &GpuSample)> = self
                .points
                .iter()
                .filter_map(|(at, read)| Some((*at, read.iter().find(|one| one.index == before.index)?)))
                .collect();
            let measured: Vec<&GpuSample> = all
                .iter()
                .filter(|(at, _)| (phases.measured_from_ns..=phases.measured_to_ns).contains(at))
                .map(|(_, one)| *one)
                .collect();
            let last = all.last().and_then(|(_, one)| one.joules);
            let joules = last.zip(before.joules).map(|(to, from)| to - from).filter(|joules| *joules >= 0.0);
            let clocks = || measured.iter().filter_map(|one| one.sm_mhz);
            let mut throttled = BTreeMap::new();
            for reason in measured.iter().flat_map(|one| one.throttled.iter()) {
                *throttled.entry((*reason).to_owned()).or_insert(0.0) += 1.0 / measured.len() as f64;
            }
            DeviceSection {
                index: before.index,
                name: before.name.clone(),
                readings: measured.len() as u64,
                utilisation: mean(measured.iter().filter_map(|one| one.utilisation)),
                memory_before_bytes: before.memory_used,
                memory_peak_bytes: all.iter().filter_map(|(_, one)| one.memory_used).max(),
                memory_total_bytes: before.memory_total,
                sm_mhz_min: clocks().min(),
                sm_mhz_max: clocks().max(),
                watts: mean(measured.iter().filter_map(|one| one.watts)),
                joules,
                joules_per_token: joules.zip(tokens).map(|(joules, tokens)| joules / tokens),
                throttled,
            }
        };
        first.iter().map(section).collect()
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0_u32), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

/// Clocks that were held down.
pub(super) fn finding(devices: &[DeviceSection]) -> Option<Finding> {
    let told: Vec<String> = devices
        .iter()
        .flat_map(|device| device.throttled.iter().map(move |(reason, share)| (device.index, reason, *share)))
        .filter(|(_, _, share)| *share >= THROTTLED)
        .map(|(index, reason, share)| {
            format!("device {index}: {reason} in {:.0}% of readings", share * 100.0)
        })
        .collect();
    (!told.is_empty()).then(|| {
        Finding::new(
            FindingCode::Throttling,
            format!("clocks were held down in the measured window: {}", told.join("; ")),
            "the figures are those of a device at its power or heat limit: compare under the same limit, or raise it, or cool better",
        )
    })
}
