//! The shipped knowledge: what products promise, where they are out of place, and what that rests on.
//!
//! One YAML file stands for one product (`catalog/<family>/<product>.yaml`, format `touchstone.product/1`); adding a
//! product is adding a file. Every claim carries its source, its date and its [`Level`](touchstone_model::Level); a
//! claim that evidence contradicts stays in the catalog as *disputed*, with that evidence. What nobody claims is
//! unknown, which is never the same as absent.
//!
//! [`matching`] checks a scenario against the claims: rules for forbidden scenarios first, then the required
//! capabilities. It deliberately measures nothing, ranks nothing and trusts no claim beyond its level; figures that
//! a page states are [`Remark`]s and never stand in for a measurement.
//!
//! The crate is pure: the shipped files are embedded at build time, a user's files come in as bytes.
//!
//! Main types: [`Catalog`], [`Product`], [`Claim`], [`Rule`], [`CandidateMatch`](matching::CandidateMatch).

mod catalog;
mod condition;
mod file;
pub mod matching;
mod nearest;
mod product;
mod version;

pub use catalog::{CATALOG_FORMAT, Catalog};
pub use condition::{Condition, ConditionError, Feature};
pub use file::{PRODUCT_FORMAT, product_schema};
pub use product::{
    Claim, Configuration, Detect, Figure, Product, Provenance, Recommendation, Remark, Rule, Status, Text,
    Unknown, core_capabilities,
};
pub use version::{Version, VersionError, VersionRange};
