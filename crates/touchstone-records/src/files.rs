//! Writing files so that they are whole or absent, and reading them within bounds.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file of the store that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// `read`, `write`, ...
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is greater than any that this version writes.
    #[error("{} holds more than {limit} bytes", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The bound, bytes.
        limit: u64,
    },
    /// The file is no JSON document of the expected shape.
    #[error("{} is damaged", path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// What is wrong, with line and column.
        #[source]
        source: serde_json::Error,
    },
    /// The file has another format, or a newer version of it.
    #[error("{} has format `{found}`; this version reads `{expected}`", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Its format; empty when it names none.
        found: String,
        /// What is read.
        expected: &'static str,
    },
}

impl FileError {
    pub(crate) fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// Whether the file does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

/// Reads a file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::new("read", path, source);
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Reads a JSON document whose `format` must be `expected`, with at most `limit` bytes.
pub(crate) fn read_json<T: DeserializeOwned>(
    path: &Path,
    limit: u64,
    expected: &'static str,
) -> Result<T, FileError> {
    parse_json(&read(path, limit)?, path, expected)
}

/// The same for bytes that were read already; `path` is for messages.
pub(crate) fn parse_json<T: DeserializeOwned>(
    bytes: &[u8],
    path: &Path,
    expected: &'static str,
) -> Result<T, FileError> {
    #[derive(serde::Deserialize)]
    struct Header {
        #[serde(default)]
        format: String,
    }
    let damaged = |source| FileError::Json { path: path.to_owned(), source };
    let header: Header = serde_json::from_slice(bytes).map_err(damaged)?;
    if header.format != expected {
        return Err(FileError::Format { path: path.to_owned(), found: header.format, expected });
    }
    serde_json::from_slice(bytes).map_err(damaged)
}

/// A document as the bytes that are stored: indented JSON with a final newline. Same value, same bytes.
pub(crate) fn json_bytes<T: Serialize>(value: &T, path: &Path) -> Result<Vec<u8>, FileError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|source| FileError::Json { path: path.to_owned(), source })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Writes a document atomically.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), FileError> {
    write_atomic(path, &json_bytes(value, path)?)
}

/// Writes a file so that a crash leaves the old one, or the new one, or none, but never a part: a temporary neighbour
/// is written, synced and renamed, and then the folder is synced.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let failed = |source| FileError::new("write", path, source);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = written {
        // Best effort: the error that matters is the first one.
        drop(std::fs::remove_file(&temporary));
        return Err(failed(error));
    }
    sync_folder(path.parent())
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: Option<&Path>) -> Result<(), FileError> {
    let folder = match folder {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|source| FileError::new("sync", folder, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_replaces_the_old_one_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        write_atomic(&path, b"first").unwrap();
        write_atomic(&path, b"second").unwrap();
        assert_eq!(read(&path, 6).unwrap(), b"second");
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["run.json"]);
        assert!(matches!(read(&path, 5), Err(FileError::TooLarge { limit: 5, .. })));
    }

    #[test]
    fn a_folder_that_is_gone_is_an_error_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone").join("run.json");
        let error = write_atomic(&path, b"x").unwrap_err();
        assert!(error.is_missing());
        assert!(chain(&error).contains("gone"), "{}", chain(&error));
    }

    #[test]
    fn another_format_is_named() {
        let path = Path::new("run.json");
        let error =
            parse_json::<serde_json::Value>(br#"{"format":"touchstone.run/2"}"#, path, "touchstone.run/1")
                .unwrap_err();
        assert_eq!(
            error.to_string(),
            "run.json has format `touchstone.run/2`; this version reads `touchstone.run/1`"
        );
        assert!(parse_json::<serde_json::Value>(b"{}", path, "touchstone.run/1").is_err());
        assert!(parse_json::<serde_json::Value>(b"[", path, "touchstone.run/1").is_err());
    }
}
