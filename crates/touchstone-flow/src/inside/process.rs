//! Memory and CPU time of a target's processes on this machine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use touchstone_model::Target;
use touchstone_model::run::Phases;
use touchstone_model::server::{MemoryPerRequest, ProcessSection};
use touchstone_net::mono_ns;
use touchstone_stats::trend::slope_interval;
use touchstone_telemetry::process::{sample, tree};

use super::client::ClientTotals;
use super::{TargetPid, listening};

/// How often descendants are looked for.
const TREE_EVERY: Duration = Duration::from_secs(2);
/// Readings that a slope needs, and different numbers of operations in flight among them.
const SLOPE: (usize, u64) = (20, 3);

/// Follows a process and its descendants.
#[derive(Debug)]
pub(super) struct ProcessWatch {
    pid: u32,
    found: &'static str,
    pids: Vec<u32>,
    looked: Instant,
    /// CPU time at the first and the last reading of each process, ns.
    cpu: BTreeMap<u32, (u64, u64)>,
    most: usize,
    /// Instant, resident bytes, operations in flight.
    points: Vec<(u64, u64, u64)>,
}

impl ProcessWatch {
    /// Finds the process and reads it.
    pub(super) fn open(target: &Target, pid: Option<TargetPid>) -> Result<Self, String> {
        let (pid, found) = match pid {
            Some(TargetPid::Given(pid)) => (pid, "given"),
            Some(TargetPid::Launched(pid)) => (pid, "launched"),
            None => (listening(target)?, "listening"),
        };
        let mut watch = Self {
            pid,
            found,
            pids: tree(pid),
            looked: Instant::now(),
            cpu: BTreeMap::new(),
            most: 0,
            points: Vec::new(),
        };
        sample(pid).map_err(|error| error.to_string())?;
        // What processes used before the run is theirs; what appears later began with it.
        for pid in &watch.pids {
            if let Ok(sample) = sample(*pid) {
                watch.cpu.insert(*pid, (sample.cpu_ns, sample.cpu_ns));
            }
        }
        watch.read(0);
        Ok(watch)
    }

    /// Takes a reading.
    pub(super) fn read(&mut self, in_flight: u64) {
        if self.looked.elapsed() >= TREE_EVERY {
            self.pids = tree(self.pid);
            self.looked = Instant::now();
        }
        let (mut memory, mut there) = (0, 0);
        for pid in &self.pids {
            let Ok(sample) = sample(*pid) else { continue };
            memory += sample.rss_bytes;
            there += 1;
            self.cpu.entry(*pid).or_insert((0, 0)).1 = sample.cpu_ns;
        }
        if there > 0 {
            self.most = self.most.max(there);
            self.points.push((mono_ns(), memory, in_flight));
        }
    }

    /// What was seen.
    pub(super) fn conclude(
        self,
        phases: &Phases,
        client: &ClientTotals,
        dropped: u64,
    ) -> Result<ProcessSection, String> {
        let first = self.points.first().ok_or("the process could not be read")?;
        let cpu_ns: u64 = self.cpu.values().map(|(from, to)| to.saturating_sub(*from)).sum();
        let cpu_seconds = cpu_ns as f64 / 1e9;
        let tokens = (client.output_tokens > 0 && client.output_unknown == 0 && dropped == 0)
            .then_some(client.output_tokens as f64);
        let per_request = per_request(&self.points);
        Ok(ProcessSection {
            pid: self.pid,
            found: self.found.to_owned(),
            processes: self.most as u32,
            readings: self.points.len() as u64,
            memory_before_bytes: first.1,
            memory_peak_bytes: self.points.iter().map(|(_, memory, _)| *memory).max().unwrap_or(first.1),
            cpu_seconds,
            cpu_us_per_token: tokens.map(|tokens| cpu_seconds * 1e6 / tokens),
            memory_per_request: per_request.as_ref().ok().copied(),
            memory_per_request_unknown: per_request.err(),
            series: self
                .points
                .iter()
                .map(|(at, memory, flight)| ((*at as f64 - phases.start_ns as f64) / 1e9, *memory, *flight))
                .collect(),
        })
    }
}

/// The slope of memory over operations in flight, where it can be told from the course of the run.
pub(super) fn per_request(points: &[(u64, u64, u64)]) -> Result<MemoryPerRequest, String> {
    let mut flights: Vec<u64> = points.iter().map(|(_, _, flight)| *flight).collect();
    flights.sort_unstable();
    flights.dedup();
    if points.len() < SLOPE.0 || (flights.len() as u64) < SLOPE.1 {
        return Err(format!(
            "{} readings with {} different numbers of operations in flight are too few: use a load that varies, for longer",
            points.len(),
            flights.len()
        ));
    }
    let xs: Vec<f64> = points.iter().map(|(_, _, flight)| *flight as f64).collect();
    let ys: Vec<f64> = points.iter().map(|(_, memory, _)| *memory as f64).collect();
    let slope = slope_interval(&xs, &ys, 0.95).ok_or("memory and operations in flight give no line")?;
    if slope.lower <= 0.0 {
        return Err(
            "memory does not grow with operations in flight: the server keeps its memory from the start, or does not give it back"
                .to_owned(),
        );
    }
    Ok(MemoryPerRequest { bytes: slope.slope, lower: slope.lower, upper: slope.upper })
}
