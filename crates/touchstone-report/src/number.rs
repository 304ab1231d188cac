//! Numbers as a person reads them. A number that is not finite is never printed: it becomes a dash, as what was not
//! measured does.

use touchstone_model::Unit;

/// What stands where there is no figure.
pub(crate) const NONE: &str = "-";

/// `digits` significant digits, thousands separated; an exponent from 10^15 on, where digits are noise.
pub(crate) fn plain(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value != 0.0 && !(1e-9..1e15).contains(&value.abs()) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    grouped(&touchstone_model::unit::significant(value, digits))
}

/// Puts a comma between thousands of the whole part.
fn grouped(text: &str) -> String {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    if whole.len() < 5 {
        return text.to_owned();
    }
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

/// A short form for axes: `250k`, `1.5M`; thousandths and smaller as they are.
pub(crate) fn compact(value: f64) -> String {
    let scales = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    match scales.iter().find(|(scale, _)| value.abs() >= *scale && value.abs() < 1e15) {
        Some((1e4, suffix)) => format!("{}{suffix}", plain(value / 1e3, 4)),
        Some((scale, suffix)) => format!("{}{suffix}", plain(value / scale, 4)),
        None => plain(value, 3),
    }
}

/// A number that may not exist.
pub(crate) fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| plain(value, digits))
}

/// A whole number with its thousands separated.
pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{}%", plain(share * 100.0, 3)) } else { NONE.to_owned() }
}

/// A probability with two decimals, so that columns of them compare at a glance.
pub(crate) fn probability(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { NONE.to_owned() }
}

/// The share at `[row][column]` of a table, when the table has it.
pub(crate) fn share(table: &[Vec<f64>], row: usize, column: usize) -> String {
    table
        .get(row)
        .and_then(|row| row.get(column))
        .map_or_else(|| NONE.to_owned(), |value| probability(*value))
}

/// The share in a list, when the list has it.
pub(crate) fn listed(list: &[f64], index: usize) -> String {
    list.get(index).map_or_else(|| NONE.to_owned(), |value| probability(*value))
}

/// A value with its unit, in the scale in which a person would say it: `213 ms`, `1.2 GiB`, `99.9%`.
pub(crate) fn quantity(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let (factor, name) = match unit {
        Unit::Milliseconds if value.abs() >= 10_000.0 => (1e3, " s"),
        Unit::Milliseconds if value != 0.0 && value.abs() < 1.0 => (1e-3, " us"),
        Unit::Milliseconds => (1.0, " ms"),
        Unit::PerSecond => (1.0, "/s"),
        Unit::TokensPerSecond => (1.0, " tokens/s"),
        Unit::Ratio => (0.01, "%"),
        Unit::RatioPerYear => (0.01, "%/year"),
        Unit::Bytes if value.abs() >= 1_073_741_824.0 => (1_073_741_824.0, " GiB"),
        Unit::Bytes if value.abs() >= 1_048_576.0 => (1_048_576.0, " MiB"),
        Unit::Bytes if value.abs() >= 1024.0 => (1024.0, " KiB"),
        Unit::Bytes => (1.0, " B"),
        Unit::Tokens => (1.0, " tokens"),
        Unit::Count => (1.0, ""),
        Unit::UsdPerHour => (1.0, " USD/h"),
    };
    format!("{}{name}", plain(value / factor, 4))
}

/// Seconds as a length of time: `8s`, `1m05s`, `2h03m`.
pub(crate) fn clock(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NONE.to_owned();
    }
    let total = seconds.round() as u64;
    match (total / 3600, total / 60 % 60, total % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

/// The first twelve digits of a digest, enough to find it among a record's evidence.
pub(crate) fn short_digest(digest: &str) -> String {
    digest.strip_prefix("sha256:").unwrap_or(digest).chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(plain(1234.5678, 4), "1235");
        assert_eq!(plain(12_345.0, 4), "12,345");
        assert_eq!(plain(1_234_567.891, 9), "1,234,567.89");
        assert_eq!(plain(0.083_21, 3), "0.0832");
        assert_eq!(plain(1e300, 3), "1.00e300");
        assert_eq!(plain(f64::NAN, 3), "-");
        assert_eq!(plain(f64::INFINITY, 3), "-");
        assert_eq!(plain(0.0, 3), "0");
        assert_eq!(plain(-12_345.0, 5), "-12,345");
        assert_eq!(
            [compact(250_000.0), compact(1.5e6), compact(0.25), compact(9_000.0)],
            ["250k", "1.5M", "0.25", "9000"]
        );
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(percent(0.9994), "99.9%");
    }

    #[test]
    fn quantities_carry_their_unit() {
        assert_eq!(quantity(213.4, Unit::Milliseconds), "213.4 ms");
        assert_eq!(quantity(0.083, Unit::Milliseconds), "83 us");
        assert_eq!(quantity(12_500.0, Unit::Milliseconds), "12.5 s");
        assert_eq!(quantity(0.999, Unit::Ratio), "99.9%");
        assert_eq!(quantity(50.0, Unit::PerSecond), "50/s");
        assert_eq!(quantity(f64::NAN, Unit::Bytes), "-");
    }

    #[test]
    fn times_and_digests() {
        assert_eq!(
            (clock(8.2), clock(65.0), clock(7380.0), clock(-1.0)),
            ("8s".into(), "1m05s".into(), "2h03m".into(), "-".into())
        );
        assert_eq!(short_digest("sha256:0123456789abcdef"), "0123456789ab");
        assert_eq!(short_digest(""), "");
    }
}
