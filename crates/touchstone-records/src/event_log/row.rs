//! One operation of a run, and its compact coding: times as differences, numbers as variable-length integers, about a
//! third of the fixed layout.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Greatest number of rows in one frame.
pub const MAX_BATCH: usize = 4096;

/// What is true of an operation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct OpFlags(pub u16);

impl OpFlags {
    /// Intended in the measured window: it belongs to the cohort.
    pub const MEASURED: Self = Self(1);
    /// It failed; see `failure`.
    pub const FAILED: Self = Self(1 << 1);
    /// It was unfinished at the end of drain (with `FAILED`).
    pub const CENSORED: Self = Self(1 << 2);
    /// A cache lookup.
    pub const LOOKUP: Self = Self(1 << 3);
    /// A lookup that found a value.
    pub const HIT: Self = Self(1 << 4);
    /// It was sent again on a fresh connection.
    pub const RETRIED: Self = Self(1 << 5);
    /// `output_tokens` is known; without it the field says nothing.
    pub const OUTPUT_TOKENS: Self = Self(1 << 6);
    /// `input_tokens` is known.
    pub const INPUT_TOKENS: Self = Self(1 << 7);
    /// Its receive times come from the kernel.
    pub const KERNEL_STAMPS: Self = Self(1 << 8);
    /// At least one of its content events shared a read with an earlier one.
    pub const COALESCED: Self = Self(1 << 9);
    /// It met every SLO limit.
    pub const GOOD: Self = Self(1 << 10);

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the flags of `other` if `condition` holds.
    #[must_use]
    pub const fn with(self, other: Self, condition: bool) -> Self {
        if condition { Self(self.0 | other.0) } else { self }
    }
}

impl BitOr for OpFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for OpFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for OpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 11] = [
            "measured",
            "failed",
            "censored",
            "lookup",
            "hit",
            "retried",
            "output_tokens",
            "input_tokens",
            "kernel_stamps",
            "coalesced",
            "good",
        ];
        let mut set = f.debug_set();
        for bit in 0..16 {
            if self.0 & 1 << bit != 0 {
                match NAMES.get(bit) {
                    Some(name) => set.entry(name),
                    None => set.entry(&bit),
                };
            }
        }
        set.finish()
    }
}

/// One operation. Every operation that was intended gets exactly one row when it ends, fails or is censored. Times are
/// ns of CLOCK_MONOTONIC of the generator's host; 0 means that the event did not happen or was not seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpRow {
    /// Number in the global schedule, from 0.
    pub index: u64,
    /// Intended start.
    pub intended_ns: u64,
    /// The timer handed it to the driver.
    pub dispatch_ns: u64,
    /// It got its connection or pipeline slot.
    pub slot_ns: u64,
    /// Its last byte went to the kernel.
    pub sent_ns: u64,
    /// The head of the answer arrived.
    pub head_ns: u64,
    /// First chunk with generated content.
    pub first_content_ns: u64,
    /// Last chunk with generated content; for a message, its arrival at the consumer.
    pub last_content_ns: u64,
    /// It ended, well or not.
    pub end_ns: u64,
    /// Output tokens, with [`OpFlags::OUTPUT_TOKENS`].
    pub output_tokens: u32,
    /// Input tokens, with [`OpFlags::INPUT_TOKENS`].
    pub input_tokens: u32,
    /// Content chunks.
    pub chunks: u32,
    /// What is true of it.
    pub flags: OpFlags,
    /// Index into the failure table; 0 when it did not fail.
    pub failure: u16,
}

impl OpRow {
    /// The times after the intended start, in the order of the file.
    fn times(&self) -> [u64; 7] {
        [
            self.dispatch_ns,
            self.slot_ns,
            self.sent_ns,
            self.head_ns,
            self.first_content_ns,
            self.last_content_ns,
            self.end_ns,
        ]
    }
}

pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The difference of any two u64 as a number that is small when they are close, in either direction.
pub(super) fn put_difference(out: &mut Vec<u8>, value: u64, base: u64) {
    let difference = value.wrapping_sub(base) as i64;
    put(out, ((difference << 1) ^ (difference >> 63)) as u64);
}

pub(super) fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

pub(super) fn take_difference(input: &mut &[u8], base: u64) -> Option<u64> {
    let coded = take(input)?;
    let difference = (coded >> 1) as i64 ^ -((coded & 1) as i64);
    Some(base.wrapping_add(difference as u64))
}

/// Appends the payload of an operations frame; `rows` must not be longer than [`MAX_BATCH`].
pub(super) fn encode(rows: &[OpRow], out: &mut Vec<u8>) {
    put(out, rows.len() as u64);
    let mut index = 0;
    let mut intended = 0;
    for row in rows {
        put_difference(out, row.index, index);
        put_difference(out, row.intended_ns, intended);
        (index, intended) = (row.index.wrapping_add(1), row.intended_ns);
        let times = row.times();
        let present = times.iter().enumerate().fold(0u64, |bits, (i, t)| bits | u64::from(*t != 0) << i);
        put(out, present);
        let mut previous = row.intended_ns;
        for time in times.into_iter().filter(|t| *t != 0) {
            put_difference(out, time, previous);
            previous = time;
        }
        put(out, row.output_tokens.into());
        put(out, row.input_tokens.into());
        put(out, row.chunks.into());
        put(out, row.flags.0.into());
        put(out, row.failure.into());
    }
}

/// The rows of a payload; none when it is malformed.
pub(super) fn decode(mut input: &[u8]) -> Option<Vec<OpRow>> {
    let count = usize::try_from(take(&mut input)?).ok()?;
    if count > MAX_BATCH {
        return None;
    }
    let mut rows = Vec::with_capacity(count);
    let mut index = 0;
    let mut intended = 0;
    for _ in 0..count {
        let mut row = OpRow {
            index: take_difference(&mut input, index)?,
            intended_ns: take_difference(&mut input, intended)?,
            ..OpRow::default()
        };
        (index, intended) = (row.index.wrapping_add(1), row.intended_ns);
        let present = take(&mut input)?;
        let mut previous = row.intended_ns;
        for (bit, time) in [
            &mut row.dispatch_ns,
            &mut row.slot_ns,
            &mut row.sent_ns,
            &mut row.head_ns,
            &mut row.first_content_ns,
            &mut row.last_content_ns,
            &mut row.end_ns,
        ]
        .into_iter()
        .enumerate()
        {
            if present & 1 << bit != 0 {
                *time = take_difference(&mut input, previous)?;
                previous = *time;
            }
        }
        row.output_tokens = u32::try_from(take(&mut input)?).ok()?;
        row.input_tokens = u32::try_from(take(&mut input)?).ok()?;
        row.chunks = u32::try_from(take(&mut input)?).ok()?;
        row.flags = OpFlags(u16::try_from(take(&mut input)?).ok()?);
        row.failure = u16::try_from(take(&mut input)?).ok()?;
        rows.push(row);
    }
    input.is_empty().then_some(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_row() -> impl Strategy<Value = OpRow> {
        let time = || prop_oneof![Just(0), Just(u64::MAX), 1_000_000_000u64..1_100_000_000, any::<u64>()];
        (
            (any::<u64>(), time(), [time(), time(), time(), time(), time(), time(), time()]),
            (any::<u32>(), any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>()),
        )
            .prop_map(
                |((index, intended_ns, t), (output_tokens, input_tokens, chunks, flags, failure))| OpRow {
                    index,
                    intended_ns,
                    dispatch_ns: t[0],
                    slot_ns: t[1],
                    sent_ns: t[2],
                    head_ns: t[3],
                    first_content_ns: t[4],
                    last_content_ns: t[5],
                    end_ns: t[6],
                    output_tokens,
                    input_tokens,
                    chunks,
                    flags: OpFlags(flags),
                    failure,
                },
            )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_row_comes_back(rows in proptest::collection::vec(any_row(), 0..40)) {
            let mut bytes = Vec::new();
            encode(&rows, &mut bytes);
            prop_assert_eq!(decode(&bytes), Some(rows));
        }

        #[test]
        fn any_bytes_are_rows_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(rows) = decode(&bytes) {
                prop_assert!(rows.len() <= MAX_BATCH);
            }
        }
    }

    #[test]
    fn a_usual_row_takes_a_third_of_its_fixed_layout() {
        let rows: Vec<OpRow> = (0..1000)
            .map(|i| {
                let intended_ns = 5_000_000_000_000 + i * 20_000;
                OpRow {
                    index: i,
                    intended_ns,
                    dispatch_ns: intended_ns + 3_000,
                    slot_ns: intended_ns + 4_000,
                    sent_ns: intended_ns + 9_000,
                    first_content_ns: intended_ns + 90_000,
                    last_content_ns: intended_ns + 90_000,
                    end_ns: intended_ns + 91_000,
                    chunks: 1,
                    flags: OpFlags::MEASURED | OpFlags::LOOKUP | OpFlags::HIT,
                    ..OpRow::default()
                }
            })
            .collect();
        let mut bytes = Vec::new();
        encode(&rows, &mut bytes);
        let fixed = 9 * 8 + 3 * 4 + 2 * 2;
        assert!(bytes.len() < rows.len() * fixed / 3, "{} bytes for {} rows", bytes.len(), rows.len());
    }

    #[test]
    fn flags_say_their_names() {
        let flags = OpFlags::MEASURED.with(OpFlags::FAILED, true).with(OpFlags::HIT, false);
        assert_eq!(format!("{flags:?}"), r#"{"measured", "failed"}"#);
        assert!(flags.contains(OpFlags::FAILED) && !flags.contains(OpFlags::FAILED | OpFlags::HIT));
        assert_eq!(format!("{:?}", OpFlags(1 << 15)), "{15}");
    }
}
