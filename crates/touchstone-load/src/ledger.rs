//! The ledger of messages: lost, duplicated and reordered, from sequence numbers per producer.

use std::collections::{BTreeMap, BTreeSet};

/// Gaps that one producer may have open at once; beyond it the oldest are given up and counted as lost for good.
const MAX_GAPS: usize = 1 << 20;

/// What one received message was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// The next one, or the first after a gap.
    InOrder,
    /// It came after a later message of its producer.
    Reordered,
    /// It was received before.
    Duplicate,
}

#[derive(Debug, Clone, Default)]
struct Producer {
    /// The next sequence number that has not been seen or skipped.
    next: u64,
    /// Skipped and not seen since.
    gaps: BTreeSet<u64>,
}

/// Receipts of all producers of one consumer.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    producers: BTreeMap<u32, Producer>,
    /// Messages received for the first time.
    pub received: u64,
    /// Messages received again.
    pub duplicated: u64,
    /// Messages received after a later one of the same producer.
    pub reordered: u64,
    /// Gaps given up because too many were open.
    pub forgotten: u64,
}

impl Ledger {
    /// Notes a received message.
    pub fn receive(&mut self, producer: u32, sequence: u64) -> Receipt {
        let entry = self.producers.entry(producer).or_default();
        if sequence >= entry.next {
            // A jump of more than the bound would only fill the set with what is then forgotten.
            let from = entry.next.max(sequence.saturating_sub(MAX_GAPS as u64));
            self.forgotten += from - entry.next;
            entry.gaps.extend(from..sequence);
            entry.next = sequence + 1;
            while entry.gaps.len() > MAX_GAPS {
                entry.gaps.pop_first();
                self.forgotten += 1;
            }
            self.received += 1;
            Receipt::InOrder
        } else if entry.gaps.remove(&sequence) {
            self.received += 1;
            self.reordered += 1;
            Receipt::Reordered
        } else {
            self.duplicated += 1;
            Receipt::Duplicate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_loss_and_duplicates_are_told_apart() {
        let mut ledger = Ledger::default();
        let receipts: Vec<_> = [0, 1, 3, 2, 3, 1, 7].map(|sequence| ledger.receive(4, sequence)).into();
        use Receipt::{Duplicate, InOrder, Reordered};
        assert_eq!(receipts, [InOrder, InOrder, InOrder, Reordered, Duplicate, Duplicate, InOrder]);
        assert_eq!((ledger.received, ledger.reordered, ledger.duplicated), (5, 1, 2));
        assert_eq!(ledger.receive(5, 0), InOrder);
    }

    #[test]
    fn a_wild_sequence_number_costs_no_memory() {
        let mut ledger = Ledger::default();
        ledger.receive(0, u64::MAX - 1);
        assert!(ledger.producers[&0].gaps.len() <= MAX_GAPS);
        assert!(ledger.forgotten > 0);
    }
}
