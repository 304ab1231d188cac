//! Whether this machine is fit to generate load, and what to change: data only, nothing is printed.
//!
//! The checks read a [`Fingerprint`] and what the caller has measured, so the same input gives the same diagnosis.

use serde::Serialize;
use touchstone_stats::quantile::quantile;

use crate::fingerprint::Fingerprint;
use crate::reading::Reading;

/// The outcome of a check, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing to do.
    Ok,
    /// It could not be read.
    Unknown,
    /// Figures may suffer.
    Warn,
    /// Figures will suffer, or runs will fail.
    Fail,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A short, stable name.
    pub id: &'static str,
    /// The outcome.
    pub status: Status,
    /// What was found, with its unit.
    pub measured: String,
    /// Why it matters for measuring.
    pub why: &'static str,
    /// What to change; none when nothing has to be.
    pub advice: Option<String>,
}

/// What the caller has measured, for the layers that this crate does not know.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// How late timers fired, ns; empty when not measured.
    pub timer_lateness_ns: Vec<u64>,
    /// Whether received data carries the kernel's stamps; none when not tried.
    pub kernel_stamps: Option<bool>,
}

/// All checks of a machine, in a fixed order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The checks.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    /// The worst outcome.
    #[must_use]
    pub fn worst(&self) -> Status {
        self.checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok)
    }
}

/// Checks a machine.
#[must_use]
pub fn diagnose(machine: &Fingerprint, measured: &Measured) -> Diagnosis {
    Diagnosis {
        checks: vec![
            timer(&measured.timer_lateness_ns),
            kernel_stamps(measured.kernel_stamps),
            clock_source(machine),
            processors(machine),
            container_cpu(machine),
            governor(machine),
            load(machine),
            open_files(machine),
            ports(machine),
            backlog(machine),
            huge_pages(machine),
        ],
    }
}

fn check<T>(
    id: &'static str,
    why: &'static str,
    reading: &Reading<T>,
    judge: impl FnOnce(&T) -> (Status, String, Option<String>),
) -> Check {
    match reading {
        Reading::Value(value) => {
            let (status, measured, advice) = judge(value);
            Check { id, status, measured, why, advice }
        }
        Reading::Unreadable(reason) => {
            let measured = format!("unreadable ({reason})");
            Check { id, status: Status::Unknown, measured, why, advice: None }
        }
    }
}

/// `Ok` without advice, or `status` with it.
fn judged(good: bool, status: Status, measured: String, advice: &str) -> (Status, String, Option<String>) {
    if good { (Status::Ok, measured, None) } else { (status, measured, Some(advice.to_owned())) }
}

fn timer(lateness_ns: &[u64]) -> Check {
    const WHY: &str = "an operation that is sent late makes the target look slow; runs need well under 1ms";
    let us: Vec<f64> = lateness_ns.iter().map(|ns| *ns as f64 / 1e3).collect();
    let quantiles = quantile(&us, 0.5).zip(quantile(&us, 0.99));
    check("timer-precision", WHY, &Reading::from_option(quantiles, "not measured"), |(p50, p99)| {
        let status = match p99 {
            p99 if *p99 < 100.0 => Status::Ok,
            p99 if *p99 < 1000.0 => Status::Warn,
            _ => Status::Fail,
        };
        let measured = format!("late by {p50:.1}us at p50, {p99:.1}us at p99 (n {})", us.len());
        let advice = "end other work on this machine, give it more processors, or use one that is not shared";
        (status, measured, (status != Status::Ok).then(|| advice.to_owned()))
    })
}

fn kernel_stamps(stamps: Option<bool>) -> Check {
    const WHY: &str = "the kernel's receive times do not contain the generator's own waiting for a processor";
    check("kernel-stamps", WHY, &Reading::from_option(stamps, "not tried"), |stamps| {
        let measured = if *stamps { "available" } else { "not available" };
        let advice =
            "run on Linux, outside of sandboxes that emulate the network; user-space stamps are used here";
        judged(*stamps, Status::Warn, measured.to_owned(), advice)
    })
}

fn clock_source(machine: &Fingerprint) -> Check {
    const WHY: &str = "a slow clock source turns each of millions of clock readings into a system call";
    check("clock-source", WHY, &machine.clock_source, |source| {
        let fast = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"]
            .contains(&source.as_str());
        let advice = "boot with a processor clock that is stable (tsc, or kvm-clock in a virtual machine)";
        judged(fast, Status::Warn, source.clone(), advice)
    })
}

fn processors(machine: &Fingerprint) -> Check {
    const WHY: &str = "the generator spins on its own processor, and a target on this machine needs others";
    check("processors", WHY, &machine.cpu.allowed, |allowed| {
        let measured = match machine.cpu.cores.value() {
            Some(cores) => format!("{allowed} allowed, {cores} cores"),
            None => format!("{allowed} allowed"),
        };
        let status = match allowed {
            0 | 1 => Status::Fail,
            2 | 3 => Status::Warn,
            _ => Status::Ok,
        };
        let advice = "use at least 4 processors, or load a target on another machine";
        (status, measured, (status != Status::Ok).then(|| advice.to_owned()))
    })
}

fn container_cpu(machine: &Fingerprint) -> Check {
    const WHY: &str =
        "a CPU quota stops the generator for milliseconds when it is used up, and that looks like a stall";
    check("container-cpu", WHY, &machine.container.cpu_limit, |limit| match limit {
        None => (Status::Ok, "no limit".to_owned(), None),
        Some(limit) => {
            let enough = machine.cpu.allowed.value().is_some_and(|allowed| *limit >= f64::from(*allowed));
            let advice = "take the CPU limit away, or pin whole processors instead of a quota";
            judged(enough, Status::Warn, format!("{limit:.2} processors"), advice)
        }
    })
}

fn governor(machine: &Fingerprint) -> Check {
    const WHY: &str = "processors that change their frequency make latencies depend on the load";
    check("governor", WHY, &machine.cpu.governors, |governors| {
        let steady = governors.iter().all(|governor| governor == "performance");
        let advice = "set the governor to performance: cpupower frequency-set -g performance";
        judged(steady, Status::Warn, governors.join(", "), advice)
    })
}

fn load(machine: &Fingerprint) -> Check {
    const WHY: &str = "other work on this machine takes processors from the generator and the target";
    check("load-average", WHY, &machine.load_average, |[one, five, fifteen]| {
        let allowed = machine.cpu.allowed.value().map_or(1.0, |n| f64::from(*n));
        let share = one / allowed;
        let status = match share {
            share if share < 0.25 => Status::Ok,
            share if share < 1.0 => Status::Warn,
            _ => Status::Fail,
        };
        let advice = "end other work and wait until the load has gone down";
        let measured = format!("{one:.2} {five:.2} {fifteen:.2} over 1, 5, 15 min");
        (status, measured, (status != Status::Ok).then(|| advice.to_owned()))
    })
}

fn open_files(machine: &Fingerprint) -> Check {
    const WHY: &str = "each connection is an open file";
    check("open-files", WHY, &machine.open_files.soft, |soft| {
        let Some(soft) = *soft else { return (Status::Ok, "no limit".to_owned(), None) };
        let status = match soft {
            0..1024 => Status::Fail,
            1024..8192 => Status::Warn,
            _ => Status::Ok,
        };
        let most = match machine.open_files.hard.value() {
            Some(Some(hard)) if *hard < 65_536 => {
                format!("raise the hard limit of {hard} first, then: ulimit -n 65536")
            }
            _ => "raise it in this shell: ulimit -n 65536".to_owned(),
        };
        (status, format!("{soft} files"), (status != Status::Ok).then_some(most))
    })
}

fn ports(machine: &Fingerprint) -> Check {
    const WHY: &str =
        "each outgoing connection to one address takes a port, for a minute after it was closed too";
    check("ephemeral-ports", WHY, &machine.network.ephemeral_ports, |(first, last)| {
        let ports = u32::from(*last).saturating_sub(u32::from(*first)) + 1;
        let advice = "widen the range: sysctl -w net.ipv4.ip_local_port_range='10240 65535'";
        judged(ports >= 20_000, Status::Warn, format!("{ports} ports ({first}-{last})"), advice)
    })
}

fn backlog(machine: &Fingerprint) -> Check {
    const WHY: &str =
        "a server on this machine drops connections beyond its backlog, and they come back a second later";
    check("somaxconn", WHY, &machine.network.somaxconn, |somaxconn| {
        let advice = "raise it: sysctl -w net.core.somaxconn=4096";
        judged(*somaxconn >= 1024, Status::Warn, format!("{somaxconn} connections"), advice)
    })
}

fn huge_pages(machine: &Fingerprint) -> Check {
    const WHY: &str = "caches that copy themselves with fork stall when whole huge pages have to be copied";
    check("huge-pages", WHY, &machine.transparent_huge_pages, |mode| {
        let advice = "let programs ask for them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
        judged(mode != "always", Status::Warn, mode.clone(), advice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::tests::{planted, remove};

    fn status(diagnosis: &Diagnosis, id: &str) -> Status {
        diagnosis.checks.iter().find(|check| check.id == id).unwrap().status
    }

    #[test]
    fn a_good_machine_is_well() {
        let root = planted(&[]);
        let machine = Fingerprint::read_from(root.path(), "0.1.0");
        let measured = Measured { timer_lateness_ns: vec![5_000; 200], kernel_stamps: Some(true) };
        let diagnosis = diagnose(&machine, &measured);
        assert_eq!(diagnosis.worst(), Status::Ok, "{diagnosis:#?}");
        assert!(diagnosis.checks.iter().all(|check| check.advice.is_none() && !check.measured.is_empty()));
    }

    #[test]
    fn each_fault_is_found_by_its_own_check_with_advice() {
        let faults: &[(&str, Status, &str, &str)] = &[
            (
                "clock-source",
                Status::Warn,
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "hpet\n",
            ),
            ("processors", Status::Fail, "proc/self/status", "Cpus_allowed_list:\t3\n"),
            ("processors", Status::Warn, "proc/self/status", "Cpus_allowed_list:\t0,2\n"),
            ("container-cpu", Status::Warn, "sys/fs/cgroup/pod/cpu.max", "150000 100000\n"),
            ("governor", Status::Warn, "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n"),
            ("load-average", Status::Fail, "proc/loadavg", "4.01 0.10 0.10 1/100 7\n"),
            ("load-average", Status::Warn, "proc/loadavg", "1.00 0.10 0.10 1/100 7\n"),
            (
                "open-files",
                Status::Fail,
                "proc/self/limits",
                "Max open files            256      4096      files\n",
            ),
            (
                "open-files",
                Status::Warn,
                "proc/self/limits",
                "Max open files            1024     unlimited files\n",
            ),
            ("ephemeral-ports", Status::Warn, "proc/sys/net/ipv4/ip_local_port_range", "50000\t50999\n"),
            ("somaxconn", Status::Warn, "proc/sys/net/core/somaxconn", "128\n"),
            (
                "huge-pages",
                Status::Warn,
                "sys/kernel/mm/transparent_hugepage/enabled",
                "[always] madvise never\n",
            ),
        ];
        let measured = Measured { timer_lateness_ns: vec![5_000; 200], kernel_stamps: Some(true) };
        for (id, expected, path, content) in faults {
            let root = planted(&[(path, content)]);
            let diagnosis = diagnose(&Fingerprint::read_from(root.path(), "0.1.0"), &measured);
            assert_eq!(status(&diagnosis, id), *expected, "{id} of {content}");
            let advised: Vec<_> =
                diagnosis.checks.iter().filter(|c| c.advice.is_some()).map(|c| c.id).collect();
            assert!(advised.contains(id), "{id}: {advised:?}");
            // A machine with fewer processors is also more loaded and less limited; all else is untouched.
            let others = advised.iter().filter(|other| *other != id).count();
            assert_eq!(others, 0, "{id} of {content}: {advised:?}");
        }
    }

    #[test]
    fn what_the_caller_measured_is_judged() {
        let root = planted(&[]);
        let machine = Fingerprint::read_from(root.path(), "0.1.0");
        let of = |timer_lateness_ns: Vec<u64>, kernel_stamps| {
            let diagnosis = diagnose(&machine, &Measured { timer_lateness_ns, kernel_stamps });
            (status(&diagnosis, "timer-precision"), status(&diagnosis, "kernel-stamps"))
        };
        assert_eq!(of(Vec::new(), None), (Status::Unknown, Status::Unknown));
        // The worst 2 of 100 are late: p99 is the 99th value.
        let mut late = vec![1_000; 98];
        late.extend([300_000, 9_000_000]);
        assert_eq!(of(late.clone(), Some(false)), (Status::Warn, Status::Warn));
        late[97] = 2_000_000;
        assert_eq!(of(late, Some(true)), (Status::Fail, Status::Ok));
    }

    #[test]
    fn an_unreadable_value_is_unknown_not_well() {
        let root = planted(&[]);
        remove(&root, "proc/loadavg");
        let machine = Fingerprint::read_from(root.path(), "0.1.0");
        let diagnosis = diagnose(&machine, &Measured::default());
        assert_eq!(status(&diagnosis, "load-average"), Status::Unknown);
        assert_eq!(diagnosis.worst(), Status::Unknown);
        let json = serde_json::to_value(&diagnosis).unwrap();
        assert_eq!(json["checks"][6]["status"], "unknown");
    }
}
