//! What servers say, made fit to be shown.

/// `text` on one line and without control characters: it goes to terminals and tables.
pub(crate) fn printable(text: &str) -> String {
    let parts = text.split(|c: char| c.is_whitespace() || c.is_control());
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_servers_cannot_move_the_cursor() {
        assert_eq!(printable(" a\r\n b\u{1b}[2J\t\u{7}c "), "a b [2J c");
        assert_eq!(printable(""), "");
    }
}
