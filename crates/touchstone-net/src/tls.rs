//! TLS for clients: what is trusted, which name is expected, and the record layer driven by hand.
//!
//! Only certificates are checked; there is no way to switch the check off, since a figure
//! measured against an unknown server is worth nothing.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::pem::PemObject;

use crate::error::TlsConfigError;

/// A TLS client configuration for one server name. Cheap to clone; clones share session resumption.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
}

impl TlsConfig {
    /// Trusts the certificates of a CA file (PEM bytes, one or more), or the Mozilla roots when `None`, and expects
    /// a certificate for `server_name` (a host name or an IP address).
    ///
    /// # Errors
    /// [`TlsConfigError`] when the file holds no usable certificate or the name is none.
    pub fn client(ca_file_pem: Option<&[u8]>, server_name: &str) -> Result<Self, TlsConfigError> {
        let mut roots = RootCertStore::empty();
        match ca_file_pem {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(pem) => {
                for (index, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
                    let certificate = certificate.map_err(|source| TlsConfigError::Pem { source })?;
                    roots
                        .add(certificate)
                        .map_err(|source| TlsConfigError::BadCertificate { index, source })?;
                }
                if roots.is_empty() {
                    return Err(TlsConfigError::NoCertificate);
                }
            }
        }
        let server_name = ServerName::try_from(server_name.to_owned())
            .map_err(|source| TlsConfigError::ServerName { name: server_name.to_owned(), source })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| TlsConfigError::Config { source })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { config: Arc::new(config), server_name })
    }

    /// Offers application protocols (ALPN), the preferred one first, e.g. `[b"h2"]`.
    #[must_use]
    pub fn with_alpn(mut self, protocols: &[&[u8]]) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        self
    }

    /// The name the certificate must be for.
    #[must_use]
    pub fn server_name(&self) -> String {
        self.server_name.to_str().into_owned()
    }

    pub(crate) fn session(&self) -> Result<Session, rustls::Error> {
        let mut tls = ClientConnection::new(Arc::clone(&self.config), self.server_name.clone())?;
        // Bounded by `CHUNK` on the way out and drained after every feed on the way in.
        tls.set_buffer_limit(None);
        Ok(Session {
            tls,
            cipher: Vec::new(),
            cipher_at: 0,
            server_name: self.server_name(),
            first_bytes: Vec::new(),
        })
    }
}

/// Plaintext encrypted at a time, in bytes: bounds the ciphertext held back by a slow peer.
const CHUNK: usize = 64 * 1024;

/// One client session: the record layer with its outgoing ciphertext.
#[derive(Debug)]
pub(crate) struct Session {
    tls: ClientConnection,
    cipher: Vec<u8>,
    cipher_at: usize,
    pub(crate) server_name: String,
    /// The first bytes the peer sent (up to 5), to tell a peer that does not speak TLS.
    first_bytes: Vec<u8>,
}

/// What feeding received ciphertext brought, besides plaintext.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fed {
    Open,
    /// The peer said that it will send no more.
    CloseNotify,
}

impl Session {
    pub(crate) fn handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    pub(crate) fn close_notify(&mut self) {
        self.tls.send_close_notify();
    }

    /// Whether the peer has sent nothing so far.
    pub(crate) fn silent(&self) -> bool {
        self.first_bytes.is_empty()
    }

    /// Whether what the peer sent first cannot be a TLS record (handshake or alert); `Some(true)` when it is HTTP.
    pub(crate) fn not_tls(&self) -> Option<bool> {
        match self.first_bytes.first() {
            None | Some(0x15 | 0x16) => None,
            Some(_) => Some(self.first_bytes.starts_with(b"HTTP/")),
        }
    }

    /// Feeds received ciphertext and hands all plaintext in it to `sink`.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Fed, rustls::Error> {
        if self.first_bytes.len() < 5 {
            let missing = (5 - self.first_bytes.len()).min(bytes.len());
            self.first_bytes.extend_from_slice(&bytes[..missing]);
        }
        loop {
            // An empty slice would be taken for the end of the stream.
            let taken = if bytes.is_empty() { 0 } else { self.tls.read_tls(&mut bytes).unwrap_or(0) };
            let state = self.tls.process_new_packets();
            // Also after an error: records before the bad one are good.
            self.drain(sink);
            if state?.peer_has_closed() {
                return Ok(Fed::CloseNotify);
            }
            if taken == 0 {
                if bytes.is_empty() {
                    return Ok(Fed::Open);
                }
                return Err(rustls::Error::General("the record layer took no bytes".to_owned()));
            }
        }
    }

    fn drain(&mut self, sink: &mut dyn FnMut(&[u8])) {
        let mut reader = self.tls.reader();
        // Errors here mean "nothing now" or an end of stream, both of which the caller sees otherwise.
        while let Ok(plain) = reader.fill_buf() {
            let length = plain.len();
            if length == 0 {
                return;
            }
            sink(plain);
            reader.consume(length);
        }
    }

    /// Encrypts and writes as much as the socket takes: handshake messages, then `plain` from `*at` on.
    /// Returns whether everything has been accepted by the kernel. `*at` counts plaintext that was encrypted.
    pub(crate) fn write(
        &mut self,
        plain: &[u8],
        at: &mut usize,
        socket: &mut impl Write,
    ) -> io::Result<bool> {
        loop {
            while self.cipher_at < self.cipher.len() {
                match socket.write(&self.cipher[self.cipher_at..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(n) => self.cipher_at += n,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            self.cipher.clear();
            self.cipher_at = 0;
            if !self.tls.is_handshaking() && *at < plain.len() {
                let end = plain.len().min(*at + CHUNK);
                *at += self.tls.writer().write(&plain[*at..end])?;
            }
            while self.tls.wants_write() {
                self.tls.write_tls(&mut self.cipher)?;
            }
            if self.cipher.is_empty() {
                return Ok(*at >= plain.len());
            }
        }
    }

    /// Whether messages of TLS itself wait to be encrypted and sent.
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Ciphertext not yet accepted by the kernel, in bytes.
    pub(crate) fn cipher_left(&self) -> usize {
        self.cipher.len() - self.cipher_at
    }
}
