//! Mooncake's traces: JSON lines with times in ms and the ids of prompt blocks.

use serde_json::Value;

use super::{Format, ROW_LIMIT, Trace, TraceError, TraceRow, lines, shortened, too_many};

pub(super) fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
    let mut rows = Vec::new();
    let mut blocks: Vec<u64> = Vec::new();
    for line in lines(bytes) {
        let (number, line) = line?;
        let wrong = |column, found: &[u8], expected| TraceError::Value {
            line: number,
            column,
            found: shortened(found),
            expected,
        };
        let row: Value =
            serde_json::from_slice(line).map_err(|_| wrong("the line", line, "a JSON object"))?;
        let member = |column: &'static str| row.get(column).unwrap_or(&Value::Null);
        let shown = |value: &Value| if value.is_null() { String::new() } else { value.to_string() };
        let number_of = |column: &'static str, expected| {
            let value = member(column);
            value
                .as_f64()
                .filter(|value| (0.0..=4e12).contains(value))
                .ok_or_else(|| wrong(column, shown(value).as_bytes(), expected))
        };
        let at_ms = number_of("timestamp", "a time in ms")?;
        let tokens = |column: &'static str| {
            let value = number_of(column, "a number of tokens")?;
            u32::try_from(value as u64).map_err(|_| wrong(column, b"", "a number of tokens"))
        };
        let (input_tokens, output_tokens) = (tokens("input_length")?, tokens("output_length")?);
        let first = blocks.len();
        for id in member("hash_ids").as_array().into_iter().flatten() {
            let id = id.as_u64().ok_or_else(|| wrong("hash_ids", shown(id).as_bytes(), "whole numbers"))?;
            blocks.push(id);
        }
        if input_tokens == 0 || output_tokens == 0 {
            blocks.truncate(first);
            continue;
        }
        if rows.len() == ROW_LIMIT {
            return Err(too_many(number));
        }
        let range = u32::try_from(first).ok().zip(u32::try_from(blocks.len() - first).ok());
        rows.push(TraceRow {
            at_ns: (at_ms * 1e6).round() as u64,
            input_tokens,
            output_tokens,
            blocks: range.ok_or_else(|| too_many(number))?,
        });
    }
    Trace::ordered(Format::Mooncake, rows, blocks)
}
