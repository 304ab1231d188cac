//! Quantities with units, as people write them: `200ms`, `50/s`, `99.9%`, `24GiB`, `3`, `2.5USD/h`.
//!
//! A [`Quantity`] always holds its value in the canonical unit of its [`Unit`], so two quantities of one unit compare
//! directly. The canonical unit is also the one in files: durations are milliseconds, shares are fractions of one.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The dimension of a number together with its canonical scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Durations, in milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Rates of operations, per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Rates of tokens, per second.
    #[serde(rename = "tokens/s")]
    TokensPerSecond,
    /// Shares, as a fraction of one.
    #[serde(rename = "ratio")]
    Ratio,
    /// Growth, as a fraction of one per year.
    #[serde(rename = "ratio/year")]
    RatioPerYear,
    /// Sizes, in bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Numbers of tokens.
    #[serde(rename = "tokens")]
    Tokens,
    /// Plain numbers.
    #[serde(rename = "count")]
    Count,
    /// Prices, in US dollars per hour.
    #[serde(rename = "USD/h")]
    UsdPerHour,
}

impl Unit {
    /// The name used in files and on screens.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::PerSecond => "1/s",
            Unit::TokensPerSecond => "tokens/s",
            Unit::Ratio => "ratio",
            Unit::RatioPerYear => "ratio/year",
            Unit::Bytes => "bytes",
            Unit::Tokens => "tokens",
            Unit::Count => "count",
            Unit::UsdPerHour => "USD/h",
        }
    }

    /// What a person is expected to write for this unit, for error messages.
    #[must_use]
    pub fn example(self) -> &'static str {
        match self {
            Unit::Milliseconds => "a duration such as `200ms`, `1.5s` or `80us`",
            Unit::PerSecond => "a rate such as `50/s` or `3000/min`",
            Unit::TokensPerSecond => "a token rate such as `2450tokens/s`",
            Unit::Ratio => "a share such as `99.9%` or `0.999`",
            Unit::RatioPerYear => "a growth such as `50%/year`",
            Unit::Bytes => "a size such as `24GiB`, `128B` or `1.5MB`",
            Unit::Tokens => "a number of tokens such as `4096` or `8192tokens`",
            Unit::Count => "a plain number such as `3`",
            Unit::UsdPerHour => "a price such as `2.50USD/h`",
        }
    }

    /// The spellings this unit accepts and the factor to its canonical scale; an empty spelling is a bare number.
    fn spellings(self) -> &'static [(&'static str, f64)] {
        match self {
            Unit::Milliseconds => &[
                ("ns", 1e-6),
                ("us", 1e-3),
                ("µs", 1e-3),
                ("ms", 1.0),
                ("s", 1e3),
                ("min", 60e3),
                ("h", 3_600e3),
                ("d", 86_400e3),
                ("days", 86_400e3),
                ("weeks", 7.0 * 86_400e3),
                ("months", 30.4375 * 86_400e3),
                ("years", 365.25 * 86_400e3),
            ],
            Unit::PerSecond => &[
                ("/s", 1.0),
                ("1/s", 1.0),
                ("rps", 1.0),
                ("qps", 1.0),
                ("/ms", 1e3),
                ("/min", 1.0 / 60.0),
                ("/h", 1.0 / 3600.0),
                ("k/s", 1e3),
                ("M/s", 1e6),
            ],
            Unit::TokensPerSecond => &[("tokens/s", 1.0), ("tok/s", 1.0), ("/s", 1.0)],
            Unit::Ratio => &[("%", 0.01), ("", 1.0)],
            Unit::RatioPerYear => &[("%/year", 0.01), ("%/y", 0.01), ("/year", 1.0)],
            Unit::Bytes => &[
                ("B", 1.0),
                ("bytes", 1.0),
                ("kB", 1e3),
                ("KB", 1e3),
                ("MB", 1e6),
                ("GB", 1e9),
                ("TB", 1e12),
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
                ("TiB", 1_099_511_627_776.0),
            ],
            Unit::Tokens => &[("", 1.0), ("tokens", 1.0), ("tok", 1.0), ("k", 1e3)],
            Unit::Count => &[("", 1.0), ("x", 1.0)],
            Unit::UsdPerHour => &[("USD/h", 1.0), ("USD/month", 1.0 / 730.5)],
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text is not a quantity of the unit that was expected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QuantityError {
    /// The text holds no number at all: the writer has to say one.
    #[error("`{text}` is not a number; expected {}", .unit.example())]
    NotANumber {
        /// The text as written.
        text: String,
        /// The unit that was expected.
        unit: Unit,
    },
    /// The number is there, the unit is missing or unknown.
    #[error("`{text}` has {found}; expected {}", .unit.example())]
    WrongUnit {
        /// The text as written.
        text: String,
        /// What was found in place of the unit, in words.
        found: String,
        /// The unit that was expected.
        unit: Unit,
    },
    /// The number cannot be a value of this unit (negative, infinite, a share above one).
    #[error("`{text}` is out of range: {reason}")]
    OutOfRange {
        /// The text as written.
        text: String,
        /// The bound that was broken.
        reason: &'static str,
    },
}

/// A number with its unit; `value` is in the unit's canonical scale (milliseconds, per second, fraction, bytes, ...).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Quantity {
    /// The number, in the canonical scale of `unit`. Finite and not negative.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
}

impl Quantity {
    /// Builds a quantity from a number that is already canonical.
    #[must_use]
    pub fn new(value: f64, unit: Unit) -> Self {
        Self { value, unit }
    }

    /// Reads a quantity of the expected unit.
    ///
    /// # Errors
    /// When the text has no number, another or no unit, or a value that cannot be (negative, not finite).
    pub fn parse(text: &str, unit: Unit) -> Result<Self, QuantityError> {
        let trimmed = text.trim();
        let (number, suffix) = split_number(trimmed);
        let own = || trimmed.to_owned();
        if number.is_empty() {
            return Err(QuantityError::NotANumber { text: own(), unit });
        }
        let Ok(number) = number.replace('_', "").parse::<f64>() else {
            return Err(QuantityError::NotANumber { text: own(), unit });
        };
        let suffix = suffix.trim();
        let Some((_, factor)) = unit.spellings().iter().find(|(spelling, _)| *spelling == suffix) else {
            let found = if suffix.is_empty() { "no unit".to_owned() } else { format!("the unit `{suffix}`") };
            return Err(QuantityError::WrongUnit { text: own(), found, unit });
        };
        let value = number * factor;
        if !value.is_finite() {
            return Err(QuantityError::OutOfRange { text: own(), reason: "the value must be finite" });
        }
        if value < 0.0 || (value == 0.0 && value.is_sign_negative() && trimmed.starts_with('-')) {
            return Err(QuantityError::OutOfRange { text: own(), reason: "the value must not be negative" });
        }
        Ok(Self { value, unit })
    }
}

/// Splits a text into its leading number and the rest.
fn split_number(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut end = 0;
    let mut seen_digit = false;
    while end < bytes.len() {
        let byte = bytes[end];
        let exponent = seen_digit
            && (byte == b'e' || byte == b'E')
            && bytes.get(end + 1).is_some_and(|next| next.is_ascii_digit() || matches!(next, b'+' | b'-'))
            && bytes[end + 1..].iter().any(u8::is_ascii_digit);
        let sign = (byte == b'-' || byte == b'+') && (end == 0 || matches!(bytes[end - 1], b'e' | b'E'));
        if byte.is_ascii_digit() || byte == b'.' || byte == b'_' || sign || exponent {
            seen_digit |= byte.is_ascii_digit();
            end += 1;
        } else {
            break;
        }
    }
    if seen_digit { text.split_at(end) } else { ("", text) }
}

/// Formats a number with at most `digits` significant digits, without an exponent and without trailing zeros.
#[must_use]
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { format!("{value}") };
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits as i32 - 1 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A share of one as per cent. What is not quite all, or not quite nothing, is not rounded to it.
///
/// ```
/// # use touchstone_model::unit::share;
/// assert_eq!((share(0.9999), share(0.948), share(1.0)), (">99.9%".to_owned(), "94.8%".to_owned(), "100%".to_owned()));
/// ```
#[must_use]
pub fn share(value: f64) -> String {
    if value > 0.999 && value < 1.0 {
        ">99.9%".to_owned()
    } else if value > 0.0 && value < 0.001 {
        "<0.1%".to_owned()
    } else {
        format!("{}%", significant(value * 100.0, 3))
    }
}

impl Quantity {
    /// The scale in which a person would write this value: the text of the unit and its factor to the canonical one.
    fn natural_scale(self) -> (&'static str, f64) {
        let v = self.value;
        match self.unit {
            Unit::Milliseconds if v > 0.0 && v < 1.0 => ("us", 1e-3),
            Unit::Milliseconds if v < 10_000.0 => ("ms", 1.0),
            Unit::Milliseconds if v < 2.0 * 86_400e3 => ("s", 1e3),
            Unit::Milliseconds => ("d", 86_400e3),
            Unit::PerSecond => ("/s", 1.0),
            Unit::TokensPerSecond => ("tokens/s", 1.0),
            Unit::Ratio => ("%", 0.01),
            Unit::RatioPerYear => ("%/year", 0.01),
            Unit::Bytes if v >= 1_073_741_824.0 => ("GiB", 1_073_741_824.0),
            Unit::Bytes if v >= 1_048_576.0 => ("MiB", 1_048_576.0),
            Unit::Bytes if v >= 1024.0 => ("KiB", 1024.0),
            Unit::Bytes => ("B", 1.0),
            Unit::Tokens | Unit::Count => ("", 1.0),
            Unit::UsdPerHour => ("USD/h", 1.0),
        }
    }

    /// The value rounded to `digits` significant digits in its natural scale, for screens: `1.234s`.
    #[must_use]
    pub fn rounded(self, digits: usize) -> String {
        let (unit, factor) = self.natural_scale();
        format!("{}{unit}", significant(self.value / factor, digits))
    }
}

/// Writes the shortest text that reads back to exactly the same value.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = self.natural_scale();
        for digits in [4, 6, 9, 12, 15, 17] {
            let text = significant(self.value / factor, digits);
            if text.parse::<f64>().is_ok_and(|number| number * factor == self.value) {
                return write!(f, "{text}{unit}");
            }
        }
        let canonical =
            self.unit.spellings().iter().find(|(_, factor)| *factor == 1.0).map_or("", |(text, _)| text);
        write!(f, "{}{canonical}", self.value)
    }
}

/// Defines a newtype over `f64` in one canonical unit that reads and writes itself the way people do.
macro_rules! quantity_newtype {
    ($(#[$doc:meta])* $name:ident, $unit:expr, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $name(pub f64);

        impl $name {
            /// The value as a [`Quantity`].
            #[must_use]
            pub fn quantity(self) -> Quantity {
                Quantity::new(self.0, $unit)
            }
        }

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Quantity::parse(text, $unit).map(|quantity| Self(quantity.value))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.quantity().fmt(f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = ScalarText::deserialize(deserializer)?;
                text.0.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": ["string", "number"],
                    "description": $unit.example(),
                    "pattern": $pattern
                })
            }
        }
    };
}

quantity_newtype! {
    /// A duration in milliseconds.
    Millis, Unit::Milliseconds, r"^[0-9._eE+]+\s*(ns|us|µs|ms|s|min|h|d|days|weeks|months|years)$"
}
quantity_newtype! {
    /// A rate in operations per second.
    Rate, Unit::PerSecond, r"^[0-9._eE+]+\s*(/s|1/s|rps|qps|/ms|/min|/h|k/s|M/s)$"
}
quantity_newtype! {
    /// A share as a fraction of one.
    Share, Unit::Ratio, r"^[0-9._eE+]+\s*%?$"
}
quantity_newtype! {
    /// A growth as a fraction of one per year.
    Growth, Unit::RatioPerYear, r"^[0-9._eE+]+\s*(%/year|%/y|/year)$"
}
quantity_newtype! {
    /// A size in bytes.
    Bytes, Unit::Bytes, r"^[0-9._eE+]+\s*(B|bytes|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$"
}
quantity_newtype! {
    /// A price in US dollars per hour.
    UsdPerHour, Unit::UsdPerHour, r"^[0-9._eE+]+\s*(USD/h|USD/month)$"
}

impl Millis {
    /// The duration in whole nanoseconds, rounded to nearest; saturates at `u64::MAX`.
    #[must_use]
    pub fn nanos(self) -> u64 {
        (self.0 * 1e6).round() as u64
    }
}

/// Any YAML or JSON scalar as text, so that `at_most: 3` and `at_most: "3"` read alike.
#[derive(Debug, Clone)]
pub(crate) struct ScalarText(pub(crate) String);

impl<'de> Deserialize<'de> for ScalarText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = ScalarText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number with its unit")
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<ScalarText, E> {
                Ok(ScalarText(v.to_owned()))
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<ScalarText, E> {
                Ok(ScalarText(v.to_string()))
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<ScalarText, E> {
                Ok(ScalarText(v.to_string()))
            }
            fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<ScalarText, E> {
                Ok(ScalarText(v.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, unit: Unit, expected: f64) {
        let got = Quantity::parse(text, unit).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(
            (got.value - expected).abs() <= expected.abs() * 1e-12,
            "{text}: {} != {expected}",
            got.value
        );
    }

    #[test]
    fn reads_what_people_write() {
        check("200ms", Unit::Milliseconds, 200.0);
        check(" 1.5 s ", Unit::Milliseconds, 1500.0);
        check("80us", Unit::Milliseconds, 0.08);
        check("7d", Unit::Milliseconds, 604_800_000.0);
        check("50/s", Unit::PerSecond, 50.0);
        check("20k/s", Unit::PerSecond, 20_000.0);
        check("3000/min", Unit::PerSecond, 50.0);
        check("1e5/s", Unit::PerSecond, 100_000.0);
        check("99.9%", Unit::Ratio, 0.999);
        check("0.95", Unit::Ratio, 0.95);
        check("24GiB", Unit::Bytes, 24.0 * 1_073_741_824.0);
        check("1_000", Unit::Count, 1000.0);
        check("2x", Unit::Count, 2.0);
        check("50%/year", Unit::RatioPerYear, 0.5);
        check("1461USD/month", Unit::UsdPerHour, 2.0);
    }

    #[test]
    fn refuses_words_wrong_units_and_impossible_values() {
        let error = |text, unit| Quantity::parse(text, unit).unwrap_err().to_string();
        assert_eq!(
            error("low", Unit::Milliseconds),
            "`low` is not a number; expected a duration such as `200ms`, `1.5s` or `80us`"
        );
        assert_eq!(
            error("200", Unit::Milliseconds),
            "`200` has no unit; expected a duration such as `200ms`, `1.5s` or `80us`"
        );
        assert_eq!(
            error("5 parsecs", Unit::Milliseconds),
            "`5 parsecs` has the unit `parsecs`; expected a duration such as `200ms`, `1.5s` or `80us`"
        );
        assert_eq!(
            error("-50/s", Unit::PerSecond),
            "`-50/s` is out of range: the value must not be negative"
        );
        assert_eq!(error("1e400/s", Unit::PerSecond), "`1e400/s` is out of range: the value must be finite");
        assert_eq!(
            error("", Unit::PerSecond),
            "`` is not a number; expected a rate such as `50/s` or `3000/min`"
        );
        assert!(matches!(Quantity::parse("e", Unit::Count), Err(QuantityError::NotANumber { .. })));
        assert!(matches!(Quantity::parse("1.2.3", Unit::Count), Err(QuantityError::NotANumber { .. })));
    }

    #[test]
    fn writes_what_it_can_read_back() {
        for (text, unit) in [
            ("200ms", Unit::Milliseconds),
            ("80us", Unit::Milliseconds),
            ("60s", Unit::Milliseconds),
            ("7d", Unit::Milliseconds),
            ("50/s", Unit::PerSecond),
            ("99.9%", Unit::Ratio),
            ("24GiB", Unit::Bytes),
            ("50%/year", Unit::RatioPerYear),
        ] {
            let first = Quantity::parse(text, unit).unwrap();
            let again = Quantity::parse(&first.to_string(), unit).unwrap();
            assert_eq!(first, again, "{text} -> {first}");
        }
        for value in [1.0 / 3.0, 31_557_600_000.0, 1_234.567_89, 0.07, 1e-9, 123_456_789.123] {
            for unit in
                [Unit::Milliseconds, Unit::PerSecond, Unit::Ratio, Unit::Bytes, Unit::UsdPerHour, Unit::Count]
            {
                let first = Quantity::new(value, unit);
                assert_eq!(Quantity::parse(&first.to_string(), unit).unwrap(), first, "{first}");
            }
        }
    }
}
