use super::*;

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

#[test]
fn pages_are_looked_for_where_servers_have_them() {
    let usual = |text: &str| addresses(&target(text), &MetricsPage::Usual);
    assert_eq!(usual("openai-chat=http://h:8000/x/v1"), Ok(vec!["http://h:8000/metrics".to_owned()]));
    assert_eq!(
        usual("triton-generate=[::1]:8000"),
        Ok(vec!["http://[::1]:8002/metrics".to_owned(), "http://[::1]:8000/metrics".to_owned()])
    );
    assert!(usual("openai-chat=https://h").unwrap_err().contains("--metrics-url"));
    assert!(usual("resp=h").unwrap_err().contains("resp"));
    let at = MetricsPage::At("http://other:1/m".to_owned());
    assert_eq!(addresses(&target("resp=h"), &at), Ok(vec!["http://other:1/m".to_owned()]));
    assert!(addresses(&target("openai-chat=h"), &MetricsPage::Off).is_err());
}

#[test]
fn memory_per_request_is_said_only_where_it_can_be_told() {
    let course = |bytes: fn(u64) -> u64| -> Vec<(u64, u64, u64)> {
        (0..60).map(|at| (at, bytes(at), (at * 7) % 13)).collect()
    };
    let grows = process::per_request(&course(|at| 1_000_000 + 5_000 * ((at * 7) % 13) + at % 3)).unwrap();
    assert!((grows.bytes - 5_000.0).abs() < 5.0 && grows.lower <= grows.bytes && grows.bytes <= grows.upper);
    let flat = process::per_request(&course(|at| 1_000_000 + at % 3)).unwrap_err();
    assert!(flat.contains("does not grow"), "{flat}");
    let few = process::per_request(&course(|_| 1)[..5]).unwrap_err();
    assert!(few.contains("5 readings"), "{few}");
    let steady: Vec<_> = (0..60).map(|at| (at, 1_000 + at, 4)).collect();
    assert!(process::per_request(&steady).unwrap_err().contains("1 different"));
}

fn seen(counters: &[(ServerMetric, f64)]) -> ServerSection {
    let counters = counters
        .iter()
        .map(|(metric, delta)| (*metric, CounterDelta { delta: *delta, by_reason: BTreeMap::new() }))
        .collect();
    ServerSection { engine: Some("x".to_owned()), counters, ..ServerSection::default() }
}

fn client(answered: u64, failed: u64) -> ClientTotals {
    ClientTotals {
        answered,
        failed,
        input_tokens: 10 * answered,
        output_tokens: 5 * answered,
        ..ClientTotals::default()
    }
}

#[test]
fn counts_agree_up_to_what_failed_operations_explain() {
    for (finished, failed, agrees) in [
        (1000.0, 0, true),
        (1010.0, 0, true),
        (1011.0, 0, false),
        (989.0, 0, false),
        (1040.0, 40, true),
        (1060.0, 40, false),
    ] {
        let said = reconcile::same_requests(finished, &client(1000, failed));
        assert_eq!(said.is_ok(), agrees, "{finished} {failed} {said:?}");
    }
    for (tokens, agrees) in [(10_000.0, true), (10_100.0, true), (10_101.0, false), (9_899.0, false)] {
        let section = seen(&[(ServerMetric::PromptTokens, tokens)]);
        assert_eq!(reconcile::same_prompts(&section, &client(1000, 7)), agrees, "{tokens}");
    }
    let silent = ClientTotals { input_unknown: 1, ..client(1000, 0) };
    assert!(!reconcile::same_prompts(&seen(&[(ServerMetric::PromptTokens, 10_000.0)]), &silent));
}
