//! The known name that is most like a mistyped one.

/// The candidate nearest to `text` by edit distance, when at most half of its letters differ.
pub(crate) fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (distance(text, candidate), candidate))
        .filter(|(distance, candidate)| distance * 2 <= candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance over bytes; longer texts than 64 bytes are no identifiers and are cut.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().take(64).enumerate() {
        let mut previous = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = previous + usize::from(x != y);
            previous = row[j + 1];
            row[j + 1] = changed.min(row[j + 1] + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_the_neighbour_or_nothing() {
        let known = ["kafka", "nats-core", "pulsar"];
        assert_eq!(nearest("kafak", known.into_iter()), Some("kafka"));
        assert_eq!(nearest("nats", known.into_iter()), None);
        assert_eq!(nearest("natscore", known.into_iter()), Some("nats-core"));
        assert_eq!(nearest("zeromq-broker", known.into_iter()), None);
    }
}
