//! Failures of the transport in the words of the load engine.

use std::error::Error as _;
use std::io;

use touchstone_load::Failure;
use touchstone_model::{Origin, Phase};
use touchstone_net::ConnectError;

/// A failure to connect, with its origin and what to do.
#[must_use]
pub fn connect_failure(error: &ConnectError) -> Failure {
    let (origin, kind, advice) = match error {
        ConnectError::Dns { .. } | ConnectError::NoAddress { .. } => {
            (Origin::Network, "dns", "check the host name of the target")
        }
        ConnectError::Refused { .. } => {
            (Origin::Network, "refused", "nothing listens there: is the server started, is the port right?")
        }
        ConnectError::Unreachable { .. } => {
            (Origin::Network, "unreachable", "check routes and firewalls between here and the target")
        }
        ConnectError::NoSocket { .. } => (Origin::Network, "no-socket", "check the path of the socket"),
        ConnectError::LocalAddress { .. } => (Origin::Scenario, "local-address", "check the local address"),
        ConnectError::LocalResources { .. } => (
            Origin::Generator,
            "local-resources",
            "this machine ran out of file descriptors or ports: see `touchstone doctor`, or lower --connections",
        ),
        ConnectError::Io { .. } => (Origin::Network, "connect", "check the address of the target"),
        ConnectError::NotTls { .. } | ConnectError::ClosedInHandshake { .. } => (
            Origin::Scenario,
            "not-tls",
            "the port does not speak TLS: use the address without TLS (http://), or the TLS port",
        ),
        ConnectError::UnknownIssuer { .. } => {
            (Origin::Scenario, "tls-unknown-issuer", "give the authority's certificate with --ca-file")
        }
        ConnectError::AuthorityAsServer { .. } => (
            Origin::Scenario,
            "tls-authority",
            "make a server certificate (basicConstraints CA:FALSE), or one signed by an authority given with --ca-file",
        ),
        ConnectError::CertificateExpired { .. } | ConnectError::CertificateNotYetValid { .. } => {
            (Origin::Target, "tls-validity", "renew the target's certificate, or check the clocks")
        }
        ConnectError::NameMismatch { .. } => {
            (Origin::Scenario, "tls-name", "use the name that the certificate is made for")
        }
        ConnectError::Tls { .. } => (Origin::Target, "tls", "look at the TLS settings of the target"),
    };
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message.push_str(": ");
        message.push_str(&cause.to_string());
        source = cause.source();
    }
    Failure::new(origin, Phase::Connect, kind, message, advice)
}

/// How far a connection came that took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The transport did not connect.
    Nothing,
    /// The transport connected; the TLS handshake did not end.
    Transport,
    /// The protocol's greeting did not end.
    Greeting,
}

/// Opening the connection took too long.
pub(crate) fn connect_timeout(reached: Reached, limit_ns: u64) -> Failure {
    let (origin, kind, what, advice) = match reached {
        Reached::Nothing => (
            Origin::Network,
            "timeout-connect",
            "no connection",
            "the target does not answer on this port: a firewall, or a full backlog",
        ),
        Reached::Transport => (
            Origin::Target,
            "timeout-tls",
            "no TLS handshake",
            "the port accepts connections and may not speak TLS: use the address without TLS, or the TLS port",
        ),
        Reached::Greeting => (
            Origin::Target,
            "timeout-greeting",
            "no greeting",
            "the port accepts connections and says nothing that opens this protocol: is this the right port, and \
             does it expect TLS?",
        ),
    };
    let message = format!("{what} within {} s", limit_ns as f64 / 1e9);
    Failure::new(origin, Phase::Connect, kind, message, advice)
}

/// The peer takes nothing of what is written to it.
pub(crate) fn never_reads() -> Failure {
    Failure::new(
        Origin::Target,
        Phase::Send,
        "never-reads",
        "the target sends and does not read: replies to it pile up",
        "look at the target's log: it does not keep to the protocol",
    )
}

/// The peer closed the connection.
pub(crate) fn closed(phase: Phase) -> Failure {
    Failure::new(
        Origin::Target,
        phase,
        "closed",
        "the target closed the connection",
        "look at the target's log: it may have crashed, been stopped, or refused the connection",
    )
}

/// Reading or writing failed.
pub(crate) fn broken(error: &io::Error, phase: Phase) -> Failure {
    let (origin, kind) = match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            (Origin::Target, "reset")
        }
        io::ErrorKind::InvalidData => (Origin::Target, "tls-data"),
        _ => (Origin::Network, "io"),
    };
    Failure::new(
        origin,
        phase,
        kind,
        error.to_string(),
        "look at the target's log: it may have crashed, been stopped, or cut the connection",
    )
}

/// The same failure at another point of the operation.
pub(crate) fn at_phase(failure: &Failure, phase: Phase) -> Failure {
    Failure { phase, ..failure.clone() }
}
