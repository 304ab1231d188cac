//! A value that may be unreadable, with the reason.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A value, or why there is none. In files it is the value itself, or `{"unreadable": "reason"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// It was read.
    Value(T),
    /// It could not be read.
    Unreadable(String),
}

impl<T> Reading<T> {
    /// The value; none when it could not be read.
    pub fn value(&self) -> Option<&T> {
        match self {
            Reading::Value(value) => Some(value),
            Reading::Unreadable(_) => None,
        }
    }

    /// The reading of something that is computed from the value.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Reading::Value(value) => f(value),
            Reading::Unreadable(reason) => Reading::Unreadable(reason),
        }
    }

    /// The value changed by `f`.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        self.and_then(|value| Reading::Value(f(value)))
    }

    /// The value, or a reading with the reason `why`.
    pub fn from_option(value: Option<T>, why: &str) -> Self {
        value.map_or_else(|| Reading::Unreadable(why.to_owned()), Reading::Value)
    }
}

#[derive(Serialize)]
struct Unreadable<'a> {
    unreadable: &'a str,
}

impl<T: Serialize> Serialize for Reading<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Reading::Value(value) => value.serialize(serializer),
            Reading::Unreadable(reason) => Unreadable { unreadable: reason }.serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Reading<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Some(Value::String(reason)) = value.get("unreadable") {
            return Ok(Reading::Unreadable(reason.clone()));
        }
        serde_json::from_value(value).map(Reading::Value).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_survive_json() {
        let readings: Vec<Reading<Option<u64>>> = vec![
            Reading::Value(Some(7)),
            Reading::Value(None),
            Reading::Unreadable("permission denied".to_owned()),
        ];
        let text = serde_json::to_string(&readings).unwrap();
        assert_eq!(text, r#"[7,null,{"unreadable":"permission denied"}]"#);
        assert_eq!(serde_json::from_str::<Vec<Reading<Option<u64>>>>(&text).unwrap(), readings);
        assert!(serde_json::from_str::<Reading<u64>>("\"seven\"").is_err());
    }
}
