//! Lengths of prompts and answers, in tokens: one number, or a distribution.

use std::fmt;
use std::str::FromStr;

/// The greatest length, tokens.
pub const MAX_LENGTH: u32 = 10_000_000;

/// How many tokens requests have. Drawn values are rounded, at least 1 and at most `max` where one is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// `128`: all alike.
    Fixed(u32),
    /// `uniform:100..500`: each whole number between the two, both included, as likely as the other.
    Uniform {
        /// Least.
        from: u32,
        /// Greatest.
        to: u32,
    },
    /// `normal:mean=512,sd=100,max=2048`: what would be below 1 is 1.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
        /// Greatest.
        max: u32,
    },
    /// `lognormal:mean=512,cv=1.5,max=8192`: a long tail, as real prompts have.
    LogNormal {
        /// Mean, before the cut at `max`.
        mean: f64,
        /// Standard deviation over mean.
        cv: f64,
        /// Greatest.
        max: u32,
    },
}

impl Length {
    /// The mean before any cut.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            Length::Fixed(tokens) => f64::from(tokens),
            Length::Uniform { from, to } => f64::midpoint(f64::from(from), f64::from(to)),
            Length::Normal { mean, .. } | Length::LogNormal { mean, .. } => mean,
        }
    }

    /// The number that all have; none for a distribution.
    #[must_use]
    pub fn fixed(self) -> Option<u32> {
        match self {
            Length::Fixed(tokens) => Some(tokens),
            _ => None,
        }
    }
}

/// Why a text is no length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no number of tokens; expected `128`, `uniform:100..500`, `normal:mean=512,sd=100` or `lognormal:mean=512,cv=1.5,max=8192`, from 1 to 10000000"
)]
pub struct LengthError {
    text: String,
}

impl FromStr for Length {
    type Err = LengthError;

    fn from_str(text: &str) -> Result<Self, LengthError> {
        parse(text.trim()).ok_or_else(|| LengthError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Length> {
    let whole = |text: &str| text.trim().parse::<u32>().ok().filter(|n| (1..=MAX_LENGTH).contains(n));
    let Some((name, parts)) = text.split_once(':') else { return whole(text).map(Length::Fixed) };
    if name.trim() == "uniform" {
        let (from, to) = parts.split_once("..")?;
        let (from, to) = (whole(from)?, whole(to)?);
        return (from <= to).then_some(Length::Uniform { from, to });
    }
    let (mut mean, mut spread, mut max) = (None, None, None);
    let spread_name = match name.trim() {
        "normal" => "sd",
        "lognormal" => "cv",
        _ => return None,
    };
    for part in parts.split(',') {
        let (key, value) = part.split_once('=')?;
        let number = || value.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let slot = match key.trim() {
            "mean" => &mut mean,
            "max" => &mut max,
            key if key == spread_name => &mut spread,
            _ => return None,
        };
        if slot.replace(number()?).is_some() {
            return None;
        }
    }
    let mean = mean.filter(|mean| (1.0..=f64::from(MAX_LENGTH)).contains(mean))?;
    let max = match max {
        None => MAX_LENGTH,
        Some(max) => whole(&max.to_string()).filter(|max| f64::from(*max) >= mean)?,
    };
    let spread = spread?;
    match name.trim() {
        "normal" => Some(Length::Normal { mean, sd: spread, max }),
        _ => (spread <= 20.0).then_some(Length::LogNormal { mean, cv: spread, max }),
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = |max: u32| if max == MAX_LENGTH { String::new() } else { format!(",max={max}") };
        match *self {
            Length::Fixed(tokens) => write!(f, "{tokens}"),
            Length::Uniform { from, to } => write!(f, "uniform:{from}..{to}"),
            Length::Normal { mean, sd, max } => write!(f, "normal:mean={mean},sd={sd}{}", cut(max)),
            Length::LogNormal { mean, cv, max } => write!(f, "lognormal:mean={mean},cv={cv}{}", cut(max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for text in [
            "128",
            "uniform:100..500",
            "normal:mean=512,sd=100",
            "normal:mean=512,sd=100,max=2048",
            "lognormal:mean=512,cv=1.5,max=8192",
        ] {
            assert_eq!(text.parse::<Length>().unwrap().to_string(), text);
        }
        assert_eq!("uniform:1..3".parse::<Length>().unwrap().mean(), 2.0);
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "0",
            "-1",
            "1.5",
            "10000001",
            "x",
            "uniform:5..4",
            "uniform:0..4",
            "uniform:5",
            "normal:mean=5",
            "normal:mean=5,cv=1",
            "lognormal:mean=5,cv=1,max=4",
            "lognormal:mean=0,cv=1",
            "lognormal:mean=5,cv=-1",
            "lognormal:mean=5,cv=nan",
            "lognormal:mean=5,mean=5,cv=1",
            "lognormal:mean=5,cv=99",
            "poisson:5",
        ] {
            assert!(text.parse::<Length>().is_err(), "{text}");
        }
    }
}
