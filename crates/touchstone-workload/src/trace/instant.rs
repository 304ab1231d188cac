//! Instants as the Azure traces write them: `2023-11-16 18:15:46.6805900`, `2024-05-10 00:00:00.009930+00:00`.

/// Nanoseconds since 1970, UTC unless an offset is given; none for what is no instant.
pub(super) fn nanoseconds(text: &str) -> Option<u64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut parts = date.split('-');
    let mut next = || parts.next()?.parse::<u64>().ok();
    let (year, month, day) = (next()?, next()?, next()?);
    if parts.next().is_some()
        || !(1970..=2200).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
    {
        return None;
    }
    let (time, offset_s) = match time.rfind(['+', '-']) {
        Some(at) => (&time[..at], offset(&time[at..])?),
        None => (time.strip_suffix('Z').unwrap_or(time), 0),
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = whole.split(':');
    let mut next = || parts.next()?.parse::<u64>().ok();
    let (hour, minute, second) = (next()?, next()?, next()?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if fraction.len() > 12 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos: u64 = digits.parse().ok()?;
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let seconds = i64::try_from(seconds).ok()?.checked_sub(offset_s)?;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// `+02:00` in seconds.
fn offset(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..=14).contains(&hours) && (0..=59).contains(&minutes)).then(|| sign * (hours * 3600 + minutes * 60))
}

/// Days from 1970-01-01 in the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // Years that begin with March put the leap day last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year / 4 - year / 100 + year / 400;
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        assert_eq!(nanoseconds("1970-01-01 00:00:00"), Some(0));
        assert_eq!(nanoseconds("2000-03-01T00:00:00Z"), Some(951_868_800_000_000_000));
        assert_eq!(nanoseconds("2024-02-29 12:00:00.5"), Some(1_709_208_000_500_000_000));
        assert_eq!(nanoseconds("2024-05-10 02:00:00.009930+02:00"), nanoseconds("2024-05-10 00:00:00.00993"));
        for text in [
            "2024-1-1 1:1:1-11:2222222222222222222",
            "",
            "2024-05-10",
            "2024-02-10 24:00:00",
            "2024-00-10 1:1:1",
            "2024-1-1 1:1:1.x",
            "2024-1-1 1:1",
        ] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }
}
