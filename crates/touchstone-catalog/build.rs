//! Lists the catalog files, so that adding a product is adding a file: `catalog/catalog.yaml` and `catalog/*/*.yaml`
//! become a table of names and bytes inside the crate.

#![expect(clippy::disallowed_methods, reason = "a build script reads and writes files; the crate does not")]

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let variable = |name: &str| std::env::var(name).map(PathBuf::from).map_err(io::Error::other);
    let root = variable("CARGO_MANIFEST_DIR")?.join("../../catalog");
    let mut names = vec!["catalog.yaml".to_owned()];
    for folder in entries(&root)? {
        if root.join(&folder).is_dir() {
            let files = entries(&root.join(&folder))?;
            let yaml = files.into_iter().filter(|name| name.ends_with(".yaml"));
            names.extend(yaml.map(|name| format!("{folder}/{name}")));
        }
    }
    let mut table = String::from("&[\n");
    for name in names {
        let path = format!("/../../catalog/{name}");
        writeln!(table, "    ({name:?}, include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),")
            .map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    fs::write(variable("OUT_DIR")?.join("shipped.rs"), table)?;
    // A folder's own change is seen as well as its files', so a new file is picked up.
    println!("cargo::rerun-if-changed=../../catalog");
    Ok(())
}

/// Names in a folder, sorted, so that the table does not depend on the file system.
fn entries(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(
            entry?.file_name().into_string().map_err(|name| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{name:?} is not UTF-8"))
            })?,
        );
    }
    names.sort();
    Ok(names)
}
