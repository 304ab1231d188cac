//! Recorded traces: when requests came, how long they were, and which parts of their prompts were shared.
//!
//! Readers for the public formats work on the file's bytes: the Azure LLM inference traces of 2023 and 2024 (CSV),
//! BurstGPT (CSV) and Mooncake (JSON lines with the ids of prompt blocks). Which one it is, its first line tells. Rows
//! are put in order of time, and time begins with the first.
//!
//! Limits: 10,000,000 rows, 1 MiB a line.

mod csv;
mod instant;
mod mooncake;

use std::fmt;

/// Most rows of a trace.
const ROW_LIMIT: usize = 10_000_000;
/// Most bytes of a line.
const LINE_LIMIT: usize = 1 << 20;

/// The format of a trace's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `TIMESTAMP,ContextTokens,GeneratedTokens`.
    Azure,
    /// `Timestamp,Model,Request tokens,Response tokens,...`.
    BurstGpt,
    /// JSON lines with `timestamp`, `input_length`, `output_length` and `hash_ids`.
    Mooncake,
    /// A recorded run of touchstone.
    Run,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Azure => "azure",
            Format::BurstGpt => "burstgpt",
            Format::Mooncake => "mooncake",
            Format::Run => "run",
        })
    }
}

/// One request of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceRow {
    /// When it came, ns from the first one.
    pub at_ns: u64,
    /// Tokens of its prompt.
    pub input_tokens: u32,
    /// Tokens that were generated.
    pub output_tokens: u32,
    /// The first of its prompt blocks in the trace's list, and their number.
    blocks: (u32, u32),
}

/// A trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    format: Format,
    rows: Vec<TraceRow>,
    blocks: Vec<u64>,
}

/// Why bytes are no trace. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The first line is of no known format.
    #[error(
        "line 1 is of no known trace; expected a header with `ContextTokens` (Azure) or `Request tokens` (BurstGPT), or JSON with `input_length` (Mooncake)"
    )]
    UnknownFormat,
    /// A column is missing in the header.
    #[error("line 1: the header has no column `{column}`")]
    NoColumn {
        /// The column.
        column: &'static str,
    },
    /// A value cannot be read.
    #[error("line {line}: `{column}` is `{found}`; expected {expected}")]
    Value {
        /// The line.
        line: usize,
        /// The column or member.
        column: &'static str,
        /// What stands there, shortened.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// A line is too long, or there are too many.
    #[error("line {line}: {problem}")]
    TooLarge {
        /// The line.
        line: usize,
        /// What is too large.
        problem: &'static str,
    },
    /// There is no request in it.
    #[error("the trace has no request that generated anything")]
    Empty,
}

impl Trace {
    /// Reads a trace, whose format its first line tells.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn read(bytes: &[u8]) -> Result<Self, TraceError> {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let first = bytes.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
        let first = first.unwrap_or_default().trim_ascii();
        let has = |name: &str| memchr::memmem::find(first, name.as_bytes()).is_some();
        if first.first() == Some(&b'{') && has("input_length") {
            mooncake::read(bytes)
        } else if has("ContextTokens") {
            csv::azure(bytes)
        } else if has("Request tokens") {
            csv::burst_gpt(bytes)
        } else {
            Err(TraceError::UnknownFormat)
        }
    }

    /// A trace of rows that were read elsewhere: (instant in ns, input tokens, output tokens).
    ///
    /// # Errors
    /// [`TraceError::Empty`] when there is none.
    pub fn of_run(rows: impl IntoIterator<Item = (u64, u32, u32)>) -> Result<Self, TraceError> {
        let rows = rows.into_iter().map(|(at_ns, input_tokens, output_tokens)| TraceRow {
            at_ns,
            input_tokens,
            output_tokens,
            blocks: (0, 0),
        });
        Self::ordered(Format::Run, rows.collect(), Vec::new())
    }

    fn ordered(format: Format, mut rows: Vec<TraceRow>, blocks: Vec<u64>) -> Result<Self, TraceError> {
        rows.sort_by_key(|row| row.at_ns);
        let first = rows.first().ok_or(TraceError::Empty)?.at_ns;
        for row in &mut rows {
            row.at_ns -= first;
        }
        Ok(Self { format, rows, blocks })
    }

    /// The format it was read from.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Its requests, in order of time; never none.
    #[must_use]
    pub fn rows(&self) -> &[TraceRow] {
        &self.rows
    }

    /// The ids of the blocks of a row's prompt, from its beginning: equal ids are equal text. Blocks have
    /// [`BLOCK_TOKENS`] tokens, the last one may have fewer.
    #[must_use]
    pub fn blocks(&self, row: &TraceRow) -> &[u64] {
        let (from, number) = (row.blocks.0 as usize, row.blocks.1 as usize);
        self.blocks.get(from..from + number).unwrap_or_default()
    }

    /// From the first request to the last, ns.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.at_ns)
    }

    /// Share of the prompt tokens that an endless prefix cache would find: tokens of leading blocks that an earlier
    /// request had in the same place. 0 where the trace tells no blocks.
    #[must_use]
    pub fn reusable_share(&self) -> f64 {
        let mut seen = std::collections::HashSet::new();
        let (mut reused, mut all) = (0_u64, 0_u64);
        for row in &self.rows {
            all += u64::from(row.input_tokens);
            let blocks = self.blocks(row);
            let known = blocks.iter().take_while(|block| seen.contains(*block)).count() as u64;
            reused += (known * u64::from(BLOCK_TOKENS)).min(u64::from(row.input_tokens));
            seen.extend(blocks.iter().copied());
        }
        reused as f64 / all.max(1) as f64
    }
}

/// Tokens of a block of Mooncake's prompts.
pub const BLOCK_TOKENS: u32 = 512;

/// Lines with their numbers from 1, without their ends; empty ones are passed over.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Result<(usize, &[u8]), TraceError>> {
    bytes.split(|byte| *byte == b'\n').enumerate().filter_map(|(at, line)| {
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        if line.len() > LINE_LIMIT {
            return Some(Err(TraceError::TooLarge { line: at + 1, problem: "longer than 1 MiB" }));
        }
        Some(Ok((at + 1, line)))
    })
}

/// What stands in a place, short enough for a message.
fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
    text.chars().filter(|c| !c.is_control()).collect()
}

fn too_many(line: usize) -> TraceError {
    TraceError::TooLarge { line, problem: "more than 10,000,000 requests" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
        2023-11-16 18:15:46.6805900,374,44\n\
        2023-11-16 18:15:50.9951690,396,109\r\n\
        2023-11-16 18:15:46.6805901,1,1\n";
    const AZURE_2024: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
        2024-05-10 00:00:00.009930+00:00,2162,5\n\
        2024-05-10 00:00:00.017335+00:00,2399,6\n\
        2024-05-09 23:59:59+00:00,7,8\n";
    const BURST: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
        5,ChatGPT,472,18,490,Conversation log\n\
        45.5,GPT-4,1087,230,1317,API log\n\
        118,ChatGPT,417,0,417,Conversation log\n";
    const MOONCAKE: &str = "{\"timestamp\": 27482, \"input_length\": 1100, \"output_length\": 52, \"hash_ids\": [46, 47, 48]}\n\
        {\"timestamp\": 30535, \"input_length\": 1500, \"output_length\": 26, \"hash_ids\": [46, 47, 49]}\n";

    fn summary(trace: &Trace) -> Vec<(u64, u32, u32)> {
        trace.rows().iter().map(|row| (row.at_ns, row.input_tokens, row.output_tokens)).collect()
    }

    #[test]
    fn azure_of_both_years() {
        let trace = Trace::read(AZURE.as_bytes()).unwrap();
        assert_eq!(trace.format(), Format::Azure);
        assert_eq!(summary(&trace), [(0, 374, 44), (100, 1, 1), (4_314_579_000, 396, 109)]);
        let trace = Trace::read(AZURE_2024.as_bytes()).unwrap();
        assert_eq!(summary(&trace), [(0, 7, 8), (1_009_930_000, 2162, 5), (1_017_335_000, 2399, 6)]);
    }

    #[test]
    fn burst_gpt_leaves_out_what_failed() {
        let trace = Trace::read(BURST.as_bytes()).unwrap();
        assert_eq!(trace.format(), Format::BurstGpt);
        assert_eq!(summary(&trace), [(0, 472, 18), (40_500_000_000, 1087, 230)]);
    }

    #[test]
    fn mooncake_keeps_its_blocks() {
        let trace = Trace::read(MOONCAKE.as_bytes()).unwrap();
        assert_eq!(trace.format(), Format::Mooncake);
        assert_eq!(summary(&trace), [(0, 1100, 52), (3_053_000_000, 1500, 26)]);
        assert_eq!(trace.blocks(&trace.rows()[1]), [46, 47, 49]);
        // Two of the second's blocks were there: 1024 of 2600 tokens.
        assert!((trace.reusable_share() - 1024.0 / 2600.0).abs() < 1e-12);
    }

    #[test]
    fn own_runs_are_put_in_order() {
        let trace = Trace::of_run([(9, 1, 2), (5, 3, 4)]).unwrap();
        assert_eq!(summary(&trace), [(0, 3, 4), (4, 1, 2)]);
        assert_eq!(Trace::of_run([]), Err(TraceError::Empty));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, message) in [
            ("", "line 1 is of no known trace"),
            ("a,b,c\n1,2,3\n", "line 1 is of no known trace"),
            ("TIMESTAMP,ContextTokens\n", "no column `GeneratedTokens`"),
            ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no request"),
            (
                "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n",
                "line 2: `TIMESTAMP` is `yesterday`",
            ),
            ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 18:15:46,1,2\n", "line 2: `TIMESTAMP`"),
            (
                "TIMESTAMP,ContextTokens,GeneratedTokens\n\n2023-11-16 18:15:46,-1,2\n",
                "line 3: `ContextTokens` is `-1`",
            ),
            (
                "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1\n",
                "line 2: `GeneratedTokens` is ``",
            ),
            ("Timestamp,Model,Request tokens,Response tokens\nx,m,1,2\n", "line 2: `Timestamp` is `x`"),
            ("Timestamp,Model,Request tokens,Response tokens\n-5,m,1,2\n", "line 2: `Timestamp` is `-5`"),
            (
                "{\"timestamp\":1,\"input_length\":5,\"output_length\":2}\n{\"input_length\"",
                "line 2: `the line`",
            ),
            ("{\"timestamp\":1,\"input_length\":5}", "line 1: `output_length` is ``"),
            ("{\"timestamp\":-1,\"input_length\":5,\"output_length\":1}", "line 1: `timestamp` is `-1`"),
            (
                "{\"timestamp\":1,\"input_length\":5,\"output_length\":1,\"hash_ids\":[-1]}",
                "line 1: `hash_ids`",
            ),
        ] {
            let error = Trace::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(message), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_file_cut_anywhere_is_a_shorter_trace_or_an_error() {
        for whole in [AZURE, AZURE_2024, BURST, MOONCAKE] {
            let rows = Trace::read(whole.as_bytes()).unwrap().rows().len();
            for at in 0..whole.len() {
                if let Ok(trace) = Trace::read(&whole.as_bytes()[..at]) {
                    assert!((1..=rows).contains(&trace.rows().len()));
                }
                let mut broken = whole.as_bytes().to_vec();
                broken[at] = 0xff;
                // Any outcome but a panic.
                drop(Trace::read(&broken));
            }
        }
    }
}
