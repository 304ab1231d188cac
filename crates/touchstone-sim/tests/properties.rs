//! What must hold whatever the profile and the requests.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure here is a failed test")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use touchstone_sim::{Admission, Batching, Emission, EngineModel, Profile, StepTime};

#[derive(Debug, Clone)]
struct Request {
    gap: u64,
    prompt: u32,
    shared: u32,
    max_tokens: u32,
    cancel: bool,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (0..5000_u64, 1..60_u32, 0..8_u32, 1..30_u32, prop::bool::weighted(0.1));
    let one = one.prop_map(|(gap, prompt, shared, max_tokens, cancel)| Request {
        gap,
        prompt,
        shared,
        max_tokens,
        cancel,
    });
    prop::collection::vec(one, 1..60)
}

fn profiles() -> impl Strategy<Value = Profile> {
    let batching = prop_oneof![
        Just(Batching::Continuous { chunked_prefill: true }),
        Just(Batching::Continuous { chunked_prefill: false }),
        Just(Batching::Static),
        Just(Batching::OneSequence),
    ];
    (batching, 1..9_u32, 9..64_u32, 1..9_u32, any::<bool>(), any::<bool>(), 1..4_u32, 12..40_u32).prop_map(
        |(batching, seqs, budget, block_size, reserve, prefix_cache, tokens_per_chunk, spare)| Profile {
            name: "drawn".to_owned(),
            about: String::new(),
            max_num_seqs: seqs,
            max_batched_tokens: budget,
            batching,
            block_size,
            // Just enough for the longest request, so that blocks do run out.
            kv_blocks: 100_u32.div_ceil(block_size) + spare / block_size,
            reserve_full_length: reserve,
            max_context: 100,
            prefix_cache,
            tokens_per_chunk,
            step_time: StepTime::Linear {
                base_ns: 1000,
                prefill_ns_per_token: 10,
                decode_ns_per_seq: 100,
                kv_ns_per_block: 1,
            },
            jitter_sigma: 0.2,
        },
    )
}

/// Plays the requests; those marked are cancelled when the next one comes. Returns the emissions and the model.
fn play(profile: &Profile, seed: u64, requests: &[Request], coarse: bool) -> (Vec<Emission>, EngineModel) {
    let mut model = EngineModel::new(profile.clone(), seed).unwrap();
    let (mut out, mut now) = (Vec::new(), 0);
    let mut to_cancel = None;
    for (id, request) in requests.iter().enumerate() {
        now += request.gap;
        while !coarse && model.next_event().is_some_and(|at| at < now) {
            let at = model.next_event().unwrap();
            model.advance(at, &mut out);
        }
        model.advance(now, &mut out);
        if let Some(earlier) = to_cancel.take() {
            model.cancel(earlier);
        }
        let hashes: Vec<u64> =
            (0..64).map(|k| if k < request.shared { k.into() } else { id as u64 * 100 + 99 }).collect();
        assert_eq!(
            model.submit(now, id as u64, request.prompt, &hashes, request.max_tokens),
            Admission::Accepted
        );
        to_cancel = request.cancel.then_some(id as u64);
    }
    let mut events = 0;
    while let Some(at) = model.next_event() {
        model.advance(at, &mut out);
        events += 1;
        assert!(events < 100_000, "the engine must come to rest");
    }
    (out, model)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_gets_exactly_its_tokens(profile in profiles(), requests in requests()) {
        let (out, model) = play(&profile, 3, &requests, false);
        let mut tokens: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
        for e in &out {
            let entry = tokens.entry(e.id).or_default();
            prop_assert_eq!(entry.1, 0, "nothing comes after the end");
            prop_assert!(e.tokens >= 1 && e.tokens <= profile.tokens_per_chunk);
            entry.0 += e.tokens;
            entry.1 += u32::from(e.finished.is_some());
        }
        for (id, request) in requests.iter().enumerate() {
            let (got, ends) = tokens.get(&(id as u64)).copied().unwrap_or_default();
            if ends == 1 {
                prop_assert_eq!(got, request.max_tokens);
            } else {
                prop_assert!(request.cancel, "request {} never ended", id);
                prop_assert!(got < request.max_tokens);
            }
        }
        let counters = model.counters();
        prop_assert_eq!(counters.finished + counters.cancelled, requests.len() as u64);
        prop_assert_eq!((counters.running, counters.waiting, counters.kv_blocks_used), (0, 0, 0));
        prop_assert_eq!(counters.batch_sizes.iter().sum::<u64>(), counters.steps);
        prop_assert!(counters.prefix_hits <= counters.prefix_queries);
        let handed_out: u64 = out.iter().map(|e| u64::from(e.tokens)).sum();
        prop_assert!(handed_out <= counters.generated_tokens);
    }

    #[test]
    fn time_never_runs_backwards(profile in profiles(), requests in requests()) {
        let (out, _) = play(&profile, 3, &requests, false);
        prop_assert!(out.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }

    #[test]
    fn the_same_calls_give_the_same_emissions_however_coarsely_time_is_advanced(
        profile in profiles(), requests in requests(), seed in any::<u64>()
    ) {
        let (fine, a) = play(&profile, seed, &requests, false);
        let (coarse, b) = play(&profile, seed, &requests, true);
        prop_assert_eq!(fine, coarse);
        prop_assert_eq!(a.counters(), b.counters());
    }
}

#[test]
fn the_drawn_profiles_do_preempt() {
    // Guards the properties above: a change that makes blocks plentiful would leave preemption untested.
    let profile = Profile {
        kv_blocks: 26,
        max_num_seqs: 8,
        batching: Batching::Continuous { chunked_prefill: true },
        block_size: 4,
        max_context: 100,
        ..Profile::builtin("vllm-like").unwrap()
    };
    let requests: Vec<_> =
        (0..20).map(|_| Request { gap: 0, prompt: 20, shared: 0, max_tokens: 29, cancel: false }).collect();
    assert!(play(&profile, 1, &requests, false).1.counters().preemptions > 0);
}

#[test]
fn another_seed_gives_other_times() {
    let profile = Profile::builtin("vllm-like").unwrap();
    let requests = [Request { gap: 0, prompt: 20, shared: 0, max_tokens: 29, cancel: false }];
    assert_ne!(play(&profile, 1, &requests, false).0, play(&profile, 2, &requests, false).0);
}
