//! Reading what the user names: scenario files, bounded, with errors that say what the thing is instead.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use touchstone_model::DocumentError;
use touchstone_model::document::MAX_BYTES;

use crate::failure::Failure;

/// The bytes of a scenario file. At most [`MAX_BYTES`] are read, whatever the path leads to.
///
/// # Errors
/// When it cannot be read, is no file, or is too large.
pub(crate) fn scenario_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = &path.display().to_string();
    let failed = |error: io::Error| unreadable(name, error);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        return Err(Failure::usage(format!("`{name}` is a folder, not a scenario file"))
            .hint(format!("name a file in it, as in `{}`", path.join("scenario.yaml").display()))
            .into());
    }
    let limit = MAX_BYTES as u64;
    if metadata.is_file() && metadata.len() > limit {
        return Err(too_large(name, &format!("has {} bytes", metadata.len())).into());
    }
    let mut bytes = Vec::new();
    // A device or a pipe has no length beforehand, and a file may grow while it is read.
    let file = File::open(path).map_err(failed)?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(name, "does not end after that").into());
    }
    Ok(bytes)
}

fn too_large(name: &str, found: &str) -> DocumentError {
    DocumentError::whole(
        name,
        format!("the file is too large: at most {MAX_BYTES} bytes are read, and it {found}"),
        Some("is this the right file? a scenario is a few KiB of text".to_owned()),
    )
}

fn unreadable(name: &str, error: io::Error) -> Failure {
    let kind = error.kind();
    let failure = Failure::usage(format!("cannot read `{name}`")).because(error);
    match kind {
        io::ErrorKind::NotFound => failure
            .hint(format!("`touchstone init {name}` writes a scenario file; examples are in scenarios/")),
        io::ErrorKind::PermissionDenied => failure.hint("check who may read the file"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_small_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = |path: &Path| format!("{:#}", scenario_bytes(path).unwrap_err());
        assert!(error(dir.path()).contains("is a folder"));
        assert!(error(&dir.path().join("none.yaml")).contains("cannot read"));
        let large = dir.path().join("large.yaml");
        std::fs::write(&large, vec![b'a'; MAX_BYTES + 1]).unwrap();
        assert!(error(&large).contains("the file is too large"));
    }

    #[test]
    fn an_endless_device_is_read_up_to_the_bound() {
        let text = format!("{:#}", scenario_bytes(Path::new("/dev/zero")).unwrap_err());
        assert!(text.contains("does not end after that"), "{text}");
    }
}
