//! Product files: their shape in YAML, and its check into [`Product`] with every problem placed at its line.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_saphyr::Spanned;
use touchstone_model::capability::{CapabilityText, CapabilityValue};
use touchstone_model::requirement::Subject;
use touchstone_model::{CapabilityId, DocumentError, Family, Level, Problem, Protocol, Quantity, document};

use crate::condition::Condition;
use crate::product::{
    Claim, Configuration, Detect, Figure, Product, Provenance, Recommendation, Remark, Rule, Status, Text,
    Unknown,
};

/// The format of product files.
pub const PRODUCT_FORMAT: &str = "touchstone.product/1";

/// The JSON Schema of product files.
#[must_use]
pub fn product_schema() -> schemars::Schema {
    schemars::schema_for!(ProductFile)
}

/// One product, as a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProductFile {
    /// The format, `touchstone.product/1`.
    #[schemars(with = "String")]
    format: Spanned<String>,
    /// The id: lower-case letters, digits and `-`.
    #[schemars(with = "String")]
    id: Spanned<String>,
    /// The name in reports.
    name: String,
    /// The family.
    family: Family,
    /// Other families in which it is used.
    #[serde(default)]
    serves: Vec<Family>,
    /// Who makes it.
    vendor: String,
    /// The licence's name.
    licence: String,
    /// What it is.
    summary: Text,
    /// Protocols over which Touchstone can load it.
    #[serde(default)]
    protocols: Vec<Protocol>,
    /// How a running server names itself.
    #[serde(default)]
    detect: Vec<Detect>,
    /// Ways to set it up.
    configurations: Vec<ConfigurationFile>,
    /// What holds for all configurations.
    claims: Vec<ClaimFile>,
    /// What is known to be unknown.
    #[serde(default)]
    unknown: Vec<UnknownFile>,
    /// Forbidden scenarios.
    #[serde(default)]
    forbidden: Vec<RuleFile>,
    /// Scenarios for which it is recommended.
    #[serde(default)]
    recommended: Vec<RecommendationFile>,
    /// Other statements about it.
    #[serde(default)]
    remarks: Vec<RemarkFile>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConfigurationFile {
    /// The id, unique in the product.
    #[schemars(with = "String")]
    id: Spanned<String>,
    /// Whether it is meant when a candidate names none.
    #[serde(default)]
    default: bool,
    /// The settings that make it, as texts.
    #[serde(default)]
    settings: BTreeMap<String, String>,
    /// What it is.
    summary: Text,
    /// What holds for it alone.
    #[serde(default)]
    claims: Vec<ClaimFile>,
}

/// Fields that every statement has are repeated, because YAML errors must name the missing one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimFile {
    /// The capability.
    #[schemars(with = "CapabilityId")]
    capability: Spanned<String>,
    /// Its value.
    #[schemars(with = "CapabilityText")]
    value: Spanned<CapabilityText>,
    /// What must be the case for it to hold.
    #[serde(default)]
    conditions: Option<Text>,
    /// The versions, as in `>=2.10, <3`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    versions: Option<Spanned<String>>,
    /// Repository and file, page and section, or title of an article.
    source: String,
    /// The day of the state that was read, YYYY-MM-DD.
    #[schemars(with = "String")]
    date: Spanned<String>,
    /// P0 for what a page says, P1 for what a machine showed.
    level: Level,
    /// `active`, or `disputed` with `dispute`.
    #[serde(default)]
    status: StatusFile,
    /// The evidence against it, with its source.
    #[serde(default)]
    dispute: Option<Text>,
    /// What else should be known.
    #[serde(default)]
    note: Option<Text>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UnknownFile {
    /// The capability.
    #[schemars(with = "CapabilityId")]
    capability: Spanned<String>,
    /// Why nothing can be said.
    note: Text,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    /// The id, unique in the product.
    #[schemars(with = "String")]
    id: Spanned<String>,
    /// Conditions; all must be met.
    #[schemars(with = "Vec<String>")]
    when: Vec<Spanned<String>>,
    /// The configurations it is about; all when absent.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    configurations: Vec<Spanned<String>>,
    /// Why the product is out of place.
    reason: Text,
    /// Where it comes from.
    source: String,
    /// The day of the state that was read, YYYY-MM-DD.
    #[schemars(with = "String")]
    date: Spanned<String>,
    /// P0 for what a page says, P1 for what a machine showed.
    level: Level,
    /// `active`, or `disputed` with `dispute`.
    #[serde(default)]
    status: StatusFile,
    /// The evidence against it, with its source.
    #[serde(default)]
    dispute: Option<Text>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecommendationFile {
    /// The feature of the scenario, in words.
    feature: Text,
    /// The feature as conditions; all must be met.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    when: Vec<Spanned<String>>,
    /// Why it is recommended.
    reason: Text,
    /// Where it comes from.
    source: String,
    /// The day of the state that was read, YYYY-MM-DD.
    #[schemars(with = "String")]
    date: Spanned<String>,
    /// P0 for what a page says, P1 for what a machine showed.
    level: Level,
    /// `active`, or `disputed` with `dispute`.
    #[serde(default)]
    status: StatusFile,
    /// The evidence against it, with its source.
    #[serde(default)]
    dispute: Option<Text>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemarkFile {
    /// What is stated.
    text: Text,
    /// The metric it is about, as in `ttft.p99`; with `value`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    metric: Option<Spanned<String>>,
    /// The value, with its unit.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    value: Option<Spanned<String>>,
    /// Where it comes from.
    source: String,
    /// The day of the state that was read, YYYY-MM-DD.
    #[schemars(with = "String")]
    date: Spanned<String>,
    /// P0 for what a page says, P1 for what a machine showed.
    level: Level,
    /// `active`, or `disputed` with `dispute`.
    #[serde(default)]
    status: StatusFile,
    /// The evidence against it, with its source.
    #[serde(default)]
    dispute: Option<Text>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StatusFile {
    #[default]
    Active,
    Disputed,
}

/// Reads and checks one product file.
pub(crate) fn read(file: &str, bytes: &[u8]) -> Result<Product, DocumentError> {
    let raw: ProductFile = document::from_yaml(file, bytes)?;
    let mut check = Check { file, problems: Vec::new() };
    let product = check.product(raw);
    match product {
        Some(product) if check.problems.is_empty() => Ok(product),
        _ => Err(DocumentError { problems: check.problems }),
    }
}

/// Whether an id has the form of one.
fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Whether a text is a calendar date, YYYY-MM-DD, as far as days per month go up to 31.
pub(crate) fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str, digits: usize| {
        (part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse::<u32>().ok())
            .flatten()
    };
    match parts[..] {
        [year, month, day] => {
            number(year, 4).is_some_and(|year| year >= 2000)
                && number(month, 2).is_some_and(|month| (1..=12).contains(&month))
                && number(day, 2).is_some_and(|day| (1..=31).contains(&day))
        }
        _ => false,
    }
}

/// Collects problems while the raw file is turned into a product; a part with a problem is left out.
struct Check<'a> {
    file: &'a str,
    problems: Vec<Problem>,
}

/// The fields that all statements share.
struct Common<'a> {
    source: &'a str,
    date: &'a Spanned<String>,
    level: Level,
    status: StatusFile,
    dispute: Option<Text>,
}

impl Check<'_> {
    fn problem<T>(&mut self, at: &Spanned<T>, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line: at.referenced.line(),
            column: at.referenced.column(),
            message: message.into(),
            hint: Some(hint.into()),
        });
    }

    /// A file's texts are shown to people, so empty ones are as bad as missing ones.
    fn text<T>(&mut self, at: &Spanned<T>, what: &str, text: &Text) {
        if text.en.trim().is_empty() || text.zh.trim().is_empty() {
            self.problem(at, format!("{what} is empty in one language"), "write both `en` and `zh`");
        }
    }

    fn product(&mut self, raw: ProductFile) -> Option<Product> {
        if raw.format.value != PRODUCT_FORMAT {
            let message = format!("this version reads `{PRODUCT_FORMAT}`, not `{}`", raw.format.value);
            self.problem(&raw.format, message, format!("write `format: {PRODUCT_FORMAT}`"));
            return None;
        }
        self.id(&raw.id, &[]);
        self.text(&raw.id, "the summary", &raw.summary);
        if raw.serves.contains(&raw.family) {
            self.problem(&raw.id, "`serves` repeats `family`", "list other families only");
        }
        let families: Vec<Family> = std::iter::once(raw.family).chain(raw.serves.iter().copied()).collect();
        let claims = self.claims(raw.claims, &families);
        let mut configurations: Vec<Configuration> = Vec::new();
        for configuration in raw.configurations {
            let known: Vec<&str> = configurations.iter().map(|known| known.id.as_str()).collect();
            self.id(&configuration.id, &known);
            self.text(&configuration.id, "the summary", &configuration.summary);
            configurations.push(Configuration {
                id: configuration.id.value,
                default: configuration.default,
                settings: configuration.settings,
                summary: configuration.summary,
                claims: self.claims(configuration.claims, &families),
            });
        }
        let defaults = configurations.iter().filter(|configuration| configuration.default).count();
        if defaults != 1 {
            let message = format!("{defaults} configurations are the default; expected exactly 1");
            self.problem(
                &raw.id,
                message,
                "write `default: true` for the one that is meant when none is named",
            );
        }
        let unknown = raw
            .unknown
            .into_iter()
            .filter_map(|unknown| {
                let capability = self.capability(&unknown.capability, &families)?;
                self.text(&unknown.capability, "the note", &unknown.note);
                Some(Unknown { capability, note: unknown.note })
            })
            .collect();
        let mut forbidden: Vec<Rule> = Vec::new();
        for rule in raw.forbidden {
            let known: Vec<&str> = forbidden.iter().map(|known| known.id.as_str()).collect();
            self.id(&rule.id, &known);
            forbidden.push(self.rule(rule, &configurations));
        }
        let recommended = raw.recommended.into_iter().map(|item| self.recommendation(item)).collect();
        let remarks = raw.remarks.into_iter().map(|remark| self.remark(remark)).collect();
        Some(Product {
            id: raw.id.value,
            name: raw.name,
            family: raw.family,
            serves: raw.serves,
            vendor: raw.vendor,
            licence: raw.licence,
            summary: raw.summary,
            protocols: raw.protocols,
            detect: raw.detect,
            configurations,
            claims,
            unknown,
            forbidden,
            recommended,
            remarks,
            file: self.file.to_owned(),
        })
    }

    fn id(&mut self, id: &Spanned<String>, known: &[&str]) {
        if !is_id(&id.value) {
            self.problem(id, format!("`{}` is no id", id.value), "use lower-case letters, digits and `-`");
        }
        if known.contains(&id.value.as_str()) {
            self.problem(id, format!("the id `{}` is used twice", id.value), "give each its own id");
        }
    }

    fn capability(&mut self, text: &Spanned<String>, families: &[Family]) -> Option<CapabilityId> {
        let capability = match text.value.parse::<CapabilityId>() {
            Ok(capability) => capability,
            Err(error) => {
                self.problem(text, error.to_string(), "the vocabulary of capabilities is in the reference");
                return None;
            }
        };
        if !capability.families().iter().any(|family| families.contains(family)) {
            let message = format!("`{capability}` means nothing for {} systems", families[0]);
            self.problem(text, message, "remove it, or name the family under `serves`");
            return None;
        }
        Some(capability)
    }

    fn claims(&mut self, raw: Vec<ClaimFile>, families: &[Family]) -> Vec<Claim> {
        raw.into_iter().filter_map(|claim| self.claim(claim, families)).collect()
    }

    fn claim(&mut self, raw: ClaimFile, families: &[Family]) -> Option<Claim> {
        let common = Common {
            source: &raw.source,
            date: &raw.date,
            level: raw.level,
            status: raw.status,
            dispute: raw.dispute,
        };
        let provenance = self.provenance(&raw.capability, common);
        for (what, text) in [("the condition", &raw.conditions), ("the note", &raw.note)] {
            if let Some(text) = text {
                self.text(&raw.capability, what, text);
            }
        }
        let versions = match raw.versions.as_ref().map(|versions| (versions, versions.value.parse())) {
            None => None,
            Some((_, Ok(range))) => Some(range),
            Some((versions, Err(error))) => {
                self.problem(
                    versions,
                    format!("{error}"),
                    "leave it out when the claim holds for all versions",
                );
                return None;
            }
        };
        let capability = self.capability(&raw.capability, families)?;
        match CapabilityValue::parse(capability, &raw.value.value.0) {
            Ok(value) => Some(Claim {
                capability,
                value,
                conditions: raw.conditions,
                versions,
                provenance,
                note: raw.note,
            }),
            Err(error) => {
                self.problem(
                    &raw.value,
                    error.to_string(),
                    format!("`{capability}`: {}", capability.definition()),
                );
                None
            }
        }
    }

    fn provenance<T>(&mut self, at: &Spanned<T>, common: Common<'_>) -> Provenance {
        if common.source.trim().is_empty() {
            self.problem(at, "the source is empty", "which page, file or article says so?");
        }
        if !is_date(&common.date.value) {
            let message = format!("`{}` is no date; expected YYYY-MM-DD", common.date.value);
            self.problem(common.date, message, "the day of the state that was read");
        }
        if common.level > Level::P1 {
            let message = format!("a catalog holds claims: level {} is above P1", common.level);
            self.problem(at, message, "P0 for what a page says, P1 for what a machine showed");
        }
        let status = match (common.status, common.dispute) {
            (StatusFile::Active, None) => Status::Active,
            (StatusFile::Disputed, Some(dispute)) => {
                self.text(at, "the dispute", &dispute);
                Status::Disputed(dispute)
            }
            (StatusFile::Disputed, None) => {
                self.problem(
                    at,
                    "disputed without `dispute`",
                    "which evidence speaks against it, from which source?",
                );
                Status::Active
            }
            (StatusFile::Active, Some(_)) => {
                self.problem(at, "`dispute` on an active statement", "write `status: disputed` as well");
                Status::Active
            }
        };
        Provenance {
            source: common.source.to_owned(),
            date: common.date.value.clone(),
            level: common.level,
            status,
            line: at.referenced.line(),
        }
    }

    fn conditions(&mut self, when: &[Spanned<String>]) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for text in when {
            match text.value.parse() {
                Ok(condition) => conditions.push(condition),
                Err(error) => {
                    self.problem(
                        text,
                        format!("{error}"),
                        "a requirement such as `delivery >= at-least-once`, or a feature such as `nodes >= 2`",
                    );
                }
            }
        }
        conditions
    }

    fn rule(&mut self, raw: RuleFile, configurations: &[Configuration]) -> Rule {
        if raw.when.is_empty() {
            self.problem(&raw.id, "the rule has no condition", "when is the product out of place?");
        }
        for id in &raw.configurations {
            if !configurations.iter().any(|configuration| configuration.id == id.value) {
                let known: Vec<&str> =
                    configurations.iter().map(|configuration| configuration.id.as_str()).collect();
                let hint = format!("expected one of {}", known.join(", "));
                self.problem(id, format!("there is no configuration `{}`", id.value), hint);
            }
        }
        self.text(&raw.id, "the reason", &raw.reason);
        let common = Common {
            source: &raw.source,
            date: &raw.date,
            level: raw.level,
            status: raw.status,
            dispute: raw.dispute,
        };
        Rule {
            when: self.conditions(&raw.when),
            configurations: raw.configurations.into_iter().map(|id| id.value).collect(),
            reason: raw.reason,
            provenance: self.provenance(&raw.id, common),
            id: raw.id.value,
        }
    }

    fn recommendation(&mut self, raw: RecommendationFile) -> Recommendation {
        self.text(&raw.date, "the feature", &raw.feature);
        self.text(&raw.date, "the reason", &raw.reason);
        let common = Common {
            source: &raw.source,
            date: &raw.date,
            level: raw.level,
            status: raw.status,
            dispute: raw.dispute,
        };
        Recommendation {
            feature: raw.feature,
            when: self.conditions(&raw.when),
            reason: raw.reason,
            provenance: self.provenance(&raw.date, common),
        }
    }

    fn remark(&mut self, raw: RemarkFile) -> Remark {
        self.text(&raw.date, "the text", &raw.text);
        let figure = match (&raw.metric, &raw.value) {
            (None, None) => None,
            (Some(metric), Some(value)) => self.figure(metric, value),
            (Some(one), None) | (None, Some(one)) => {
                self.problem(one, "`metric` and `value` belong together", "write both or neither");
                None
            }
        };
        let common = Common {
            source: &raw.source,
            date: &raw.date,
            level: raw.level,
            status: raw.status,
            dispute: raw.dispute,
        };
        Remark { text: raw.text, figure, provenance: self.provenance(&raw.date, common) }
    }

    fn figure(&mut self, metric: &Spanned<String>, value: &Spanned<String>) -> Option<Figure> {
        let subject = match metric.value.parse::<Subject>() {
            Ok(subject @ Subject::Metric(..)) => subject,
            Ok(Subject::Capability(capability)) => {
                self.problem(metric, format!("`{capability}` is a capability"), "state it under `claims`");
                return None;
            }
            Err(error) => {
                self.problem(metric, error.to_string(), "leave `metric` and `value` out when no metric fits");
                return None;
            }
        };
        let Subject::Metric(id, _) = subject else { return None };
        match Quantity::parse(&value.value, id.unit()) {
            Ok(value) => Some(Figure { subject, value }),
            Err(error) => {
                self.problem(value, error.to_string(), "write the number with its unit");
                None
            }
        }
    }
}
