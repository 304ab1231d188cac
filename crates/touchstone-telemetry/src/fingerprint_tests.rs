//! Tests of the fingerprint on planted /proc and /sys trees, and on this machine.

use std::fs;

use tempfile::TempDir;

use super::*;

/// A machine with 4 processors of 2 cores and nothing wrong, in a version 2 group; `changes` replace or add files.
pub(crate) fn planted(changes: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let mut files: BTreeMap<String, String> = [
        ("etc/os-release", "NAME=Plain\nPRETTY_NAME=\"Plain Linux 3\"\n"),
        ("proc/sys/kernel/osrelease", "6.1.2-plain\n"),
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel\t\t: 2\nmodel name\t: Fast Chip 9\ncpu MHz\t\t: 2500.5\nflags\t\t: fpu hypervisor sse\n",
        ),
        ("proc/meminfo", "MemTotal:        8000000 kB\nMemFree:  1 kB\n"),
        ("proc/loadavg", "0.10 0.20 0.30 1/100 1234\n"),
        ("proc/self/status", "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n"),
        ("proc/self/limits", "Limit  Soft Limit  Hard Limit  Units\nMax open files            65536    unlimited  files\n"),
        ("proc/self/cgroup", "0::/pod/box\n"),
        ("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/pod/box/memory.max", "max\n"),
        ("sys/fs/cgroup/pod/memory.max", "2147483648\n"),
        ("proc/sys/net/core/somaxconn", "4096\n"),
        ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3500000\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/class/dmi/id/sys_vendor", "Some Cloud\n"),
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12.2.0\n",
        ),
    ]
    .map(|(path, content)| (path.to_owned(), content.to_owned()))
    .into();
    for cpu in 0..4 {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        files.insert(format!("{folder}/cpufreq/scaling_governor"), "performance\n".to_owned());
        files.insert(
            format!("{folder}/topology/thread_siblings_list"),
            format!("{},{}\n", cpu % 2, cpu % 2 + 2),
        );
    }
    files.extend(changes.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())));
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

/// Takes a planted file away.
pub(crate) fn remove(root: &TempDir, path: &str) {
    fs::remove_file(root.path().join(path)).unwrap();
}

fn read(root: &TempDir) -> Fingerprint {
    Fingerprint::read_from(root.path(), "0.1.0")
}

#[test]
fn a_planted_machine_is_read() {
    let machine = read(&planted(&[]));
    assert_eq!(machine.format, "touchstone.fingerprint/1");
    assert_eq!(machine.distribution, Reading::Value("Plain Linux 3".to_owned()));
    assert_eq!(machine.kernel, Reading::Value("6.1.2-plain".to_owned()));
    let cpu = &machine.cpu;
    assert_eq!(cpu.model, Reading::Value("Fast Chip 9".to_owned()));
    assert_eq!(
        (&cpu.online, &cpu.allowed, &cpu.cores),
        (&Reading::Value(4), &Reading::Value(4), &Reading::Value(2))
    );
    assert_eq!((&cpu.current_mhz, &cpu.max_mhz), (&Reading::Value(2500.5), &Reading::Value(3500.0)));
    assert_eq!(cpu.governors, Reading::Value(vec!["performance".to_owned()]));
    assert_eq!(machine.memory_total_bytes, Reading::Value(8_192_000_000));
    assert_eq!(machine.virtualisation.hypervisor, Reading::Value(true));
    assert_eq!(machine.container.cpu_limit, Reading::Value(None));
    assert_eq!(
        machine.container.memory_limit_bytes,
        Reading::Value(Some(1 << 31)),
        "the parent's limit holds"
    );
    assert_eq!(machine.transparent_huge_pages, Reading::Value("madvise".to_owned()));
    assert_eq!(machine.open_files.soft, Reading::Value(Some(65_536)));
    assert_eq!(machine.open_files.hard, Reading::Value(None));
    assert_eq!(machine.network.ephemeral_ports, Reading::Value((32_768, 60_999)));
    assert_eq!(machine.network.tcp["tcp_rmem"], Reading::Value("4096 131072 6291456".to_owned()));
    assert_eq!(machine.load_average, Reading::Value([0.1, 0.2, 0.3]));
    assert_eq!(machine.nvidia_driver, Reading::Value("550.54.15".to_owned()));
}

#[test]
fn groups_of_both_versions_limit() {
    let v1 = planted(&[
        ("proc/self/cgroup", "4:memory:/a\n1:cpu,cpuacct:/a/b\n0::/\n"),
        ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "250000\n"),
        ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
    ]);
    let container = read(&v1).container;
    assert_eq!(container.cpu_limit, Reading::Value(Some(2.5)));
    assert_eq!(container.memory_limit_bytes, Reading::Value(None));

    let v2 = planted(&[
        ("proc/self/cgroup", "0::/../elsewhere\n"),
        ("sys/fs/cgroup/cpu.max", "50000 100000\n"),
        ("elsewhere/cpu.max", "1 100000\n"),
    ]);
    assert_eq!(read(&v2).container.cpu_limit, Reading::Value(Some(0.5)));
    let odd = planted(&[("proc/self/cgroup", "nothing\n")]);
    assert!(matches!(read(&odd).container.cpu_limit, Reading::Unreadable(_)));
}

#[test]
fn an_empty_machine_is_marked_everywhere() {
    let root = tempfile::tempdir().unwrap();
    let machine = read(&root);
    let json: serde_json::Value = serde_json::from_str(&machine.to_canonical_json()).unwrap();
    assert_eq!(json["kernel"]["unreadable"], "/proc/sys/kernel/osrelease: entity not found");
    assert_eq!(json["cpu"]["model"]["unreadable"], "/proc/cpuinfo: entity not found");
    assert_eq!(json["nvidia_driver"]["unreadable"], "/proc/driver/nvidia/version: entity not found");
    fn leaves(value: &serde_json::Value, out: &mut usize) {
        match value {
            serde_json::Value::Object(map) => map.values().for_each(|value| leaves(value, out)),
            serde_json::Value::Null => panic!("a null says that there is none"),
            _ => *out += 1,
        }
    }
    let mut count = 0;
    leaves(&json, &mut count);
    assert!(count > 20);
    let back: Fingerprint = serde_json::from_value(json).unwrap();
    assert_eq!(back, machine);
}

#[test]
fn equal_machines_have_equal_bytes_with_sorted_keys() {
    let (one, two) = (read(&planted(&[])).to_canonical_json(), read(&planted(&[])).to_canonical_json());
    assert_eq!(one, two);
    assert!(one.ends_with("}\n"));
    let keys: Vec<&str> = one
        .lines()
        .filter(|line| line.starts_with("  \""))
        .filter_map(|line| line.trim_start().split('"').nth(1))
        .collect();
    assert!(keys.is_sorted() && keys.len() > 12, "{keys:?}");
    assert_eq!(serde_json::from_str::<Fingerprint>(&one).unwrap().to_canonical_json(), one);
}

#[test]
fn arm_processors_have_no_model_name() {
    let root = planted(&[("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n")]);
    let machine = read(&root);
    assert_eq!(machine.cpu.model, Reading::Value("implementer 0x41 part 0xd40".to_owned()));
    assert!(matches!(machine.virtualisation.hypervisor, Reading::Unreadable(_)));
}

#[test]
fn lists_of_processors() {
    assert_eq!(processors("0-2,5,8-9"), Some(vec![0, 1, 2, 5, 8, 9]));
    assert_eq!(processors("3"), Some(vec![3]));
    for bad in ["", "a", "3-1", "0-4294967295"] {
        assert_eq!(processors(bad), None, "{bad}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn this_machine_has_a_kernel_and_no_name() {
    let machine = fingerprint("0.1.0");
    assert!(machine.kernel.value().is_some());
    assert!(machine.cpu.allowed.value().is_some_and(|n| *n >= 1));
    assert!(machine.open_files.soft.value().is_some());
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    // Short names are parts of other words.
    if name.len() > 6 {
        assert!(!machine.to_canonical_json().contains(&name));
    }
}
