//! One shard's thread: sockets, timers and one loop.
//!
//! The loop hands over what is due, writes, waits for the next instant or event, and reads. Nothing in it blocks, and
//! nothing in it waits for a consumer.

mod finishing;
mod links;
mod preload;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use touchstone_load::{Connections, Driver, Failure, OpRecord, OpToken, SessionEvent, Shard, ShardResult};
use touchstone_model::Phase;
use touchstone_net::{ConnState, Endpoint, PeerAddr, Poller, Ready, RecvBuf, StampSource, mono_ns};

use crate::control::{Control, Outlet, RunEvent, ShardTick};
use crate::failure::{self, Reached};
use crate::link::{Link, LinkState};
use crate::priority::Priority;
use finishing::Finishing;

/// Between two looks at limits and counters, ns.
const HOUSEKEEPING_NS: u64 = 20_000_000;
/// Between two ticks of live progress, ns.
const TICK_NS: u64 = 200_000_000;
/// Before a fixed connection is opened again, ns.
const RECONNECT_NS: u64 = 100_000_000;
/// Events handled before looking whether something is due.
const EVENTS_AT_ONCE: usize = 4;
/// Records that are handed over at once.
const RECORD_BATCH: usize = 2048;
/// Bytes that may wait on a connection before further operations wait for a slot instead.
const MAX_BACKLOG: u64 = 4 << 20;
/// Bytes of replies (such as PONG) that may wait for a peer that does not read, before the connection is given up.
const MAX_UNREAD: u64 = 64 << 20;
/// Rounds of reading one connection before others, and deadlines, get their turn.
const READ_ROUNDS: u32 = 4;
/// Connections that are opened before looking whether the run was stopped.
const OPEN_AT_ONCE: u32 = 64;
/// Failures without a single success after which a run is given up.
const HOPELESS: u64 = 200;

/// What a worker needs to start.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) endpoint: Endpoint,
    /// Where to connect; empty when the name could not be resolved.
    pub(crate) addresses: Vec<PeerAddr>,
    /// Why there is no address.
    pub(crate) unresolved: Option<Failure>,
    pub(crate) shard: u32,
    pub(crate) shards: u32,
    pub(crate) connect_timeout_ns: u64,
    pub(crate) max_errors: Option<u64>,
    pub(crate) spin_ns: u64,
}

/// What a worker counted beside its shard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) connections: u64,
    pub(crate) reconnects: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) reads: u64,
    pub(crate) user_stamped: u64,
    pub(crate) busy_ns: u64,
    pub(crate) loop_ns: u64,
    pub(crate) clock_steps: u64,
    pub(crate) dropped: u64,
    pub(crate) too_many_errors: bool,
    /// Time in which free slots stood idle while operations waited, and how often that was.
    pub(crate) turnaround_ns: u64,
    pub(crate) turnarounds: u64,
    /// Whether the thread had to be given real-time scheduling.
    pub(crate) realtime: bool,
}

/// What became of connections that were used again.
#[derive(Debug, Default)]
struct Reuse {
    /// Operations that ended on one.
    worked: u64,
    /// Times that one died under unanswered operations.
    died: u64,
}

impl Reuse {
    /// Whether the target closes each connection after an answer, whatever its headers say (llama.cpp does so after a
    /// stream): then using one again only costs a second sending.
    fn is_futile(&self) -> bool {
        self.died >= 2 && self.died > self.worked
    }
}

pub(crate) struct Worker {
    setup: Setup,
    poller: Poller,
    recv: RecvBuf,
    links: Vec<Option<Link>>,
    free_links: Vec<usize>,
    generation: u32,
    /// Links with free capacity: taken at the front, given back at the back (fixed) or the front (on demand, so that
    /// few connections stay warm).
    available: VecDeque<usize>,
    dirty: Vec<usize>,
    /// Links that had more to read when their turn was over.
    hot: Vec<(usize, u32)>,
    /// The link of each operation, by token.
    link_of: Vec<u32>,
    open_links: u32,
    connecting: u32,
    finishing: Finishing,
    reuse: Reuse,
    wanted: Connections,
    reconnect_at: VecDeque<(u64, bool)>,
    serial: u32,
    address: usize,
    outlet: Outlet,
    control: Control,
    pub(crate) counters: Counters,
    events: Vec<SessionEvent>,
    ended: Vec<OpToken>,
    reply: Vec<u8>,
    reported: (u64, u64),
    failures_told: usize,
    last_connect_failure: Option<Failure>,
}

const NO_LINK: u32 = u32::MAX;

impl Worker {
    /// The protocol with its workload.
    pub(crate) fn driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.setup.driver)
    }

    pub(crate) fn new(setup: Setup, outlet: Outlet, control: Control) -> io::Result<Self> {
        let share = |all: u32| all / setup.shards + u32::from(setup.shard < all % setup.shards);
        let wanted = match setup.driver.connections() {
            Connections::Fixed(all) => Connections::Fixed(share(all).max(1)),
            Connections::OnDemand { at_most } => Connections::OnDemand { at_most: share(at_most).max(1) },
        };
        Ok(Self {
            poller: Poller::new()?.with_spin_ns(setup.spin_ns),
            recv: RecvBuf::new(),
            links: Vec::new(),
            free_links: Vec::new(),
            generation: 0,
            available: VecDeque::new(),
            dirty: Vec::new(),
            hot: Vec::new(),
            link_of: Vec::new(),
            open_links: 0,
            connecting: 0,
            finishing: Finishing::default(),
            reuse: Reuse::default(),
            wanted,
            reconnect_at: VecDeque::new(),
            serial: 0,
            address: 0,
            outlet,
            control,
            counters: Counters::default(),
            events: Vec::new(),
            ended: Vec::new(),
            reply: Vec::new(),
            reported: (0, 0),
            failures_told: 0,
            last_connect_failure: None,
            setup,
        })
    }

    /// The loop: from the start of load to the end of drain.
    pub(crate) fn drive(&mut self, shard: &mut Shard, start_ns: u64) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut next_house = start_ns;
        let mut next_tick = start_ns + TICK_NS;
        let began = mono_ns();
        let mut woke = began;
        let mut priority = Priority::ordinary(self.setup.shards, began);
        self.outlet.send(RunEvent::Started { start_ns });
        loop {
            let now = mono_ns();
            if self.control.stopped() {
                shard.stop(now);
            }
            self.send_due(shard, now);
            if now >= next_house {
                next_house = now + HOUSEKEEPING_NS;
                priority.review(now);
                self.housekeeping(shard, now);
            }
            if now >= next_tick {
                next_tick = now + TICK_NS;
                self.tick(shard, now);
            } else if shard.record_count() >= RECORD_BATCH || shard.token_log_len() >= RECORD_BATCH {
                self.hand_over_records(shard);
            }
            if shard.is_over(now) || self.control.aborted() {
                break;
            }
            let mut deadline = next_house.min(shard.drain_end());
            if let Some(due) = shard.next_due() {
                deadline = deadline.min(due);
            }
            if let Some(due) = self.finishing.next_due().filter(|_| shard.wants_connection()) {
                deadline = deadline.min(due);
            }
            if !self.hot.is_empty() {
                deadline = now;
            }
            let before = mono_ns();
            self.counters.busy_ns += before - woke;
            self.poller.wait(&mut ready, Some(deadline))?;
            woke = mono_ns();
            self.read_hot(shard);
            for event in ready.chunks(EVENTS_AT_ONCE) {
                self.handle(event, shard);
                // Many answers at once must not make what is due late.
                let now = mono_ns();
                if shard.next_due().is_some_and(|due| due <= now) {
                    self.send_due(shard, now);
                }
            }
        }
        self.counters.realtime = priority.was_raised();
        priority.lower();
        let now = mono_ns();
        self.tick(shard, now);
        self.counters.loop_ns = now - began;
        self.counters.clock_steps = self.recv.clock_steps();
        self.counters.dropped = self.outlet.dropped;
        Ok(())
    }

    /// Hands over the records of the operations that the end cut off, after the kinds of failures that came with them.
    pub(crate) fn send_last(&mut self, result: &ShardResult, records: Vec<OpRecord>) {
        let shard = self.setup.shard;
        for (number, group) in result.aggregate.errors.iter().enumerate().skip(self.failures_told) {
            let failure = group.first.clone();
            self.outlet.send(RunEvent::FirstFailure { shard, number: number as u16, failure });
        }
        self.outlet.send(RunEvent::Operations { shard, records });
        self.counters.dropped = self.outlet.dropped;
    }

    fn tick(&mut self, shard: &mut Shard, now_ns: u64) {
        self.hand_over_records(shard);
        let tick = ShardTick {
            shard: self.setup.shard,
            at_ns: now_ns,
            tally: shard.tally(),
            recent: shard.recent(now_ns),
        };
        self.outlet.send(RunEvent::Tick(tick));
    }

    fn hand_over_records(&mut self, shard: &mut Shard) {
        for (number, group) in shard.failures().iter().enumerate().skip(self.failures_told) {
            let event = RunEvent::FirstFailure {
                shard: self.setup.shard,
                number: number as u16,
                failure: group.first.clone(),
            };
            self.outlet.send(event);
        }
        self.failures_told = shard.failures().len();
        if shard.token_log_len() > 0 {
            let events = shard.take_token_log();
            self.outlet.send(RunEvent::Tokens { shard: self.setup.shard, events });
        }
        let records = shard.take_records();
        if !records.is_empty() {
            self.outlet.send(RunEvent::Operations { shard: self.setup.shard, records });
        }
    }

    /// Gives waiting operations to links with free capacity; opens further links where the policy allows.
    fn start_operations(&mut self, shard: &mut Shard, now_ns: u64) {
        while shard.wants_connection() {
            let fresh = matches!(self.wanted, Connections::OnDemand { .. }) && shard.wants_fresh();
            let next = if fresh { self.take_fresh() } else { self.available.pop_front() };
            let Some(index) = next else {
                if fresh {
                    self.open_fresh(shard, now_ns);
                } else {
                    self.open_for_waiting(shard, now_ns);
                }
                return;
            };
            let Some(link) = self.links[index].as_mut().filter(|link| link.state == LinkState::Open) else {
                continue;
            };
            link.listed = false;
            if link.session.capacity() == 0 || link.backlog() > MAX_BACKLOG {
                continue;
            }
            let Some(op) = shard.begin(now_ns) else { return };
            if let Some(freed_ns) = link.freed_ns.take()
                && op.intended_ns <= freed_ns
            {
                self.counters.turnaround_ns += now_ns.saturating_sub(freed_ns);
                self.counters.turnarounds += 1;
            }
            self.counters.bytes_sent += link.append(|session, out| session.start(op, out));
            link.await_sent(op.token);
            link.active += 1;
            if self.link_of.len() <= op.token.0 as usize {
                self.link_of.resize(op.token.0 as usize + 1, NO_LINK);
            }
            self.link_of[op.token.0 as usize] = index as u32;
            if !link.dirty {
                link.dirty = true;
                self.dirty.push(index);
            }
            if link.session.capacity() > 0 {
                link.listed = true;
                self.available.push_back(index);
            }
        }
    }

    fn flush(&mut self, shard: &mut Shard) {
        let dirty = std::mem::take(&mut self.dirty);
        for index in &dirty {
            self.flush_link(*index, shard);
        }
        // Links that broke may have made others dirty; they come in the next round.
        let added = std::mem::replace(&mut self.dirty, dirty);
        self.dirty.clear();
        self.dirty.extend(added);
    }

    fn flush_link(&mut self, index: usize, shard: &mut Shard) {
        let Some(link) = self.links[index].as_mut() else { return };
        link.dirty = false;
        match link.conn.write_pending() {
            Ok(outcome) => {
                let sent_ns = outcome.sent_ns.unwrap_or_else(mono_ns);
                for token in link.now_sent(outcome.bytes_left) {
                    shard.sent(token, sent_ns);
                }
                self.list(index);
            }
            Err(error) => {
                // What the peer said before it closed may still be there: an early answer, or the reason.
                self.read(index, None, shard);
                self.break_link(index, &failure::broken(&error, Phase::Send), shard, true);
            }
        }
    }

    /// Hands over what is due, gives it connections, and writes.
    fn send_due(&mut self, shard: &mut Shard, now_ns: u64) {
        shard.pull_due(now_ns);
        self.start_operations(shard, now_ns);
        self.flush(shard);
    }

    fn handle(&mut self, ready: &[Ready], shard: &mut Shard) {
        for event in ready {
            let index = event.token.0 & 0xffff_ffff;
            let generation = (event.token.0 >> 32) as u32;
            let Some(Some(link)) = self.links.get_mut(index) else { continue };
            if link.generation != generation {
                continue;
            }
            if link.state == LinkState::Connecting {
                self.connect(index, shard);
                continue;
            }
            if event.writable && link.conn.has_pending() {
                self.flush_link(index, shard);
            }
            if event.readable || event.closed {
                self.read(index, Some(event), shard);
            }
        }
    }

    fn read(&mut self, index: usize, ready: Option<&Ready>, shard: &mut Shard) {
        for _ in 0..READ_ROUNDS {
            let Some(link) = self.links[index].as_mut() else { return };
            let Self { recv, events, reply, ended, counters, .. } = self;
            let session = &mut link.session;
            let mut became_ready = false;
            let mut broken = None;
            let mut sink = |bytes: &[u8], stamp_ns: u64, source: StampSource| {
                counters.reads += 1;
                counters.bytes_received += bytes.len() as u64;
                counters.user_stamped += u64::from(source == StampSource::User);
                session.receive(bytes, reply, events);
                for event in events.iter() {
                    match event {
                        SessionEvent::Ready => became_ready = true,
                        SessionEvent::Broken { failure } => broken = Some(failure.clone()),
                        _ => {}
                    }
                }
                shard.receive(events, stamp_ns, ended);
            };
            let outcome = match ready {
                Some(ready) => link.conn.read_ready(ready, recv, &mut sink),
                None => link.conn.read(recv, &mut sink),
            };
            if !self.reply.is_empty() {
                let reply = std::mem::take(&mut self.reply);
                link.append(|_, out| out.extend_from_slice(&reply));
                self.reply = reply;
                self.reply.clear();
                if !link.dirty {
                    link.dirty = true;
                    self.dirty.push(index);
                }
            }
            if became_ready {
                self.became_open(index);
            }
            let stamp_ns = outcome.as_ref().map_or(0, |outcome| outcome.stamp_ns);
            self.settle(stamp_ns);
            if self.links[index].as_ref().is_some_and(|link| link.backlog() > MAX_UNREAD) {
                self.break_link(index, &failure::never_reads(), shard, false);
                return;
            }
            if let Some(failure) = broken {
                self.break_link(index, &failure, shard, false);
                return;
            }
            match outcome {
                Ok(outcome) if outcome.eof => {
                    self.end_of_stream(index, outcome.stamp_ns, shard);
                    return;
                }
                Ok(outcome) if outcome.more => {}
                Ok(_) => {
                    self.list(index);
                    self.close_if_spent(index);
                    return;
                }
                Err(error) => {
                    self.break_link(index, &failure::broken(&error, Phase::Stream), shard, true);
                    return;
                }
            }
        }
        if let Some(link) = self.links[index].as_ref() {
            self.hot.push((index, link.generation));
        }
    }

    /// Reads on where a turn ended with more to come: no event will announce it again.
    fn read_hot(&mut self, shard: &mut Shard) {
        for (index, generation) in std::mem::take(&mut self.hot) {
            if self.links[index].as_ref().is_some_and(|link| link.generation == generation) {
                self.read(index, None, shard);
            }
        }
    }

    /// Takes the operations that ended off their links.
    fn settle(&mut self, stamp_ns: u64) {
        let mut ended = std::mem::take(&mut self.ended);
        for token in ended.drain(..) {
            let Some(slot) = self.link_of.get_mut(token.0 as usize) else { continue };
            let index = std::mem::replace(slot, NO_LINK);
            if index == NO_LINK {
                continue;
            }
            if let Some(Some(link)) = self.links.get_mut(index as usize) {
                link.active = link.active.saturating_sub(1);
                self.reuse.worked += u64::from(link.reused);
                link.reused = true;
                link.freed_ns = Some(stamp_ns).filter(|stamp| *stamp != 0);
            }
            self.list(index as usize);
        }
        self.ended = ended;
    }

    fn end_of_stream(&mut self, index: usize, stamp_ns: u64, shard: &mut Shard) {
        let Some(link) = self.links[index].as_mut() else { return };
        if link.state != LinkState::Open {
            self.connect_failed(index, failure::closed(Phase::Connect), shard);
            return;
        }
        // An operation that died unanswered on a reused connection is sent again: keep the session from failing it.
        if link.active > 0 && link.reused && self.send_unanswered_again(index, shard) {
            self.counters.reconnects += 1;
            return;
        }
        let Some(link) = self.links[index].as_mut() else { return };
        link.session.end_of_stream(&mut self.events);
        let why = self.events.iter().find_map(|event| match event {
            SessionEvent::Broken { failure } => Some(failure.clone()),
            _ => None,
        });
        let why = why.unwrap_or_else(|| failure::closed(Phase::Stream));
        let stamp_ns = if stamp_ns == 0 { mono_ns() } else { stamp_ns };
        shard.receive(&mut self.events, stamp_ns, &mut self.ended);
        self.settle(stamp_ns);
        if self.links[index].as_ref().is_some_and(|link| link.active == 0) {
            self.counters.reconnects += 1;
            let consumer = self.links[index].as_ref().is_some_and(|link| link.session.receive_only());
            self.close(index);
            self.replace(consumer);
        } else {
            self.break_link(index, &why, shard, false);
        }
    }

    /// Sends every operation of a link again (once each) when none of them was answered, and closes the link. Returns
    /// whether it did.
    fn send_unanswered_again(&mut self, index: usize, shard: &mut Shard) -> bool {
        let tokens = self.tokens_on(index);
        let Some(link) = self.links[index].as_ref() else { return false };
        if tokens.is_empty() || tokens.iter().any(|token| link.session.answered(*token)) {
            return false;
        }
        for token in tokens {
            self.link_of[token.0 as usize] = NO_LINK;
            if !shard.send_again(token) {
                shard.fail(token, failure::closed(Phase::Headers), mono_ns());
            }
        }
        self.reuse.died += 1;
        self.close(index);
        self.replace(false);
        true
    }

    fn tokens_on(&self, index: usize) -> Vec<OpToken> {
        let on = |(token, link): (usize, &u32)| (*link == index as u32).then_some(OpToken(token as u32));
        self.link_of.iter().enumerate().filter_map(on).collect()
    }

    /// A link is of no further use: its operations fail, or are sent again where that is right.
    fn break_link(&mut self, index: usize, why: &Failure, shard: &mut Shard, may_send_again: bool) {
        let Some(link) = self.links[index].as_ref() else { return };
        if link.state != LinkState::Open {
            self.connect_failed(index, failure::at_phase(why, Phase::Connect), shard);
            return;
        }
        self.counters.reconnects += 1;
        let asked_to_close = why.kind == "connection-close";
        // Hanging up between operations is a peer's right; anything else is told though no operation failed by it.
        let ordinary = asked_to_close || matches!(why.kind.as_str(), "closed" | "reset");
        if link.active == 0 && !ordinary {
            shard.note_failure(why.clone());
        }
        if may_send_again && link.reused && self.send_unanswered_again(index, shard) {
            return;
        }
        let now = mono_ns();
        for token in self.tokens_on(index) {
            let Some(link) = self.links[index].as_ref() else { break };
            let phase = if link.is_unsent(token) {
                Phase::Send
            } else if link.session.answered(token) {
                why.phase
            } else {
                Phase::Headers
            };
            self.link_of[token.0 as usize] = NO_LINK;
            shard.fail(token, failure::at_phase(why, phase), now);
        }
        let consumer = self.links[index].as_ref().is_some_and(|link| link.session.receive_only());
        self.close(index);
        // After a fault, not at once: a peer that answers wrongly would be asked without end.
        let pause = if asked_to_close { 0 } else { RECONNECT_NS };
        self.replace_after(consumer, pause);
    }

    /// Limits, reconnects and shared counts.
    fn housekeeping(&mut self, shard: &mut Shard, now_ns: u64) {
        self.close_those_that_never_finish(now_ns);
        let mut expired = Vec::new();
        shard.expire(now_ns, &mut expired);
        for (token, failure) in expired {
            let index = self
                .link_of
                .get_mut(token.0 as usize)
                .map_or(NO_LINK, |slot| std::mem::replace(slot, NO_LINK));
            let usable = match self.links.get_mut(index as usize) {
                Some(Some(link)) => {
                    link.active = link.active.saturating_sub(1);
                    link.forget(token);
                    link.session.abandon(token)
                }
                _ => true,
            };
            shard.fail(token, failure, now_ns);
            if !usable {
                let why = failure::closed(Phase::Stream);
                self.break_link(index as usize, &why, shard, false);
            }
        }
        for index in 0..self.links.len() {
            let Some(link) = self.links[index].as_ref() else { continue };
            let late = now_ns.saturating_sub(link.opened_ns) > self.setup.connect_timeout_ns;
            let reached = match (link.state, link.conn.state()) {
                (LinkState::Open, _) => continue,
                (LinkState::Greeting, _) => Reached::Greeting,
                (LinkState::Connecting, ConnState::Handshaking) => Reached::Transport,
                (LinkState::Connecting, _) => Reached::Nothing,
            };
            if late {
                let failure = failure::connect_timeout(reached, self.setup.connect_timeout_ns);
                self.connect_failed(index, failure, shard);
            }
        }
        while let Some((at, consumer)) = self.reconnect_at.front().copied()
            && at <= now_ns
        {
            self.reconnect_at.pop_front();
            if let Some(session) = self.new_session(consumer)
                && let Err(failure) = self.open(session, now_ns)
            {
                self.last_connect_failure = Some(failure);
                self.reconnect_at.push_back((now_ns + RECONNECT_NS, consumer));
            }
        }
        // Nothing is open and nothing is on its way: what waits has nowhere to go.
        if matches!(self.wanted, Connections::Fixed(_))
            && self.open_links == 0
            && self.connecting == 0
            && let Some(failure) = &self.last_connect_failure
        {
            shard.fail_all_waiting(failure, now_ns);
        }
        self.share_counts(shard);
    }

    fn share_counts(&mut self, shard: &mut Shard) {
        let tally = shard.tally();
        let (failed, completed) =
            self.control.count(tally.failed - self.reported.0, tally.completed - self.reported.1);
        self.reported = (tally.failed, tally.completed);
        let too_many = self.setup.max_errors.is_some_and(|limit| failed >= limit);
        let hopeless = completed == 0 && failed >= HOPELESS;
        if (too_many || hopeless) && !self.control.stopped() {
            self.counters.too_many_errors = true;
            self.control.end_schedule();
        }
    }
}
