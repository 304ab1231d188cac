//! `touchstone --version`: the program's version and the date of the knowledge it carries.

use touchstone_catalog::Catalog;

/// One line, as in `touchstone 0.1.0 (catalog 2026-11-30)`.
pub(crate) fn line() -> anyhow::Result<String> {
    let catalog = Catalog::shipped()?;
    Ok(format!("touchstone {} (catalog {})\n", env!("CARGO_PKG_VERSION"), catalog.date()))
}
