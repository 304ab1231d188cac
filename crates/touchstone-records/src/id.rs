//! Ids of runs and records: ordered by time, short, and unique.
//!
//! An id is a word, a hyphen and 13 characters of Crockford's base 32 (no `i`, `l`, `o`, `u`): nine for the
//! milliseconds since the Unix epoch (enough until the year 3084) and four random ones.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TIME_DIGITS: u32 = 9;
const RANDOM_DIGITS: u32 = 4;

/// The time of the latest id of this process, so that a second one in the same millisecond still sorts after it.
static LATEST_MS: AtomicU64 = AtomicU64::new(0);

/// A new id that begins with `prefix` and a hyphen; an empty prefix gives the bare 13 characters.
#[must_use]
pub fn new_id(prefix: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    let latest = LATEST_MS
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(now.max(latest + 1)))
        .unwrap_or(now);
    format_id(prefix, now.max(latest + 1), random())
}

/// The id for a time in ms since the Unix epoch and 20 random bits.
fn format_id(prefix: &str, time_ms: u64, random: u64) -> String {
    let mut id = String::with_capacity(prefix.len() + 14);
    if !prefix.is_empty() {
        id.push_str(prefix);
        id.push('-');
    }
    push_digits(&mut id, time_ms, TIME_DIGITS);
    push_digits(&mut id, random, RANDOM_DIGITS);
    id
}

fn push_digits(out: &mut String, value: u64, digits: u32) {
    for digit in (0..digits).rev() {
        out.push(char::from(ALPHABET[(value >> (5 * digit)) as usize & 31]));
    }
}

/// Random bits of the system; where there is no such device, the process id and the clock's low digits must do: ids
/// only have to differ between processes that start in the same millisecond.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut device| device.read_exact(&mut bytes));
    if read.is_ok() {
        return u64::from_le_bytes(bytes);
    }
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::from(d.subsec_nanos()));
    u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ nanos
}

/// Whether `text` may be the name of a folder of the store: letters, digits and hyphens only.
#[must_use]
pub fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && !text.starts_with('-')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Whether a person who typed `typed` may mean `id`: it begins the id, or the id's part after its word.
#[must_use]
pub fn matches(id: &str, typed: &str) -> bool {
    !typed.is_empty()
        && (id.starts_with(typed) || id.split_once('-').is_some_and(|(_, rest)| rest.starts_with(typed)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_of_one_process_are_unique_and_in_order() {
        let ids: Vec<String> = (0..1000).map(|_| new_id("run")).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert!(ids.iter().all(|id| is_id(id) && id.len() == 17), "{}", ids[0]);
    }

    #[test]
    fn digits_follow_the_time() {
        assert_eq!(format_id("run", 0, 0), "run-0000000000000");
        assert_eq!(format_id("", 31, 32), "00000000z0010");
        let late = 32_503_680_000_000; // the year 3000
        assert!(format_id("run", late, 0) > format_id("run", 1_760_000_000_000, u64::MAX));
    }

    #[test]
    fn an_id_is_found_by_its_beginning_with_or_without_the_word() {
        let id = "run-01hv3k9qzabcd";
        assert!(matches(id, "run-01hv") && matches(id, "01hv3") && matches(id, id));
        assert!(!matches(id, "1hv") && !matches(id, "") && !matches(id, "run-02"));
    }

    #[test]
    fn names_that_leave_the_folder_are_no_ids() {
        assert!(!is_id("..") && !is_id("a/b") && !is_id("") && !is_id("-a") && !is_id(".tmp"));
    }
}
