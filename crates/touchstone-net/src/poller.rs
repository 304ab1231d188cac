//! Waiting for sockets and for an instant, whichever comes first, with nanosecond deadlines.
//!
//! Readiness is **edge-triggered**: an event says that something changed since the last one. After it, read
//! until `WouldBlock` (what [`crate::Conn::read`] does) and write until `WouldBlock` or done;
//! otherwise no further event may come for what is left.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
pub use mio::{Interest, Token};

use crate::clock::mono_ns;

/// The token under which a wake-up from another thread is reported.
pub const WAKE: Token = Token(usize::MAX);
/// The largest token a caller may use.
pub const MAX_TOKEN: Token = Token(usize::MAX - 2);
#[cfg(target_os = "linux")]
const TIMER: Token = Token(usize::MAX - 1);
/// How long before a deadline the poller stops sleeping and spins, unless told otherwise, in nanoseconds.
pub const DEFAULT_SPIN_NS: u64 = 50_000;
/// Closer to the deadline than this a non-blocking poll could overshoot it, so only the clock is read.
const LAST_POLL_NS: u64 = 2_000;

/// What one source is ready for. Several flags may be set together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The token given at registration, or [`WAKE`].
    pub token: Token,
    /// There is something to read, the end of the stream and errors included.
    pub readable: bool,
    /// There is room to write, or a connect has completed or failed.
    pub writable: bool,
    /// The peer closed its sending side, hung up, or the socket has an error. Data may still wait to be read.
    pub closed: bool,
}

/// Wakes a [`Poller`] from another thread. Cheap to clone; wake-ups that arrive together are reported once.
#[derive(Clone)]
pub struct Waker(Arc<mio::Waker>);

impl Waker {
    /// Makes the poller's current or next [`Poller::wait`] return with a [`Ready`] whose token is [`WAKE`].
    ///
    /// # Errors
    /// Those of writing to the wake-up descriptor.
    pub fn wake(&self) -> io::Result<()> {
        self.0.wake()
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// Waits for registered descriptors, a deadline or a wake-up.
#[derive(Debug)]
pub struct Poller {
    poll: mio::Poll,
    events: mio::Events,
    waker: Waker,
    spin_ns: u64,
    #[cfg(target_os = "linux")]
    timer: linux::Timer,
}

impl Poller {
    /// A poller that collects up to 1,024 events a wait and spins for the last [`DEFAULT_SPIN_NS`].
    ///
    /// # Errors
    /// When the system refuses the descriptors (poll queue, timer, wake-up).
    pub fn new() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let waker = Waker(Arc::new(mio::Waker::new(poll.registry(), WAKE)?));
        #[cfg(target_os = "linux")]
        let timer = linux::Timer::new(poll.registry(), TIMER)?;
        Ok(Self {
            poll,
            events: mio::Events::with_capacity(1024),
            waker,
            spin_ns: DEFAULT_SPIN_NS,
            #[cfg(target_os = "linux")]
            timer,
        })
    }

    /// Sets how long before a deadline the poller stops sleeping and spins, in nanoseconds. 0 never spins:
    /// cheaper, and late by the kernel's wake-up latency.
    #[must_use]
    pub fn with_spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = spin_ns;
        self
    }

    /// A handle that wakes this poller from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Registers a descriptor (a [`crate::Conn`], a [`crate::Listener`] or any other) under `token`, at most
    /// [`MAX_TOKEN`].
    ///
    /// # Errors
    /// `InvalidInput` for a reserved token; else those of the system, e.g. already registered.
    pub fn register(&self, fd: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Self::check(token)?;
        self.poll.registry().register(&mut SourceFd(&fd.as_fd().as_raw_fd()), token, interest)
    }

    /// Changes the token or interest of a registered descriptor. Readiness that holds now is reported again.
    ///
    /// # Errors
    /// `InvalidInput` for a reserved token; else those of the system, e.g. not registered.
    pub fn reregister(&self, fd: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Self::check(token)?;
        self.poll.registry().reregister(&mut SourceFd(&fd.as_fd().as_raw_fd()), token, interest)
    }

    /// Stops watching a descriptor. Closing a descriptor does the same by itself.
    ///
    /// # Errors
    /// Those of the system, e.g. not registered.
    pub fn deregister(&self, fd: &impl AsFd) -> io::Result<()> {
        self.poll.registry().deregister(&mut SourceFd(&fd.as_fd().as_raw_fd()))
    }

    fn check(token: Token) -> io::Result<()> {
        if token > MAX_TOKEN {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("token {} is reserved by the poller", token.0),
            ));
        }
        Ok(())
    }

    /// Waits until something is ready or `deadline_ns` ([`mono_ns`]) has come; without a deadline, until something
    /// is ready. `events` is cleared first; empty on return means that the deadline has come, never earlier.
    ///
    /// A deadline that is already past makes one non-blocking poll. The last `spin_ns` are spent spinning with
    /// non-blocking polls in between, so readiness is still seen. Interrupted system calls are repeated: a
    /// signal handler that wants attention uses the [`Waker`].
    ///
    /// # Errors
    /// Those of the system's poll call.
    pub fn wait(&mut self, events: &mut Vec<Ready>, deadline_ns: Option<u64>) -> io::Result<()> {
        events.clear();
        let Some(deadline) = deadline_ns else {
            while events.is_empty() {
                self.poll(events, None)?;
            }
            return Ok(());
        };
        let mut polled = false;
        loop {
            let left = deadline.saturating_sub(mono_ns());
            if left == 0 && polled {
                return Ok(());
            }
            if left <= self.spin_ns || left == 0 {
                if polled && left < LAST_POLL_NS {
                    std::hint::spin_loop();
                    continue;
                }
                self.poll(events, Some(0))?;
            } else {
                self.sleep(events, deadline - self.spin_ns, left - self.spin_ns)?;
            }
            polled = true;
            if !events.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sleeps in the kernel until something is ready or `wake_at`, which is `left` from now.
    #[cfg(target_os = "linux")]
    fn sleep(&mut self, events: &mut Vec<Ready>, wake_at: u64, _left: u64) -> io::Result<()> {
        // The poll call itself only takes milliseconds; the timer is a descriptor like any other.
        self.timer.arm(wake_at)?;
        self.poll(events, None)
    }

    #[cfg(not(target_os = "linux"))]
    fn sleep(&mut self, events: &mut Vec<Ready>, _wake_at: u64, left: u64) -> io::Result<()> {
        self.poll(events, Some(left))
    }

    fn poll(&mut self, events: &mut Vec<Ready>, timeout_ns: Option<u64>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, timeout_ns.map(Duration::from_nanos)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        for event in &self.events {
            #[cfg(target_os = "linux")]
            if event.token() == TIMER {
                self.timer.fired();
                continue;
            }
            let closed = event.is_read_closed() || event.is_write_closed() || event.is_error();
            events.push(Ready {
                token: event.token(),
                readable: event.is_readable() || closed,
                writable: event.is_writable() || event.is_error(),
                closed,
            });
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd};

    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

    /// A `timerfd` on the monotonic clock, registered with the poll queue.
    #[derive(Debug)]
    pub(super) struct Timer {
        fd: TimerFd,
        armed_for: Option<u64>,
    }

    impl Timer {
        pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
            let fd =
                TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
            registry.register(&mut SourceFd(&fd.as_fd().as_raw_fd()), token, Interest::READABLE)?;
            Ok(Self { fd, armed_for: None })
        }

        /// Arms the timer for an absolute instant. It is never read: arming resets its count, and each
        /// expiry is a new edge.
        pub(super) fn arm(&mut self, at_ns: u64) -> io::Result<()> {
            if self.armed_for == Some(at_ns) {
                return Ok(());
            }
            // Zero would disarm the timer.
            let at = std::time::Duration::from_nanos(at_ns.max(1));
            let when = Expiration::OneShot(TimeSpec::from_duration(at));
            self.fd.set(when, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
            self.armed_for = Some(at_ns);
            Ok(())
        }

        /// Notes that the timer has expired, so that the next `arm` is not skipped.
        pub(super) fn fired(&mut self) {
            self.armed_for = None;
        }
    }
}

/// The lateness of `samples` waits with nothing else to do, in nanoseconds each, in the order taken: what this
/// machine's timer is good for. The waits are 100 us to 1.1 ms long, so that sleeping and spinning both happen.
///
/// # Errors
/// Those of making and using a [`Poller`].
pub fn timer_precision(samples: usize) -> io::Result<Vec<u64>> {
    let mut poller = Poller::new()?;
    let mut events = Vec::new();
    let mut lateness = Vec::with_capacity(samples);
    for index in 0..samples {
        // A stride that shares no factor with the span visits all lengths, so no harmonic of a tick is favoured.
        let length = 100_000 + (index as u64).wrapping_mul(379_721) % 1_000_000;
        let deadline = mono_ns() + length;
        poller.wait(&mut events, Some(deadline))?;
        lateness.push(mono_ns().saturating_sub(deadline));
    }
    Ok(lateness)
}
