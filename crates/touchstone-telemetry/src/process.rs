//! CPU time and memory of this process, its threads, and other processes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use nix::time::{ClockId, clock_gettime};

use crate::system_files::{field, read_text};

/// A process that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It ended, belongs to another user, or there is no /proc.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel's answer was not understood.
    #[error("unexpected content in {}", path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
    },
}

/// A process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSample {
    /// Memory in use (resident), bytes.
    pub rss_bytes: u64,
    /// Greatest memory in use so far, bytes.
    pub peak_rss_bytes: u64,
    /// CPU time of all its threads, also of those that ended, ns; in steps of the kernel's tick, usually 10 ms.
    pub cpu_ns: u64,
    /// Threads.
    pub threads: u32,
}

/// A thread of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSample {
    /// The thread's id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Time it was ready and waited for a processor, ns.
    pub waited_ns: u64,
}

fn read_clock(clock: ClockId) -> Option<u64> {
    let time = clock_gettime(clock).ok()?;
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).ok()?)
}

/// CPU time of the calling thread, ns; none where the platform has no such clock.
#[must_use]
pub fn thread_cpu_ns() -> Option<u64> {
    read_clock(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process, ns.
#[must_use]
pub fn process_cpu_ns() -> Option<u64> {
    read_clock(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Samples a process of the same user.
///
/// # Errors
/// It ended, or may not be read, or this is no Linux.
pub fn sample(pid: u32) -> Result<ProcessSample, ProcessError> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let path = folder.join("status");
    let status = text(&path)?;
    let number = |key| field(&status, key, ':')?.split(' ').next()?.parse::<u64>().ok();
    let missing = || ProcessError::Unexpected { path: path.clone() };
    // A process that has ended and was not waited for has no memory lines.
    let bytes = |key| number(key).unwrap_or(0) * 1024;
    let threads = number("Threads").ok_or_else(missing)? as u32;
    let path = folder.join("stat");
    let cpu_ns = cpu_ns(&text(&path)?).ok_or(ProcessError::Unexpected { path })?;
    Ok(ProcessSample { rss_bytes: bytes("VmRSS"), peak_rss_bytes: bytes("VmHWM"), cpu_ns, threads })
}

/// Samples the threads of a process, in the order of their ids. Threads that end meanwhile are left out.
///
/// # Errors
/// The process ended, or may not be read, or this is no Linux.
pub fn threads(pid: u32) -> Result<Vec<ThreadSample>, ProcessError> {
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let failed = |source| ProcessError::Io { path: folder.clone(), source };
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let task = entry.map_err(failed)?;
        let tid = task.file_name().to_str().and_then(|name| name.parse().ok());
        let name = read_text(&task.path().join("comm"));
        let times = read_text(&task.path().join("schedstat"));
        if let (Some(tid), Ok(name), Ok(times)) = (tid, name, times)
            && let Some((cpu_ns, waited_ns)) = schedstat(&times)
        {
            threads.push(ThreadSample { tid, name: name.trim().to_owned(), cpu_ns, waited_ns });
        }
    }
    threads.sort_by_key(|thread| thread.tid);
    Ok(threads)
}

/// A process and its descendants, the eldest first; only itself where /proc tells no parents.
#[must_use]
pub fn tree(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let own = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(own) = own else { continue };
        if let Some(parent) = read_text(&entry.path().join("stat")).ok().and_then(|stat| parent(&stat)) {
            children.entry(parent).or_default().push(own);
        }
    }
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() {
        // A process has one parent, so nobody is met twice.
        all.extend(children.remove(&all[next]).unwrap_or_default());
        next += 1;
    }
    all
}

/// The parent out of /proc/PID/stat.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn text(path: &Path) -> Result<String, ProcessError> {
    read_text(path).map_err(|source| ProcessError::Io { path: path.to_owned(), source })
}

fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// User and system time out of /proc/PID/stat. The second field is the name, which may hold spaces and parentheses.
fn cpu_ns(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = fields.next()?.ok()? + fields.next()?.ok()?;
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(ticks * (1_000_000_000 / u64::try_from(per_second).ok().filter(|hz| *hz > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_clocks_run_with_work() {
        let (thread, process) = (thread_cpu_ns().unwrap(), process_cpu_ns().unwrap());
        let mut sum = 0u64;
        while thread_cpu_ns().unwrap() < thread + 20_000_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        assert!(process_cpu_ns().unwrap() >= process + 20_000_000);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_threads_and_names() {
        let held = std::hint::black_box(vec![1u8; 8 << 20]);
        let me = std::process::id();
        let own = sample(me).unwrap();
        assert!(own.rss_bytes >= held.len() as u64, "{own:?}");
        assert!(own.peak_rss_bytes >= own.rss_bytes && own.threads >= 1);
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("named".to_owned())
            .spawn(move || stopped.recv().is_err())
            .unwrap();
        // The new thread takes its name itself, a moment after it was started.
        while !threads(me).unwrap().iter().any(|thread| thread.name == "named") {
            std::thread::yield_now();
        }
        drop(stop);
        assert!(thread.join().unwrap());
        assert!(matches!(sample(u32::MAX), Err(ProcessError::Io { .. })));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_belongs_to_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mine = tree(std::process::id());
        let alone = tree(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(mine[0], std::process::id());
        assert!(mine.contains(&child.id()), "{mine:?}");
        assert_eq!(alone, [child.id()]);
        assert_eq!(parent("7 (a) R (b) 1) S 12 7"), Some(12));
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) R (b) 1) S 1 7 7 0 -1 4194304 100 0 0 0 25 5 0 0 20 0 1 0 100 0 0";
        let tick = 1_000_000_000
            / u64::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap())
                .unwrap();
        assert_eq!(cpu_ns(stat), Some(30 * tick));
        assert_eq!(cpu_ns("7 (x"), None);
        assert_eq!(cpu_ns("7 (x) S 1"), None);
    }
}
