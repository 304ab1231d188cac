//! Documents about several runs (sweeps, campaigns, comparisons): one JSON file each, whole or absent.
//!
//! They name their runs by id; the runs stay in the run store. What is written while a long command goes on is always a
//! readable document, so that `kill -9` leaves what was known until then.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::{self, FileError};

/// Greatest document that is read, bytes.
const MAX_BYTES: u64 = 64 << 20;
/// The name of a sweep's document in its folder.
pub const SWEEP: &str = "sweep.json";

/// The folder of a sweep in the store `root` (usually `.touchstone`), whether it exists or not.
#[must_use]
pub fn sweep_dir(root: &Path, sweep: &str) -> PathBuf {
    root.join("sweeps").join(sweep)
}

/// Writes a document atomically; the folder is made when it is missing.
///
/// # Errors
/// When it cannot be written.
pub fn write<T: Serialize>(path: &Path, document: &T) -> Result<(), FileError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| FileError::new("create", folder, source))?;
    }
    files::write_json(path, document)
}

/// Reads a document of the format `format`; none when there is no such file.
///
/// # Errors
/// The file cannot be read, is damaged, or of another format.
pub fn read<T: DeserializeOwned>(path: &Path, format: &'static str) -> Result<Option<T>, FileError> {
    match files::read_json(path, MAX_BYTES, format) {
        Ok(document) => Ok(Some(document)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_document_comes_back_and_another_format_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = sweep_dir(folder.path(), "s-1").join(SWEEP);
        assert_eq!(read::<Value>(&path, "a/1").unwrap(), None);
        write(&path, &json!({"format": "a/1", "x": 1})).unwrap();
        assert_eq!(read::<Value>(&path, "a/1").unwrap().unwrap()["x"], 1);
        assert!(matches!(read::<Value>(&path, "a/2"), Err(FileError::Format { .. })));
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(read::<Value>(&path, "a/1"), Err(FileError::Json { .. })));
    }
}
