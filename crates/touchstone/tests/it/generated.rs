//! What is generated and checked in is what the program would generate, and every shipped scenario is one.

use std::path::Path;

use crate::{context, run};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_files_that_are_checked_in_are_current() {
    let done = run(&["generate", "--check", "--dir", ROOT]);
    assert_eq!((done.code(), done.stderr.as_str(), done.stdout.as_str()), (Some(0), "", ""));
}

#[test]
fn a_changed_file_is_noticed() {
    let context = context();
    assert_eq!(context.run(["generate", "--dir", "out", "--quiet"]).unwrap().code(), Some(0));
    assert_eq!(context.run(["generate", "--dir", "out", "--check"]).unwrap().code(), Some(0));
    context.write("out/schemas/run.schema.json", "{}").unwrap();
    let done = context.run(["generate", "--dir", "out", "--check"]).unwrap();
    assert_eq!(done.code(), Some(2));
    assert!(
        done.stderr.contains("schemas/run.schema.json") && !done.stderr.contains("decision"),
        "{}",
        done.stderr
    );
}

#[test]
fn every_shipped_scenario_is_accepted() {
    let folder = Path::new(ROOT).join("scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let done = run(&["check", path.to_str().unwrap()]);
            assert_eq!(done.code(), Some(0), "{}: {}", path.display(), done.stderr);
            count += 1;
        }
    }
    assert!(count > 0, "no scenario is shipped");
}
