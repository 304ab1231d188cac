//! Rules for every text file: nothing that is true on one machine only.

use super::Violation;

/// Folders whose absolute paths exist on a developer's machine only. Spelled without slashes so that this file does
/// not report itself.
const PRIVATE_FOLDERS: [&str; 4] = ["home", "root", "Users", "work"];

/// The packages' registries; names in two parts and endings apart, so that no host stands in this file. Which registry is used is the affair of each machine's settings.
const REGISTRIES: [(&str, &[&str]); 5] = [
    (concat!("py", "pi"), &[".org", ".io", ".com"]),
    (concat!("npm", "js"), &[".org", ".io", ".com"]),
    (concat!("cra", "tes"), &[".io", ".org", ".com"]),
    (concat!("python", "hosted"), &[".org"]),
    (concat!("repo1.", "maven"), &[".org"]),
];

/// Checks one file; the workspace's lock file, which cargo writes, is left alone, and there is no other.
pub(super) fn check(path: &str, content: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    if path == "Cargo.lock" {
        return violations;
    }
    for (index, line) in content.lines().enumerate() {
        if let Some(folder) = private_folder(line) {
            let advice =
                format!("an absolute path under /{folder} exists on one machine only: make it relative");
            violations.push(Violation::new(path, index + 1, "machine-path", advice));
        }
        if let Some(name) = registry(line) {
            let advice = format!("names a package registry's host ({name}): name the package instead");
            violations.push(Violation::new(path, index + 1, "registry-host", advice));
        }
    }
    violations
}

fn private_folder(line: &str) -> Option<&'static str> {
    PRIVATE_FOLDERS.into_iter().find(|folder| {
        let needle = format!("/{folder}/");
        line.match_indices(&needle).any(|(at, _)| {
            let inside_path =
                |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '}' | ']' | ')');
            let named = |c: char| c.is_ascii_alphanumeric() || c == '.';
            !line[..at].ends_with(inside_path) && line[at + needle.len()..].starts_with(named)
        })
    })
}

fn registry(line: &str) -> Option<&'static str> {
    let line = line.to_ascii_lowercase();
    let found = REGISTRIES.into_iter().find(|(name, endings)| {
        line.match_indices(name).any(|(at, _)| {
            let rest = &line[at + name.len()..];
            endings.iter().any(|ending| {
                rest.strip_prefix(ending)
                    .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
            })
        })
    });
    found.map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::brief;

    #[test]
    fn paths_of_one_machine_are_refused() {
        let bad = ["cd /F/someone/x", "\"/F/a\"", "file:///F/a", "/F/.cargo"];
        for folder in PRIVATE_FOLDERS {
            for line in bad {
                let line = line.replace('F', folder);
                assert_eq!(brief(&check("a.md", &format!("\n{line}"))), [("machine-path", 2)], "{line}");
            }
        }
        for line in ["./F/x", "docs/F/x", "/F", "/F/ x", "/Fs/x", "${DIR}/F/x"] {
            let line = line.replace('F', "work");
            assert_eq!(check("a.md", &line), [], "{line}");
        }
    }

    #[test]
    fn registry_hosts_are_refused_and_words_are_not() {
        for (name, endings) in REGISTRIES {
            for ending in endings {
                let line = format!("see https://{name}{ending}/x");
                assert_eq!(brief(&check("a.md", &line)), [("registry-host", 1)], "{line}");
                assert_eq!(check("Cargo.lock", &line), []);
                assert_eq!(brief(&check("fuzz/Cargo.lock", &line)), [("registry-host", 1)], "{line}");
            }
        }
        assert_eq!(check("a.md", concat!("crates, PyPI, cra", "tes.iota, crates/io")), []);
    }
}
