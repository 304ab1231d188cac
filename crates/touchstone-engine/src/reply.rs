//! The sending half of HTTP/1.1.

/// How the body of a reply is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delimiter {
    Length(usize),
    Chunked,
    /// By the end of the connection (streams to HTTP/1.0 clients).
    Close,
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Unknown",
    }
}

/// The head of a reply. `unix_seconds` is the date; `allow` the methods to name in a 405.
pub(crate) fn head(
    status: u16,
    content_type: &str,
    delimiter: Delimiter,
    keep_alive: bool,
    unix_seconds: u64,
    allow: Option<&str>,
) -> Vec<u8> {
    let mut head = format!(
        "HTTP/1.1 {status} {}\r\ndate: {}\r\nserver: touchstone-simulated\r\nx-touchstone-simulated: 1\r\n",
        reason(status),
        http_date(unix_seconds)
    );
    if !content_type.is_empty() {
        head.push_str(&format!("content-type: {content_type}\r\n"));
    }
    if let Some(methods) = allow {
        head.push_str(&format!("allow: {methods}\r\n"));
    }
    match delimiter {
        Delimiter::Length(bytes) => head.push_str(&format!("content-length: {bytes}\r\n")),
        Delimiter::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
        Delimiter::Close => {}
    }
    if !keep_alive {
        head.push_str("connection: close\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Appends a part of a body.
pub(crate) fn part(out: &mut Vec<u8>, delimiter: Delimiter, bytes: &str) {
    if delimiter == Delimiter::Chunked {
        out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    }
    out.extend_from_slice(bytes.as_bytes());
    if delimiter == Delimiter::Chunked {
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the end of a body.
pub(crate) fn end(out: &mut Vec<u8>, delimiter: Delimiter) {
    if delimiter == Delimiter::Chunked {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// RFC 9110's preferred date format. The calendar algorithm counts in 400-year eras that begin on the first of March,
/// so that the leap day comes last.
fn http_date(unix_seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"];
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Day 0 of the count is 0000-03-01, which lies 719468 days before 1970-01-01.
    let (era, day) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    format!(
        "{}, {day_of_month:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // RFC 9110's own example; the epoch; a leap day; the end of a year.
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(1_798_761_599), "Thu, 31 Dec 2026 23:59:59 GMT");
    }

    #[test]
    fn parts_are_framed() {
        let mut out = Vec::new();
        part(&mut out, Delimiter::Chunked, "0123456789abcdef");
        end(&mut out, Delimiter::Chunked);
        assert_eq!(out, b"10\r\n0123456789abcdef\r\n0\r\n\r\n");
        let mut plain = Vec::new();
        part(&mut plain, Delimiter::Close, "x");
        end(&mut plain, Delimiter::Close);
        assert_eq!(plain, b"x");
    }
}
