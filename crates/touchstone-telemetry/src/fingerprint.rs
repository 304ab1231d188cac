//! The environment fingerprint: what of the machine can change a figure and can be read without root.
//!
//! It holds no host name, address, serial number or environment variable. Virtual machine products and CPU models are
//! names of kinds of machines, not of this one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::system_files::{SystemFiles, field, unexpected};

/// The format that this version writes.
pub const FORMAT: &str = "touchstone.fingerprint/1";

/// TCP settings that change what a load generator sees, by their names under /proc/sys/net/ipv4.
const TCP_SETTINGS: &[&str] = &[
    "tcp_autocorking",
    "tcp_congestion_control",
    "tcp_fin_timeout",
    "tcp_max_syn_backlog",
    "tcp_notsent_lowat",
    "tcp_rmem",
    "tcp_slow_start_after_idle",
    "tcp_syncookies",
    "tcp_tw_reuse",
    "tcp_wmem",
];

/// The processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Model, as the kernel names it.
    pub model: Reading<String>,
    /// Logical processors that are online.
    pub online: Reading<u32>,
    /// Logical processors that this process may run on.
    pub allowed: Reading<u32>,
    /// Cores, without hyper-threads.
    pub cores: Reading<u32>,
    /// Frequency governors in use.
    pub governors: Reading<Vec<String>>,
    /// Frequency of the first processor at the moment of reading, MHz.
    pub current_mhz: Reading<f64>,
    /// Greatest frequency of the first processor, MHz.
    pub max_mhz: Reading<f64>,
}

/// Hints that this is a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Virtualisation {
    /// Whether the processor says that it runs under a hypervisor.
    pub hypervisor: Reading<bool>,
    /// Vendor of the machine as its firmware names it.
    pub vendor: Reading<String>,
    /// Product of the vendor.
    pub product: Reading<String>,
}

/// Limits that a container sets, the tightest of the process' groups; null is no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Container {
    /// CPU time per wall time, in processors.
    pub cpu_limit: Reading<Option<f64>>,
    /// Memory, bytes.
    pub memory_limit_bytes: Reading<Option<u64>>,
}

/// Open files that this process may have; null is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFiles {
    /// In force.
    pub soft: Reading<Option<u64>>,
    /// What the soft limit may be raised to.
    pub hard: Reading<Option<u64>>,
}

/// Network settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Greatest backlog of a listening socket.
    pub somaxconn: Reading<u32>,
    /// First and last port for outgoing connections.
    pub ephemeral_ports: Reading<(u16, u16)>,
    /// TCP settings by name, as the kernel prints them.
    pub tcp: BTreeMap<String, Reading<String>>,
}

/// The machine at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The format, `touchstone.fingerprint/1`.
    pub format: String,
    /// The version of touchstone.
    pub touchstone_version: String,
    /// The operating system.
    pub os: String,
    /// The processor architecture.
    pub arch: String,
    /// The distribution.
    pub distribution: Reading<String>,
    /// The kernel's release.
    pub kernel: Reading<String>,
    /// The processor.
    pub cpu: Cpu,
    /// Memory of the machine, bytes.
    pub memory_total_bytes: Reading<u64>,
    /// Hints that this is a virtual machine.
    pub virtualisation: Virtualisation,
    /// Limits of the container.
    pub container: Container,
    /// The clock source in use.
    pub clock_source: Reading<String>,
    /// The mode of transparent huge pages.
    pub transparent_huge_pages: Reading<String>,
    /// Open files.
    pub open_files: OpenFiles,
    /// Network settings.
    pub network: Network,
    /// Load average over 1, 5 and 15 minutes.
    pub load_average: Reading<[f64; 3]>,
    /// Release of the NVIDIA kernel driver.
    pub nvidia_driver: Reading<String>,
}

impl Fingerprint {
    /// Reads the system whose `/` is `root`.
    #[must_use]
    pub fn read_from(root: &Path, touchstone_version: &str) -> Self {
        let files = SystemFiles::new(root);
        Self {
            format: FORMAT.to_owned(),
            touchstone_version: touchstone_version.to_owned(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            distribution: files.found("etc/os-release", |text| {
                field(text, "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_owned())
            }),
            kernel: files.line("proc/sys/kernel/osrelease"),
            cpu: cpu(&files),
            memory_total_bytes: files.found("proc/meminfo", |text| {
                field(text, "MemTotal", ':')?.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
            }),
            virtualisation: Virtualisation {
                hypervisor: hypervisor(&files),
                vendor: files.line("sys/class/dmi/id/sys_vendor"),
                product: files.line("sys/class/dmi/id/product_name"),
            },
            container: container(&files),
            clock_source: files.line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            transparent_huge_pages: files.found("sys/kernel/mm/transparent_hugepage/enabled", |text| {
                Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
            }),
            open_files: open_files(&files),
            network: network(&files),
            load_average: files.found("proc/loadavg", load_average),
            nvidia_driver: files.found("proc/driver/nvidia/version", |text| {
                let line = text.lines().find(|line| line.contains("NVRM version"))?;
                line.split_whitespace().find(|word| is_release(word)).map(str::to_owned)
            }),
        }
    }

    /// The fingerprint as stored: JSON with sorted keys, indented, with a final newline. Equal values, equal bytes.
    #[must_use]
    pub fn to_canonical_json(&self) -> String {
        // Through a value, whose maps are sorted. Neither step can fail: all keys are strings.
        let value = serde_json::to_value(self).unwrap_or_default();
        let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Reads this machine.
#[must_use]
pub fn fingerprint(touchstone_version: &str) -> Fingerprint {
    Fingerprint::read_from(Path::new("/"), touchstone_version)
}

/// `550.54.15` and the like.
fn is_release(word: &str) -> bool {
    word.contains('.')
        && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

pub(crate) fn load_average(text: &str) -> Option<[f64; 3]> {
    let mut words = text.split_whitespace().map(str::parse::<f64>);
    Some([words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?])
}

fn cpu(files: &SystemFiles) -> Cpu {
    const CPUINFO: &str = "proc/cpuinfo";
    const CPUS: &str = "sys/devices/system/cpu";
    let online = files.found(&format!("{CPUS}/online"), |text| processors(text.trim()));
    let governors = online.clone().and_then(|online| {
        let path = |cpu: &u32| format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor");
        let mut found = BTreeSet::new();
        for cpu in &online {
            match files.line(&path(cpu)) {
                Reading::Value(governor) => found.insert(governor),
                Reading::Unreadable(reason) => return Reading::Unreadable(reason),
            };
        }
        Reading::Value(found.into_iter().collect())
    });
    Cpu {
        model: files.found(CPUINFO, |text| {
            let arm = || {
                let part = field(text, "CPU part", ':')?;
                Some(format!("implementer {} part {part}", field(text, "CPU implementer", ':')?))
            };
            field(text, "model name", ':').map(str::to_owned).or_else(arm)
        }),
        allowed: files.found("proc/self/status", |text| {
            processors(field(text, "Cpus_allowed_list", ':')?).map(|list| list.len() as u32)
        }),
        cores: cores(files, &online),
        governors,
        current_mhz: files.found(CPUINFO, |text| field(text, "cpu MHz", ':')?.parse().ok()),
        max_mhz: files
            .parsed::<f64>(&format!("{CPUS}/cpu0/cpufreq/cpuinfo_max_freq"))
            .map(|kilohertz| kilohertz / 1e3),
        online: online.map(|list| list.len() as u32),
    }
}

/// Cores by their numbers of sibling lists: hyper-threads of one core share a list.
fn cores(files: &SystemFiles, online: &Reading<Vec<u32>>) -> Reading<u32> {
    online.clone().and_then(|online| {
        let mut siblings = BTreeSet::new();
        for cpu in online {
            match files.line(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")) {
                Reading::Value(list) => siblings.insert(list),
                Reading::Unreadable(reason) => return Reading::Unreadable(reason),
            };
        }
        Reading::Value(siblings.len() as u32)
    })
}

/// The numbers of a list such as `0-3,8,10-11`; at most 65,536 of them.
fn processors(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse::<u32>().ok()?, to.trim().parse::<u32>().ok()?);
        if to < from || to - from > 65_535 {
            return None;
        }
        numbers.extend(from..=to);
    }
    (numbers.len() <= 65_536).then_some(numbers)
}

fn hypervisor(files: &SystemFiles) -> Reading<bool> {
    match files.found("proc/cpuinfo", |text| {
        field(text, "flags", ':').map(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
    }) {
        Reading::Unreadable(_) if files.line("sys/hypervisor/type").value().is_some() => Reading::Value(true),
        reading => reading,
    }
}

fn open_files(files: &SystemFiles) -> OpenFiles {
    let limit = |column: usize| {
        files.found("proc/self/limits", |text| {
            let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
            match line.split_whitespace().nth(column)? {
                "unlimited" => Some(None),
                number => number.parse().ok().map(Some),
            }
        })
    };
    OpenFiles { soft: limit(0), hard: limit(1) }
}

fn network(files: &SystemFiles) -> Network {
    let setting = |name: &&str| {
        let line = files.line(&format!("proc/sys/net/ipv4/{name}"));
        ((*name).to_owned(), line.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    Network {
        somaxconn: files.parsed("proc/sys/net/core/somaxconn"),
        ephemeral_ports: files.found("proc/sys/net/ipv4/ip_local_port_range", |text| {
            let mut words = text.split_whitespace().map(str::parse);
            Some((words.next()?.ok()?, words.next()?.ok()?))
        }),
        tcp: TCP_SETTINGS.iter().map(setting).collect(),
    }
}

/// Reads the limits of the groups in /proc/self/cgroup, of both versions, and takes the tightest along each path.
fn container(files: &SystemFiles) -> Container {
    const GROUPS: &str = "proc/self/cgroup";
    let groups = match files.text(GROUPS) {
        Reading::Value(groups) => groups,
        Reading::Unreadable(reason) => {
            let memory_limit_bytes = Reading::Unreadable(reason.clone());
            return Container { cpu_limit: Reading::Unreadable(reason), memory_limit_bytes };
        }
    };
    let mut cpu: Option<f64> = None;
    let mut memory: Option<u64> = None;
    let mut understood = false;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        understood = true;
        for folder in along(path) {
            let has = |name: &str| controllers.split(',').any(|controller| controller == name);
            if controllers.is_empty() {
                let base = format!("sys/fs/cgroup{folder}");
                tighten(&mut cpu, files.line(&format!("{base}/cpu.max")).value().and_then(|max| quota(max)));
                tighten(&mut memory, files.parsed(&format!("{base}/memory.max")).value().copied());
            }
            if has("cpu") {
                let base = format!("sys/fs/cgroup/cpu{folder}/cpu.cfs");
                let quota_us = files.line(&format!("{base}_quota_us"));
                let period_us = files.line(&format!("{base}_period_us"));
                if let (Some(quota_us), Some(period_us)) = (quota_us.value(), period_us.value()) {
                    tighten(&mut cpu, quota(&format!("{quota_us} {period_us}")));
                }
            }
            if has("memory") {
                let path = format!("sys/fs/cgroup/memory{folder}/memory.limit_in_bytes");
                // Without a limit the kernel prints the greatest number of whole pages.
                let limit = files.parsed(&path).value().copied().filter(|limit: &u64| *limit < 1 << 62);
                tighten(&mut memory, limit);
            }
        }
    }
    if !understood {
        let reason = unexpected(GROUPS);
        let memory_limit_bytes = Reading::Unreadable(reason.clone());
        return Container { cpu_limit: Reading::Unreadable(reason), memory_limit_bytes };
    }
    Container { cpu_limit: Reading::Value(cpu), memory_limit_bytes: Reading::Value(memory) }
}

/// A group's path and those of its parents, without the slash at the end: `/a/b`, `/a`, and the empty root.
fn along(path: &str) -> Vec<&str> {
    // A path with `..` is outside of what is mounted here; the root of the mount is all that can be read.
    let mut path = if path.contains("..") { "" } else { path.trim_end_matches('/') };
    let mut folders = vec![path];
    while let Some((parent, _)) = path.rsplit_once('/') {
        path = parent;
        folders.push(path);
    }
    folders
}

/// `200000 100000` is two processors; `max` and negative quotas are no limit.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn tighten<T: PartialOrd>(tightest: &mut Option<T>, limit: Option<T>) {
    if let Some(limit) = limit
        && tightest.as_ref().is_none_or(|tightest| limit < *tightest)
    {
        *tightest = Some(limit);
    }
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
pub(crate) mod tests;
