//! Matching: which candidates the claims rule out, and by which rule or requirement.
//!
//! The outcome is three-valued. A forbidden scenario that is met, or a claim that misses a requirement, fails; a claim
//! that meets it passes; a capability that nobody claims, and everything disputed, is undetermined. Metrics are not
//! touched: they are for measurements.

use touchstone_model::capability::CapabilityValue;
use touchstone_model::decision::{Gate, GateKind};
use touchstone_model::requirement::Limit;
use touchstone_model::run::Outcome;
use touchstone_model::scenario::{Candidate, Candidates};
use touchstone_model::unit::Unit;
use touchstone_model::{
    CapabilityId, Comparison, DocumentError, Family, Level, Protocol, Quantity, Requirement, Scenario,
    Subject,
};

use crate::catalog::Catalog;
use crate::condition::{Condition, Feature};
use crate::nearest::nearest;
use crate::product::{Claim, Configuration, Product, Provenance, Rule, Text};

/// What the catalog says about one candidate of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateMatch {
    /// The candidate's name in the scenario.
    pub name: String,
    /// The product's id.
    pub product: String,
    /// The product's name, for readers.
    pub product_name: String,
    /// The configuration's id; the product's default one when the candidate names none.
    pub configuration: String,
    /// The version, as the candidate states it.
    pub version: Option<String>,
    /// The durability class that is claimed and not disputed.
    pub durability: Option<String>,
    /// The delivery class that is claimed and not disputed.
    pub delivery: Option<String>,
    /// Whether a gate fails.
    pub vetoed: bool,
    /// Rules that apply, in file order; then the required capabilities, in the order of the scenario; then what the
    /// workload and the constraints imply. Evidence is `catalog:<file>`.
    pub gates: Vec<Gate>,
    /// Recommendations whose conditions the scenario meets.
    pub recommendations: Vec<Recommended>,
}

/// A recommendation that applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommended {
    /// The feature of the scenario, in words.
    pub feature: Text,
    /// Why the product is recommended for it.
    pub reason: Text,
    /// What in the scenario meets it, as written there.
    pub met_by: Vec<String>,
    /// Where it comes from.
    pub source: String,
    /// How far it can be trusted.
    pub level: Level,
    /// The evidence against it, when it is disputed.
    pub dispute: Option<Text>,
}

/// A candidate that does not fit the catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// No such product.
    #[error("candidate `{candidate}`: the catalog has no product `{product}`{}", did_you_mean(.nearest))]
    Product {
        /// The candidate.
        candidate: String,
        /// The id as written.
        product: String,
        /// The known id that is most like it.
        nearest: Option<String>,
        /// Every id of the family.
        known: Vec<String>,
    },
    /// No such configuration of the product.
    #[error("candidate `{candidate}`: `{product}` has no configuration `{configuration}`{}", did_you_mean(.nearest))]
    Configuration {
        /// The candidate.
        candidate: String,
        /// The product.
        product: String,
        /// The id as written.
        configuration: String,
        /// The known id that is most like it.
        nearest: Option<String>,
        /// Every configuration of the product.
        known: Vec<String>,
    },
    /// The product serves another family.
    #[error(
        "candidate `{candidate}`: `{product}` is a product of the family {family}, the scenario is about {asked}"
    )]
    Family {
        /// The candidate.
        candidate: String,
        /// The product.
        product: String,
        /// Its family.
        family: Family,
        /// The scenario's family.
        asked: Family,
    },
    /// Touchstone cannot load the product over the target's protocol: the figures would be another product's.
    #[error("candidate `{candidate}`: `{product}` cannot be loaded over `{protocol}`")]
    Protocol {
        /// The candidate.
        candidate: String,
        /// The product.
        product: String,
        /// The target's protocol.
        protocol: Protocol,
        /// The protocols over which the product can be loaded; may be empty.
        known: Vec<Protocol>,
    },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |id| format!(" (did you mean `{id}`?)"))
}

impl MatchError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            MatchError::Product { known, .. } => {
                format!(
                    "the family has {}; a product of your own is a file in your catalog folder",
                    known.join(", ")
                )
            }
            MatchError::Configuration { known, .. } => format!("expected one of {}", known.join(", ")),
            MatchError::Family { .. } => {
                "change `family`, or name a product of the scenario's family".to_owned()
            }
            MatchError::Protocol { known, .. } if known.is_empty() => {
                "Touchstone has no driver for it yet: leave `target` out, and it is matched by its claims only".to_owned()
            }
            MatchError::Protocol { known, .. } => {
                let known: Vec<&str> = known.iter().map(|protocol| protocol.as_str()).collect();
                format!("expected a target with one of {}", known.join(", "))
            }
        }
    }

    /// The error as one of the scenario file.
    #[must_use]
    pub fn into_document_error(self, file: &str) -> DocumentError {
        let hint = self.hint();
        DocumentError::whole(file, self.to_string(), Some(hint))
    }
}

/// The candidates of a scenario: a list as it is; for `any`, every configuration of every product of the family, named
/// `<product>` where the product has one configuration and `<product>-<configuration>` otherwise.
///
/// # Errors
/// When a listed candidate names a product or configuration that the catalog does not have, or a target that the
/// product cannot be loaded over.
pub fn expand(catalog: &Catalog, scenario: &Scenario) -> Result<Vec<Candidate>, MatchError> {
    match &scenario.candidates {
        Candidates::List(list) => {
            for candidate in list {
                resolve(catalog, scenario, candidate)?;
            }
            Ok(list.clone())
        }
        Candidates::Any => {
            let mut candidates: Vec<Candidate> = Vec::new();
            for product in catalog.products(scenario.family) {
                for configuration in &product.configurations {
                    let plain = if product.configurations.len() == 1 {
                        product.id.clone()
                    } else {
                        format!("{}-{}", product.id, configuration.id)
                    };
                    let taken = |name: &str| candidates.iter().any(|candidate| candidate.name == name);
                    let numbered = (2..).map(|number| format!("{plain}-{number}"));
                    let name = std::iter::once(plain.clone()).chain(numbered).find(|name| !taken(name));
                    candidates.push(Candidate {
                        name: name.unwrap_or(plain),
                        product: product.id.clone(),
                        configuration: Some(configuration.id.clone()),
                        version: None,
                        target: None,
                        model: None,
                        price: None,
                        api_key_env: None,
                        ca_file: None,
                        reversible: None,
                    });
                }
            }
            Ok(candidates)
        }
    }
}

/// Matches every candidate of a scenario, in order.
///
/// # Errors
/// As [`expand`].
pub fn match_scenario(catalog: &Catalog, scenario: &Scenario) -> Result<Vec<CandidateMatch>, MatchError> {
    let candidates = expand(catalog, scenario)?;
    candidates.iter().map(|candidate| match_candidate(catalog, scenario, candidate)).collect()
}

/// Matches one candidate.
///
/// # Errors
/// When the candidate names a product or configuration that the catalog does not have, or a target that the product
/// cannot be loaded over.
pub fn match_candidate(
    catalog: &Catalog,
    scenario: &Scenario,
    candidate: &Candidate,
) -> Result<CandidateMatch, MatchError> {
    let (product, configuration) = resolve(catalog, scenario, candidate)?;
    let subject = Matched { product, configuration, version: candidate.version.as_deref() };
    let mut gates: Vec<Gate> =
        product.forbidden.iter().filter_map(|rule| subject.rule_gate(rule, scenario)).collect();
    let mut asked = Vec::new();
    for requirement in scenario.all_requirements() {
        if let Subject::Capability(capability) = requirement.subject {
            gates.push(subject.capability_gate(capability, requirement, None));
            asked.push(capability);
        }
    }
    for (capability, requirement, because) in implied(scenario) {
        if !asked.contains(&capability) {
            gates.push(subject.capability_gate(capability, &requirement, Some(&because)));
        }
    }
    Ok(CandidateMatch {
        name: candidate.name.clone(),
        product: product.id.clone(),
        product_name: product.name.clone(),
        configuration: configuration.id.clone(),
        version: candidate.version.clone(),
        durability: subject.class(CapabilityId::Durability),
        delivery: subject.class(CapabilityId::Delivery),
        vetoed: gates.iter().any(|gate| gate.outcome == Outcome::Fail),
        gates,
        recommendations: subject.recommendations(scenario),
    })
}

fn resolve<'a>(
    catalog: &'a Catalog,
    scenario: &Scenario,
    candidate: &Candidate,
) -> Result<(&'a Product, &'a Configuration), MatchError> {
    let Some(product) = catalog.product(&candidate.product) else {
        return Err(MatchError::Product {
            candidate: candidate.name.clone(),
            product: candidate.product.clone(),
            nearest: catalog.nearest_product(&candidate.product).map(str::to_owned),
            known: catalog.products(scenario.family).map(|product| product.id.clone()).collect(),
        });
    };
    if product.family != scenario.family && !product.serves.contains(&scenario.family) {
        return Err(MatchError::Family {
            candidate: candidate.name.clone(),
            product: product.id.clone(),
            family: product.family,
            asked: scenario.family,
        });
    }
    if let Some(target) = &candidate.target
        && !loadable(product, target.protocol)
    {
        return Err(MatchError::Protocol {
            candidate: candidate.name.clone(),
            product: product.id.clone(),
            protocol: target.protocol,
            known: product.protocols.clone(),
        });
    }
    let id = candidate.configuration.as_deref();
    let Some(configuration) = product.configuration(id) else {
        let known = || product.configurations.iter().map(|configuration| configuration.id.as_str());
        let id = id.unwrap_or_default();
        return Err(MatchError::Configuration {
            candidate: candidate.name.clone(),
            product: product.id.clone(),
            configuration: id.to_owned(),
            nearest: nearest(id, known()).map(str::to_owned),
            known: known().map(str::to_owned).collect(),
        });
    };
    Ok((product, configuration))
}

/// Whether the product speaks the protocol. The embedded engine is spoken to by OpenAI chat completions, and simulates
/// what the profile says: it may stand for any inference engine.
fn loadable(product: &Product, protocol: Protocol) -> bool {
    match protocol {
        Protocol::Engine => {
            product.family == Family::Inference || product.serves.contains(&Family::Inference)
        }
        protocol => product.protocols.contains(&protocol),
    }
}

/// Requirements that follow from the workload and the constraints, with the field they follow from.
fn implied(scenario: &Scenario) -> Vec<(CapabilityId, Requirement, String)> {
    let mut found = Vec::new();
    let mut add = |capability, comparison, value: CapabilityValue, because: String| {
        let requirement = Requirement {
            subject: Subject::Capability(capability),
            comparison,
            limit: Limit::Capability(value),
            confidence: None,
        };
        found.push((capability, requirement, because));
    };
    for (feature, capability) in
        [(Feature::MessageBytes, CapabilityId::MaxMessage), (Feature::ValueBytes, CapabilityId::MaxValue)]
    {
        if let Some(size) = feature.of(scenario) {
            let value = CapabilityValue::Quantity(Quantity::new(size.value, Unit::Bytes));
            add(capability, Comparison::AtLeast, value, format!("workload.{} = {size}", feature.as_str()));
        }
    }
    if scenario.family == Family::Inference && scenario.constraints.accelerators == Some(0) {
        let value = CapabilityValue::Flag(true);
        add(CapabilityId::CpuInference, Comparison::Equal, value, "constraints.accelerators = 0".to_owned());
    }
    found
}

/// A product in one configuration and version.
struct Matched<'a> {
    product: &'a Product,
    configuration: &'a Configuration,
    version: Option<&'a str>,
}

impl Matched<'_> {
    /// `Kafka (acks-all) 4.1`, or `Kafka` where there is one configuration; the Chinese one ends in what separates it
    /// from a following Chinese character.
    fn names(&self) -> Text {
        let mut names = Text { en: self.product.name.clone(), zh: self.product.name.clone() };
        if self.product.configurations.len() > 1 {
            names.en.push_str(&format!(" ({})", self.configuration.id));
            names.zh.push_str(&format!("（{}）", self.configuration.id));
        }
        if let Some(version) = self.version {
            names.en.push_str(&format!(" {version}"));
            names.zh.push_str(&format!(" {version}"));
        }
        if !names.zh.ends_with('）') {
            names.zh.push(' ');
        }
        names
    }

    fn claim(&self, capability: CapabilityId) -> Option<&Claim> {
        self.product.claim(Some(&self.configuration.id), capability, self.version)
    }

    /// The class of an undisputed claim.
    fn class(&self, capability: CapabilityId) -> Option<String> {
        self.claim(capability)
            .filter(|claim| claim.provenance.status.dispute().is_none())
            .map(|claim| claim.value.to_string())
    }

    fn gate(&self, requirement: String, kind: GateKind, outcome: Outcome, reason: Text) -> Gate {
        Gate {
            requirement,
            kind,
            outcome,
            reason: reason.en,
            reason_zh: reason.zh,
            confidence: None,
            value: None,
            lower: None,
            upper: None,
            needs: None,
            evidence: vec![format!("catalog:{}", self.product.file)],
        }
    }

    /// The gate of a rule that applies to the scenario; none when it does not.
    fn rule_gate(&self, rule: &Rule, scenario: &Scenario) -> Option<Gate> {
        if !rule.configurations.is_empty() && !rule.configurations.contains(&self.configuration.id) {
            return None;
        }
        let met_by = join_code(&met_by(&rule.when, scenario)?, ", ");
        let met_by_zh = met_by.replace(", ", "、");
        let (source, source_zh) = origin(&rule.provenance);
        let (outcome, reason) = match rule.provenance.status.dispute() {
            None => (
                Outcome::Fail,
                Text {
                    en: format!(
                        "ruled out, because the scenario has {met_by}: {} ({source})",
                        trimmed(&rule.reason.en)
                    ),
                    zh: format!(
                        "被规则排除，因为场景包含 {met_by_zh}：{}（{source_zh}）",
                        trimmed(&rule.reason.zh)
                    ),
                },
            ),
            Some(dispute) => (
                Outcome::Undetermined,
                Text {
                    en: format!(
                        "a disputed rule applies, because the scenario has {met_by}, and vetoes nothing: it says \
                         \"{}\" ({source}); against it: {}",
                        trimmed(&rule.reason.en),
                        trimmed(&dispute.en)
                    ),
                    zh: format!(
                        "场景包含 {met_by_zh}，触及一条有争议的规则，它不构成否决：规则称“{}”（{source_zh}）；反证：{}",
                        trimmed(&rule.reason.zh),
                        trimmed(&dispute.zh)
                    ),
                },
            ),
        };
        Some(self.gate(rule.id.clone(), GateKind::Rule, outcome, reason))
    }

    /// The gate of a required capability; `because` names what it follows from when it is not written out.
    fn capability_gate(
        &self,
        capability: CapabilityId,
        requirement: &Requirement,
        because: Option<&str>,
    ) -> Gate {
        let written = requirement.to_string();
        let (outcome, mut reason, value) = match self.claim(capability) {
            Some(claim) => self.judge(claim, requirement),
            None => (Outcome::Undetermined, self.nobody_claims(capability), None),
        };
        if let Some(because) = because {
            reason.en.push_str(&format!("; asked for because `{because}`"));
            reason.zh.push_str(&format!("；由 `{because}` 推出"));
        }
        let mut gate = self.gate(written, GateKind::Semantic, outcome, reason);
        gate.value = value;
        gate
    }

    fn judge(&self, claim: &Claim, requirement: &Requirement) -> (Outcome, Text, Option<f64>) {
        let Text { en: name, zh: name_zh } = self.names();
        let (source, source_zh) = origin(&claim.provenance);
        let magnitude = claim.value.magnitude();
        let holds = requirement.comparison.holds(magnitude, requirement.limit.magnitude());
        let said = Text {
            en: format!("{name} claims `{} = {}`", claim.capability, claim.value),
            zh: format!("{name_zh}声明 `{} = {}`", claim.capability, claim.value),
        };
        // The reason stands behind the requirement and its outcome, so it says only what that rests on.
        let (outcome, disputed) = match (claim.provenance.status.dispute(), holds) {
            (Some(dispute), _) => (
                Outcome::Undetermined,
                Text {
                    en: format!("the claim is disputed: {}: ", trimmed(&dispute.en)),
                    zh: format!("该声明有争议：{}：", trimmed(&dispute.zh)),
                },
            ),
            (None, true) => (Outcome::Pass, Text::default()),
            (None, false) => (Outcome::Fail, Text::default()),
        };
        let mut en = format!("{}{} ({source})", disputed.en, said.en);
        let mut zh = format!("{}{}（{source_zh}）", disputed.zh, said.zh);
        if let Some(conditions) = &claim.conditions {
            en.push_str(&format!("; condition: {}", trimmed(&conditions.en)));
            zh.push_str(&format!("；前提：{}", trimmed(&conditions.zh)));
        }
        if let Some(note) = &claim.note {
            en.push_str(&format!("; note: {}", trimmed(&note.en)));
            zh.push_str(&format!("；注意：{}", trimmed(&note.zh)));
        }
        let is_quantity = matches!(claim.value, CapabilityValue::Quantity(_));
        (outcome, Text { en, zh }, Some(magnitude).filter(|value| is_quantity && value.is_finite()))
    }

    /// Why a capability is unknown: never claimed, or claimed for other versions only.
    fn nobody_claims(&self, capability: CapabilityId) -> Text {
        let Text { en: name, zh: name_zh } = self.names();
        let others: Vec<&Claim> = self
            .product
            .all_claims()
            .filter(|(of, claim)| {
                claim.capability == capability && of.is_none_or(|of| of == self.configuration.id)
            })
            .map(|(_, claim)| claim)
            .collect();
        let ranges: Vec<String> = others
            .iter()
            .filter_map(|claim| claim.versions.as_ref().map(|range| format!("`{range}`")))
            .collect();
        let mut text = if ranges.is_empty() {
            Text {
                en: format!("nobody claims `{capability}` for {name}; unknown is not the same as absent"),
                zh: format!("无人就 {name_zh}声明过 `{capability}`；未知不等于没有"),
            }
        } else if self.version.is_none() {
            Text {
                en: format!(
                    "nobody claims `{capability}` for the newest {name}, only for versions {}; state the version",
                    ranges.join(" and ")
                ),
                zh: format!(
                    "无人就最新的 {name_zh}声明过 `{capability}`，仅有版本 {} 的声明；请写明版本",
                    ranges.join("、")
                ),
            }
        } else {
            Text {
                en: format!(
                    "nobody claims `{capability}` for {name}, only for versions {}",
                    ranges.join(" and ")
                ),
                zh: format!("无人就 {name_zh}声明过 `{capability}`，仅有版本 {} 的声明", ranges.join("、")),
            }
        };
        if let Some(unknown) = self.product.unknown.iter().find(|unknown| unknown.capability == capability) {
            text.en.push_str(&format!(": {}", trimmed(&unknown.note.en)));
            text.zh.push_str(&format!("：{}", trimmed(&unknown.note.zh)));
        }
        text
    }

    fn recommendations(&self, scenario: &Scenario) -> Vec<Recommended> {
        self.product
            .recommended
            .iter()
            .filter_map(|recommendation| {
                Some(Recommended {
                    feature: recommendation.feature.clone(),
                    reason: recommendation.reason.clone(),
                    met_by: met_by(&recommendation.when, scenario)?,
                    source: recommendation.provenance.source.clone(),
                    level: recommendation.provenance.level,
                    dispute: recommendation.provenance.status.dispute().cloned(),
                })
            })
            .collect()
    }
}

/// What in the scenario meets the conditions; none when one of them is not met. The family says nothing to a reader who
/// wrote it, so it is named only when it stands alone.
fn met_by(conditions: &[Condition], scenario: &Scenario) -> Option<Vec<String>> {
    let met: Option<Vec<(bool, String)>> = conditions
        .iter()
        .map(|condition| {
            let text = condition.met_by(scenario)?;
            Some((matches!(condition, Condition::Family(_)), text))
        })
        .collect();
    let met = met?;
    let alone = met.iter().all(|(family, _)| *family);
    Some(met.into_iter().filter(|(family, _)| alone || !family).map(|(_, text)| text).collect())
}

/// Level, source and date, for a reason in English and Chinese.
fn origin(provenance: &Provenance) -> (String, String) {
    let (level, source, date) = (provenance.level, &provenance.source, &provenance.date);
    let meaning_zh = if level == Level::P1 { "有报告" } else { "仅声明" };
    (
        format!("{level} {}, {source}, {date}", level.meaning()),
        format!("{level} {meaning_zh}，{source}，{date}"),
    )
}

fn join_code(items: &[String], separator: &str) -> String {
    items.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(separator)
}

/// A sentence of the catalog without its full stop, for use inside a longer one.
fn trimmed(text: &str) -> &str {
    text.trim().trim_end_matches(['.', '。'])
}
