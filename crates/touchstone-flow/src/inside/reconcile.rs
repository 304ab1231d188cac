//! One table of what both sides say, over the same window.

use touchstone_model::server::{Reconciled, ServerSection};
use touchstone_model::{Finding, FindingCode, RunDocument, ServerMetric, Statistic, Unit};

use super::client::ClientTotals;

/// Share by which counts may differ.
const COUNTS: f64 = 0.01;
/// Share by which the server's mean may be above the client's, and how much is rounding, ms.
const TTFT: (f64, f64) = (0.05, 0.5);
/// By how much the found share of prompt tokens may differ from the declared one.
const PREFIX: f64 = 0.05;
/// The share of prompt tokens that prompts have in common on purpose, as a parameter of the run; judged where there is any.
const DECLARED: &str = "cacheable_share";

/// Whether the server counted as many requests as the client made.
///
/// # Errors
/// Words for what differs.
pub(super) fn same_requests(server: f64, client: &ClientTotals) -> Result<(), String> {
    let (least, most) = (client.answered as f64, (client.answered + client.failed + client.retried) as f64);
    let slack = 1.0_f64.max(COUNTS * most);
    if server < least - slack || server > most + slack {
        return Err(format!(
            "the server counts {server} requests and the client {least}: these are not the same requests"
        ));
    }
    Ok(())
}

/// Whether the server's prompt tokens are those of the answers that the client got, and of nothing else.
pub(super) fn same_prompts(section: &ServerSection, client: &ClientTotals) -> bool {
    let server = section.counters.get(&ServerMetric::PromptTokens).map(|counter| counter.delta);
    let own = client.input_tokens as f64;
    client.answered > 0
        && client.input_unknown == 0
        && server.is_some_and(|server| (server - own).abs() <= COUNTS * own)
}

fn row(what: &str, unit: Unit, client: Option<f64>, server: Option<f64>, note: Option<&str>) -> Reconciled {
    let note = note.map(str::to_owned);
    Reconciled { what: what.to_owned(), unit, client, server, agrees: None, tolerance: None, note }
}

fn judged(mut row: Reconciled, tolerance: f64) -> Reconciled {
    if let (Some(client), Some(server)) = (row.client, row.server) {
        row.agrees = Some((client - server).abs() <= tolerance);
        row.tolerance = Some(tolerance);
    }
    row
}

/// The table; empty without metrics of the server.
pub(super) fn table(
    section: &ServerSection,
    client: &ClientTotals,
    document: &RunDocument,
    dropped: u64,
) -> Vec<Reconciled> {
    if section.engine.is_none() {
        return Vec::new();
    }
    let lost = (dropped > 0).then_some("the client's sums are not complete: events were dropped");
    let judge = |row: Reconciled, tolerance: f64| {
        // A restart loses what was counted since the last reading; lost events make the client's sums too small.
        if lost.is_some() || section.restarts > 0 { row } else { judged(row, tolerance) }
    };
    let counter = |metric| section.counters.get(&metric).map(|counter| counter.delta);
    let total = client.answered + client.failed + client.retried;
    let mut rows = Vec::new();

    let finished = section.counters.get(&ServerMetric::RequestsFinished);
    let aborted = finished.and_then(|finished| {
        let of = |reason: &str| finished.by_reason.get(reason).copied();
        Some(of("abort")? + of("error").unwrap_or(0.0))
    });
    let succeeded = finished.map(|finished| finished.delta - aborted.unwrap_or(0.0));
    // An answer may be complete for the server and lost for the client, up to every failed one.
    let slack = 1.0_f64.max(COUNTS * total as f64) + (client.failed + client.retried) as f64;
    rows.push(judge(
        row("requests_succeeded", Unit::Count, Some(client.answered as f64), succeeded, lost),
        slack,
    ));
    rows.push(row(
        "requests_failed",
        Unit::Count,
        Some(client.failed as f64),
        aborted,
        Some("those that were sent; a server counts what it noticed"),
    ));

    let failing = client.failed > 0;
    let tokens = |what: &str, own: u64, unknown: u64, metric| {
        let own = (client.answered > 0 && unknown == 0).then_some(own as f64);
        let mean = own.map_or(0.0, |own| own / client.answered.max(1) as f64);
        let slack = COUNTS * own.unwrap_or(0.0) + mean * (client.failed + client.retried) as f64;
        let note = lost
            .or((unknown > 0).then_some("the answers do not say"))
            .or(failing.then_some("the server also worked for operations that failed"));
        judge(row(what, Unit::Tokens, own, counter(metric), note), slack)
    };
    rows.push(tokens("prompt_tokens", client.input_tokens, client.input_unknown, ServerMetric::PromptTokens));
    rows.push(tokens(
        "generation_tokens",
        client.output_tokens,
        client.output_unknown,
        ServerMetric::GenerationTokens,
    ));

    let ttft = section.distributions.get(&ServerMetric::ServerTtft);
    if client.first > 0 {
        let (own, theirs) = (client.sent_to_first_ms(), ttft.and_then(|ttft| ttft.mean));
        let mut mean =
            row("ttft_mean", Unit::Milliseconds, own, theirs, Some("client: from the request's last byte"));
        // The client waits for the network and the front end too: only the other way round is a contradiction.
        if let (Some(own), Some(theirs), None, 0) = (own, theirs, lost, section.restarts) {
            let slack = TTFT.1 + TTFT.0 * own;
            mean.tolerance = Some(slack);
            mean.agrees = Some(theirs <= own + slack);
        }
        rows.push(mean);
        let bounds = ttft.and_then(|ttft| ttft.quantiles.get(&Statistic::P99));
        let mut p99 = row("ttft_p99", Unit::Milliseconds, client.sent_to_first_p99_ms(), None, None);
        p99.note = bounds.map(|bounds| match bounds.upper {
            Some(upper) => format!("the server's lies between {} and {upper} ms", bounds.lower),
            None => format!("the server's lies above {} ms", bounds.lower),
        });
        rows.push(p99);
    }

    let declared = document.workload.parameters.get(DECLARED).and_then(serde_json::Value::as_f64);
    let declared = declared.filter(|share| *share > 0.0);
    let found = counter(ServerMetric::PrefixHits)
        .zip(counter(ServerMetric::PrefixQueries))
        .filter(|(_, queries)| *queries > 0.0)
        .map(|(hits, queries)| hits / queries);
    if declared.is_some() || found.is_some() {
        let note = "client: what the workload declares";
        rows.push(judge(row("prefix_hit_share", Unit::Ratio, declared, found, Some(note)), PREFIX));
    }
    rows
}

/// What does not fit together.
pub(super) fn findings(section: &ServerSection) -> Vec<Finding> {
    let mut findings = Vec::new();
    let differing: Vec<&Reconciled> =
        section.reconciliation.iter().filter(|row| row.agrees == Some(false)).collect();
    let told = |row: &Reconciled| {
        format!(
            "{}: client {:.6}, server {:.6}",
            row.what,
            row.client.unwrap_or(0.0),
            row.server.unwrap_or(0.0)
        )
    };
    let others: Vec<String> =
        differing.iter().filter(|row| row.what != "prefix_hit_share").map(|row| told(row)).collect();
    if !others.is_empty() {
        let more = differing.iter().any(|row| row.server > row.client);
        let advice = if more {
            "the server did more than was asked of it here: look for other clients, or several replicas behind one page; figures of this run may carry their load"
        } else {
            "the server counts less than was asked of it here: look for several replicas of which this page shows one, for a cache in front of it, or for answers with wrong usage"
        };
        findings.push(Finding::new(
            FindingCode::ServerDisagrees,
            format!("client and server disagree over the same window: {}", others.join("; ")),
            advice,
        ));
    }
    if let Some(row) = differing.iter().find(|row| row.what == "prefix_hit_share") {
        let percent = |share: Option<f64>| share.unwrap_or(0.0) * 100.0;
        findings.push(Finding::new(
            FindingCode::PrefixShare,
            format!(
                "the server found {:.1}% of prompt tokens in its prefix cache; the workload declares {:.1}%",
                percent(row.server),
                percent(row.client)
            ),
            "above it: the cache was warm from earlier runs; below it: the cache is off, too small, or its blocks are longer than the shared prefix",
        ));
    }
    findings
}
