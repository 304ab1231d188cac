//! The catalog as a whole: the shipped files, a user's files over them, and the look-up of claims.

use serde::Deserialize;
use serde_saphyr::Spanned;
use touchstone_model::{CapabilityId, DocumentError, Family, Problem, document};

use crate::file;
use crate::nearest::nearest;
use crate::product::{Claim, Product, Status};
use crate::version::Version;

/// The format of `catalog.yaml`.
pub const CATALOG_FORMAT: &str = "touchstone.catalog/1";

/// The name of the file that describes the catalog itself.
const CATALOG_FILE: &str = "catalog.yaml";

/// Names and bytes of the shipped files, listed by the build script, sorted by name.
const SHIPPED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// `catalog.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogFile {
    format: Spanned<String>,
    date: Spanned<String>,
}

/// Everything the catalog knows, in a fixed order: by family, then by id.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    date: String,
    products: Vec<Product>,
    files: Vec<(String, Vec<u8>)>,
}

impl Catalog {
    /// The shipped catalog.
    ///
    /// # Errors
    /// When a shipped file cannot be read; a test keeps that from being released.
    pub fn shipped() -> Result<Self, DocumentError> {
        Self::parse(SHIPPED)
    }

    /// Reads a catalog from files: one `catalog.yaml`, and one file per product under any name.
    ///
    /// # Errors
    /// When a file cannot be read, `catalog.yaml` is missing, or two files hold the same product; all problems are
    /// listed with file, line and column.
    pub fn parse<N: AsRef<str>, B: AsRef<[u8]>>(files: &[(N, B)]) -> Result<Self, DocumentError> {
        let (date, products, files) = read_all(files)?;
        let Some(date) = date else {
            return Err(DocumentError::whole(
                CATALOG_FILE,
                "the file is missing",
                Some(format!("write `format: {CATALOG_FORMAT}` and `date: YYYY-MM-DD` into {CATALOG_FILE}")),
            ));
        };
        let mut catalog = Self { date, products, files };
        catalog.sort();
        Ok(catalog)
    }

    /// The same catalog with a user's files over it: a product with a known id replaces that product, file and all; a
    /// new id is added. A `catalog.yaml` among them sets the date.
    ///
    /// # Errors
    /// When a file cannot be read, two of them hold the same product, or one has the name of another product's file.
    pub fn with_overlay<N: AsRef<str>, B: AsRef<[u8]>>(
        mut self,
        files: &[(N, B)],
    ) -> Result<Self, DocumentError> {
        let (date, products, files) = read_all(files)?;
        self.products.retain(|old| {
            let replaced = products.iter().any(|new| new.id == old.id);
            if replaced {
                self.files.retain(|(name, _)| *name != old.file);
            }
            !replaced
        });
        if let Some(date) = date {
            self.date = date;
            self.files.retain(|(name, _)| name != CATALOG_FILE);
        }
        if let Some((name, _)) =
            files.iter().find(|(name, _)| self.files.iter().any(|(known, _)| known == name))
        {
            let message = "another product of the catalog has a file of this name";
            return Err(DocumentError::whole(name, message, Some("rename your file".to_owned())));
        }
        self.products.extend(products);
        self.files.extend(files);
        self.sort();
        Ok(self)
    }

    fn sort(&mut self) {
        self.products.sort_by(|a, b| (a.family, &a.id).cmp(&(b.family, &b.id)));
        self.files.sort_by(|(a, _), (b, _)| a.cmp(b));
    }

    /// The date of the catalog, YYYY-MM-DD.
    #[must_use]
    pub fn date(&self) -> &str {
        &self.date
    }

    /// Every file with its bytes, sorted by name: the input of digests.
    #[must_use]
    pub fn files(&self) -> &[(String, Vec<u8>)] {
        &self.files
    }

    /// Every product, by family and id.
    #[must_use]
    pub fn all_products(&self) -> &[Product] {
        &self.products
    }

    /// The product of that id.
    #[must_use]
    pub fn product(&self, id: &str) -> Option<&Product> {
        self.products.iter().find(|product| product.id == id)
    }

    /// The products of a family, by id.
    pub fn products(&self, family: Family) -> impl Iterator<Item = &Product> {
        self.products.iter().filter(move |product| product.family == family)
    }

    /// The known product id that is most like a mistyped one.
    #[must_use]
    pub fn nearest_product(&self, id: &str) -> Option<&str> {
        nearest(id, self.products.iter().map(|product| product.id.as_str()))
    }

    /// What is claimed about a capability of a product: see [`Product::claim`]. None for an unknown product, too.
    #[must_use]
    pub fn claim(
        &self,
        product: &str,
        configuration: Option<&str>,
        capability: CapabilityId,
        version: Option<&str>,
    ) -> Option<&Claim> {
        self.product(product)?.claim(configuration, capability, version)
    }
}

impl Product {
    /// What is claimed about a capability, for a configuration (the default one for `None`) and a version.
    ///
    /// A claim with a version range counts only for a version inside it. Without a version, or with one that cannot be
    /// read, it counts when the range reaches up to the newest version: the newest is what a reader would install.
    /// Among the claims that count, an active one comes before a disputed one, the configuration's before the
    /// product's, one with a version range before one without, the higher level and then the later date first.
    #[must_use]
    pub fn claim(
        &self,
        configuration: Option<&str>,
        capability: CapabilityId,
        version: Option<&str>,
    ) -> Option<&Claim> {
        let version = version.and_then(|version| version.parse::<Version>().ok());
        let own = self.configuration(configuration).map_or(&[][..], |configuration| &configuration.claims);
        let counts = |claim: &&Claim| {
            claim.capability == capability
                && claim.versions.as_ref().is_none_or(|range| match &version {
                    Some(version) => range.contains(version),
                    None => range.reaches_newest(),
                })
        };
        let rank = |(of_configuration, claim): &(bool, &Claim)| {
            (
                claim.provenance.status == Status::Active,
                *of_configuration,
                claim.versions.is_some(),
                claim.provenance.level,
                claim.provenance.date.clone(),
            )
        };
        let own = own.iter().filter(counts).map(|claim| (true, claim));
        let general = self.claims.iter().filter(counts).map(|claim| (false, claim));
        // Of equals the first in the file is taken; `max_by_key` alone would take the last.
        let candidates: Vec<(bool, &Claim)> = own.chain(general).collect();
        candidates.into_iter().rev().max_by_key(rank).map(|(_, claim)| claim)
    }
}

type ReadFiles = (Option<String>, Vec<Product>, Vec<(String, Vec<u8>)>);

/// Reads files into the date (when `catalog.yaml` is among them), the products and the owned files.
fn read_all<N: AsRef<str>, B: AsRef<[u8]>>(files: &[(N, B)]) -> Result<ReadFiles, DocumentError> {
    let mut problems: Vec<Problem> = Vec::new();
    let (mut date, mut products, mut owned) = (None, Vec::<Product>::new(), Vec::new());
    for (name, bytes) in files {
        let (name, bytes) = (name.as_ref(), bytes.as_ref());
        if owned.iter().any(|(known, _)| known == name) {
            problems.extend(DocumentError::whole(name, "the file is listed twice", None).problems);
        }
        owned.push((name.to_owned(), bytes.to_vec()));
        if name == CATALOG_FILE {
            match read_catalog_file(name, bytes) {
                Ok(found) => date = Some(found),
                Err(error) => problems.extend(error.problems),
            }
            continue;
        }
        match file::read(name, bytes) {
            Ok(product) => {
                if let Some(other) = products.iter().find(|other| other.id == product.id) {
                    let message = format!("the product `{}` is already in {}", product.id, other.file);
                    let hint = "one file per product: merge them".to_owned();
                    problems.extend(DocumentError::whole(name, message, Some(hint)).problems);
                }
                products.push(product);
            }
            Err(error) => problems.extend(error.problems),
        }
    }
    if problems.is_empty() { Ok((date, products, owned)) } else { Err(DocumentError { problems }) }
}

fn read_catalog_file(name: &str, bytes: &[u8]) -> Result<String, DocumentError> {
    let raw: CatalogFile = document::from_yaml(name, bytes)?;
    let problem = |at: &Spanned<String>, message: String, hint: String| {
        let (line, column) = (at.referenced.line(), at.referenced.column());
        DocumentError {
            problems: vec![Problem { file: name.to_owned(), line, column, message, hint: Some(hint) }],
        }
    };
    if raw.format.value != CATALOG_FORMAT {
        let message = format!("this version reads `{CATALOG_FORMAT}`, not `{}`", raw.format.value);
        return Err(problem(&raw.format, message, format!("write `format: {CATALOG_FORMAT}`")));
    }
    if !file::is_date(&raw.date.value) {
        let message = format!("`{}` is no date; expected YYYY-MM-DD", raw.date.value);
        return Err(problem(&raw.date, message, "the day up to which the catalog was checked".to_owned()));
    }
    Ok(raw.date.value)
}
