//! Connections between the end of an operation and the end of its answer's bytes.
//!
//! A server may write the end of a chunked body after the event that ends the operation, in a segment of its own: within
//! a fraction of a millisecond (vLLM), or after a second (FastChat). The first kind is worth waiting for, since a new
//! connection costs more; behind the second no operation may wait.

use std::collections::VecDeque;

use touchstone_net::mono_ns;

use super::Worker;

/// How long a waiting operation waits for such a connection, ns.
const PATIENCE_NS: u64 = 2_000_000;
/// After so long such a connection is closed, ns.
const LINGER_NS: u64 = 2_000_000_000;

/// A link by place and generation, with an instant.
type Entry = (u64, usize, u32);

/// The connections whose last answer has not ended. Both queues are in the order of their instants; an entry whose link
/// has moved on is passed over.
#[derive(Debug, Default)]
pub(super) struct Finishing {
    /// Those that are worth waiting for, with the end of patience.
    soon: VecDeque<Entry>,
    /// Those that took longer, with the instant at which they are closed.
    lingering: VecDeque<Entry>,
    /// Links that are marked as finishing and stand in `soon`.
    count: usize,
}

impl Finishing {
    /// The next instant at which patience with one of them ends.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.soon.front().map(|(until, ..)| *until)
    }

    /// A link that was marked (or not) is so no longer.
    pub(super) fn forget(&mut self, marked: bool) {
        self.count -= usize::from(marked);
    }
}

impl Worker {
    /// A link's operation has ended and the rest of its answer is still to come.
    pub(super) fn note_finishing(&mut self, index: usize) {
        let Some(link) = self.links[index].as_mut() else { return };
        if !link.finishing {
            link.finishing = true;
            self.finishing.count += 1;
            self.finishing.soon.push_back((mono_ns() + PATIENCE_NS, index, link.generation));
        }
    }

    /// Number of connections that will be free in a moment.
    pub(super) fn soon_free(&mut self, now_ns: u64) -> usize {
        while let Some((until, index, generation)) = self.finishing.soon.front().copied()
            && until <= now_ns
        {
            self.finishing.soon.pop_front();
            let Some(Some(link)) = self.links.get_mut(index) else { continue };
            if link.generation == generation && link.finishing {
                link.finishing = false;
                self.finishing.count -= 1;
                self.finishing.lingering.push_back((until + LINGER_NS, index, generation));
            }
        }
        self.finishing.count
    }

    /// Closes the connections whose answers have not ended for a long time.
    pub(super) fn close_those_that_never_finish(&mut self, now_ns: u64) {
        self.soon_free(now_ns);
        while self.finishing.lingering.front().is_some_and(|(until, ..)| *until <= now_ns)
            && self.close_one_that_lingers()
        {}
    }

    /// Closes the connection that has lingered longest; false when there is none.
    pub(super) fn close_one_that_lingers(&mut self) -> bool {
        while let Some((_, index, generation)) = self.finishing.lingering.pop_front() {
            let Some(Some(link)) = self.links.get(index) else { continue };
            if link.generation == generation && link.active == 0 && link.session.finishing() {
                self.counters.reconnects += 1;
                self.close(index);
                return true;
            }
        }
        false
    }
}
