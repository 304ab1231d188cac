//! Versions and version ranges, small enough for every product's numbering: `7.0.15`, `24.10`, `v0.32.0-rc1`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version as a list of numbers. A leading `v` and everything from the first character that is neither digit nor dot
/// are ignored: a pre-release counts as its release, which is what ranges in the catalog are about.
#[derive(Debug, Clone)]
pub struct Version(Vec<u64>);

/// The text is no version or no version range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// There is no number at the front.
    #[error("`{text}` is no version; expected numbers with dots, such as `7.0.15`")]
    Version {
        /// The text as written.
        text: String,
    },
    /// A part of a range has no comparison sign.
    #[error("`{text}` is no version range; expected comparisons joined by commas, such as `>=2.10, <3`")]
    Range {
        /// The text as written.
        text: String,
    },
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let trimmed = text.trim();
        let digits = trimmed.strip_prefix('v').unwrap_or(trimmed);
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
        let numbers: Result<Vec<u64>, _> =
            digits[..end].trim_end_matches('.').split('.').map(str::parse::<u64>).collect();
        numbers.map(Version).map_err(|_| VersionError::Version { text: text.to_owned() })
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    /// Number by number; missing numbers are 0, so `3` equals `3.0` in order.
    fn cmp(&self, other: &Self) -> Ordering {
        let part = |version: &Version, index: usize| version.0.get(index).copied().unwrap_or(0);
        (0..self.0.len().max(other.0.len()))
            .map(|index| part(self, index).cmp(&part(other, index)))
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    AtLeast,
    Above,
    AtMost,
    Below,
    Exactly,
}

const SIGNS: [(&str, Sign); 5] = [
    (">=", Sign::AtLeast),
    (">", Sign::Above),
    ("<=", Sign::AtMost),
    ("<", Sign::Below),
    ("=", Sign::Exactly),
];

/// Versions that satisfy all of its comparisons, as in `>=2.10, <3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange {
    text: String,
    bounds: Vec<(Sign, Version)>,
}

impl VersionRange {
    /// Whether the version lies in the range.
    #[must_use]
    pub fn contains(&self, version: &Version) -> bool {
        self.bounds.iter().all(|(sign, bound)| match sign {
            Sign::AtLeast => version >= bound,
            Sign::Above => version > bound,
            Sign::AtMost => version <= bound,
            Sign::Below => version < bound,
            Sign::Exactly => version == bound,
        })
    }

    /// Whether the range reaches up to the newest version, that is, has no upper bound.
    #[must_use]
    pub fn reaches_newest(&self) -> bool {
        self.bounds.iter().all(|(sign, _)| matches!(sign, Sign::AtLeast | Sign::Above))
    }
}

impl FromStr for VersionRange {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let bounds: Result<Vec<_>, VersionError> = text
            .split(',')
            .map(|part| {
                let part = part.trim();
                let (sign_text, sign) = SIGNS
                    .into_iter()
                    .find(|(sign, _)| part.starts_with(sign))
                    .ok_or_else(|| VersionError::Range { text: text.to_owned() })?;
                let version = part[sign_text.len()..].trim();
                if !version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
                    return Err(VersionError::Range { text: text.to_owned() });
                }
                Ok((sign, version.parse()?))
            })
            .collect();
        Ok(Self { text: text.trim().to_owned(), bounds: bounds? })
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_what_they_say() {
        for (range, inside, outside) in [
            (">=2.10, <3", &["2.10", "2.10.0", "2.15.1", "v2.11-beta"][..], &["2.9.10", "3", "3.0"][..]),
            ("<7.4", &["7.0.15", "6"], &["7.4", "8.2.1"]),
            (">4", &["4.0.1", "24.10"], &["4", "4.0"]),
            ("<=4.2", &["4.2.0"], &["4.2.1"]),
            ("=0.2.36", &["0.2.36"], &["0.2.35", "0.2.36.1"]),
        ] {
            let range: VersionRange = range.parse().unwrap();
            for version in inside {
                assert!(range.contains(&version.parse().unwrap()), "{range} {version}");
            }
            for version in outside {
                assert!(!range.contains(&version.parse().unwrap()), "{range} {version}");
            }
        }
    }

    #[test]
    fn open_ranges_reach_the_newest() {
        assert!(">=2".parse::<VersionRange>().unwrap().reaches_newest());
        for closed in ["<3", ">=2, <3", "=1", "<=9"] {
            assert!(!closed.parse::<VersionRange>().unwrap().reaches_newest(), "{closed}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "2.10", ">=", ">=x", ">=2,", ">=2 || <1"] {
            assert!(text.parse::<VersionRange>().is_err(), "{text}");
        }
        for text in ["", "latest", "v", "..", "99999999999999999999"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }
}
