//! Secrets: values that never reach a log, a record or a report.

use std::fmt;

/// A password, token or key; its `Debug` and `Display` forms do not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself, for the bytes on the wire only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The secret and its words of at least eight bytes: a server may repeat `Bearer TOKEN` without the first word.
    #[must_use]
    pub fn parts(&self) -> Vec<Self> {
        let words = self.0.split_whitespace().filter(|word| word.len() >= 8 && *word != self.0);
        std::iter::once(self.clone()).chain(words.map(Self::new)).collect()
    }

    /// `text` with every occurrence of the secret blotted out: servers repeat credentials in error messages.
    #[must_use]
    pub fn blot(&self, text: String) -> String {
        if self.0.is_empty() || !text.contains(&self.0) { text } else { text.replace(&self.0, "[secret]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "[secret] [secret]");
        assert_eq!(secret.blot("bad key hunter2!".to_owned()), "bad key [secret]!");
        let parts = Secret::new("Bearer sk-12345678").parts();
        assert!(parts.contains(&Secret::new("sk-12345678")) && parts.len() == 2);
        assert_eq!(Secret::new("").blot("ab".to_owned()), "ab");
    }
}
