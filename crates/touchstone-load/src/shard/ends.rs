//! How operations end: well, badly or not at all, and what each end adds to cohorts and flows.

use touchstone_model::{Family, MetricId, Origin, Phase};

use super::{FAILURE_PAUSE_NS, Shard, ShardResult, Waiting};
use crate::record::{InFlight, OpRecord};
use crate::session::{Answer, Failure, Op, OpToken};
use crate::slo::OpCheck;

impl Shard {
    /// Ends an operation well. Returns whether it was in flight.
    pub(super) fn done(&mut self, token: OpToken, answer: Answer, stamp_ns: u64) -> bool {
        // The table is set aside so that the operation can be read in place while sums change: it is too large to copy.
        let ops = std::mem::take(&mut self.ops);
        let ended = ops.get(token.0 as usize).is_some_and(|entry| self.end_well(entry, answer, stamp_ns));
        self.ops = ops;
        if ended {
            self.release(token, stamp_ns);
        }
        ended
    }

    fn end_well(&mut self, entry: &InFlight, answer: Answer, stamp_ns: u64) -> bool {
        let Some(op) = entry.op else { return false };
        let block = self.block_of(op.index, op.intended_ns);
        let leading = self.leading_value(entry, op, stamp_ns);

        self.aggregate.sums.completed_all += 1;
        self.aggregate.sums.last_end_ns = self.aggregate.sums.last_end_ns.max(stamp_ns);
        let window = self.aggregate.windows.at(stamp_ns);
        window.completed += 1;
        if let Some(leading) = leading {
            window.latency.record(leading);
        }
        if let Some(flow) = self.flow_block(block, stamp_ns) {
            self.aggregate.sums.completed_flow += 1;
            if let Some(block) = self.aggregate.blocks.get_mut(flow) {
                block.completed_flow += 1;
            }
        }
        let total = answer.output_tokens.or((entry.tokens_known && entry.chunks > 0).then_some(entry.tokens));
        if let Some(total) = total {
            let correction = i64::from(total) - i64::from(entry.flow_tokens);
            if correction != 0 {
                self.flow_tokens(block, stamp_ns, correction);
            }
        }
        if entry.measured {
            self.cohort_done(entry, op, answer, total, block, stamp_ns);
        }
        self.record(entry, op, answer, total, stamp_ns, 0, false);
        true
    }

    fn leading_value(&self, entry: &InFlight, op: Op, end_ns: u64) -> Option<u64> {
        let at = match self.traits.leading {
            MetricId::Ttft => entry.first_ns,
            _ => end_ns,
        };
        (at != 0).then(|| at.saturating_sub(op.intended_ns))
    }

    fn cohort_done(
        &mut self,
        e: &InFlight,
        op: Op,
        answer: Answer,
        total: Option<u32>,
        block: usize,
        end_ns: u64,
    ) {
        let at = op.intended_ns;
        let since = |instant: u64| instant.saturating_sub(at);
        let sums = &mut self.aggregate.sums;
        sums.completed += 1;
        if let Some(hit) = answer.hit {
            sums.lookups += 1;
            sums.hits += u64::from(hit);
        }
        let mut limits = self.limits.check();
        limits.observe(MetricId::SchedulingError, e.dispatch_ns.saturating_sub(at));
        limits.observe(MetricId::SlotWait, e.slot_ns.saturating_sub(e.dispatch_ns));
        limits.observe(MetricId::Write, e.sent_ns.saturating_sub(e.slot_ns));
        match self.traits.family {
            Family::Inference => {
                let wrong = |got: Option<u32>, asked: Option<u32>| matches!((got, asked), (Some(a), Some(b)) if a != b);
                sums.wrong_tokens += u64::from(wrong(total, answer.asked_output));
                // A count below what was sent is none: nothing is made of it.
                let contradicted = self.traits.streams() && total.is_some_and(|total| e.contradicts(total));
                sums.contradicted += u64::from(contradicted);
                let total = total.filter(|_| !contradicted);
                match total {
                    Some(total) => sums.output_tokens += u64::from(total),
                    None => sums.output_unknown += 1,
                }
                match answer.input_tokens {
                    Some(tokens) => sums.input_tokens += u64::from(tokens),
                    None => sums.input_unknown += 1,
                }
                if let (Some(_), Some(asked)) = (answer.input_tokens, answer.asked_input) {
                    sums.wrong_input += u64::from(wrong(answer.input_tokens, Some(asked)));
                    sums.asked_input += u64::from(asked);
                    sums.input_asked += 1;
                }
                if let Some(cached) = answer.cached_tokens {
                    sums.cached_input += u64::from(cached);
                    sums.cache_told += 1;
                }
                if e.chunks == 0 {
                    sums.empty_answers += 1;
                    // No content: there is no first token. The answer counts as one that never came.
                    self.never_came(e, op, block, &mut limits);
                } else {
                    let known = !contradicted && e.tokens_per_chunk_known(total);
                    self.aggregate.sums.chunk_tokens_unknown += u64::from(!known && !contradicted);
                    if e.chunks < 2 {
                        // One chunk has no gap that could break a limit on gaps.
                        for metric in [MetricId::Icl, MetricId::Itl, MetricId::Tpot] {
                            limits.observe_none(metric);
                        }
                    }
                    let first = if e.tokens_known { e.first_tokens } else { 1 };
                    let total = total.filter(|total| *total > 0);
                    let after_first = total.filter(|total| e.chunks >= 2 && known && *total > first);
                    let values = [
                        (MetricId::Ttft, Some(since(e.first_ns))),
                        (MetricId::TtftFromSend, Some(e.first_ns.saturating_sub(e.sent_ns))),
                        (MetricId::E2e, Some(since(e.last_ns))),
                        (MetricId::ServiceTime, Some(e.last_ns.saturating_sub(e.sent_ns))),
                        (MetricId::StreamClose, Some(end_ns.saturating_sub(e.last_ns))),
                        (MetricId::TtftAnswer, (e.first_answer_ns != 0).then(|| since(e.first_answer_ns))),
                        (MetricId::Ntpot, total.map(|total| since(e.last_ns) / u64::from(total))),
                        (
                            MetricId::Tpot,
                            after_first
                                .map(|total| e.last_ns.saturating_sub(e.first_ns) / u64::from(total - first)),
                        ),
                    ];
                    // An answer that is asked for whole has no first token: it has a first byte, which says nothing of it.
                    let streams = self.traits.streams();
                    let whole = |metric: MetricId| {
                        matches!(metric, MetricId::E2e | MetricId::ServiceTime | MetricId::Ntpot)
                    };
                    for (metric, value) in values {
                        if let Some(value) = value.filter(|_| streams || whole(metric)) {
                            limits.observe(metric, value);
                            self.aggregate.observe(metric, block, at, value, 1);
                        }
                    }
                    self.gaps(e, block, known, &mut limits);
                }
            }
            Family::Cache => {
                for (metric, value) in [
                    (MetricId::E2e, since(end_ns)),
                    (MetricId::ServiceTime, end_ns.saturating_sub(e.sent_ns)),
                ] {
                    limits.observe(metric, value);
                    self.aggregate.observe(metric, block, at, value, 1);
                }
            }
            Family::Queue => {
                self.aggregate.sums.received += 1;
                limits.observe(MetricId::EndToEndLatency, since(end_ns));
                self.aggregate.observe(MetricId::EndToEndLatency, block, at, since(end_ns), 1);
            }
        }
        if limits.good() {
            self.aggregate.sums.good += 1;
            if let Some(block) = self.aggregate.blocks.get_mut(block) {
                block.good += 1;
            }
        }
    }

    /// Puts at +infinity what an operation without a good end owes: every latency that did not come to be, and every gap
    /// that is missing. A server that answers half of the requests must not look quicker for it.
    fn never_came(&mut self, e: &InFlight, op: Op, block: usize, limits: &mut OpCheck) {
        let streams = self.traits.streams();
        let asked = self.driver.as_ref().and_then(|driver| driver.asked_output_tokens(op.index));
        let missing = |got: u32| u64::from(asked.unwrap_or(0).saturating_sub(got.max(1)).max(1));
        let gaps = streams && asked != Some(1);
        let tokens = if e.tokens_known { e.tokens } else { e.chunks };
        let owed = [
            (MetricId::E2e, true, 1),
            (MetricId::ServiceTime, true, 1),
            (MetricId::Ttft, streams && e.first_ns == 0, 1),
            (MetricId::TtftFromSend, streams && e.first_ns == 0, 1),
            (MetricId::TtftAnswer, streams && e.first_answer_ns == 0, 1),
            (MetricId::StreamClose, streams, 1),
            (MetricId::Icl, gaps, missing(e.chunks)),
            (MetricId::Itl, gaps && asked.is_some(), missing(tokens)),
            (MetricId::Tpot, gaps && asked.is_some(), 1),
            (MetricId::Ntpot, asked.is_some(), 1),
        ];
        for (metric, _, weight) in owed.into_iter().filter(|(_, owed, _)| *owed) {
            limits.observe_infinite(metric);
            self.aggregate.observe_censored(metric, block, op.intended_ns, weight);
        }
    }

    /// Adds an operation's gaps to the cohort: `icl` per chunk, `itl` per token where tokens per chunk are known.
    fn gaps(&mut self, e: &InFlight, block: usize, tokens_known: bool, limits: &mut OpCheck) {
        let mut at = e.first_ns;
        for (gap, tokens) in &e.gaps {
            // A gap stands at its own instant: gaps of one engine step are neighbours, whatever their requests.
            at = at.saturating_add(*gap);
            limits.observe(MetricId::Icl, *gap);
            self.aggregate.observe(MetricId::Icl, block, at, *gap, 1);
            if tokens_known {
                let tokens = if e.tokens_known { *tokens } else { 1 };
                if tokens > 0 {
                    let per_token = gap / u64::from(tokens);
                    limits.observe(MetricId::Itl, per_token);
                    self.aggregate.observe(MetricId::Itl, block, at, per_token, u64::from(tokens));
                }
            }
        }
    }

    /// Fails an operation. Returns whether it was in flight.
    pub fn fail(&mut self, token: OpToken, failure: Failure, now_ns: u64) -> bool {
        self.end_badly(token, Some(failure), now_ns)
    }

    fn end_badly(&mut self, token: OpToken, failure: Option<Failure>, now_ns: u64) -> bool {
        let ops = std::mem::take(&mut self.ops);
        let entry = ops.get(token.0 as usize);
        let open = entry.and_then(|entry| Some((entry, entry.op?)));
        if let Some((entry, op)) = open {
            let censored = failure.is_none();
            let failure = failure.unwrap_or_else(|| unfinished(entry));
            let number = self.count_failure(entry, op, failure, censored, now_ns);
            self.record(entry, op, Answer::default(), None, now_ns, number, censored);
        }
        let ended = open.is_some();
        self.ops = ops;
        if ended {
            self.release(token, now_ns.saturating_add(FAILURE_PAUSE_NS));
        }
        ended
    }

    pub(super) fn fail_waiting(&mut self, waiting: Waiting, failure: Failure, now_ns: u64) {
        let entry = InFlight {
            dispatch_ns: waiting.dispatch_ns,
            measured: waiting.intended_ns >= self.from_ns,
            retried: waiting.retried,
            ..InFlight::default()
        };
        let op = Op { token: OpToken(u32::MAX), index: waiting.index, intended_ns: waiting.intended_ns };
        let number = self.count_failure(&entry, op, failure, false, now_ns);
        self.record(&entry, op, Answer::default(), None, now_ns, number, false);
        self.free_slot(now_ns.saturating_add(FAILURE_PAUSE_NS));
    }

    /// A closed loop's slot is free from an instant on; the list stays in order of time.
    fn free_slot(&mut self, from_ns: u64) {
        if self.is_closed() {
            let place = self.free_slots.partition_point(|free| *free <= from_ns);
            self.free_slots.insert(place, from_ns);
        }
    }

    /// Counts a bad end; gives the record's failure number.
    fn count_failure(&mut self, e: &InFlight, op: Op, failure: Failure, censored: bool, now_ns: u64) -> u16 {
        self.aggregate.sums.failed_all += 1;
        let number = self.aggregate.count_error(failure, e.measured) as u16 + 1;
        self.aggregate.windows.at(now_ns).failed += 1;
        if e.measured {
            let sums = &mut self.aggregate.sums;
            sums.failed += 1;
            sums.censored += u64::from(censored);
            let block = self.block_of(op.index, op.intended_ns);
            if let Some(block) = self.aggregate.blocks.get_mut(block) {
                block.failed += 1;
            }
            let at = op.intended_ns;
            match self.traits.family {
                Family::Inference => {
                    // A first token that did come was measured; what never came is at +infinity.
                    if e.first_ns != 0 && self.traits.streams() {
                        self.aggregate.observe(MetricId::Ttft, block, at, e.first_ns.saturating_sub(at), 1);
                        let from_send = e.first_ns.saturating_sub(e.sent_ns);
                        self.aggregate.observe(MetricId::TtftFromSend, block, at, from_send, 1);
                        if e.first_answer_ns != 0 {
                            let answer = e.first_answer_ns.saturating_sub(at);
                            self.aggregate.observe(MetricId::TtftAnswer, block, at, answer, 1);
                        }
                    }
                    let mut limits = self.limits.check();
                    self.gaps(e, block, e.tokens_known, &mut limits);
                    self.never_came(e, op, block, &mut limits);
                }
                Family::Cache => {
                    self.aggregate.observe_censored(MetricId::E2e, block, at, 1);
                    self.aggregate.observe_censored(MetricId::ServiceTime, block, at, 1);
                }
                Family::Queue => self.aggregate.observe_censored(MetricId::EndToEndLatency, block, at, 1),
            }
        }
        number
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call each for good and bad ends; a struct would only rename them"
    )]
    fn record(
        &mut self,
        e: &InFlight,
        op: Op,
        answer: Answer,
        total: Option<u32>,
        end_ns: u64,
        failure: u16,
        censored: bool,
    ) {
        self.records.push(OpRecord {
            index: op.index,
            intended_ns: op.intended_ns,
            dispatch_ns: e.dispatch_ns,
            slot_ns: e.slot_ns,
            sent_ns: e.sent_ns,
            head_ns: e.head_ns,
            first_content_ns: e.first_ns,
            last_content_ns: e.last_ns,
            end_ns,
            output_tokens: total.unwrap_or(0),
            input_tokens: answer.input_tokens.unwrap_or(0),
            chunks: e.chunks,
            measured: e.measured,
            retried: e.retried,
            hit: answer.hit,
            failure,
            censored,
        });
    }

    fn release(&mut self, token: OpToken, free_ns: u64) {
        // The rest is made new when the slot is used again; the allocation of the gaps stays.
        if let Some(entry) = self.ops.get_mut(token.0 as usize) {
            entry.op = None;
        }
        self.free_ops.push(token.0);
        self.active -= 1;
        self.free_slot(free_ns);
    }

    /// Ends the shard: what is still in flight is censored. Returns the result and the last records.
    #[must_use]
    pub fn finish(mut self, now_ns: u64) -> (ShardResult, Vec<OpRecord>) {
        while let Some(front) = self.waiting.pop_front() {
            let entry = InFlight {
                dispatch_ns: front.dispatch_ns,
                measured: front.intended_ns >= self.from_ns,
                ..InFlight::default()
            };
            let op = Op { token: OpToken(u32::MAX), index: front.index, intended_ns: front.intended_ns };
            let number = self.count_failure(&entry, op, unfinished(&entry), true, now_ns);
            self.record(&entry, op, Answer::default(), None, now_ns, number, true);
        }
        self.aggregate.sums.received_unique = self.ledger.received;
        for token in 0..self.ops.len() as u32 {
            self.end_badly(OpToken(token), None, now_ns);
        }
        let records = self.take_records();
        let result = ShardResult {
            aggregate: self.aggregate,
            start_ns: self.start_ns,
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            end_ns: now_ns,
        };
        (result, records)
    }
}

/// Why an operation is in the list of failures that was cut off by the end of drain.
fn unfinished(e: &InFlight) -> Failure {
    let (phase, what) = if e.slot_ns == 0 {
        (Phase::Slot, "it still waited for a connection or slot")
    } else if e.sent_ns == 0 {
        (Phase::Send, "its request was not sent completely")
    } else if e.first_ns == 0 {
        (Phase::Headers, "nothing of its answer had come")
    } else {
        (Phase::Stream, "its answer had not ended")
    };
    Failure::new(
        Origin::Target,
        phase,
        "unfinished",
        format!("unfinished at the end of drain: {what}"),
        "the target hangs or is overloaded: lower the load, or raise --drain",
    )
}
