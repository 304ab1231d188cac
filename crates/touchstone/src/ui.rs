//! The only way to the terminal: data on standard output, everything else on standard error.
//!
//! Colour repeats what a word says already. It goes away with `--no-color`, with `NO_COLOR`, with `TERM=dumb`, and
//! where the stream is no terminal. A reader that has gone (`touchstone runs list | head -1`) is no error.

use std::env;
use std::io::{self, BufRead as _, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use touchstone_report::text::clean;
use touchstone_report::{Lang, Style};

use crate::args::{Globals, Sink};
use crate::exit::ExitCode;
use crate::failure::{self, Block, Failure};

/// Columns where there is no terminal that has a width.
const WIDTH: usize = 100;
/// The greatest width that is used: longer lines are tiresome to read.
const MAX_WIDTH: usize = 160;
/// Columns of progress lines that go to a file or a pipe.
const PLAIN_WIDTH: usize = 400;
/// Between two progress lines where they cannot overwrite each other.
const PLAIN_PROGRESS: Duration = Duration::from_secs(5);

/// What the output depends on beyond the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Surroundings {
    stdin_terminal: bool,
    stdout_terminal: bool,
    stderr_terminal: bool,
    /// Neither `NO_COLOR` nor `TERM=dumb`.
    color_wanted: bool,
    /// Whether the character set is UTF-8.
    unicode: bool,
    /// Columns of the terminal.
    width: Option<usize>,
}

impl Surroundings {
    fn of_this_process() -> Self {
        let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            stdin_terminal: io::stdin().is_terminal(),
            stdout_terminal: io::stdout().is_terminal(),
            stderr_terminal: io::stderr().is_terminal(),
            color_wanted: !set("NO_COLOR") && !dumb,
            unicode: is_utf8(["LC_ALL", "LC_CTYPE", "LANG"].map(|name| env::var(name).ok())),
            width: terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)),
        }
    }
}

/// Whether the first of the locale variables that is set names UTF-8; yes when none is set, as in a bare container.
fn is_utf8(variables: [Option<String>; 3]) -> bool {
    let first = variables.into_iter().flatten().find(|value| !value.is_empty());
    first.is_none_or(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

/// The output of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ui {
    quiet: bool,
    lang: Lang,
    color_allowed: bool,
    around: Surroundings,
}

impl Ui {
    /// The output of this process.
    pub(crate) fn new(globals: &Globals) -> Self {
        Self::with(globals, Surroundings::of_this_process())
    }

    fn with(globals: &Globals, around: Surroundings) -> Self {
        let color_allowed = !globals.no_color && around.color_wanted;
        Self { quiet: globals.quiet, lang: globals.lang, color_allowed, around }
    }

    /// The language of sentences.
    pub(crate) fn lang(&self) -> Lang {
        self.lang
    }

    /// Whether progress and summaries are left out.
    pub(crate) fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether a person can be asked: both standard input and standard error are terminals.
    pub(crate) fn interactive(&self) -> bool {
        self.around.stdin_terminal && self.around.stderr_terminal
    }

    /// How to render what goes to standard output.
    pub(crate) fn style(&self) -> Style {
        self.style_for(self.around.stdout_terminal)
    }

    /// How to render what goes to standard error.
    pub(crate) fn error_style(&self) -> Style {
        self.style_for(self.around.stderr_terminal)
    }

    fn style_for(&self, terminal: bool) -> Style {
        let width = match self.around.width {
            Some(width) if terminal => width.clamp(40, MAX_WIDTH),
            _ => WIDTH,
        };
        Style { color: terminal && self.color_allowed, width, lang: self.lang, unicode: self.around.unicode }
    }

    /// Writes data to standard output, as it is.
    ///
    /// # Errors
    /// When it cannot be written, as on a full disk. A reader that has gone is no error.
    pub(crate) fn data(&self, text: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::usage("cannot write to standard output").because(error).into())
            }
            _ => Ok(()),
        }
    }

    /// Writes one JSON document to standard output, indented, with a line break at its end.
    ///
    /// # Errors
    /// As [`Ui::data`].
    pub(crate) fn json<T: Serialize>(&self, value: &T) -> anyhow::Result<()> {
        self.data(&json_text(value)?)
    }

    /// Writes one JSON document to where the user wants it; a file is replaced as a whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn json_to<T: Serialize>(&self, sink: &Sink, value: &T) -> anyhow::Result<()> {
        match sink {
            Sink::Stdout => self.json(value),
            Sink::File(path) => write_file(path, json_text(value)?.as_bytes()),
        }
    }

    /// Shows a summary, to be read by a person: on standard error when standard output carries data (`data_taken`), else
    /// on standard output. Nothing with `--quiet`.
    ///
    /// # Errors
    /// As [`Ui::data`].
    pub(crate) fn summary(
        &self,
        data_taken: bool,
        render: impl FnOnce(&Style) -> String,
    ) -> anyhow::Result<()> {
        if self.quiet {
            return Ok(());
        }
        if data_taken {
            write_stderr(&render(&self.error_style()));
            return Ok(());
        }
        self.data(&render(&self.style()))
    }

    /// Says something in passing on standard error, such as where a file was written. Nothing with `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            write_stderr(&format!("{}\n", clean(text)));
        }
    }

    /// Warns on standard error, with `--quiet` too: `warning: ...`.
    pub(crate) fn warning(&self, text: &str) {
        let label = self.paint("33", "warning");
        write_stderr(&format!("{label}: {}\n", clean(text)));
    }

    /// Says on standard error what the reader can do at once: `hint: ...`.
    pub(crate) fn hint(&self, text: &str) {
        let label = self.paint("36", "hint");
        write_stderr(&format!("{label}: {}\n", clean(text)));
    }

    /// Shows an error with its place, its causes and its hints on standard error.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        write_stderr(&self.error_text(&failure::blocks(error)));
    }

    fn error_text(&self, blocks: &[Block]) -> String {
        let mut lines = Vec::new();
        for block in blocks {
            let mut message = block.message.lines();
            let first = message.next().unwrap_or_default();
            lines.push(format!("{}: {}", self.paint("1;31", "error"), clean(first)));
            lines.extend(
                block.place.iter().map(|place| format!("  {} {}", self.paint("2", "-->"), clean(place))),
            );
            lines.extend(message.map(|line| format!("  {}", clean(line))));
            lines.extend(block.causes.iter().map(|cause| format!("  because: {}", clean(cause))));
            lines.extend(
                block.hints.iter().map(|hint| format!("{}: {}", self.paint("36", "hint"), clean(hint))),
            );
        }
        lines.join("\n") + "\n"
    }

    /// The display of progress; its lines are shown until it is dropped.
    pub(crate) fn progress(&self) -> Progress {
        let mode = match (self.quiet, self.around.stderr_terminal) {
            (true, _) => Mode::Silent,
            (false, true) => Mode::Overwriting,
            (false, false) => Mode::Plain,
        };
        let mut style = self.error_style();
        if mode == Mode::Plain {
            // No terminal wraps these lines: nothing of them need be cut.
            style.width = PLAIN_WIDTH;
        }
        Progress { mode, style, last: None, drawn: false }
    }

    /// Asks a person: prints the prompt on standard error and gives the line that was typed, trimmed; `None` at the end
    /// of input.
    ///
    /// # Errors
    /// When standard input cannot be read.
    pub(crate) fn ask(&self, prompt: &str) -> anyhow::Result<Option<String>> {
        write_stderr(prompt);
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(line.trim().to_owned()))
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.error_style().color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Prints to standard output and ignores that it may be closed; for texts before there is a [`Ui`].
pub(crate) fn print_or_ignore(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
    ExitCode::Done
}

/// A JSON document as it is printed: indented, with a line break at its end.
pub(crate) fn json_text<T: Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Writes a file, with the folders above it; a reader never sees half of it.
///
/// # Errors
/// When it cannot be written; the error names the path.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let failed =
        |error: io::Error| Failure::usage(format!("cannot write `{}`", path.display())).because(error);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    // A pipe or a device (`/dev/null`, `/dev/fd/3`) cannot be replaced.
    if path.exists() && !path.is_file() {
        return Ok(std::fs::write(path, bytes).map_err(failed)?);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = written {
        // The temporary file may not be there at all.
        std::fs::remove_file(&temporary).ok();
        return Err(failed(error).into());
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Silent,
    /// One line that is overwritten.
    Overwriting,
    /// A line every few seconds.
    Plain,
}

/// One updated line on a terminal; a plain line every five seconds elsewhere; nothing with `--quiet`.
#[derive(Debug)]
pub(crate) struct Progress {
    mode: Mode,
    style: Style,
    last: Option<Instant>,
    drawn: bool,
}

impl Progress {
    /// Shows the current state. Cheap when nothing is due: `render` is called only when the line will be seen.
    pub(crate) fn show(&mut self, render: impl FnOnce(&Style) -> String) {
        match self.mode {
            Mode::Silent => {}
            Mode::Overwriting => {
                // To the start of the line, the text, and the rest of the old line erased.
                write_stderr(&format!("\r{}\u{1b}[K", render(&self.style)));
                self.drawn = true;
            }
            Mode::Plain => {
                let due = self.last.is_none_or(|last| last.elapsed() >= PLAIN_PROGRESS);
                if due {
                    write_stderr(&format!("{}\n", render(&self.style)));
                    self.last = Some(Instant::now());
                }
            }
        }
    }

    /// Shows a line that stays, such as the end of a phase.
    pub(crate) fn line(&mut self, text: &str) {
        if self.mode != Mode::Silent {
            self.clear();
            write_stderr(&format!("{}\n", clean(text)));
        }
    }

    /// Erases the overwritten line, so that something else can be printed.
    pub(crate) fn clear(&mut self) {
        if self.drawn {
            write_stderr("\r\u{1b}[K");
            self.drawn = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn write_stderr(text: &str) {
    let mut out = io::stderr().lock();
    // Where standard error cannot be written, there is no place left to say so, and progress must not disturb a run.
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINAL: Surroundings = Surroundings {
        stdin_terminal: true,
        stdout_terminal: true,
        stderr_terminal: true,
        color_wanted: true,
        unicode: true,
        width: Some(120),
    };
    const GLOBALS: Globals = Globals { quiet: false, no_color: false, lang: Lang::En };

    #[test]
    fn colour_needs_a_terminal_and_nobody_against_it() {
        assert!(Ui::with(&GLOBALS, TERMINAL).style().color);
        assert!(!Ui::with(&Globals { no_color: true, ..GLOBALS }, TERMINAL).style().color);
        assert!(!Ui::with(&GLOBALS, Surroundings { color_wanted: false, ..TERMINAL }).style().color);
        let piped = Ui::with(&GLOBALS, Surroundings { stdout_terminal: false, ..TERMINAL });
        assert!(!piped.style().color && piped.error_style().color);
        assert_eq!((piped.style().width, piped.error_style().width), (WIDTH, 120));
        assert!(!Ui::with(&GLOBALS, Surroundings { stdin_terminal: false, ..TERMINAL }).interactive());
    }

    #[test]
    fn progress_has_a_mode_for_each_place() {
        let mode = |ui: Ui| ui.progress().mode;
        assert_eq!(mode(Ui::with(&GLOBALS, TERMINAL)), Mode::Overwriting);
        assert_eq!(
            mode(Ui::with(&GLOBALS, Surroundings { stderr_terminal: false, ..TERMINAL })),
            Mode::Plain
        );
        assert_eq!(mode(Ui::with(&Globals { quiet: true, ..GLOBALS }, TERMINAL)), Mode::Silent);
    }

    #[test]
    fn plain_progress_is_not_rendered_when_nothing_is_due() {
        let style = Style::default();
        let mut progress = Progress { mode: Mode::Plain, style, last: Some(Instant::now()), drawn: false };
        progress.show(|_| panic!("nothing is due"));
        let mut progress = Progress { mode: Mode::Silent, ..progress_of(style) };
        progress.show(|_| panic!("nobody looks"));
    }

    fn progress_of(style: Style) -> Progress {
        Progress { mode: Mode::Silent, style, last: None, drawn: false }
    }

    #[test]
    fn an_error_is_one_block_with_place_causes_and_hints() {
        let ui = Ui::with(&GLOBALS, Surroundings { stderr_terminal: false, ..TERMINAL });
        let block = Block {
            message: "latency has no number\nexpected a bound; found `low`".to_owned(),
            place: Some("scenario.yaml:4:12".to_owned()),
            causes: vec!["a cause\u{1b}[31m".to_owned()],
            hints: vec!["which latency?".to_owned()],
        };
        insta::assert_snapshot!(ui.error_text(&[block]), @"
        error: latency has no number
          --> scenario.yaml:4:12
          expected a bound; found `low`
          because: a cause [31m
        hint: which latency?
        ");
    }

    #[test]
    fn the_character_set_follows_the_first_variable_that_is_set() {
        let of = |all: Option<&str>, lang: Option<&str>| {
            is_utf8([all.map(Into::into), None, lang.map(Into::into)])
        };
        assert!(of(None, None) && of(None, Some("en_GB.UTF-8")) && of(Some("C.utf8"), Some("C")));
        assert!(!of(Some("C"), Some("en_GB.UTF-8")) && !of(None, Some("POSIX")));
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_errors_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.json");
        write_file(&path, b"one").unwrap();
        write_file(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(dir.path().join("a")).unwrap().count(), 1);
        let error = write_file(&path.join("c"), b"x").unwrap_err();
        assert!(error.to_string().contains("b.json/c"), "{error}");
        write_file(Path::new("/dev/null"), b"x").unwrap();
    }
}
