//! Rules for `Cargo.toml` files: one place for versions, each dependency used and with its reason written down.

use super::Violation;
use super::layers::Member;

/// Where the reasons stand: a table whose first column is the dependency's name.
pub(super) const DECISIONS: &str = "docs/adr/0002-dependencies.md";

/// Every entry of `[workspace.dependencies]` is used by a crate and has a row in the decision, and every row an entry.
pub(super) fn check_workspace(manifest: &str, members: &[Member], decisions: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let rows: Vec<(usize, &str)> = decision_rows(decisions).collect();
    let entries: Vec<(usize, &str)> = dependencies(manifest)
        .filter(|entry| entry.section == "workspace.dependencies")
        .map(|entry| (entry.line, entry.name))
        .collect();
    for &(line, name) in &entries {
        if !members.iter().any(|member| member.uses.contains(name)) {
            let advice = format!("no crate uses `{name}`: remove it");
            violations.push(Violation::new("Cargo.toml", line, "dependencies", advice));
        }
        let own = members.iter().any(|member| member.name == name);
        if !own && !rows.iter().any(|(_, row)| *row == name) {
            let advice = format!("`{name}` has no row in {DECISIONS}: write down why it is worth its weight");
            violations.push(Violation::new("Cargo.toml", line, "dependencies", advice));
        }
    }
    for (line, name) in rows {
        if !entries.iter().any(|(_, entry)| *entry == name) {
            let advice = format!("`{name}` is no dependency any more: remove the row");
            violations.push(Violation::new(DECISIONS, line, "dependencies", advice));
        }
    }
    violations
}

/// A crate takes its versions and lints from the workspace.
pub(super) fn check_member(path: &str, manifest: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for entry in dependencies(manifest) {
        if !entry.inherits {
            let advice =
                format!("write `{}.workspace = true`: versions live in the root manifest", entry.name);
            violations.push(Violation::new(path, entry.line, "dependencies", advice));
        }
    }
    let inherits =
        lines_of(manifest).any(|(_, section, line)| section == "lints" && line == "workspace = true");
    if !inherits {
        violations.push(Violation::new(path, 1, "lints", "add `[lints]` with `workspace = true`"));
    }
    violations
}

struct Dependency<'a> {
    line: usize,
    section: &'a str,
    name: &'a str,
    /// Its version comes from the workspace.
    inherits: bool,
}

/// The entries of all dependency sections. It knows the one-line forms only, which is all that this workspace writes;
/// a `[dependencies.name]` section is reported by its own line as an entry that inherits nothing.
fn dependencies(manifest: &str) -> impl Iterator<Item = Dependency<'_>> {
    lines_of(manifest).filter_map(|(line, section, text)| {
        if let Some((parent, name)) = section.rsplit_once("dependencies.") {
            let header = text.starts_with('[') && !parent.contains(' ');
            return header.then_some(Dependency { line, section, name, inherits: false });
        }
        let (key, value) = text.split_once('=').filter(|_| section.ends_with("dependencies"))?;
        let (key, value) = (key.trim(), value.trim());
        let (name, inherits) = match key.strip_suffix(".workspace") {
            Some(name) => (name, value == "true"),
            None => (key, value.contains("workspace = true")),
        };
        Some(Dependency { line, section, name, inherits })
    })
}

/// The lines that say something, with their number and the section they stand in; a header stands in its own section.
fn lines_of(manifest: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut section = "";
    manifest.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = header;
        }
        (!line.is_empty() && !line.starts_with('#')).then_some((index + 1, section, line))
    })
}

/// The names in the first column of the decision's table.
fn decision_rows(decisions: &str) -> impl Iterator<Item = (usize, &str)> {
    decisions.lines().enumerate().filter_map(|(index, line)| {
        let (name, _) = line.strip_prefix("| `")?.split_once('`')?;
        Some((index + 1, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::brief;

    const WORKSPACE: &str =
        "[workspace.dependencies]\nown = { path = \"own\" }\nserde = \"1\"\n\n[profile.dev]\nx = 1\n";

    fn member(name: &str, uses: &[&str]) -> Member {
        Member {
            name: name.to_owned(),
            uses: uses.iter().map(|&u| u.to_owned()).collect(),
            ..Member::default()
        }
    }

    #[test]
    fn a_used_and_listed_dependency_is_fine() {
        let members = [member("own", &["serde"]), member("other", &["own"])];
        assert_eq!(check_workspace(WORKSPACE, &members, "| `serde` | why |"), []);
    }

    #[test]
    fn an_unused_dependency_is_refused() {
        let found = check_workspace(WORKSPACE, &[member("own", &["serde"])], "| `serde` | why |");
        assert_eq!(brief(&found), [("dependencies", 2)]);
    }

    #[test]
    fn a_dependency_without_a_reason_is_refused_and_so_is_a_reason_without_one() {
        let members = [member("own", &["serde"]), member("other", &["own"])];
        let found = check_workspace(WORKSPACE, &members, "\n| `serd` | why |");
        let places: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.line)).collect();
        assert_eq!(places, [("Cargo.toml", 3), (DECISIONS, 2)]);
    }

    #[test]
    fn versions_and_lints_come_from_the_workspace() {
        let lints = "[lints]\nworkspace = true\n";
        let good = format!(
            "[dependencies]\na.workspace = true\nb = {{ workspace = true, features = [\"x\"] }}\n{lints}"
        );
        assert_eq!(check_member("m", &good), []);
        let own_version = format!("[dev-dependencies]\na = \"1\"\n{lints}");
        assert_eq!(brief(&check_member("m", &own_version)), [("dependencies", 2)]);
        let section = format!("[dependencies.a]\nversion = \"1\"\n{lints}");
        assert_eq!(brief(&check_member("m", &section)), [("dependencies", 1)]);
        assert_eq!(brief(&check_member("m", "[dependencies]\na.workspace = true\n")), [("lints", 1)]);
    }
}
