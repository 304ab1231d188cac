//! Why a connection could not be made, told apart by what the user has to do about it.

use std::io;
use std::net::IpAddr;

use rustls::CertificateError;

use crate::endpoint::PeerAddr;

/// A failure between resolving a name and the end of the TLS handshake.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name could not be resolved.
    #[error("cannot resolve host name {host:?}")]
    Dns {
        /// The name asked for.
        host: String,
        /// What the resolver said.
        #[source]
        source: io::Error,
    },
    /// The name resolved to nothing.
    #[error("host name {host:?} has no address")]
    NoAddress {
        /// The name asked for.
        host: String,
    },
    /// Nobody listens there.
    #[error("connection to {peer} refused: nothing listens there")]
    Refused {
        /// The address tried.
        peer: PeerAddr,
    },
    /// The network cannot reach the address (no route, host down, given up by the kernel).
    #[error("{peer} is unreachable")]
    Unreachable {
        /// The address tried.
        peer: PeerAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The Unix socket does not exist.
    #[error("no socket at {peer}")]
    NoSocket {
        /// The path tried.
        peer: PeerAddr,
    },
    /// The local address cannot be used.
    #[error("cannot connect from local address {local}")]
    LocalAddress {
        /// The address asked for.
        local: IpAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// This machine has run out of something (descriptors, ports, buffers): the generator's failure, not the target's.
    #[error("this machine cannot open another connection to {peer}")]
    LocalResources {
        /// The address tried.
        peer: PeerAddr,
        /// What the kernel said: `EMFILE`, `ENFILE`, `EADDRNOTAVAIL` (no free port), `ENOBUFS` or `ENOMEM`.
        #[source]
        source: io::Error,
    },
    /// Any other failure of the transport.
    #[error("connecting to {peer} failed")]
    Io {
        /// The address tried.
        peer: PeerAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The peer answered the TLS handshake with something that is not TLS.
    #[error("{peer} does not speak TLS: {}", if *.http { "it answered in plain HTTP" } else { "a plaintext port?" })]
    NotTls {
        /// The address tried.
        peer: PeerAddr,
        /// Whether the answer was plain HTTP.
        http: bool,
    },
    /// The peer hung up during the TLS handshake.
    #[error(
        "{peer} closed the connection during the TLS handshake{}",
        if *.silent { " without a byte: a plaintext port?" } else { "" }
    )]
    ClosedInHandshake {
        /// The address tried.
        peer: PeerAddr,
        /// Whether it sent nothing at all.
        silent: bool,
    },
    /// The certificate is signed by nobody who is trusted here (or by a namesake with another key).
    #[error("the certificate of {server_name:?} is signed by an unknown issuer")]
    UnknownIssuer {
        /// The name expected.
        server_name: String,
    },
    /// The certificate has expired.
    #[error("the certificate of {server_name:?} has expired")]
    CertificateExpired {
        /// The name expected.
        server_name: String,
    },
    /// The certificate is not valid yet; this machine's clock may be wrong.
    #[error("the certificate of {server_name:?} is not valid yet")]
    CertificateNotYetValid {
        /// The name expected.
        server_name: String,
    },
    /// The certificate is for other names.
    #[error("the certificate is not for {server_name:?} but for {}", presented.join(", "))]
    NameMismatch {
        /// The name expected.
        server_name: String,
        /// The names the certificate holds; empty when unknown.
        presented: Vec<String>,
    },
    /// The server's own certificate is one of an authority, as a plain self-signed one is.
    #[error("the certificate of {server_name:?} is an authority's own and cannot stand for a server")]
    AuthorityAsServer {
        /// The name expected.
        server_name: String,
    },
    /// Any other failure of the TLS handshake.
    #[error("the TLS handshake with {peer} failed")]
    Tls {
        /// The address tried.
        peer: PeerAddr,
        /// What the TLS library said.
        #[source]
        source: rustls::Error,
    },
}

impl ConnectError {
    /// Classifies a failure of the transport.
    pub(crate) fn from_io(peer: &PeerAddr, source: io::Error) -> Self {
        use io::ErrorKind as K;
        use nix::errno::Errno as E;
        let peer = peer.clone();
        if let Some(E::EMFILE | E::ENFILE | E::EADDRNOTAVAIL | E::ENOBUFS | E::ENOMEM) =
            source.raw_os_error().map(E::from_raw)
        {
            return Self::LocalResources { peer, source };
        }
        match source.kind() {
            K::ConnectionRefused => Self::Refused { peer },
            K::HostUnreachable | K::NetworkUnreachable | K::NetworkDown | K::TimedOut => {
                Self::Unreachable { peer, source }
            }
            K::NotFound => Self::NoSocket { peer },
            _ => Self::Io { peer, source },
        }
    }

    /// Classifies a failure of the TLS handshake.
    pub(crate) fn from_tls(peer: &PeerAddr, server_name: String, source: rustls::Error) -> Self {
        use CertificateError as C;
        let rustls::Error::InvalidCertificate(why) = &source else {
            return Self::Tls { peer: peer.clone(), source };
        };
        match why {
            // A trusted issuer of the same name but with another key did not sign it: an authority made anew.
            C::UnknownIssuer | C::BadSignature => Self::UnknownIssuer { server_name },
            C::Expired | C::ExpiredContext { .. } => Self::CertificateExpired { server_name },
            C::NotValidYet | C::NotValidYetContext { .. } => Self::CertificateNotYetValid { server_name },
            C::NotValidForName => Self::NameMismatch { server_name, presented: Vec::new() },
            C::NotValidForNameContext { presented, .. } => {
                Self::NameMismatch { server_name, presented: presented.clone() }
            }
            // The verifier has no variant of its own for this; its name in the library's text is all there is.
            C::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
                Self::AuthorityAsServer { server_name }
            }
            _ => Self::Tls { peer: peer.clone(), source },
        }
    }
}

/// A TLS client configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    /// The CA file is not PEM.
    #[error("the CA file is not valid PEM")]
    Pem {
        /// What the parser said.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// The CA file holds no certificate.
    #[error("the CA file holds no certificate")]
    NoCertificate,
    /// A CA certificate cannot be used as a trust anchor.
    #[error("certificate {index} of the CA file cannot be used as a trust anchor")]
    BadCertificate {
        /// Its position in the file, from 0.
        index: usize,
        /// What the TLS library said.
        #[source]
        source: rustls::Error,
    },
    /// Neither a host name nor an IP address.
    #[error("{name:?} is neither a host name nor an IP address")]
    ServerName {
        /// The name given.
        name: String,
        /// What the parser said.
        #[source]
        source: rustls_pki_types::InvalidDnsNameError,
    },
    /// The TLS library refused the configuration.
    #[error("the TLS configuration is not usable")]
    Config {
        /// What the TLS library said.
        #[source]
        source: rustls::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn failures_of_the_transport_are_told_apart_by_whose_they_are() {
        let peer = PeerAddr::Tcp(([127, 0, 0, 1], 80).into());
        let classify = |errno: Errno| ConnectError::from_io(&peer, errno.into());
        assert!(matches!(classify(Errno::ECONNREFUSED), ConnectError::Refused { .. }));
        for errno in [Errno::EHOSTUNREACH, Errno::ENETUNREACH, Errno::ENETDOWN, Errno::ETIMEDOUT] {
            assert!(matches!(classify(errno), ConnectError::Unreachable { .. }), "{errno}");
        }
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::EADDRNOTAVAIL, Errno::ENOBUFS] {
            assert!(matches!(classify(errno), ConnectError::LocalResources { .. }), "{errno}");
        }
        assert!(matches!(classify(Errno::ENOENT), ConnectError::NoSocket { .. }));
        assert!(matches!(classify(Errno::EPROTO), ConnectError::Io { .. }));
    }
}
