//! An incremental reader of records that end with a NUL byte. Limit: 1 MiB for a record.

use memchr::memchr;

use crate::inference::sse::LINE_LIMIT;

/// A record is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// The reader; one per connection.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The part of a record that came in earlier reads.
    record: Vec<u8>,
}

impl Reader {
    /// Forgets everything, keeping the memory.
    pub(super) fn reset(&mut self) {
        self.record.clear();
    }

    /// Takes bytes and hands out the records that they complete. What follows the last NUL is not a record yet.
    pub(super) fn push(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(at) = memchr(0, rest) {
            let (piece, after) = (&rest[..at], &rest[at + 1..]);
            if self.record.len() + piece.len() > LINE_LIMIT {
                return Err(TooLong);
            }
            if self.record.is_empty() {
                each(piece);
            } else {
                self.record.extend_from_slice(piece);
                each(&self.record);
                self.record.clear();
            }
            rest = after;
        }
        if self.record.len() + rest.len() > LINE_LIMIT {
            return Err(TooLong);
        }
        self.record.extend_from_slice(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_in_any_pieces() {
        let bytes = b"{\"a\":1}\0\0{\"b\":2}\0cut";
        for step in 1..=bytes.len() {
            let mut seen = Vec::new();
            let mut reader = Reader::default();
            for piece in bytes.chunks(step) {
                reader
                    .push(piece, &mut |record| seen.push(String::from_utf8_lossy(record).into_owned()))
                    .unwrap();
            }
            assert_eq!(seen, ["{\"a\":1}", "", "{\"b\":2}"], "in pieces of {step}");
        }
    }

    #[test]
    fn long_records_are_refused() {
        let mut reader = Reader::default();
        let piece = vec![b'x'; 64 * 1024];
        assert_eq!((0..64).find(|_| reader.push(&piece, &mut |_| ()).is_err()), Some(16));
        assert!(reader.record.len() <= LINE_LIMIT);
    }
}
