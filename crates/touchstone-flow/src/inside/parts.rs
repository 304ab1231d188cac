//! Where the mean time to the first token goes.

use touchstone_model::server::{PartSource, ServerSection, TtftPart, TtftPartId};
use touchstone_model::{MetricId, RunDocument, ServerMetric};

use super::client::ClientTotals;
use super::reconcile::{same_prompts, same_requests};

/// A difference below this is rounding, not a contradiction, ms.
const ROUNDING_MS: f64 = 0.05;

/// The parts, in time order; none where no answer had a first token.
pub(super) fn parts(
    section: &ServerSection,
    client: &ClientTotals,
    document: &RunDocument,
    dropped: u64,
) -> Vec<TtftPart> {
    let streams = document.metrics.contains_key(&MetricId::Ttft);
    let Some(from_send) = client.sent_to_first_ms().filter(|_| streams && dropped == 0) else {
        return Vec::new();
    };
    let part =
        |part, mean_ms: Option<f64>, from, note: Option<String>| TtftPart { part, mean_ms, from, note };
    let mut parts = vec![part(TtftPartId::Generator, client.generator_ms(), PartSource::Client, None)];
    let connects = document.counts.connections;
    let connect = document.metrics.get(&MetricId::Connect).and_then(|summary| summary.mean);
    let all = client.answered + client.failed + client.unsent;
    let slot = client.slot_ms().unwrap_or(0.0);
    // With a connection for each operation, every one waited for its own.
    let each = connect.filter(|connect| connects as f64 >= 0.95 * all as f64 && *connect <= slot);
    match each {
        Some(connect) => {
            parts.push(part(TtftPartId::SlotWait, Some(slot - connect), PartSource::Client, None));
            parts.push(part(TtftPartId::Connect, Some(connect), PartSource::Client, None));
        }
        None => {
            parts.push(part(
                TtftPartId::SlotWait,
                Some(slot),
                PartSource::Client,
                Some("with connecting, where an operation waited for it".to_owned()),
            ));
            let note = connect.map(|ms| {
                format!(
                    "inside slot_wait; {connects} connections took {ms:.3} ms each, not one per operation"
                )
            });
            parts.push(part(TtftPartId::Connect, None, PartSource::Client, note));
        }
    }
    parts.push(part(TtftPartId::Write, client.write_ms(), PartSource::Client, None));

    let (queue, prefill) = server_parts(section, client);
    let known: f64 = [&queue, &prefill].iter().filter_map(|side| side.as_ref().ok()).map(|(ms, _)| ms).sum();
    for (id, side) in [(TtftPartId::ServerQueue, &queue), (TtftPartId::Prefill, &prefill)] {
        parts.push(match side {
            Ok((ms, note)) => part(id, Some(*ms), PartSource::Server, note.clone()),
            Err(why) => part(id, None, PartSource::Server, Some(why.clone())),
        });
    }
    let rest = from_send - known;
    let holds = match (queue.is_ok(), prefill.is_ok()) {
        (true, true) => "network, the server's front end, writing the answer",
        (true, false) => "prefill, network, the server's front end, writing the answer",
        (false, true) => "the server's queue, network, its front end, writing the answer",
        (false, false) => "everything after the request was sent",
    };
    parts.push(if rest >= -ROUNDING_MS {
        part(TtftPartId::Rest, Some(rest.max(0.0)), PartSource::Difference, Some(holds.to_owned()))
    } else {
        let why = format!(
            "the server reports {known:.3} ms where the client waited {from_send:.3} ms: it counts other requests too, or other parts of them"
        );
        part(TtftPartId::Rest, None, PartSource::Difference, Some(why))
    });
    parts
}

type Side = Result<(f64, Option<String>), String>;

/// Queue and prefill by the server's own words, as means per request.
fn server_parts(section: &ServerSection, client: &ClientTotals) -> (Side, Side) {
    let Some(engine) = &section.engine else {
        let why =
            section.unavailable.clone().unwrap_or_else(|| "there are no metrics of the server".to_owned());
        return (Err(why.clone()), Err(why));
    };
    let of = |metric: ServerMetric| -> Side {
        match section.distributions.get(&metric) {
            Some(seen) => {
                same_requests(seen.count, client)?;
                let ms = seen.mean.ok_or_else(|| format!("{engine} observed none during the run"))?;
                Ok((ms, None))
            }
            None => Err(section.missing.get(&metric).cloned().unwrap_or_default()),
        }
    };
    let prefill = of(ServerMetric::PrefillTime).or_else(|why| {
        let total = section.counters.get(&ServerMetric::PrefillTotal).ok_or(why)?;
        // Tokens tell what requests cannot: that the server worked for these answers and for nothing else.
        if !same_prompts(section, client) {
            return Err(
                "the server has only a total over all prompts, and its prompt tokens are not the client's"
                    .to_owned(),
            );
        }
        let each = total.delta / client.answered as f64;
        Ok((each, Some("the server's total over the client's requests".to_owned())))
    });
    (of(ServerMetric::QueueTime), prefill)
}
