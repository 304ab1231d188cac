//! Content digests: SHA-256 as `sha256:` and 64 lower-case hexadecimal digits.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::files::{self, FileError};

/// The format of `digests.json`.
pub const FORMAT: &str = "touchstone.digests/1";
/// The name of the file that lists the digests of its neighbours.
pub const FILE: &str = "digests.json";
/// Greatest list of digests that is read, bytes.
const MAX_BYTES: u64 = 1 << 20;

fn text(hash: impl AsRef<[u8]>) -> String {
    let hash = hash.as_ref();
    let mut out = String::with_capacity(7 + 2 * hash.len());
    out.push_str("sha256:");
    for byte in hash {
        // Writing to a string cannot fail.
        let _unfailing = write!(out, "{byte:02x}");
    }
    out
}

/// The digest of `bytes`.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    text(Sha256::digest(bytes))
}

/// The digest of a file's content, read in pieces.
///
/// # Errors
/// The file cannot be read.
pub fn file_digest(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError::new("read", path, source);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(text(hash.finalize())),
            Ok(n) => hash.update(&buffer[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// The 64 hexadecimal digits of a digest; none when `digest` is not one.
#[must_use]
pub fn hex(digest: &str) -> Option<&str> {
    let digits = digest.strip_prefix("sha256:")?;
    (digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))).then_some(digits)
}

/// The content of `digests.json`: digests of files by their name in the same folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestList {
    /// The format, `touchstone.digests/1`.
    pub format: String,
    /// Digests by file name.
    pub files: BTreeMap<String, String>,
}

impl DigestList {
    /// A list of the given files.
    #[must_use]
    pub fn new(files: BTreeMap<String, String>) -> Self {
        Self { format: FORMAT.to_owned(), files }
    }

    /// Reads the list of a folder.
    ///
    /// # Errors
    /// It is missing, unreadable, or of a newer format.
    pub fn read(folder: &Path) -> Result<Self, FileError> {
        files::read_json(&folder.join(FILE), MAX_BYTES, FORMAT)
    }

    /// Writes the list into a folder, atomically.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), FileError> {
        files::write_json(&folder.join(FILE), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_match_the_published_test_vectors() {
        // FIPS 180-2, appendix B.1, and the empty message.
        assert_eq!(sha256(b"abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(sha256(b""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn a_file_has_the_digest_of_its_bytes_across_buffer_bounds() {
        let folder = tempfile::tempdir().unwrap();
        for length in [0usize, 1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1] {
            let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let path = folder.path().join("file");
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(file_digest(&path).unwrap(), sha256(&bytes), "{length}");
        }
        assert!(file_digest(&folder.path().join("none")).is_err());
    }

    #[test]
    fn only_whole_digests_have_digits() {
        let good = sha256(b"x");
        assert_eq!(hex(&good).map(str::len), Some(64));
        assert_eq!(hex(&good[..70]), None);
        assert_eq!(hex(&good.to_uppercase()), None);
        assert_eq!(hex("sha256:../../../../../../../../../../../../../../../../../../../../../x"), None);
    }
}
