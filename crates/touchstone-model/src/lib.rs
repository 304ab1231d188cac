//! The nouns of Touchstone: metric ids and units, scenarios, requirements, capabilities, findings, run documents.
//!
//! This crate holds plain data with its parsing and its text forms, and nothing that measures, decides or touches the
//! outside: bytes come in as arguments. One word stands for one idea here and everywhere else; the glossary is
//! `docs/reference/metrics.md`, generated from [`metric::MetricId`].
//!
//! Main types: [`MetricId`], [`Quantity`], [`Scenario`], [`Requirement`], [`RunDocument`], [`Finding`], [`Level`].

pub mod arrival;
pub mod campaign;
pub mod capability;
pub mod comparison;
pub mod decision;
pub mod document;
pub mod failure;
pub mod finding;
pub mod length;
pub mod level;
pub mod metric;
pub mod requirement;
pub mod run;
pub mod scenario;
pub mod server;
pub mod sweep;
pub mod target;
pub mod unit;

pub use arrival::Arrival;
pub use campaign::{CampaignDocument, CampaignFile};
pub use capability::{CapabilityId, CapabilityValue};
pub use comparison::ComparisonDocument;
pub use document::{DocumentError, Problem};
pub use failure::{Origin, Phase};
pub use finding::{Finding, FindingCode, Severity};
pub use length::Length;
pub use level::Level;
pub use metric::{Better, Dimension, Family, MetricId, Statistic};
pub use requirement::{Comparison, Requirement, Subject};
pub use run::{MetricSummary, RunDocument};
pub use scenario::Scenario;
pub use server::{ServerMetric, ServerSection};
pub use sweep::SweepDocument;
pub use target::{Protocol, Target};
pub use unit::{Quantity, Unit};
