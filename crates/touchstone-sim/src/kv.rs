//! The block pool of the paged KV cache, with the prefix cache inside it.
//!
//! A block is in use (some sequence holds it), cached (nobody holds it, but its content is known by hash and can be
//! taken over), or free. Cached blocks are evicted, the longest unused first, only when no free block is left.

use std::collections::BTreeMap;

/// Index of a block in the pool.
pub(crate) type BlockId = u32;

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    holders: u32,
    hash: Option<u64>,
    /// Key in `evictable` while nobody holds the block.
    released_at: u64,
}

/// All blocks of one engine.
#[derive(Debug, Clone)]
pub(crate) struct BlockPool {
    blocks: Vec<Block>,
    free: Vec<BlockId>,
    /// Unheld blocks with known content, by time of release.
    evictable: BTreeMap<u64, BlockId>,
    by_hash: BTreeMap<u64, BlockId>,
    releases: u64,
}

impl BlockPool {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            blocks: vec![Block::default(); count as usize],
            free: (0..count).rev().collect(),
            evictable: BTreeMap::new(),
            by_hash: BTreeMap::new(),
            releases: 0,
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks that could be taken now.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.evictable.len()
    }

    /// Blocks held by sequences.
    pub(crate) fn in_use(&self) -> usize {
        self.total() - self.available()
    }

    /// The block with this content, if it is known.
    pub(crate) fn find(&self, hash: u64) -> Option<BlockId> {
        self.by_hash.get(&hash).copied()
    }

    /// Adds a holder to a block found by [`find`](Self::find).
    pub(crate) fn hold(&mut self, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        if block.holders == 0 {
            self.evictable.remove(&block.released_at);
        }
        block.holders += 1;
    }

    /// Takes an empty block, evicting cached content if it must.
    pub(crate) fn take(&mut self) -> Option<BlockId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let (_, id) = self.evictable.pop_first()?;
                if let Some(hash) = self.blocks[id as usize].hash.take() {
                    self.by_hash.remove(&hash);
                }
                id
            }
        };
        self.blocks[id as usize].holders = 1;
        Some(id)
    }

    /// Gives up one hold. Content with a hash stays findable until it is evicted.
    pub(crate) fn release(&mut self, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        block.holders -= 1;
        if block.holders > 0 {
            return;
        }
        if block.hash.is_some() {
            self.releases += 1;
            block.released_at = self.releases;
            self.evictable.insert(self.releases, id);
        } else {
            self.free.push(id);
        }
    }

    /// Records what a held block contains. If another block already has this content, that one stays the known copy.
    pub(crate) fn label(&mut self, id: BlockId, hash: u64) {
        let block = &mut self.blocks[id as usize];
        if block.hash.is_none() && !self.by_hash.contains_key(&hash) {
            block.hash = Some(hash);
            self.by_hash.insert(hash, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BlockPool;

    #[test]
    fn takes_until_empty_and_reuses() {
        let mut pool = BlockPool::new(2);
        let a = pool.take().unwrap();
        let b = pool.take().unwrap();
        assert_ne!(a, b);
        assert_eq!(pool.take(), None);
        pool.release(a);
        assert_eq!((pool.in_use(), pool.take()), (1, Some(a)));
    }

    #[test]
    fn cached_blocks_are_found_shared_and_evicted_oldest_first() {
        let mut pool = BlockPool::new(2);
        let a = pool.take().unwrap();
        let b = pool.take().unwrap();
        pool.label(a, 10);
        pool.label(b, 11);
        pool.release(b);
        pool.release(a);
        assert_eq!(pool.in_use(), 0);
        assert_eq!(pool.find(11), Some(b));
        pool.hold(b);
        pool.hold(b);
        pool.release(b);
        assert_eq!(pool.in_use(), 1);
        pool.release(b); // now released later than a
        assert_eq!(pool.take(), Some(a));
        assert_eq!((pool.find(10), pool.find(11)), (None, Some(b)));
    }
}
