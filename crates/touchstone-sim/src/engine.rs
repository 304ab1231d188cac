//! The scheduler: who runs in which step, what a step costs, and what comes out of it.

use std::collections::{BTreeSet, VecDeque};

use crate::kv::{BlockId, BlockPool};
use crate::profile::{Batching, Profile, ProfileError, StepTime};
use crate::rng::SeededRng;

/// Why a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// `max_tokens` tokens were generated. (The model knows no end-of-sequence token.)
    Length,
}

/// Tokens handed out for a sequence at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emission {
    /// The id given to [`EngineModel::submit`].
    pub id: u64,
    /// End of the step that made the last of these tokens, ns.
    pub at: u64,
    /// How many tokens, at least 1.
    pub tokens: u32,
    /// Set on the sequence's last emission.
    pub finished: Option<FinishReason>,
    /// Set on the sequence's first emission.
    pub first: Option<FirstToken>,
}

/// What came before a sequence's first token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstToken {
    /// From its arrival to the first step that computed it, ns.
    pub queue_ns: u64,
    /// From there to the end of the step that made its first token, ns.
    pub prefill_ns: u64,
}

/// Answer to [`EngineModel::submit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The sequence waits or runs; emissions will follow.
    Accepted,
    /// Nothing was changed.
    Rejected(Rejection),
}

/// Why a sequence can never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// Prompt or answer would have no tokens.
    Empty,
    /// A sequence of that id is waiting or running.
    DuplicateId,
    /// Prompt and answer together exceed the context, or the whole KV cache.
    TooLong {
        /// Tokens asked for, prompt and answer.
        tokens: u64,
        /// Most tokens possible.
        limit: u64,
    },
}

/// What the engine has done and is doing. Token and event counts are cumulative.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sequences in progress.
    pub running: u64,
    /// Sequences accepted but not (or, after a preemption, no longer) in progress.
    pub waiting: u64,
    /// KV blocks held by sequences; cached blocks that nobody holds do not count.
    pub kv_blocks_used: u64,
    /// KV blocks in the pool.
    pub kv_blocks_total: u64,
    /// Sequences put back to be computed again because blocks ran out.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache, at a sequence's first admission only.
    pub prefix_queries: u64,
    /// Of those, tokens found.
    pub prefix_hits: u64,
    /// Prompt tokens of sequences whose prefill has been completed, found in the cache or computed.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Sequences that ended by themselves.
    pub finished: u64,
    /// Sequences cancelled.
    pub cancelled: u64,
    /// Steps completed.
    pub steps: u64,
    /// Time spent in completed steps, ns.
    pub busy_ns: u64,
    /// `batch_sizes[n]`: completed steps that advanced `n` sequences; index 0 stays 0.
    pub batch_sizes: Vec<u64>,
}

impl Counters {
    /// Share of the KV pool held by sequences, 0 to 1.
    #[must_use]
    pub fn kv_usage(&self) -> f64 {
        self.kv_blocks_used as f64 / self.kv_blocks_total as f64
    }
}

#[derive(Debug, Clone)]
struct Seq {
    id: u64,
    arrival: u64,
    prompt: u32,
    hashes: Vec<u64>,
    max_tokens: u32,
    generated: u32,
    /// Tokens whose keys and values lie in `blocks`.
    computed: u32,
    blocks: Vec<BlockId>,
    /// Tokens that the step in progress computes.
    scheduled: u32,
    /// Generated tokens not handed out yet.
    held_back: u32,
    /// Start of the first step that computed it; none before it was admitted.
    started: Option<u64>,
    first: Option<FirstToken>,
}

impl Seq {
    /// Tokens to compute before the next one can be sampled.
    const fn pending(&self) -> u32 {
        self.prompt + self.generated - self.computed
    }

    const fn done(&self) -> bool {
        self.generated == self.max_tokens
    }

    /// Whether the next computation is an ordinary decode, not (part of) a prefill.
    const fn decodes(&self) -> bool {
        self.generated > 0 && self.pending() == 1
    }
}

#[derive(Debug, Clone, Copy)]
struct Step {
    end: u64,
    duration: u64,
    sequences: usize,
}

/// A serving engine on an abstract clock of nanoseconds. See the crate's documentation.
///
/// Use: [`submit`](Self::submit) and [`cancel`](Self::cancel) at any time, [`next_event`](Self::next_event) to learn
/// when something happens, [`advance`](Self::advance) at or after that time. Times passed in may be late but not
/// decrease; a late `advance` does not shift the model's steps, so the model does not drift from a real clock.
#[derive(Debug, Clone)]
pub struct EngineModel {
    profile: Profile,
    seed: u64,
    pool: BlockPool,
    waiting: VecDeque<Seq>,
    running: Vec<Seq>,
    ids: BTreeSet<u64>,
    step: Option<Step>,
    /// No step may start before this instant: the end of the last step.
    idle_since: u64,
    latest: u64,
    /// One-sequence batching: index in `running` of the next one to advance.
    turn: usize,
    /// Static batching: sequences that the current batch began with.
    batch: usize,
    counters: Counters,
}

impl EngineModel {
    /// An idle engine. `seed` decides the jitter and nothing else.
    ///
    /// # Errors
    /// When the profile fails [`Profile::check`].
    pub fn new(profile: Profile, seed: u64) -> Result<Self, ProfileError> {
        profile.check()?;
        Ok(Self {
            pool: BlockPool::new(profile.kv_blocks),
            seed,
            waiting: VecDeque::new(),
            running: Vec::new(),
            ids: BTreeSet::new(),
            step: None,
            idle_since: 0,
            latest: 0,
            turn: 0,
            batch: 0,
            counters: Counters {
                kv_blocks_total: u64::from(profile.kv_blocks),
                batch_sizes: vec![0; profile.max_num_seqs as usize + 1],
                ..Counters::default()
            },
            profile,
        })
    }

    /// The profile in force.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The counters as of the last call.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let ended_in_batch = self.running.iter().filter(|seq| seq.done()).count();
        Counters {
            running: (self.running.len() - ended_in_batch) as u64,
            waiting: self.waiting.len() as u64,
            kv_blocks_used: self.pool.in_use() as u64,
            ..self.counters.clone()
        }
    }

    /// Sequences accepted and not started, or put back: cheap, for admission control.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Hands in a sequence at time `now`. It can join the first step that starts at or after `now`; sequences handed
    /// in at one instant can share that step.
    ///
    /// `prompt_block_hashes[k]` names the content of the prompt up to and including its block `k` (a chained hash),
    /// for whole blocks only; further ones are ignored. Pass an empty slice where prefixes are unknown.
    pub fn submit(
        &mut self,
        now: u64,
        id: u64,
        prompt_tokens: u32,
        prompt_block_hashes: &[u64],
        max_tokens: u32,
    ) -> Admission {
        let (tokens, limit) = (u64::from(prompt_tokens) + u64::from(max_tokens), self.longest());
        if prompt_tokens == 0 || max_tokens == 0 {
            return Admission::Rejected(Rejection::Empty);
        }
        if tokens > limit {
            return Admission::Rejected(Rejection::TooLong { tokens, limit });
        }
        if !self.ids.insert(id) {
            return Admission::Rejected(Rejection::DuplicateId);
        }
        self.latest = self.latest.max(now);
        let whole_blocks = (prompt_tokens / self.profile.block_size) as usize;
        let known = if self.profile.prefix_cache { whole_blocks.min(prompt_block_hashes.len()) } else { 0 };
        self.waiting.push_back(Seq {
            id,
            arrival: self.latest,
            prompt: prompt_tokens,
            hashes: prompt_block_hashes[..known].to_vec(),
            max_tokens,
            generated: 0,
            computed: 0,
            blocks: Vec::new(),
            scheduled: 0,
            held_back: 0,
            started: None,
            first: None,
        });
        Admission::Accepted
    }

    /// Most tokens (prompt and answer together) that a sequence may have.
    #[must_use]
    pub fn longest(&self) -> u64 {
        let pool = u64::from(self.profile.kv_blocks) * u64::from(self.profile.block_size);
        pool.min(u64::from(self.profile.max_context))
    }

    /// Ends a sequence without further emissions and frees its blocks at once. A step in progress keeps its length.
    /// Returns whether the sequence was there.
    pub fn cancel(&mut self, id: u64) -> bool {
        if !self.ids.remove(&id) {
            return false;
        }
        self.counters.cancelled += 1;
        if let Some(at) = self.waiting.iter().position(|seq| seq.id == id) {
            self.waiting.remove(at);
        } else if let Some(at) = self.running.iter().position(|seq| seq.id == id && !seq.done()) {
            let seq = self.running.remove(at);
            self.free(&seq);
            if at < self.turn {
                self.turn -= 1;
            }
            self.remove_ended();
        }
        true
    }

    /// When [`advance`](Self::advance) has something to do; `None` while the engine is idle.
    #[must_use]
    pub fn next_event(&self) -> Option<u64> {
        match self.step {
            Some(step) => Some(step.end),
            None => self.next_start(),
        }
    }

    /// Does everything that happens up to and including `now`, in order, appending emissions to `out`. Within a step,
    /// emissions come in the order in which the sequences joined the batch.
    pub fn advance(&mut self, now: u64, out: &mut Vec<Emission>) {
        self.latest = self.latest.max(now);
        loop {
            match self.step {
                Some(step) if step.end <= now => {
                    self.step = None;
                    self.idle_since = step.end;
                    self.finish_step(step, out);
                }
                Some(_) => return,
                None => match self.next_start() {
                    Some(at) if at <= now => self.start_step(at),
                    _ => return,
                },
            }
        }
    }

    /// When the next step can start, given that none is in progress.
    fn next_start(&self) -> Option<u64> {
        if !self.running.is_empty() {
            return Some(self.idle_since);
        }
        self.waiting.front().map(|seq| seq.arrival.max(self.idle_since))
    }

    fn start_step(&mut self, at: u64) {
        match self.profile.batching {
            Batching::Continuous { chunked_prefill: true } => self.schedule_chunked(at),
            Batching::Continuous { chunked_prefill: false } => self.schedule_prefill_first(at),
            Batching::Static => self.schedule_static(at),
            Batching::OneSequence => self.schedule_one(at),
        }
        let sequences = self.running.iter().filter(|seq| seq.scheduled > 0).count();
        let duration = self.step_duration();
        self.step = Some(Step { end: at.saturating_add(duration), duration, sequences });
    }

    /// Running sequences first, oldest first; what is left of the token budget admits waiting ones.
    fn schedule_chunked(&mut self, at: u64) {
        let mut budget = self.profile.max_batched_tokens;
        let preempted = self.schedule_running(&mut budget);
        while !preempted && budget > 0 {
            let Some(n) = self.admit(at, budget, true) else { break };
            budget -= n;
        }
    }

    /// A step of whole prompts if any can be admitted, else a decode of everything that runs.
    fn schedule_prefill_first(&mut self, at: u64) {
        let mut budget = self.profile.max_batched_tokens;
        let mut admitted = false;
        while budget > 0 {
            // One prompt alone may exceed the budget: it could never run otherwise.
            let Some(n) = self.admit(at, if admitted { budget } else { u32::MAX }, false) else { break };
            budget = budget.saturating_sub(n);
            admitted = true;
        }
        if !admitted {
            let mut unlimited = u32::MAX;
            self.schedule_running(&mut unlimited);
        }
    }

    fn schedule_static(&mut self, at: u64) {
        if self.running.is_empty() {
            while self.admit(at, u32::MAX, false).is_some() {}
            self.batch = self.running.len();
        }
        for seq in &mut self.running {
            seq.scheduled = if seq.done() { 0 } else { seq.pending() };
        }
    }

    fn schedule_one(&mut self, at: u64) {
        while self.admit(at, u32::MAX, false).is_some() {}
        for seq in &mut self.running {
            seq.scheduled = 0;
        }
        if self.turn >= self.running.len() {
            self.turn = 0;
        }
        if let Some(seq) = self.running.get_mut(self.turn) {
            seq.scheduled = seq.pending();
            self.turn += 1;
        }
    }

    /// Gives every running sequence its part of the budget, preempting the youngest ones where blocks run out.
    /// Returns whether anything was preempted.
    fn schedule_running(&mut self, budget: &mut u32) -> bool {
        let mut preempted = false;
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let n = self.running[at].pending().min(*budget);
            let target = self.blocks_for(self.running[at].computed + n);
            while !Self::grow(&mut self.pool, &mut self.running[at], target) {
                // Terminates: a sequence that runs alone has the whole pool, and `submit` saw that it fits.
                preempted = true;
                if let Some(youngest) = self.running.pop() {
                    self.preempt(youngest);
                }
                if at >= self.running.len() {
                    return true;
                }
            }
            self.running[at].scheduled = n;
            *budget -= n;
            at += 1;
        }
        preempted
    }

    /// Moves the first waiting sequence into the batch, if it has arrived and there is room. Returns the tokens it
    /// computes in this step: up to `budget`, or its whole prompt, which must then be within `budget`.
    fn admit(&mut self, at: u64, budget: u32, in_pieces: bool) -> Option<u32> {
        if self.running.len() >= self.profile.max_num_seqs as usize {
            return None;
        }
        let seq = self.waiting.front().filter(|seq| seq.arrival <= at)?;
        let (shared, cached) = self.find_prefix(seq);
        let pending = seq.prompt + seq.generated - cached;
        if !in_pieces && pending > budget {
            return None;
        }
        let n = pending.min(budget);
        let target =
            self.blocks_for(if self.profile.reserves() { seq.prompt + seq.max_tokens } else { cached + n });
        let mut seq = self.waiting.pop_front()?;
        for &block in &shared {
            self.pool.hold(block);
        }
        seq.blocks = shared;
        if !Self::grow(&mut self.pool, &mut seq, target) {
            self.free(&seq);
            seq.blocks.clear();
            self.waiting.push_front(seq);
            return None;
        }
        if self.profile.prefix_cache && seq.started.is_none() {
            self.counters.prefix_queries += u64::from(seq.prompt);
            self.counters.prefix_hits += u64::from(cached);
        }
        seq.started.get_or_insert(at);
        seq.computed = cached;
        seq.scheduled = n;
        self.running.push(seq);
        Some(n)
    }

    /// Cached blocks that begin this prompt, and how many tokens they spare. At least one token is always computed:
    /// the answer's first token is sampled from it.
    fn find_prefix(&self, seq: &Seq) -> (Vec<BlockId>, u32) {
        let size = self.profile.block_size;
        let most = ((seq.prompt - 1) / size) as usize;
        let blocks: Vec<_> = seq.hashes.iter().take(most).map_while(|&hash| self.pool.find(hash)).collect();
        let tokens = blocks.len() as u32 * size;
        (blocks, tokens)
    }

    fn blocks_for(&self, tokens: u32) -> usize {
        tokens.div_ceil(self.profile.block_size) as usize
    }

    /// Takes blocks until the sequence holds `target`, or none if there are too few.
    fn grow(pool: &mut BlockPool, seq: &mut Seq, target: usize) -> bool {
        let missing = target.saturating_sub(seq.blocks.len());
        if missing > pool.available() {
            return false;
        }
        seq.blocks.extend((0..missing).map_while(|_| pool.take()));
        true
    }

    /// Last block first, so that the beginnings of prompts stay cached the longest.
    fn free(&mut self, seq: &Seq) {
        for &block in seq.blocks.iter().rev() {
            self.pool.release(block);
        }
    }

    fn preempt(&mut self, mut seq: Seq) {
        self.free(&seq);
        seq.blocks.clear();
        seq.computed = 0;
        seq.scheduled = 0;
        self.counters.preemptions += 1;
        self.waiting.push_front(seq);
    }

    fn step_duration(&self) -> u64 {
        let nominal = match self.profile.step_time {
            StepTime::Linear { base_ns, prefill_ns_per_token, decode_ns_per_seq, kv_ns_per_block } => {
                let (mut prefill, mut decodes, mut blocks) = (0_u64, 0_u64, 0_u64);
                for seq in self.running.iter().filter(|seq| seq.scheduled > 0) {
                    if seq.decodes() {
                        decodes += 1;
                    } else {
                        prefill += u64::from(seq.scheduled);
                    }
                    blocks += self.blocks_for(seq.computed + seq.scheduled) as u64;
                }
                if self.profile.batching == Batching::Static && decodes > 0 {
                    decodes = self.batch as u64;
                }
                let terms = [
                    (prefill_ns_per_token, prefill),
                    (decode_ns_per_seq, decodes),
                    (kv_ns_per_block, blocks),
                ];
                terms
                    .iter()
                    .fold(base_ns, |sum, &(cost, count)| sum.saturating_add(cost.saturating_mul(count)))
            }
            StepTime::PerRequest { total_ns } => {
                let share = |tokens: u32, of: u32| u128::from(total_ns) * u128::from(tokens) / u128::from(of);
                let step = self.running.iter().find(|seq| seq.scheduled > 0).map_or(0, |seq| {
                    share(seq.generated + 1, seq.max_tokens) - share(seq.generated, seq.max_tokens)
                });
                u64::try_from(step).unwrap_or(u64::MAX)
            }
        };
        let factor = SeededRng::keyed(self.seed, self.counters.steps).jitter(self.profile.jitter_sigma);
        let jittered = if factor == 1.0 { nominal } else { (nominal as f64 * factor).round() as u64 };
        // A step of no length would let a sequence end at the instant it began, and `advance` spin.
        jittered.max(1)
    }

    fn finish_step(&mut self, step: Step, out: &mut Vec<Emission>) {
        self.counters.steps += 1;
        self.counters.busy_ns = self.counters.busy_ns.saturating_add(step.duration);
        self.counters.batch_sizes[step.sequences] += 1;
        let size = self.profile.block_size;
        for seq in self.running.iter_mut().filter(|seq| seq.scheduled > 0) {
            let before = seq.computed;
            seq.computed += std::mem::take(&mut seq.scheduled);
            let full = before / size..(seq.computed / size).min(seq.hashes.len() as u32);
            for block in full {
                self.pool.label(seq.blocks[block as usize], seq.hashes[block as usize]);
            }
            if seq.pending() > 0 {
                continue;
            }
            if seq.generated == 0 {
                self.counters.prompt_tokens += u64::from(seq.prompt);
                let started = seq.started.unwrap_or(step.end);
                seq.first = Some(FirstToken {
                    queue_ns: started.saturating_sub(seq.arrival),
                    prefill_ns: step.end.saturating_sub(started),
                });
            }
            seq.generated += 1;
            seq.held_back += 1;
            self.counters.generated_tokens += 1;
            let finished = seq.done().then_some(FinishReason::Length);
            if finished.is_some() || seq.held_back >= self.profile.tokens_per_chunk {
                let tokens = std::mem::take(&mut seq.held_back);
                out.push(Emission { id: seq.id, at: step.end, tokens, finished, first: seq.first.take() });
            }
            if finished.is_some() {
                self.counters.finished += 1;
                self.ids.remove(&seq.id);
            }
        }
        self.remove_ended();
    }

    /// Drops ended sequences; a static batch keeps its places until all have ended.
    fn remove_ended(&mut self) {
        if self.profile.batching == Batching::Static && self.running.iter().any(|seq| !seq.done()) {
            return;
        }
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].done() {
                let seq = self.running.remove(at);
                self.free(&seq);
                if at < self.turn {
                    self.turn -= 1;
                }
            } else {
                at += 1;
            }
        }
    }
}
