//! Timelines worked out by hand, and behaviour with a known answer.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure here is a failed test")]

use touchstone_sim::{
    Admission, Batching, Emission, EngineModel, FinishReason, Profile, Rejection, SeededRng, StepTime,
};

/// 1000 per step, 10 per prompt token, 100 per decoding sequence, 1 per block; blocks of 4 tokens.
fn profile() -> Profile {
    Profile {
        name: "by-hand".to_owned(),
        about: String::new(),
        max_num_seqs: 8,
        max_batched_tokens: 16,
        batching: Batching::Continuous { chunked_prefill: true },
        block_size: 4,
        kv_blocks: 100,
        reserve_full_length: false,
        max_context: 400,
        prefix_cache: false,
        tokens_per_chunk: 1,
        step_time: StepTime::Linear {
            base_ns: 1000,
            prefill_ns_per_token: 10,
            decode_ns_per_seq: 100,
            kv_ns_per_block: 1,
        },
        jitter_sigma: 0.0,
    }
}

fn model(profile: Profile) -> EngineModel {
    EngineModel::new(profile, 1).unwrap()
}

fn run(model: &mut EngineModel) -> Vec<Emission> {
    let mut out = Vec::new();
    while let Some(at) = model.next_event() {
        model.advance(at, &mut out);
    }
    out
}

fn times(out: &[Emission], id: u64) -> Vec<u64> {
    out.iter().filter(|e| e.id == id).map(|e| e.at).collect()
}

#[test]
fn one_request_step_by_step() {
    let mut model = model(profile());
    assert_eq!(model.next_event(), None);
    assert_eq!(model.submit(500, 1, 6, &[], 3), Admission::Accepted);
    assert_eq!(model.next_event(), Some(500));
    let out = run(&mut model);
    // Prefill of 6 tokens over 2 blocks: 1000 + 60 + 2. Decodes: the 7th and 8th token are still in 2 blocks.
    assert_eq!(times(&out, 1), [500 + 1062, 500 + 1062 + 1102, 500 + 1062 + 2 * 1102]);
    assert_eq!(out.iter().map(|e| e.finished).collect::<Vec<_>>(), [None, None, Some(FinishReason::Length)]);
    let counters = model.counters();
    assert_eq!((counters.steps, counters.busy_ns), (3, 1062 + 2 * 1102));
    assert_eq!((counters.prompt_tokens, counters.generated_tokens, counters.finished), (6, 3, 1));
    assert_eq!((counters.running, counters.waiting, counters.kv_blocks_used), (0, 0, 0));
    assert_eq!(counters.batch_sizes[..2], [0, 3]);
}

#[test]
fn a_late_caller_does_not_shift_the_steps() {
    let mut punctual = model(profile());
    punctual.submit(0, 1, 6, &[], 20);
    let expected = run(&mut punctual);
    let mut late = model(profile());
    late.submit(0, 1, 6, &[], 20);
    let mut out = Vec::new();
    for now in (0..40_000).step_by(3_333) {
        late.advance(now, &mut out);
    }
    assert_eq!(out, expected);
}

#[test]
fn a_request_joins_no_step_that_began_before_it_came() {
    let mut model = model(profile());
    model.submit(0, 1, 6, &[], 3);
    model.submit(1, 2, 6, &[], 1);
    // The step of request 1 began at 0. Noticed only at 2000, request 3 still may not join the step that began at 1062.
    model.advance(0, &mut Vec::new());
    model.submit(2000, 3, 6, &[], 1);
    let out = run(&mut model);
    let second = 1062 + 1000 + 60 + 100 + 4;
    assert_eq!(times(&out, 2), [second]);
    assert_eq!(times(&out, 3), [second + 1000 + 60 + 100 + 4]);
}

#[test]
fn long_prompts_are_prefilled_in_pieces() {
    let mut model = model(profile());
    model.submit(0, 1, 40, &[], 1);
    let out = run(&mut model);
    // Pieces of 16, 16, 8 tokens over 4, 8, 10 blocks.
    assert_eq!(times(&out, 1), [1164 + 1168 + 1090]);
    assert_eq!(model.counters().steps, 3);
}

#[test]
fn a_batch_shares_its_steps() {
    let mut model = model(profile());
    for id in 0..4 {
        model.submit(0, id, 4, &[], 2);
    }
    let out = run(&mut model);
    // One prefill step of 16 tokens and 4 blocks, one decode step of 4 sequences with 2 blocks each.
    for id in 0..4 {
        assert_eq!(times(&out, id), [1164, 1164 + 1408]);
    }
    assert_eq!(model.counters().batch_sizes[4], 2);
}

#[test]
fn prefill_first_makes_decodes_wait() {
    let mut model = model(Profile { batching: Batching::Continuous { chunked_prefill: false }, ..profile() });
    model.submit(0, 1, 4, &[], 3);
    model.submit(10, 2, 40, &[], 1); // over max_batched_tokens, alone in its step
    let out = run(&mut model);
    let first = 1000 + 40 + 1;
    let prefill_of_2 = 1000 + 400 + 10;
    assert_eq!(times(&out, 2), [first + prefill_of_2]);
    assert_eq!(times(&out, 1), [first, first + prefill_of_2 + 1102, first + prefill_of_2 + 2 * 1102]);
}

#[test]
fn a_static_batch_admits_nobody_and_pays_in_full_until_it_ends() {
    let mut model = model(Profile { batching: Batching::Static, ..profile() });
    model.submit(0, 1, 4, &[], 1);
    model.submit(0, 2, 4, &[], 3);
    model.submit(5, 3, 4, &[], 1);
    let out = run(&mut model);
    let prefill = 1000 + 80 + 2;
    let decode = 1000 + 200 + 2; // two places are paid for though one sequence decodes, with 2 blocks
    assert_eq!(times(&out, 1), [prefill]);
    assert_eq!(times(&out, 2), [prefill, prefill + decode, prefill + 2 * decode]);
    assert_eq!(times(&out, 3), [prefill + 2 * decode + 1041]);

    let mut continuous = self::model(profile());
    continuous.submit(0, 1, 4, &[], 1);
    continuous.submit(0, 2, 4, &[], 3);
    continuous.submit(5, 3, 4, &[], 1);
    assert!(
        times(&run(&mut continuous), 3)[0] < times(&out, 3)[0],
        "continuous batching lets request 3 in earlier"
    );
}

#[test]
fn one_sequence_batching_takes_turns() {
    let profile = Profile { batching: Batching::OneSequence, max_num_seqs: 2, ..profile() };
    let mut model = model(profile);
    for id in 1..=3 {
        model.submit(0, id, 4, &[], 2);
    }
    let order: Vec<u64> = run(&mut model).iter().map(|e| e.id).collect();
    assert_eq!(order, [1, 2, 1, 2, 3, 3]);
    assert_eq!(model.counters().batch_sizes[1..3], [6, 0]);
}

#[test]
fn tokens_come_in_chunks() {
    let mut model = model(Profile { tokens_per_chunk: 2, ..profile() });
    model.submit(0, 1, 4, &[], 5);
    let tokens: Vec<u32> = run(&mut model).iter().map(|e| e.tokens).collect();
    assert_eq!(tokens, [2, 2, 1]);
}

#[test]
fn running_out_of_blocks_preempts_the_youngest_which_recomputes() {
    // 5 blocks of 4: two prompts of 8 take 4; the first answer token takes each into a third block.
    let mut model = model(Profile { kv_blocks: 5, max_context: 20, ..profile() });
    model.submit(0, 1, 8, &[], 4);
    model.submit(0, 2, 8, &[], 4);
    let out = run(&mut model);
    let prefill = 1000 + 160 + 4;
    let alone = 1000 + 100 + 3;
    assert_eq!(times(&out, 1), [prefill, prefill + alone, prefill + 2 * alone, prefill + 3 * alone]);
    // Request 2 starts again with 9 tokens once request 1 has left.
    let again = prefill + 3 * alone + 1000 + 90 + 3;
    assert_eq!(times(&out, 2), [prefill, again, again + alone, again + 2 * alone]);
    let counters = model.counters();
    assert_eq!((counters.preemptions, counters.generated_tokens, counters.prompt_tokens), (1, 8, 16));

    let mut reserving =
        self::model(Profile { kv_blocks: 5, max_context: 20, reserve_full_length: true, ..profile() });
    reserving.submit(0, 1, 8, &[], 4);
    reserving.submit(0, 2, 8, &[], 4);
    run(&mut reserving);
    assert_eq!(reserving.counters().preemptions, 0);
}

#[test]
fn the_prefix_cache_spares_whole_blocks_but_never_the_last_token() {
    let mut model = model(Profile { prefix_cache: true, ..profile() });
    model.submit(0, 1, 8, &[71, 72], 1);
    assert_eq!(times(&run(&mut model), 1), [1000 + 80 + 2]);
    // The same prompt: 2 blocks are known, but only 1 can be used, because one token must be computed.
    model.submit(10_000, 2, 8, &[71, 72], 1);
    assert_eq!(times(&run(&mut model), 2), [10_000 + 1000 + 40 + 2]);
    // A longer prompt that begins with both blocks; then one that differs in the first.
    model.submit(20_000, 3, 10, &[71, 72], 1);
    assert_eq!(times(&run(&mut model), 3), [20_000 + 1000 + 20 + 3]);
    model.submit(30_000, 4, 8, &[99, 72], 1);
    assert_eq!(times(&run(&mut model), 4), [30_000 + 1000 + 80 + 2]);
    let counters = model.counters();
    assert_eq!((counters.prefix_queries, counters.prefix_hits), (34, 12));
    assert_eq!(counters.kv_blocks_used, 0);
}

#[test]
fn what_can_never_run_is_rejected() {
    let mut model = model(Profile { kv_blocks: 5, max_context: 400, ..profile() });
    let too_long = Rejection::TooLong { tokens: 21, limit: 20 };
    assert_eq!(model.submit(0, 1, 17, &[], 4), Admission::Rejected(too_long));
    assert_eq!(model.submit(0, 1, 0, &[], 4), Admission::Rejected(Rejection::Empty));
    assert_eq!(model.submit(0, 1, 4, &[], 0), Admission::Rejected(Rejection::Empty));
    assert_eq!(model.next_event(), None);
    assert_eq!(model.submit(0, 1, 16, &[], 4), Admission::Accepted);
    assert_eq!(model.submit(0, 1, 1, &[], 1), Admission::Rejected(Rejection::DuplicateId));
    run(&mut model);
    assert_eq!(model.submit(0, 1, 1, &[], 1), Admission::Accepted);
}

#[test]
fn cancelling_frees_blocks_at_once_and_silences_the_sequence() {
    let mut model = model(profile());
    model.submit(0, 1, 8, &[], 10);
    model.submit(0, 2, 8, &[], 2);
    let mut out = Vec::new();
    model.advance(0, &mut out);
    assert_eq!(model.counters().kv_blocks_used, 4);
    assert!(model.cancel(1));
    assert!(!model.cancel(1));
    assert_eq!(model.counters().kv_blocks_used, 2);
    out.extend(run(&mut model));
    assert!(times(&out, 1).is_empty());
    assert_eq!(times(&out, 2), [1164, 1164 + 1103]);
    assert_eq!((model.counters().cancelled, model.counters().finished), (1, 1));
}

#[test]
fn cancelling_the_last_live_sequence_ends_a_static_batch() {
    let mut model = model(Profile { batching: Batching::Static, ..profile() });
    model.submit(0, 1, 4, &[], 1);
    model.submit(0, 2, 4, &[], 9);
    let mut out = Vec::new();
    model.advance(1500, &mut out); // request 1 has ended and keeps its place
    assert_eq!(model.counters().kv_blocks_used, 2 + 4);
    assert_eq!(model.submit(1500, 1, 4, &[], 1), Admission::Accepted, "the id is free again");
    assert!(model.cancel(2));
    assert_eq!(model.counters().kv_blocks_used, 0);
    out.clear();
    model.advance(10_000, &mut out);
    // The step in progress (1082 to 1082 + 1202) runs to its end with nobody in it.
    assert_eq!(times(&out, 1), [1082 + 1202 + 1041]);
}

#[test]
fn capacity_50_serves_fifty_a_second_and_not_one_more() {
    let mut model = model(Profile::builtin("capacity-50").unwrap());
    // 60/s for 10 s; lengths vary and must not matter.
    for k in 0..600_u32 {
        model.submit(u64::from(k) * 1_000_000_000 / 60, u64::from(k), 1 + k % 97, &[], 1 + k % 13);
    }
    let mut out = Vec::new();
    model.advance(10_000_000_000, &mut out);
    let finished: Vec<_> = out.iter().filter(|e| e.finished.is_some()).collect();
    assert_eq!(finished.len(), 500);
    assert_eq!(finished[9].at, 200_000_000);
    let counters = model.counters();
    assert_eq!(counters.running + counters.waiting, 100);
}

/// A queue with Poisson arrivals and one server of constant service time: the Pollaczek-Khinchine formula gives the
/// mean wait as `rho * D / (2 * (1 - rho))`.
#[test]
fn mean_wait_is_that_of_an_m_d_1_queue() {
    let (service, rho, n) = (20_000_000_u64, 0.7, 200_000_u64);
    let mut model = model(Profile::builtin("capacity-50").unwrap());
    let mut rng = SeededRng::new(2024);
    let (mut now, mut arrivals, mut out) = (0.0_f64, Vec::new(), Vec::new());
    for id in 0..n {
        now += rng.exponential(service as f64 / rho);
        arrivals.push(now as u64);
        model.advance(now as u64, &mut out);
        model.submit(now as u64, id, 5, &[], 1);
    }
    out.extend(run(&mut model));
    assert_eq!(out.len() as u64, n);
    let wait: f64 =
        out.iter().map(|e| (e.at - service - arrivals[e.id as usize]) as f64).sum::<f64>() / n as f64;
    let expected = rho * service as f64 / (2.0 * (1.0 - rho));
    // Waits are autocorrelated: about 10,000 effective samples, a standard error near 1.3 %.
    assert!((wait / expected - 1.0).abs() < 0.05, "mean wait {wait} ns, expected {expected} ns");
}
