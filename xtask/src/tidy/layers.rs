//! Which crate may depend on which. The table is the architecture: a new crate or edge changes it in the same commit
//! as `ARCHITECTURE.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, PackageId};

use super::Violation;

/// The level of each product crate. A crate depends on lower levels only.
const LEVELS: &[(&str, u8)] = &[
    ("touchstone-model", 0),
    ("touchstone-stats", 1),
    ("touchstone-catalog", 1),
    ("touchstone-workload", 1),
    ("touchstone-load", 2),
    ("touchstone-sim", 2),
    ("touchstone-route", 2),
    ("touchstone-plan", 2),
    ("touchstone-decide", 2),
    ("touchstone-report", 2),
    ("touchstone-net", 3),
    ("touchstone-drivers", 3),
    ("touchstone-runner", 3),
    ("touchstone-telemetry", 3),
    ("touchstone-records", 3),
    ("touchstone-engine", 4),
    ("touchstone-gateway", 4),
    ("touchstone-flow", 5),
    ("touchstone-cluster", 6),
    ("touchstone-server", 7),
    ("touchstone", 8),
];

/// The edges allowed inside a level. The runner has none to the drivers: it drives any protocol through the trait in
/// `touchstone-load`. The workload takes its random generator from the statistics: one generator and one set of
/// distributions for schedules, payloads and the draws of a decision, tested once.
const SAME_LEVEL: &[(&str, &str)] = &[
    ("touchstone-workload", "touchstone-stats"),
    ("touchstone-sim", "touchstone-load"),
    ("touchstone-sim", "touchstone-route"),
    ("touchstone-plan", "touchstone-sim"),
    ("touchstone-runner", "touchstone-net"),
];

/// Crates up to this level are pure.
const PURE_UP_TO: u8 = 2;
/// What would bring sockets, threads or a clock into a pure crate.
const IMPURE_PACKAGES: &[&str] = &["nix", "mio", "rustls", "tokio"];

/// For development only; no product crate may need it to run.
const TESTKIT: &str = "touchstone-testkit";
const DEVELOPMENT: &[&str] = &[TESTKIT, "xtask"];
const BINARY: &str = "touchstone";

/// Whether the crate of this name takes bytes, clock and seed as arguments instead of reaching for them.
pub(super) fn is_pure(name: &str) -> bool {
    level(name).is_some_and(|level| level <= PURE_UP_TO)
}

/// Whether the crate of this name may print and exit.
pub(super) fn may_print(name: &str) -> bool {
    name == BINARY || DEVELOPMENT.contains(&name)
}

fn level(name: &str) -> Option<u8> {
    LEVELS.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
}

/// A crate of this workspace.
#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) name: String,
    /// Relative to the workspace.
    pub(super) manifest: String,
    /// The root files of its library and binaries, relative to the workspace.
    pub(super) roots: Vec<String>,
    /// Direct dependencies that the built crate needs (normal and build, not dev).
    pub(super) needs: BTreeSet<String>,
    /// Direct dependencies of any kind.
    pub(super) uses: BTreeSet<String>,
    /// Every package below it, dev-dependencies left out.
    pub(super) tree: BTreeSet<String>,
}

/// The workspace's crates as cargo sees them.
pub(super) fn members(metadata: &Metadata, root: &Path) -> Result<Vec<Member>> {
    let resolve = metadata.resolve.as_ref().context("cargo metadata has no resolved dependencies")?;
    let name_of: BTreeMap<&PackageId, &str> =
        metadata.packages.iter().map(|package| (&package.id, package.name.as_str())).collect();
    let below: BTreeMap<&PackageId, Vec<&PackageId>> = resolve
        .nodes
        .iter()
        .map(|node| {
            let needed = node.deps.iter().filter(|dependency| {
                dependency.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development)
            });
            (&node.id, needed.map(|dependency| &dependency.pkg).collect())
        })
        .collect();
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();

    let mut members = Vec::new();
    for package in metadata.workspace_packages() {
        let mut reached = BTreeSet::new();
        let mut open = vec![&package.id];
        while let Some(id) = open.pop() {
            for &next in below.get(id).into_iter().flatten() {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        let direct = |wanted: fn(DependencyKind) -> bool| {
            package.dependencies.iter().filter(|d| wanted(d.kind)).map(|d| d.name.clone()).collect()
        };
        let is_root = |target: &&cargo_metadata::Target| target.is_lib() || target.is_bin();
        members.push(Member {
            name: package.name.to_string(),
            manifest: relative(package.manifest_path.as_std_path()),
            roots: package
                .targets
                .iter()
                .filter(is_root)
                .map(|t| relative(t.src_path.as_std_path()))
                .collect(),
            needs: direct(|kind| kind != DependencyKind::Development),
            uses: direct(|_| true),
            tree: reached
                .into_iter()
                .filter_map(|id| name_of.get(id))
                .map(|name| (*name).to_owned())
                .collect(),
        });
    }
    Ok(members)
}

/// Every crate has a level, points downwards, and stays pure where it must.
pub(super) fn check(members: &[Member]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for member in members {
        let mut report =
            |rule, advice: String| violations.push(Violation::new(&member.manifest, 1, rule, advice));
        let development = DEVELOPMENT.contains(&member.name.as_str());
        let Some(own) = level(&member.name).or(development.then_some(u8::MAX)) else {
            report("layers", format!("`{}` has no level yet: add it to the table in xtask", member.name));
            continue;
        };
        for needed in &member.needs {
            if needed == TESTKIT && !development {
                report("layers", format!("`{TESTKIT}` is for tests: make it a dev-dependency"));
            }
            let Some(other) = level(needed) else { continue };
            if other == own && !SAME_LEVEL.contains(&(member.name.as_str(), needed.as_str())) {
                report(
                    "layers",
                    format!("`{needed}` is on the same level ({own}); only listed edges are allowed there"),
                );
            }
            if other > own {
                report("layers", format!("`{needed}` is on a higher level ({other} above {own})"));
            }
            if member.name == TESTKIT {
                report("layers", format!("the testkit is for all crates, so it may not need `{needed}`"));
            }
        }
        if own <= PURE_UP_TO {
            for package in IMPURE_PACKAGES.iter().filter(|package| member.tree.contains(**package)) {
                report("purity", format!("`{package}` is in the dependency tree of a pure crate"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, needs: &[&str]) -> Member {
        Member {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            needs: needs.iter().map(|&need| need.to_owned()).collect(),
            ..Member::default()
        }
    }

    #[track_caller]
    fn check_one(name: &str, needs: &[&str], expected: &[&str]) {
        let found = check(&[member(name, needs)]);
        let rules: Vec<&str> = found.iter().map(|violation| violation.rule).collect();
        assert_eq!(rules, expected, "{found:?}");
    }

    #[test]
    fn dependencies_point_downwards() {
        check_one("touchstone-flow", &["touchstone-model", "touchstone-records", "serde"], &[]);
        check_one("touchstone-model", &["touchstone-stats"], &["layers"]);
        check_one("touchstone-records", &["touchstone-flow"], &["layers"]);
    }

    #[test]
    fn edges_inside_a_level_are_listed() {
        check_one("touchstone-sim", &["touchstone-load", "touchstone-route"], &[]);
        check_one("touchstone-runner", &["touchstone-net"], &[]);
        check_one("touchstone-workload", &["touchstone-stats"], &[]);
        check_one("touchstone-stats", &["touchstone-workload"], &["layers"]);
        check_one("touchstone-load", &["touchstone-sim"], &["layers"]);
        check_one("touchstone-runner", &["touchstone-drivers"], &["layers"]);
    }

    #[test]
    fn a_crate_without_a_level_is_noticed() {
        check_one("touchstone-novel", &[], &["layers"]);
    }

    #[test]
    fn the_testkit_is_for_tests_and_knows_no_product_crate() {
        check_one("touchstone-runner", &["touchstone-testkit"], &["layers"]);
        check_one("xtask", &["touchstone-testkit"], &[]);
        check_one("touchstone-testkit", &["touchstone-model"], &["layers"]);
    }

    #[test]
    fn a_pure_crate_has_no_impure_package_anywhere_below() {
        let mut sim = member("touchstone-sim", &["somewhere"]);
        sim.tree = ["somewhere", "mio"].map(str::to_owned).into();
        assert_eq!(check(&[sim])[0].rule, "purity");
        let mut runner = member("touchstone-runner", &["mio"]);
        runner.tree = ["mio".to_owned()].into();
        assert_eq!(check(&[runner]), []);
    }

    #[test]
    fn the_real_workspace_is_read() {
        let root = crate::root();
        let metadata =
            cargo_metadata::MetadataCommand::new().manifest_path(root.join("Cargo.toml")).exec().unwrap();
        let members = members(&metadata, &root).unwrap();
        let own = members.iter().find(|member| member.name == "xtask").unwrap();
        assert_eq!(own.manifest, "xtask/Cargo.toml");
        assert_eq!(own.roots, ["xtask/src/main.rs"]);
        assert!(own.needs.contains("cargo_metadata") && own.tree.contains("serde_json"), "{own:?}");
    }
}
