//! One shard of the load engine: the life of its operations, as a state machine without I/O.
//!
//! The runner asks [`Shard::next_due`] when to come back, moves due operations with [`Shard::pull_due`], gives each a
//! connection with [`Shard::begin`], and reports what happened. There is one loop over intended starts whatever the
//! arrival process: a closed loop only makes its starts from the ends of earlier operations.
//!
//! Bounds: waiting operations [`MAX_WAITING`]; operations on connections `max_in_flight`; every operation ends, at the
//! latest when drain is over.

mod ends;

use std::collections::VecDeque;
use std::sync::Arc;

use touchstone_model::{Arrival, Family, MetricId, Origin, Phase};
use touchstone_workload::schedule::{Schedule, ShardSchedule};

use crate::aggregate::Aggregate;
use crate::ledger::{Ledger, Receipt};
use crate::plan::LoadPlan;
use crate::record::{InFlight, OpRecord, TokenEvent, TokenKind};
use crate::session::{Answer, Driver, Failure, Op, OpToken, SessionEvent};
use crate::slo::OpLimits;

/// Operations of one shard that may wait for a connection at once; beyond it they fail as the generator's own doing.
pub const MAX_WAITING: usize = 1 << 21;
/// Gaps between content chunks that are kept of one operation; an endless stream must not fill the memory.
const MAX_GAPS: usize = 1 << 18;
/// Pause of a closed loop's slot after a failure, ns: a target that is down is not to be hammered.
const FAILURE_PAUSE_NS: u64 = 10_000_000;
/// Operations handed over in one call of [`Shard::pull_due`], so that reads get their turn under overload.
const MAX_PULL: usize = 4096;

/// Which limit an operation broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// No content in time.
    First,
    /// Silence within an answer.
    Idle,
    /// Too long in all.
    Total,
}

impl Expiry {
    /// The failure of an operation that broke this limit.
    #[must_use]
    pub fn failure(self, limit_ns: u64) -> Failure {
        let seconds = limit_ns as f64 / 1e9;
        let (phase, kind, what) = match self {
            Expiry::First => (Phase::Headers, "timeout-first", "no content"),
            Expiry::Idle => (Phase::Stream, "timeout-idle", "no further data"),
            Expiry::Total => (Phase::Stream, "timeout-total", "no end"),
        };
        Failure::new(
            Origin::Target,
            phase,
            kind,
            format!("{what} within {seconds} s"),
            "the target hangs or is overloaded; lower the load, look at its log, or raise --timeout",
        )
    }
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    index: u64,
    intended_ns: u64,
    dispatch_ns: u64,
    retried: bool,
}

/// What the shard has to know of the driver.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// The family: decides which latencies an operation has.
    pub family: Family,
    /// The latency that people look at first.
    pub leading: MetricId,
}

impl Traits {
    /// Whether answers come in pieces: one that is asked for whole has neither a first token nor gaps.
    #[must_use]
    pub fn streams(self) -> bool {
        self.leading == MetricId::Ttft
    }
}

/// One shard's operations.
#[derive(Debug)]
pub struct Shard {
    plan: Arc<LoadPlan>,
    traits: Traits,
    /// Says what an operation that failed had asked for.
    driver: Option<Arc<dyn Driver>>,
    limits: OpLimits,
    number: u32,
    start_ns: u64,
    from_ns: u64,
    to_ns: u64,
    schedule: std::iter::Peekable<ShardSchedule>,
    /// Closed loop: instants at which slots became free.
    free_slots: VecDeque<u64>,
    /// Closed loop: operations made so far.
    made: u64,
    waiting: VecDeque<Waiting>,
    ops: Vec<InFlight>,
    free_ops: Vec<u32>,
    active: u32,
    in_flight_limit: u32,
    aggregate: Aggregate,
    ledger: Ledger,
    records: Vec<OpRecord>,
    token_log: Vec<TokenEvent>,
    /// Before this instant no operation on a connection can break a limit.
    expiry_due: u64,
    stopped: bool,
}

/// What a shard knows at the end.
#[derive(Debug, Clone)]
pub struct ShardResult {
    /// Its aggregate.
    pub aggregate: Aggregate,
    /// Start of load, ns.
    pub start_ns: u64,
    /// Start of the measured window, ns.
    pub from_ns: u64,
    /// End of the measured window, ns.
    pub to_ns: u64,
    /// Instant at which the shard ended, ns.
    pub end_ns: u64,
}

/// A view of a shard for live progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations intended so far.
    pub offered: u64,
    /// Operations sent so far.
    pub sent: u64,
    /// Good ends so far.
    pub completed: u64,
    /// Bad ends so far.
    pub failed: u64,
    /// Operations that wait or run.
    pub in_flight: u64,
}

impl Shard {
    /// A shard whose load starts at `start_ns`.
    #[must_use]
    pub fn new(plan: Arc<LoadPlan>, traits: Traits, number: u32, start_ns: u64) -> Self {
        let schedule = Schedule::new(plan.process());
        let schedule = ShardSchedule::new(schedule, plan.end(), number, plan.shards).peekable();
        let from_ns = start_ns.saturating_add(plan.warm_up_ns);
        let to_ns = from_ns.saturating_add(plan.duration_ns);
        let free_slots = std::iter::repeat_n(start_ns, plan.closed_slots(number) as usize).collect();
        Self {
            limits: OpLimits::new(&plan.slos),
            in_flight_limit: plan.shard_in_flight(number).unwrap_or(u32::MAX),
            aggregate: Aggregate::new(start_ns, plan.blocks()),
            plan,
            traits,
            driver: None,
            number,
            start_ns,
            from_ns,
            to_ns,
            schedule,
            free_slots,
            made: 0,
            waiting: VecDeque::new(),
            ops: Vec::new(),
            free_ops: Vec::new(),
            active: 0,
            ledger: Ledger::default(),
            records: Vec::new(),
            token_log: Vec::new(),
            expiry_due: 0,
            stopped: false,
        }
    }

    /// The same, knowing what its operations ask for: what a failed one owes is then counted in tokens.
    #[must_use]
    pub fn for_driver(mut self, driver: Arc<dyn Driver>) -> Self {
        self.driver = Some(driver);
        self
    }

    fn is_closed(&self) -> bool {
        matches!(self.plan.arrival, Arrival::Closed { .. })
    }

    /// The next intended start, ns; none when the schedule is over (or, in a closed loop, while every slot is busy).
    pub fn next_due(&mut self) -> Option<u64> {
        if self.stopped {
            return None;
        }
        if self.is_closed() {
            return self
                .free_slots
                .front()
                .copied()
                .filter(|free| *free < self.to_ns && !self.starts_used_up());
        }
        self.schedule.peek().map(|(_, offset)| self.start_ns.saturating_add(*offset))
    }

    fn starts_used_up(&self) -> bool {
        self.plan.requests.is_some_and(|limit| self.next_closed_index() >= limit)
    }

    fn next_closed_index(&self) -> u64 {
        self.made * u64::from(self.plan.shards) + u64::from(self.number)
    }

    /// Hands over every operation whose intended start has come.
    pub fn pull_due(&mut self, now_ns: u64) {
        for _ in 0..MAX_PULL {
            let Some(due) = self.next_due().filter(|due| *due <= now_ns) else { return };
            let index = if self.is_closed() {
                self.free_slots.pop_front();
                self.made += 1;
                (self.made - 1) * u64::from(self.plan.shards) + u64::from(self.number)
            } else {
                match self.schedule.next() {
                    Some((index, _)) => index,
                    None => return,
                }
            };
            self.aggregate.windows.at(due).offered += 1;
            if due >= self.from_ns {
                self.aggregate.sums.intended += 1;
                let block = self.block_of(index, due);
                if let Some(block) = self.aggregate.blocks.get_mut(block) {
                    block.intended += 1;
                }
                self.aggregate.observe(MetricId::SchedulingError, block, due, now_ns - due, 1);
            } else {
                self.aggregate.sums.warm_up += 1;
            }
            let waiting = Waiting { index, intended_ns: due, dispatch_ns: now_ns, retried: false };
            if self.waiting.len() >= MAX_WAITING {
                let failure = Failure::new(
                    Origin::Generator,
                    Phase::Slot,
                    "backlog-full",
                    format!("more than {MAX_WAITING} operations wait"),
                    "the load is far above what the target serves; lower the rate",
                );
                self.fail_waiting(waiting, failure, now_ns);
            } else {
                self.aggregate.sums.limited += u64::from(self.active >= self.in_flight_limit);
                self.waiting.push_back(waiting);
            }
        }
    }

    fn block_of(&self, index: u64, intended_ns: u64) -> usize {
        let blocks = self.aggregate.blocks.len() as u64;
        match self.plan.requests {
            Some(requests) => (index.saturating_mul(blocks) / requests.max(1)) as usize,
            None => {
                let since = intended_ns.saturating_sub(self.from_ns);
                let length = self.plan.duration_ns.max(1);
                // Wide arithmetic only where it is needed: this runs several times per operation.
                match since.checked_mul(blocks) {
                    Some(product) => (product / length) as usize,
                    None => (u128::from(since) * u128::from(blocks) / u128::from(length)) as usize,
                }
            }
        }
    }

    /// The block of the measured window that holds an instant, for flows; none outside of it.
    fn flow_block(&self, op_block: usize, instant_ns: u64) -> Option<usize> {
        if self.plan.requests.is_some() {
            return (instant_ns >= self.from_ns).then_some(op_block);
        }
        (instant_ns >= self.from_ns && instant_ns < self.to_ns).then(|| self.block_of(0, instant_ns))
    }

    /// Whether an operation waits for a connection and may get one.
    #[must_use]
    pub fn wants_connection(&self) -> bool {
        !self.waiting.is_empty() && self.active < self.in_flight_limit
    }

    /// Whether the operation that comes next died once on a connection that was used before: it wants a fresh one.
    #[must_use]
    pub fn wants_fresh(&self) -> bool {
        self.waiting.front().is_some_and(|waiting| waiting.retried)
    }

    /// Number of operations that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Number of operations on connections.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Takes the operation that has waited longest, to be started on a connection now.
    pub fn begin(&mut self, now_ns: u64) -> Option<Op> {
        if self.active >= self.in_flight_limit {
            return None;
        }
        let waiting = self.waiting.pop_front()?;
        let token = match self.free_ops.pop() {
            Some(token) => token,
            None => {
                self.ops.push(InFlight::default());
                (self.ops.len() - 1) as u32
            }
        };
        let op = Op { token: OpToken(token), index: waiting.index, intended_ns: waiting.intended_ns };
        let measured = waiting.intended_ns >= self.from_ns;
        let entry = &mut self.ops[token as usize];
        entry.reset();
        entry.op = Some(op);
        entry.dispatch_ns = waiting.dispatch_ns;
        entry.slot_ns = now_ns;
        entry.alive_ns = now_ns;
        entry.tokens_known = true;
        entry.measured = measured;
        entry.retried = waiting.retried;
        self.active += 1;
        Some(op)
    }

    /// The last byte of an operation went to the kernel.
    pub fn sent(&mut self, token: OpToken, sent_ns: u64) {
        let to_ns = self.to_ns;
        let Some(entry) = self.ops.get_mut(token.0 as usize) else { return };
        let Some(op) = entry.op else { return };
        entry.sent_ns = sent_ns;
        entry.alive_ns = sent_ns;
        if entry.retried {
            // Its first sending was counted; it counts as sent again, and once.
            self.aggregate.sums.sent += u64::from(entry.measured);
            return;
        }
        self.aggregate.sums.sent_all += 1;
        self.aggregate.windows.at(sent_ns).sent += 1;
        if sent_ns >= self.from_ns && sent_ns < to_ns {
            self.aggregate.sums.sent_flow += 1;
        }
        if entry.measured {
            self.aggregate.sums.sent += 1;
            let (slot_wait, write) =
                (entry.slot_ns.saturating_sub(entry.dispatch_ns), sent_ns.saturating_sub(entry.slot_ns));
            let block = self.block_of(op.index, op.intended_ns);
            self.aggregate.observe(MetricId::SlotWait, block, op.intended_ns, slot_wait, 1);
            self.aggregate.observe(MetricId::Write, block, op.intended_ns, write, 1);
        }
    }

    /// A connection failed while no operation was on it: the failure is listed, no operation is counted.
    pub fn note_failure(&mut self, failure: Failure) {
        let position = self.aggregate.count_error(failure, false);
        self.aggregate.errors[position].count -= 1;
    }

    /// A connection was opened.
    pub fn connected(&mut self, took_ns: u64) {
        self.aggregate.connects.record(took_ns);
    }

    /// Takes the events of one read, all stamped `stamp_ns`; operations that ended are appended to `ended`.
    pub fn receive(&mut self, events: &mut Vec<SessionEvent>, stamp_ns: u64, ended: &mut Vec<OpToken>) {
        let contents = events.iter().filter(|event| matches!(event, SessionEvent::Content { .. })).count();
        let mut content = 0;
        for event in events.drain(..) {
            match event {
                SessionEvent::Ready | SessionEvent::Broken { .. } => {}
                SessionEvent::Head { op } => {
                    if let Some(entry) = self.entry(op)
                        && entry.head_ns == 0
                    {
                        entry.head_ns = stamp_ns;
                        entry.alive_ns = stamp_ns;
                    }
                }
                SessionEvent::Content { op, tokens, reasoning } => {
                    content += 1;
                    self.content(op, tokens, reasoning, stamp_ns, content < contents);
                }
                SessionEvent::Silent { op, part } => self.silent(op, part, stamp_ns),
                SessionEvent::Done { op, answer } => {
                    if self.done(op, answer, stamp_ns) {
                        ended.push(op);
                    }
                }
                SessionEvent::Failed { op, failure } => {
                    if self.fail(op, failure, stamp_ns) {
                        ended.push(op);
                    }
                }
                SessionEvent::Message { producer, sequence, op, index } => {
                    let receipt = self.ledger.receive(producer, sequence);
                    match receipt {
                        Receipt::Duplicate => self.aggregate.sums.duplicated += 1,
                        Receipt::Reordered => self.aggregate.sums.reordered += 1,
                        Receipt::InOrder => {}
                    }
                    let same =
                        self.entry(op).is_some_and(|entry| entry.op.is_some_and(|op| op.index == index));
                    if receipt != Receipt::Duplicate && same && self.done(op, Answer::default(), stamp_ns) {
                        ended.push(op);
                    }
                }
            }
        }
    }

    fn entry(&mut self, token: OpToken) -> Option<&mut InFlight> {
        self.ops.get_mut(token.0 as usize).filter(|entry| entry.op.is_some())
    }

    fn content(
        &mut self,
        token: OpToken,
        tokens: Option<u32>,
        reasoning: bool,
        stamp_ns: u64,
        coalesced: bool,
    ) {
        let Some(entry) = self.ops.get_mut(token.0 as usize) else { return };
        let Some(op) = entry.op else { return };
        entry.alive_ns = stamp_ns;
        entry.chunks += 1;
        let flow = tokens.unwrap_or(1);
        match tokens {
            Some(tokens) => entry.tokens = entry.tokens.saturating_add(tokens),
            None => entry.tokens_known = false,
        }
        entry.flow_tokens = entry.flow_tokens.saturating_add(flow);
        let measured = entry.measured;
        if entry.first_ns == 0 {
            entry.first_ns = stamp_ns;
            entry.first_tokens = tokens.unwrap_or(0);
        } else {
            let gap = stamp_ns.saturating_sub(entry.last_ns);
            if entry.gaps.len() < MAX_GAPS {
                entry.gaps.push((gap, tokens.unwrap_or(0)));
            }
            self.aggregate.windows.at(stamp_ns).icl.record(gap);
        }
        if !reasoning && entry.first_answer_ns == 0 {
            entry.first_answer_ns = stamp_ns;
        }
        entry.last_ns = stamp_ns;
        let block = self.block_of(op.index, op.intended_ns);
        self.flow_tokens(block, stamp_ns, i64::from(flow));
        if measured {
            self.aggregate.sums.content_events += 1;
            self.aggregate.sums.coalesced_events += u64::from(coalesced);
        }
        if self.plan.log_tokens {
            let kind = if reasoning { TokenKind::Reasoning } else { TokenKind::Content };
            self.token_log.push(TokenEvent { index: op.index, at_ns: stamp_ns, tokens, kind });
        }
    }

    /// An event without content: a sign of life, and a line of the log.
    fn silent(&mut self, token: OpToken, part: bool, stamp_ns: u64) {
        let log = self.plan.log_tokens;
        let Some(entry) = self.entry(token) else { return };
        let Some(op) = entry.op else { return };
        if log {
            let kind = if part { TokenKind::Empty } else { TokenKind::Report };
            self.token_log.push(TokenEvent { index: op.index, at_ns: stamp_ns, tokens: None, kind });
        }
    }

    fn flow_tokens(&mut self, op_block: usize, instant_ns: u64, tokens: i64) {
        self.aggregate.windows.at(instant_ns).tokens += tokens;
        if let Some(block) = self.flow_block(op_block, instant_ns) {
            self.aggregate.sums.tokens_flow += tokens;
            if let Some(block) = self.aggregate.blocks.get_mut(block) {
                block.tokens_flow += tokens;
            }
        }
    }

    /// Puts an operation that died unanswered on a reused connection back to the front, once; returns false when it
    /// was sent again before (the caller then fails it).
    pub fn send_again(&mut self, token: OpToken) -> bool {
        let Some(entry) = self.entry(token) else { return false };
        if entry.retried || entry.chunks > 0 {
            return false;
        }
        let Some(op) = entry.op.take() else { return false };
        let waiting = Waiting {
            index: op.index,
            intended_ns: op.intended_ns,
            dispatch_ns: entry.dispatch_ns,
            retried: true,
        };
        if entry.measured && entry.sent_ns != 0 {
            self.aggregate.sums.sent = self.aggregate.sums.sent.saturating_sub(1);
        }
        self.waiting.push_front(waiting);
        self.free_ops.push(token.0);
        self.active -= 1;
        self.aggregate.sums.retried += 1;
        true
    }

    /// Operations on connections that broke a limit, with the failure; waiting ones are failed here.
    pub fn expire(&mut self, now_ns: u64, expired: &mut Vec<(OpToken, Failure)>) {
        let t = self.plan.timeouts;
        if now_ns >= self.expiry_due {
            self.expiry_due = self.expire_active(now_ns, expired);
        }
        while let Some(front) = self.waiting.front()
            && now_ns.saturating_sub(front.dispatch_ns) > t.total_ns
        {
            let Some(front) = self.waiting.pop_front() else { break };
            let failure = Failure::new(
                Origin::Target,
                Phase::Slot,
                "timeout-total",
                "no connection or slot became free in time",
                "the load is above what the target serves on these connections; lower it or raise --connections",
            );
            self.fail_waiting(front, failure, now_ns);
        }
    }

    /// The operations on connections that broke a limit. Gives the earliest instant at which one of the others, or one
    /// that comes later, can break one: until then there is no need to look, however many there are.
    fn expire_active(&self, now_ns: u64, expired: &mut Vec<(OpToken, Failure)>) -> u64 {
        let t = self.plan.timeouts;
        let shortest = t.total_ns.min(t.first_ns).min(t.idle_ns);
        let mut earliest = now_ns.saturating_add(shortest);
        // One that waits keeps the instant at which it was handed over when it gets a connection.
        if let Some(dispatch_ns) = self.waiting.iter().map(|waiting| waiting.dispatch_ns).min() {
            earliest = earliest.min(dispatch_ns.saturating_add(t.total_ns));
        }
        for entry in &self.ops {
            let Some(op) = entry.op else { continue };
            let total_at = entry.dispatch_ns.saturating_add(t.total_ns);
            let (silent_at, expiry, limit) = if entry.first_ns != 0 {
                (entry.alive_ns.saturating_add(t.idle_ns), Expiry::Idle, t.idle_ns)
            } else if entry.sent_ns != 0 {
                (entry.sent_ns.saturating_add(t.first_ns), Expiry::First, t.first_ns)
            } else {
                (u64::MAX, Expiry::Total, t.total_ns)
            };
            if now_ns > total_at {
                expired.push((op.token, Expiry::Total.failure(t.total_ns)));
            } else if now_ns > silent_at {
                expired.push((op.token, expiry.failure(limit)));
            } else {
                earliest = earliest.min(total_at.min(silent_at).saturating_add(1));
            }
        }
        earliest
    }

    /// Fails every waiting operation for one reason: the target cannot be reached.
    pub fn fail_all_waiting(&mut self, failure: &Failure, now_ns: u64) {
        while let Some(front) = self.waiting.pop_front() {
            self.fail_waiting(front, failure.clone(), now_ns);
        }
    }

    /// Fails the waiting operation that has waited longest, for the reason why its connection could not be opened.
    pub fn fail_next_waiting(&mut self, failure: Failure, now_ns: u64) {
        if let Some(front) = self.waiting.pop_front() {
            self.fail_waiting(front, failure, now_ns);
        }
    }

    /// Ends the schedule now: nothing further starts, the measured window ends here, drain begins.
    pub fn stop(&mut self, now_ns: u64) {
        if !self.stopped {
            self.stopped = true;
            self.to_ns = self.to_ns.min(now_ns.max(self.start_ns));
            self.from_ns = self.from_ns.min(self.to_ns);
        }
    }

    /// Whether nothing further will start.
    pub fn schedule_over(&mut self, now_ns: u64) -> bool {
        self.stopped
            || if self.is_closed() {
                now_ns >= self.to_ns || self.starts_used_up()
            } else {
                self.schedule.peek().is_none()
            }
    }

    /// Whether the shard is done: nothing further starts, and nothing is in flight or drain is over. An open loop also
    /// waits for the end of its measured window, since an empty rest of it is part of the measurement.
    pub fn is_over(&mut self, now_ns: u64) -> bool {
        if now_ns >= self.drain_end() {
            // Starts that were not even handed over by now never will be: the generator is far behind.
            self.aggregate.sums.abandoned += u64::from(!self.schedule_over(now_ns));
            return true;
        }
        if !self.schedule_over(now_ns) {
            return false;
        }
        let window_over = now_ns >= self.to_ns || self.plan.requests.is_some();
        self.active == 0 && self.waiting.is_empty() && window_over
    }

    /// The instant after which nothing is waited for.
    #[must_use]
    pub fn drain_end(&self) -> u64 {
        self.to_ns.saturating_add(self.plan.drain_ns)
    }

    /// End of the measured window as planned, or as cut by [`Shard::stop`].
    #[must_use]
    pub fn measured_to(&self) -> u64 {
        self.to_ns
    }

    /// The state for live progress.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let sums = &self.aggregate.sums;
        Tally {
            offered: sums.intended + sums.warm_up,
            sent: sums.sent_all,
            completed: sums.completed_all,
            failed: sums.failed_all,
            in_flight: u64::from(self.active) + self.waiting.len() as u64,
        }
    }

    /// The last whole window's latency and icl quantiles for live progress: (p50, p99) each, ns.
    pub fn recent(&mut self, now_ns: u64) -> Recent {
        let length = self.aggregate.windows.length_ns;
        let window = self.aggregate.windows.at(now_ns.saturating_sub(length));
        let quantiles = |histogram: &touchstone_stats::histogram::Histogram| {
            let at = |q| histogram.quantile_nearest_rank(q).value();
            (at(0.5), at(0.99))
        };
        Recent { latency: quantiles(&window.latency), icl: quantiles(&window.icl) }
    }

    /// Records of operations that ended since the last call.
    pub fn take_records(&mut self) -> Vec<OpRecord> {
        std::mem::take(&mut self.records)
    }

    /// Events of answers since the last call; none unless the plan asks for them.
    pub fn take_token_log(&mut self) -> Vec<TokenEvent> {
        let capacity = self.token_log.len();
        std::mem::replace(&mut self.token_log, Vec::with_capacity(capacity))
    }

    /// Number of events of answers that wait to be taken.
    #[must_use]
    pub fn token_log_len(&self) -> usize {
        self.token_log.len()
    }

    /// Number of records that wait to be taken.
    #[must_use]
    pub fn record_count(&self) -> usize {
        self.records.len()
    }

    /// The failures seen so far, in the order of their numbers.
    #[must_use]
    pub fn failures(&self) -> &[crate::aggregate::ErrorAcc] {
        &self.aggregate.errors
    }
}

/// Recent quantiles for live progress, ns: (p50, p99).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recent {
    /// Of the leading latency.
    pub latency: (Option<u64>, Option<u64>),
    /// Of icl.
    pub icl: (Option<u64>, Option<u64>),
}
