//! Which process listens on a port of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";
/// Processes that are looked at, at most.
const MAX_PROCESSES: usize = 100_000;

/// The process that listens on a port at a loopback address or at all addresses.
///
/// # Errors
/// Words for why it cannot be told: nothing listens, or the process belongs to another user.
pub fn listening_on(port: u16) -> Result<u32, String> {
    listening_under(Path::new("/"), port)
}

/// The same for the system whose `/` is `root`.
///
/// # Errors
/// As [`listening_on`].
pub fn listening_under(root: &Path, port: u16) -> Result<u32, String> {
    let proc = root.join("proc");
    let read = |name: &str| std::fs::read_to_string(proc.join("net").join(name)).unwrap_or_default();
    let sockets: Vec<u64> =
        read("tcp").lines().chain(read("tcp6").lines()).filter_map(|line| listener(line, port)).collect();
    if sockets.is_empty() {
        return Err(format!("no process of this machine's network listens on port {port}"));
    }
    let names: Vec<String> = sockets.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let entries = std::fs::read_dir(&proc).map_err(|_| "there is no /proc".to_owned())?;
    let mut unreadable = 0;
    let mut found: Vec<u32> = Vec::new();
    for entry in entries.flatten().take(MAX_PROCESSES) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(files) = std::fs::read_dir(entry.path().join("fd")) else {
            unreadable += 1;
            continue;
        };
        let holds =
            |link: std::path::PathBuf| link.to_str().is_some_and(|to| names.iter().any(|name| name == to));
        if files.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(holds)) {
            found.push(pid);
        }
    }
    // A server that forks hands its socket on; the eldest is the one that began.
    found.sort_unstable();
    found.first().copied().ok_or_else(|| {
        format!("the process that listens on port {port} may not be read ({unreadable} processes of others); give --target-pid and the right to read it")
    })
}

/// The inode of a listening socket at the port, when its address can be reached from this machine itself.
fn listener(line: &str, port: u16) -> Option<u64> {
    let mut fields = line.split_whitespace();
    let (address, listening) = fields.nth(1)?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    let own = u16::from_str_radix(listening, 16).ok()? == port && state == LISTEN;
    let reached = match parsed(address)? {
        IpAddr::V4(address) => address.is_loopback() || address.is_unspecified(),
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        }
    };
    (own && reached && inode != 0).then_some(inode)
}

/// An address as the kernel writes it: words of 32 bits, each in the machine's byte order.
fn parsed(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0; 16];
            for (index, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(index * 8)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_found_by_its_port() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = TcpListener::bind(address) else { continue };
            assert_eq!(listening_on(socket.local_addr().unwrap().port()), Ok(std::process::id()));
        }
    }

    #[test]
    fn only_a_listener_that_can_be_read_counts() {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        std::fs::create_dir_all(proc.join("net")).unwrap();
        std::fs::create_dir_all(proc.join("42/fd")).unwrap();
        let loopback = if cfg!(target_endian = "little") { "0100007F" } else { "7F000001" };
        let other = if cfg!(target_endian = "little") { "0100000A" } else { "0A000001" };
        let line = |address: &str, state: &str, inode: u32| {
            format!(
                "   0: {address}:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0 0 {inode} 1\n"
            )
        };
        let write = |text: String| {
            std::fs::write(proc.join("net/tcp"), format!("  sl  local_address\n{text}")).unwrap()
        };
        symlink("socket:[77]", proc.join("42/fd/3")).unwrap();

        write(line(loopback, "0A", 77));
        assert_eq!(listening_under(root.path(), 8080), Ok(42));
        assert!(listening_under(root.path(), 8081).unwrap_err().contains("no process"));
        write(line(loopback, "01", 77));
        assert!(listening_under(root.path(), 8080).is_err(), "a connection is no listener");
        write(line(other, "0A", 77));
        assert!(listening_under(root.path(), 8080).is_err(), "another machine's view of this one");
        write(line(loopback, "0A", 78));
        assert!(listening_under(root.path(), 8080).unwrap_err().contains("may not be read"));
        write("nonsense\n : :\n0: 0100:XX 0 0A\n".to_owned());
        assert!(listening_under(root.path(), 8080).is_err());
    }
}
