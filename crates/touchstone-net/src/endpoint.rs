//! Where to connect to, before and after name resolution.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use crate::error::ConnectError;
use crate::tls::TlsConfig;

/// How to reach a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP to a host name or an IP address (IPv6 without brackets).
    Tcp {
        /// The host name or address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix stream socket.
    Unix(PathBuf),
}

/// A server to connect to: transport, TLS, and the local address to connect from.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// How to reach it.
    pub transport: Transport,
    /// TLS, or `None` for plaintext.
    pub tls: Option<TlsConfig>,
    /// The local IP address to connect from; the system's choice when `None`. Several give more ports.
    pub local_addr: Option<IpAddr>,
}

impl Endpoint {
    /// A plaintext TCP endpoint.
    #[must_use]
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self { transport: Transport::Tcp { host: host.into(), port }, tls: None, local_addr: None }
    }

    /// A plaintext Unix socket endpoint.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self { transport: Transport::Unix(path.into()), tls: None, local_addr: None }
    }

    /// The same endpoint over TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The same endpoint, connected to from a given local address.
    #[must_use]
    pub fn with_local_addr(mut self, local: IpAddr) -> Self {
        self.local_addr = Some(local);
        self
    }

    /// Resolves the host name with the system's resolver. **Blocks**: do it once, before measuring.
    /// At least one address is returned, in the resolver's order.
    ///
    /// # Errors
    /// [`ConnectError::Dns`] or [`ConnectError::NoAddress`].
    pub fn resolve(&self) -> Result<Vec<PeerAddr>, ConnectError> {
        match &self.transport {
            Transport::Unix(path) => Ok(vec![PeerAddr::Unix(path.clone())]),
            Transport::Tcp { host, port } => {
                let found: Vec<PeerAddr> = (host.as_str(), *port)
                    .to_socket_addrs()
                    .map_err(|source| ConnectError::Dns { host: host.clone(), source })?
                    .map(PeerAddr::Tcp)
                    .collect();
                if found.is_empty() {
                    return Err(ConnectError::NoAddress { host: host.clone() });
                }
                Ok(found)
            }
        }
    }
}

/// A resolved address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerAddr {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// The path of a Unix socket; empty for the unnamed end of a connection.
    Unix(PathBuf),
}

impl From<SocketAddr> for PeerAddr {
    fn from(addr: SocketAddr) -> Self {
        Self::Tcp(addr)
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
