//! The traces in CSV. Their values hold neither quotes nor line ends, so a line is split at its commas.

use super::{Format, ROW_LIMIT, Trace, TraceError, TraceRow, instant, lines, shortened, too_many};

/// The Azure LLM inference traces.
pub(super) fn azure(bytes: &[u8]) -> Result<Trace, TraceError> {
    read(bytes, Format::Azure, ["TIMESTAMP", "ContextTokens", "GeneratedTokens"], |text| {
        instant::nanoseconds(text)
    })
}

/// BurstGPT: seconds from the start of the trace. A request without response tokens failed, and is left out.
pub(super) fn burst_gpt(bytes: &[u8]) -> Result<Trace, TraceError> {
    read(bytes, Format::BurstGpt, ["Timestamp", "Request tokens", "Response tokens"], |text| {
        let seconds: f64 = text.parse().ok()?;
        (0.0..=4e9).contains(&seconds).then(|| (seconds * 1e9).round() as u64)
    })
}

fn read(
    bytes: &[u8],
    format: Format,
    columns: [&'static str; 3],
    at: impl Fn(&str) -> Option<u64>,
) -> Result<Trace, TraceError> {
    let mut places: Option<[usize; 3]> = None;
    let mut rows = Vec::new();
    for line in lines(bytes) {
        let (number, line) = line?;
        let Some([time, input, output]) = places else {
            let header: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
            let place = |column: &'static str| {
                let found = header.iter().position(|name| *name == column.as_bytes());
                found.ok_or(TraceError::NoColumn { column })
            };
            places = Some([place(columns[0])?, place(columns[1])?, place(columns[2])?]);
            continue;
        };
        let cell =
            |place: usize| line.split(|byte| *byte == b',').nth(place).unwrap_or_default().trim_ascii();
        let wrong = |which: usize, found: &[u8], expected| TraceError::Value {
            line: number,
            column: columns[which],
            found: shortened(found),
            expected,
        };
        let text = |place| std::str::from_utf8(cell(place)).ok();
        let at_ns = text(time).and_then(&at).ok_or_else(|| wrong(0, cell(time), "a time"))?;
        let tokens = |which: usize, place: usize| {
            let read = text(place).and_then(|text| text.parse::<u32>().ok());
            read.ok_or_else(|| wrong(which, cell(place), "a number of tokens"))
        };
        let (input_tokens, output_tokens) = (tokens(1, input)?, tokens(2, output)?);
        if output_tokens == 0 || input_tokens == 0 {
            continue;
        }
        if rows.len() == ROW_LIMIT {
            return Err(too_many(number));
        }
        rows.push(TraceRow { at_ns, input_tokens, output_tokens, blocks: (0, 0) });
    }
    Trace::ordered(format, rows, Vec::new())
}
