//! Receives with the instant at which the data reached this machine.
//!
//! One receive gives one stamp, that of the **last** segment it returned: exact for the last byte, an upper
//! bound for the bytes before it. Where the kernel gives none (Unix sockets, other systems, segments
//! queued before stamping was switched on, a wall-clock step) the stamp is taken in user space
//! right after the system call and says so.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::MsgFlags;

use crate::clock::WallMap;

/// Where receive stamps come from on this platform, in words.
#[cfg(target_os = "linux")]
pub const PLATFORM_STAMPS: &str = "kernel (SO_TIMESTAMPNS), mapped to CLOCK_MONOTONIC at every read";
/// Where receive stamps come from on this platform, in words.
#[cfg(not(target_os = "linux"))]
pub const PLATFORM_STAMPS: &str = "user space, after the read (no kernel receive stamps for TCP here)";

/// The best stamp source this platform has for TCP. A single receive may still fall back to `User`.
#[must_use]
pub fn stamp_support() -> StampSource {
    if cfg!(target_os = "linux") { StampSource::Kernel } else { StampSource::User }
}

/// Who took a receive stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StampSource {
    /// The kernel, when the segment arrived.
    Kernel,
    /// This process, right after the receive returned: late by the time the data waited to be read.
    User,
}

/// What one receive returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes received; 0 is the end of the stream.
    pub len: usize,
    /// Arrival of the last segment on the monotonic clock, in nanoseconds.
    pub stamp_ns: u64,
    /// Who took the stamp.
    pub source: StampSource,
}

/// Asks the kernel to stamp what this socket receives. Returns whether it will; `false` means user-space stamps.
///
/// Set it on a listener too: accepted sockets inherit it, so data that arrive before `accept` are stamped as well.
/// The first socket of a machine that asks switches stamping on shortly *after* the call.
#[cfg(target_os = "linux")]
pub fn enable_receive_stamps(fd: &impl AsFd) -> bool {
    nix::sys::socket::setsockopt(fd, nix::sys::socket::sockopt::ReceiveTimestampns, &true).is_ok()
}

/// Asks the kernel to stamp what this socket receives: never possible on this platform.
#[cfg(not(target_os = "linux"))]
pub fn enable_receive_stamps(_fd: &impl AsFd) -> bool {
    false
}

/// The reusable buffers of a thread's receives: control messages, the clock map and scratch space.
#[derive(Debug)]
pub struct RecvBuf {
    #[cfg(target_os = "linux")]
    control: Vec<u8>,
    wall: WallMap,
    pub(crate) scratch: Vec<u8>,
}

impl RecvBuf {
    /// Bytes that one receive into the scratch space can return.
    pub const SCRATCH: usize = 64 * 1024;

    /// Buffers with [`RecvBuf::SCRATCH`] bytes of scratch space.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            control: nix::cmsg_space!(nix::sys::time::TimeSpec),
            wall: WallMap::sample(),
            scratch: vec![0; Self::SCRATCH],
        }
    }

    /// How many steps of the wall clock were seen so far; after one, stamps are `User` for a while.
    #[must_use]
    pub fn clock_steps(&self) -> u64 {
        self.wall.steps()
    }

    /// The error of a `Kernel` stamp from mapping it to the monotonic clock, in nanoseconds either way.
    #[must_use]
    pub fn clock_uncertainty_ns(&self) -> u64 {
        self.wall.uncertainty_ns()
    }

    /// Receives once into `buf`, which must not be empty (a length of 0 means the end of the stream).
    ///
    /// # Errors
    /// Those of `recvmsg(2)`: `WouldBlock` when nothing is there, `ConnectionReset`, and so on. An interrupted
    /// call is repeated.
    pub fn recv(&mut self, socket: &impl AsFd, buf: &mut [u8]) -> io::Result<Received> {
        let (len, wall_stamp) = self.recv_raw(socket, buf)?;
        let now = self.wall.refresh();
        let mapped = wall_stamp.and_then(|stamp| self.wall.map(stamp));
        let (stamp_ns, source) = mapped.map_or((now, StampSource::User), |ns| (ns, StampSource::Kernel));
        Ok(Received { len, stamp_ns, source })
    }

    /// The length and, where the kernel gave one, its wall-clock stamp.
    #[cfg(target_os = "linux")]
    fn recv_raw(&mut self, socket: &impl AsFd, buf: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        use nix::sys::socket::{ControlMessageOwned, recvmsg};
        let fd = socket.as_fd().as_raw_fd();
        loop {
            let mut slices = [io::IoSliceMut::new(buf)];
            match recvmsg::<()>(fd, &mut slices, Some(&mut self.control), MsgFlags::empty()) {
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
                Ok(message) => {
                    // A truncated control area means messages nobody asked for: no stamp, still data.
                    let stamp = message.cmsgs().ok().and_then(|mut all| {
                        all.find_map(|one| match one {
                            ControlMessageOwned::ScmTimestampns(t) => {
                                let seconds = u64::try_from(t.tv_sec()).ok()?;
                                let nanos = u64::try_from(t.tv_nsec()).ok()?;
                                seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
                            }
                            _ => None,
                        })
                    });
                    return Ok((message.bytes, stamp));
                }
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn recv_raw(&mut self, socket: &impl AsFd, buf: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        let fd = socket.as_fd().as_raw_fd();
        loop {
            match nix::sys::socket::recv(fd, buf, MsgFlags::empty()) {
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
                Ok(len) => return Ok((len, None)),
            }
        }
    }
}

impl Default for RecvBuf {
    fn default() -> Self {
        Self::new()
    }
}
