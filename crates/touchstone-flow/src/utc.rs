//! Wall-clock instants as text: UTC, RFC 3339, whole seconds.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, as `2026-11-30T21:01:27Z`.
#[must_use]
pub fn now() -> String {
    format(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as text.
#[must_use]
pub fn format(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Reads what [`format`] wrote; none for anything else.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let shaped = bytes.len() == 20 && bytes[10] == b'T' && bytes[19] == b'Z';
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    if !shaped {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let seconds = number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    ((1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day))
        .then(|| days(year, month, day) * 86_400 + seconds)
}

/// Days since 1970-01-01 of a date of the Gregorian calendar (the algorithm of Hinnant, "chrono-compatible low-level
/// date algorithms", restricted to years from 1970 on).
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year / 400;
    let of_era = year - era * 400;
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days`].
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let of_era = z - era * 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_072_487, "2026-11-30T21:01:27Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(format(seconds), text);
            assert_eq!(parse(text), Some(seconds));
        }
        assert_eq!(parse("yesterday"), None);
        assert_eq!(parse("2026-13-01T00:00:00Z"), None);
    }
}
