//! An incremental reader of server-sent events over byte slices (WHATWG HTML, section 9.2).
//!
//! It works on bytes, so that characters split over reads need no care. An event whose single `data` line lies whole
//! in one read is handed out as a slice of it, not copied. Limit: 1 MiB for a line and for an event's data.

use memchr::memchr2;

/// Most bytes of a line, and of the data of one event.
pub(crate) const LINE_LIMIT: usize = 1024 * 1024;

/// A line or an event is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line or an event of the stream is larger than {LINE_LIMIT} bytes")]
pub(crate) struct TooLong;

/// A dispatched event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    /// The `data` lines, joined by line feeds.
    pub(crate) data: &'a [u8],
    /// Whether the event's type is `error`.
    pub(crate) error: bool,
}

/// The reader; one per stream.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The part of a line that came in earlier reads.
    line: Vec<u8>,
    /// Data lines of the event so far, apart from one that still lies in the current read.
    data: Vec<u8>,
    /// Whether the event has a data line.
    has_data: bool,
    /// Whether the event's type is `error`.
    error: bool,
    /// The last line ended with CR: a line feed that follows belongs to it.
    after_cr: bool,
    /// Whether a first line was seen, which may begin with a byte order mark.
    begun: bool,
}

impl Reader {
    /// Forgets everything, keeping the memory.
    pub(crate) fn reset(&mut self) {
        self.line.clear();
        self.clear_event();
        self.after_cr = false;
        self.begun = false;
    }

    /// Takes bytes of the stream and hands out the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Event<'_>)) -> Result<(), TooLong> {
        let mut rest = bytes;
        // The event's data when it is one line that lies in `bytes`.
        let mut whole: Option<&[u8]> = None;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            if rest[0] == b'\n' {
                rest = &rest[1..];
            }
        }
        while let Some(at) = memchr2(b'\r', b'\n', rest) {
            let (piece, after) = (&rest[..at], &rest[at + 1..]);
            rest = match (rest[at], after.first()) {
                (b'\r', Some(b'\n')) => &after[1..],
                (b'\r', None) => {
                    self.after_cr = true;
                    after
                }
                _ => after,
            };
            if self.line.is_empty() {
                if piece.len() > LINE_LIMIT {
                    return Err(TooLong);
                }
                self.take_line(piece, &mut whole, &mut each)?;
            } else {
                if self.line.len() + piece.len() > LINE_LIMIT {
                    return Err(TooLong);
                }
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(piece);
                // A line put together from reads does not live in `bytes`: its data are copied.
                let mut none = None;
                let taken = self.take_line(&line, &mut none, &mut each);
                if let Some(data) = none {
                    self.data.extend_from_slice(data);
                }
                line.clear();
                self.line = line;
                taken?;
            }
        }
        if let Some(data) = whole {
            self.data.extend_from_slice(data);
        }
        if self.line.len() + rest.len() > LINE_LIMIT {
            return Err(TooLong);
        }
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// The stream's body ended properly: a last event without its blank line is handed out too, as many servers
    /// leave the line out.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(Event<'_>)) -> Result<(), TooLong> {
        if !self.line.is_empty() {
            self.push(b"\n", &mut each)?;
        }
        self.push(b"\n", &mut each)
    }

    fn clear_event(&mut self) {
        self.data.clear();
        self.has_data = false;
        self.error = false;
    }

    /// Takes one line without its end. `whole` holds the event's data while they are one line of the current read.
    fn take_line<'a>(
        &mut self,
        mut line: &'a [u8],
        whole: &mut Option<&'a [u8]>,
        each: &mut impl FnMut(Event<'_>),
    ) -> Result<(), TooLong> {
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            if self.has_data {
                each(Event { data: whole.take().unwrap_or(&self.data), error: self.error });
            }
            self.clear_event();
            return Ok(());
        }
        if let Some(value) = field(line, b"data") {
            if !self.has_data {
                self.has_data = true;
                *whole = Some(value);
                return Ok(());
            }
            let first = whole.take().unwrap_or_default();
            if self.data.len() + first.len() + value.len() + 1 > LINE_LIMIT {
                return Err(TooLong);
            }
            self.data.extend_from_slice(first);
            self.data.push(b'\n');
            self.data.extend_from_slice(value);
        } else if let Some(value) = field(line, b"event") {
            self.error = value == b"error";
        }
        // Comments, `id`, `retry` and unknown fields carry nothing that is measured.
        Ok(())
    }
}

/// The value of the line's field when its name is `name`; one space after the colon is not part of it.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest.first() {
        None => Some(rest),
        Some(b':') => Some(rest[1..].strip_prefix(b" ").unwrap_or(&rest[1..])),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(bytes: &[u8], step: usize) -> Vec<String> {
        let mut reader = Reader::default();
        let mut seen = Vec::new();
        let mut each = |event: Event<'_>| {
            seen.push(format!(
                "{}{}",
                if event.error { "error " } else { "" },
                String::from_utf8_lossy(event.data)
            ));
        };
        for piece in bytes.chunks(step) {
            reader.push(piece, &mut each).unwrap();
        }
        reader.finish(&mut each).unwrap();
        seen
    }

    #[test]
    fn fields_and_line_ends() {
        for (bytes, expected) in [
            ("data: a\n\ndata:b\n\n", vec!["a", "b"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec!["a", "b"]),
            ("data: a\r\rdata: b\r\r", vec!["a", "b"]),
            ("data: a\r\n\rdata: b\n\r\n", vec!["a", "b"]),
            ("data: a\ndata: b\ndata:  c\n\n", vec!["a\nb\n c"]),
            (": ping\n\n:\n\ndata: a\n\n: x\n", vec!["a"]),
            ("event: error\nid: 7\nretry: 5\nfoo: bar\nfoo\ndata: a\n\ndata: b\n\n", vec!["error a", "b"]),
            ("data\n\ndata:\n\n", vec!["", ""]),
            ("data\ndata\n\n", vec!["\n"]),
            ("\u{feff}data: a\n\n", vec!["a"]),
            ("data: \u{4f60}\u{597d}\n\n", vec!["\u{4f60}\u{597d}"]),
            ("database: x\n\n data: y\n\n", vec![]),
            ("data: a\n\ndata: cut", vec!["a", "cut"]),
            ("data: a\n\ndata: no blank\n", vec!["a", "no blank"]),
            ("\n\n\n", vec![]),
        ] {
            for step in 1..=bytes.len() {
                assert_eq!(events(bytes.as_bytes(), step), expected, "{bytes:?} in pieces of {step}");
            }
        }
    }

    #[test]
    fn long_lines_and_events_are_refused() {
        let mut reader = Reader::default();
        let piece = vec![b'x'; 64 * 1024];
        let refused = (0..64).find(|_| reader.push(&piece, |_| ()).is_err());
        assert_eq!(refused, Some(16));
        assert!(reader.line.len() <= LINE_LIMIT);

        let mut reader = Reader::default();
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        assert!((0..64).any(|_| reader.push(&line, |_| ()).is_err()));
        assert!(reader.data.len() <= LINE_LIMIT);
        assert_eq!(Reader::default().push(&vec![b'x'; LINE_LIMIT + 1], |_| ()), Err(TooLong));
    }
}
