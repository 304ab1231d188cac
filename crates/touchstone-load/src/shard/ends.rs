//! How operations end: well, badly or not at all, and what each end adds to cohorts and flows.

use touchstone_model::{Family, MetricId};

use super::{Shard, ShardResult, Waiting};
use crate::record::{InFlight, OpRecord};
use crate::session::{Answer, Failure, Op, OpToken};
use crate::slo::OpCheck;

impl Shard {
    /// Ends an operation well. Returns whether it was in flight.
    pub(super) fn done(&mut self, token: OpToken, answer: Answer, stamp_ns: u64) -> bool {
        let Some(entry) = self.ops.get_mut(token.0 as usize) else { return false };
        let Some(op) = entry.op else { return false };
        let mut taken = std::mem::take(entry);
        let block = self.block_of(op.index, op.intended_ns);
        let leading = self.leading_value(&taken, op, stamp_ns);

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
        let total = answer.output_tokens.or((taken.tokens_known && taken.chunks > 0).then_some(taken.tokens));
        if let Some(total) = total {
            let correction = i64::from(total) - i64::from(taken.flow_tokens);
            if correction != 0 {
                self.flow_tokens(block, stamp_ns, correction);
            }
        }
        if taken.measured {
            self.cohort_done(&taken, op, answer, total, block, stamp_ns);
        }
        self.record(&taken, op, answer, total, stamp_ns, 0, false);
        self.release(token, &mut taken, stamp_ns);
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
        match self.traits.family {
            Family::Inference => {
                match total {
                    Some(total) => sums.output_tokens += u64::from(total),
                    None => sums.output_unknown += 1,
                }
                match answer.input_tokens {
                    Some(tokens) => sums.input_tokens += u64::from(tokens),
                    None => sums.input_unknown += 1,
                }
                let wrong = |got: Option<u32>, asked: Option<u32>| matches!((got, asked), (Some(a), Some(b)) if a != b);
                sums.wrong_tokens += u64::from(wrong(total, self.traits.asked_output));
                sums.wrong_input += u64::from(wrong(answer.input_tokens, self.traits.asked_input));
                if e.chunks == 0 {
                    sums.empty_answers += 1;
                    // No content: there is no first token. The answer counts as one that never came.
                    for metric in
                        [MetricId::Ttft, MetricId::TtftFromSend, MetricId::E2e, MetricId::ServiceTime]
                    {
                        limits.observe_infinite(metric);
                        self.aggregate.observe_censored(metric, block, at);
                    }
                } else {
                    let mut values = vec![
                        (MetricId::Ttft, since(e.first_ns)),
                        (MetricId::TtftFromSend, e.first_ns.saturating_sub(e.sent_ns)),
                        (MetricId::E2e, since(e.last_ns)),
                        (MetricId::ServiceTime, e.last_ns.saturating_sub(e.sent_ns)),
                        (MetricId::StreamClose, end_ns.saturating_sub(e.last_ns)),
                    ];
                    if e.first_answer_ns != 0 {
                        values.push((MetricId::TtftAnswer, since(e.first_answer_ns)));
                    }
                    let known = e.tokens_per_chunk_known(total);
                    if let Some(total) = total.filter(|total| *total > 0) {
                        values.push((MetricId::Ntpot, since(e.last_ns) / u64::from(total)));
                        let first = if e.tokens_known { e.first_tokens } else { 1 };
                        if e.chunks >= 2 && known && total > first {
                            values
                                .push((MetricId::Tpot, (e.last_ns - e.first_ns) / u64::from(total - first)));
                        }
                    }
                    for (metric, value) in values {
                        limits.observe(metric, value);
                        self.aggregate.observe(metric, block, at, value, 1);
                    }
                    self.gaps(e, op, block, known, &mut limits);
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

    /// Adds an operation's gaps to the cohort: `icl` per chunk, `itl` per token where tokens per chunk are known.
    fn gaps(&mut self, e: &InFlight, op: Op, block: usize, tokens_known: bool, limits: &mut OpCheck) {
        for (gap, tokens) in &e.gaps {
            limits.observe(MetricId::Icl, *gap);
            self.aggregate.observe(MetricId::Icl, block, op.intended_ns, *gap, 1);
            if tokens_known {
                let tokens = if e.tokens_known { *tokens } else { 1 };
                if tokens > 0 {
                    let per_token = gap / u64::from(tokens);
                    limits.observe(MetricId::Itl, per_token);
                    self.aggregate.observe(
                        MetricId::Itl,
                        block,
                        op.intended_ns,
                        per_token,
                        u64::from(tokens),
                    );
                }
            }
        }
    }

    /// Fails an operation. Returns whether it was in flight.
    pub fn fail(&mut self, token: OpToken, failure: Failure, now_ns: u64) -> bool {
        self.end_badly(token, Some(failure), now_ns)
    }

    fn end_badly(&mut self, token: OpToken, failure: Option<Failure>, now_ns: u64) -> bool {
        let Some(entry) = self.ops.get_mut(token.0 as usize) else { return false };
        let Some(op) = entry.op else { return false };
        let mut taken = std::mem::take(entry);
        let censored = failure.is_none();
        let number = self.count_failure(&taken, op, failure, now_ns);
        self.record(&taken, op, Answer::default(), None, now_ns, number, censored);
        self.release(token, &mut taken, now_ns);
        true
    }

    pub(super) fn fail_waiting(&mut self, waiting: Waiting, failure: Failure, now_ns: u64) {
        let entry = InFlight {
            dispatch_ns: waiting.dispatch_ns,
            measured: waiting.intended_ns >= self.from_ns,
            retried: waiting.retried,
            ..InFlight::default()
        };
        let op = Op { token: OpToken(u32::MAX), index: waiting.index, intended_ns: waiting.intended_ns };
        let number = self.count_failure(&entry, op, Some(failure), now_ns);
        self.record(&entry, op, Answer::default(), None, now_ns, number, false);
        if self.is_closed() {
            self.free_slots.push_back(now_ns);
        }
    }

    /// Counts a bad end (censored when there is no failure); gives the record's failure number.
    fn count_failure(&mut self, e: &InFlight, op: Op, failure: Option<Failure>, now_ns: u64) -> u16 {
        let sums = &mut self.aggregate.sums;
        sums.failed_all += 1;
        let number = match failure {
            Some(failure) => self.aggregate.count_error(failure, e.measured) as u16 + 1,
            None => 0,
        };
        self.aggregate.windows.at(now_ns).failed += 1;
        if e.measured {
            let sums = &mut self.aggregate.sums;
            sums.failed += 1;
            sums.censored += u64::from(number == 0);
            let block = self.block_of(op.index, op.intended_ns);
            if let Some(block) = self.aggregate.blocks.get_mut(block) {
                block.failed += 1;
            }
            let at = op.intended_ns;
            match self.traits.family {
                Family::Inference => {
                    // A first token that did come was measured; what never came is at +infinity.
                    if e.first_ns != 0 {
                        self.aggregate.observe(MetricId::Ttft, block, at, e.first_ns.saturating_sub(at), 1);
                        let from_send = e.first_ns.saturating_sub(e.sent_ns);
                        self.aggregate.observe(MetricId::TtftFromSend, block, at, from_send, 1);
                    } else {
                        self.aggregate.observe_censored(MetricId::Ttft, block, at);
                        self.aggregate.observe_censored(MetricId::TtftFromSend, block, at);
                    }
                    self.aggregate.observe_censored(MetricId::E2e, block, at);
                    self.aggregate.observe_censored(MetricId::ServiceTime, block, at);
                    let mut limits = self.limits.check();
                    self.gaps(e, op, block, e.tokens_known, &mut limits);
                }
                Family::Cache => {
                    self.aggregate.observe_censored(MetricId::E2e, block, at);
                    self.aggregate.observe_censored(MetricId::ServiceTime, block, at);
                }
                Family::Queue => self.aggregate.observe_censored(MetricId::EndToEndLatency, block, at),
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

    fn release(&mut self, token: OpToken, taken: &mut InFlight, now_ns: u64) {
        // The allocation of the gaps goes back to the slot.
        taken.reset();
        if let Some(entry) = self.ops.get_mut(token.0 as usize) {
            *entry = std::mem::take(taken);
        }
        self.free_ops.push(token.0);
        self.active -= 1;
        if self.is_closed() {
            self.free_slots.push_back(now_ns);
        }
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
            self.count_failure(&entry, op, None, now_ns);
            self.record(&entry, op, Answer::default(), None, now_ns, 0, true);
        }
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
