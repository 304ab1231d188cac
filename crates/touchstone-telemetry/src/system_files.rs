//! Reading the small text files of /proc and /sys under a root folder, so that tests can plant their own.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::reading::Reading;

/// Greatest file that is read; /proc/cpuinfo of a large machine is a few hundred KiB.
const MAX_BYTES: u64 = 4 << 20;

/// The text of a file, at most [`MAX_BYTES`] of it.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The files of a system whose `/` is `root`.
#[derive(Debug, Clone)]
pub(crate) struct SystemFiles {
    root: PathBuf,
}

impl SystemFiles {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The content of `path`, which is written without the leading slash; reasons name it with one.
    pub(crate) fn text(&self, path: &str) -> Reading<String> {
        match read_text(&self.root.join(path)) {
            Ok(text) => Reading::Value(text),
            Err(error) => Reading::Unreadable(format!("/{path}: {}", error.kind())),
        }
    }

    /// The content without surrounding space.
    pub(crate) fn line(&self, path: &str) -> Reading<String> {
        self.text(path).map(|text| text.trim().to_owned())
    }

    /// The content as one value.
    pub(crate) fn parsed<T: FromStr>(&self, path: &str) -> Reading<T> {
        self.line(path).and_then(|line| Reading::from_option(line.parse().ok(), &unexpected(path)))
    }

    /// What `find` makes of the content; none is an unexpected content.
    pub(crate) fn found<T>(&self, path: &str, find: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
        self.text(path).and_then(|text| Reading::from_option(find(&text), &unexpected(path)))
    }
}

/// The reason for a file that could be read but not understood.
pub(crate) fn unexpected(path: &str) -> String {
    format!("/{path}: unexpected content")
}

/// The value of the first line `key : value` or `key=value`.
pub(crate) fn field<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_strange_is_named() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), " 12\n").unwrap();
        std::fs::write(root.path().join("b"), "twelve").unwrap();
        let files = SystemFiles::new(root.path());
        assert_eq!(files.parsed("a"), Reading::Value(12u64));
        assert_eq!(files.parsed::<u64>("b"), Reading::Unreadable("/b: unexpected content".to_owned()));
        assert_eq!(files.parsed::<u64>("c"), Reading::Unreadable("/c: entity not found".to_owned()));
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "cpu MHz\t\t: 2596.120\nmodel\t: 2\nmodel name : X : Y\n";
        assert_eq!(field(text, "model name", ':'), Some("X : Y"));
        assert_eq!(field(text, "cpu MHz", ':'), Some("2596.120"));
        assert_eq!(field(text, "cpu", ':'), None);
    }
}
