//! How busy the machine is between two samples, to tell whether others used it during a run.

use std::path::Path;
use std::time::Instant;

use touchstone_model::{Finding, FindingCode};

use crate::fingerprint::load_average;
use crate::reading::Reading;
use crate::system_files::SystemFiles;

/// Others that use more than this share of all processors make a finding.
pub const OTHERS_LIMIT: f64 = 0.10;
/// A hypervisor that takes away more than this share of all processors makes a finding.
pub const STEAL_LIMIT: f64 = 0.02;

/// CPU time of the whole machine since it started, in ticks of unknown length (only ratios are used).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Running something.
    pub busy: u64,
    /// Idle, or waiting for devices.
    pub idle: u64,
    /// Taken away by the hypervisor.
    pub steal: u64,
    /// Processors that the times are of.
    pub processors: u32,
}

/// The machine at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSample {
    /// When.
    pub at: Instant,
    /// CPU time.
    pub cpu: Reading<CpuTicks>,
    /// Time in which some task waited for a processor since the machine started, us.
    pub pressure_us: Reading<u64>,
    /// Load average over 1, 5 and 15 minutes.
    pub load_average: Reading<[f64; 3]>,
}

/// What happened between two samples; shares are of the capacity of all processors.
#[derive(Debug, Clone, PartialEq)]
pub struct HostUsage {
    /// Length, s.
    pub seconds: f64,
    /// Processors.
    pub processors: u32,
    /// Share of busy time.
    pub busy_share: f64,
    /// Share of stolen time.
    pub steal_share: f64,
    /// Share of the time in which some task waited for a processor; none where the kernel does not say.
    pub pressure_share: Option<f64>,
}

impl HostSample {
    /// Samples this machine.
    #[must_use]
    pub fn read() -> Self {
        Self::read_from(Path::new("/"))
    }

    /// Samples the system whose `/` is `root`.
    #[must_use]
    pub fn read_from(root: &Path) -> Self {
        let files = SystemFiles::new(root);
        Self {
            at: Instant::now(),
            cpu: files.found("proc/stat", ticks),
            pressure_us: files.found("proc/pressure/cpu", |text| {
                let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
                some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
            }),
            load_average: files.found("proc/loadavg", load_average),
        }
    }

    /// What happened since `earlier`; none when CPU times are unreadable or no tick passed in between.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<HostUsage> {
        let (now, then) = (self.cpu.value()?, earlier.cpu.value()?);
        let busy = now.busy.checked_sub(then.busy)?;
        // Idle time may run backwards by a little on some kernels.
        let idle = now.idle.saturating_sub(then.idle);
        let steal = now.steal.saturating_sub(then.steal);
        let all = (busy + idle + steal) as f64;
        if all == 0.0 {
            return None;
        }
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        let pressure = self.pressure_us.value().zip(earlier.pressure_us.value());
        let waited = pressure.and_then(|(now, then)| now.checked_sub(*then));
        Some(HostUsage {
            seconds,
            processors: now.processors,
            busy_share: busy as f64 / all,
            steal_share: steal as f64 / all,
            pressure_share: waited.filter(|_| seconds > 0.0).map(|us| (us as f64 / 1e6 / seconds).min(1.0)),
        })
    }
}

impl HostUsage {
    /// CPU time that was used and is not `accounted_seconds` (of the generator and of targets on this machine), as a
    /// share of all processors; never negative.
    #[must_use]
    pub fn others_share(&self, accounted_seconds: f64) -> f64 {
        let capacity = self.seconds * f64::from(self.processors);
        if capacity > 0.0 { (self.busy_share - accounted_seconds / capacity).max(0.0) } else { 0.0 }
    }

    /// The finding `host-busy`, when others used more than [`OTHERS_LIMIT`] of the machine or the hypervisor took more
    /// than [`STEAL_LIMIT`].
    #[must_use]
    pub fn finding(&self, accounted_seconds: f64) -> Option<Finding> {
        let others = self.others_share(accounted_seconds);
        if self.steal_share > STEAL_LIMIT {
            return Some(Finding::new(
                FindingCode::HostBusy,
                format!(
                    "the hypervisor took {:.1} % of this machine's CPU time away",
                    100.0 * self.steal_share
                ),
                "measure on a machine with dedicated processors",
            ));
        }
        (others > OTHERS_LIMIT).then(|| {
            Finding::new(
                FindingCode::HostBusy,
                format!(
                    "other processes used {:.1} % of this machine's {} processors during the run",
                    100.0 * others,
                    self.processors
                ),
                "end other work on this machine, or generate the load from another one, and repeat the run",
            )
        })
    }
}

fn ticks(text: &str) -> Option<CpuTicks> {
    let mut total = None;
    let mut processors = 0;
    for line in text.lines().take_while(|line| line.starts_with("cpu")) {
        match line.strip_prefix("cpu ") {
            Some(numbers) => total = Some(numbers),
            None => processors += 1,
        }
    }
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user time already.
    let numbers: Vec<u64> = total?.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let at = |i: usize| numbers.get(i).copied().unwrap_or(0);
    (numbers.len() >= 4).then(|| CpuTicks {
        busy: at(0) + at(1) + at(2) + at(5) + at(6),
        idle: at(3) + at(4),
        steal: at(7),
        processors,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sample(stat: &str, pressure: &str, at: Instant) -> HostSample {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/pressure")).unwrap();
        std::fs::write(root.path().join("proc/stat"), stat).unwrap();
        std::fs::write(root.path().join("proc/pressure/cpu"), pressure).unwrap();
        HostSample { at, ..HostSample::read_from(root.path()) }
    }

    fn usage(stat: &str) -> HostUsage {
        let start = Instant::now();
        let before = sample(
            "cpu  100 0 100 1000 0 0 0 0 0 0\ncpu0 1\ncpu1 1\nintr 5\n",
            "some avg10=1.00 total=500000\n",
            start,
        );
        let after =
            sample(stat, "some avg10=1.00 total=1000000\nfull total=9\n", start + Duration::from_secs(2));
        after.since(&before).unwrap()
    }

    #[test]
    fn shares_are_of_all_processors() {
        // 60 busy (30 user, 10 system, 20 irq), 120 idle, 20 stolen of 200 ticks; guest time counts once.
        let usage = usage("cpu  130 0 110 1100 20 5 15 20 7 0\ncpu0 1\ncpu1 1\n");
        assert_eq!((usage.processors, usage.seconds), (2, 2.0));
        assert!((usage.busy_share - 0.3).abs() < 1e-12);
        assert!((usage.steal_share - 0.1).abs() < 1e-12);
        assert_eq!(usage.pressure_share, Some(0.25));
        // 0.4 s of 4 s are the generator's own.
        assert!((usage.others_share(0.4) - 0.2).abs() < 1e-12);
        assert!((usage.others_share(40.0)).abs() < 1e-12);
        assert!(usage.finding(4.0).unwrap().message.contains("10.0 %"));
    }

    #[test]
    fn only_what_nobody_accounts_for_is_a_finding() {
        let usage = usage("cpu  160 0 100 1140 0 0 0 0 0 0\ncpu0 1\ncpu1 1\n");
        assert!((usage.busy_share - 0.3).abs() < 1e-12);
        assert_eq!(usage.finding(1.0), None, "5 % are left");
        let finding = usage.finding(0.2).unwrap();
        assert_eq!(finding.code, FindingCode::HostBusy);
        assert!(finding.message.contains("25.0 %"), "{}", finding.message);
    }

    #[test]
    fn samples_without_a_tick_between_them_say_nothing() {
        let now = Instant::now();
        let one = sample("cpu  1 1 1 1\n", "", now);
        assert_eq!(one.since(&one), None);
        assert!(matches!(one.pressure_us, Reading::Unreadable(_)));
        assert!(matches!(sample("intr 1\n", "", now).cpu, Reading::Unreadable(_)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_can_be_sampled() {
        let sample = HostSample::read();
        assert!(sample.cpu.value().unwrap().processors >= 1);
        assert!(sample.load_average.value().is_some());
    }
}
