//! The I/O foundation under the load runner and the embedded engine: clocks, stamped receives,
//! a poller with nanosecond deadlines, and non-blocking connections with or without TLS.
//!
//! Everything is single-threaded and non-blocking: a thread owns one [`Poller`], one [`RecvBuf`] and its
//! [`Conn`]s, and nothing is shared but the [`Waker`]. All instants are nanoseconds of `CLOCK_MONOTONIC`
//! ([`clock::mono_ns`]); kernel receive stamps are mapped to it at every read.
//!
//! It deliberately knows no protocol above TLS, keeps no connection pool, applies no time limits (a caller
//! has its own deadlines) and runs no threads.
//!
//! Main types: [`Poller`], [`RecvBuf`], [`Endpoint`], [`Conn`], [`Listener`], [`TlsConfig`], [`ConnectError`].
//!
//! Linux is the measuring platform (kernel stamps, `timerfd`). Other Unix systems compile and work with
//! stamps taken in user space; [`stamp_support`] says which of the two holds. Windows is not supported.

pub mod clock;
pub mod conn;
pub mod endpoint;
pub mod error;
pub mod listen;
pub mod poller;
pub mod stamp;
pub mod tls;

pub use clock::{WallMap, mono_ns, wall_ns};
pub use conn::{Conn, ConnState, ConnectProgress, ConnectTiming, ReadOutcome, WriteOutcome};
pub use endpoint::{Endpoint, PeerAddr, Transport};
pub use error::{ConnectError, TlsConfigError};
pub use listen::Listener;
pub use poller::{Interest, Poller, Ready, Token, Waker, timer_precision};
pub use stamp::{PLATFORM_STAMPS, Received, RecvBuf, StampSource, enable_receive_stamps, stamp_support};
pub use tls::TlsConfig;
