//! Recording a run in the background: a bounded channel and a thread that writes.
//!
//! Nothing here can slow or fail a run. A full channel loses what does not fit, and the loss is counted; a failed write
//! ends the log, and the reason comes back with [`RecorderHandle::finish`] as text and as a finding of the document.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use touchstone_model::run::Window;
use touchstone_model::{Finding, FindingCode, RunDocument};

use crate::digest;
use crate::event_log::{self, FailureEntry, Manifest, OpRow, TokenRow, WriteError, Writer};
use crate::files::{self, FileError, chain};
use crate::store;

/// Messages that may wait for the thread; a full channel of full batches is about 25 MB.
const CAPACITY: usize = 64;
/// How often the thread looks at its clock while nothing arrives.
const TICK: Duration = Duration::from_millis(25);
/// How long [`RecorderHandle::finish`] waits for a thread that hangs in a write.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
enum Message {
    Rows(Vec<OpRow>),
    Tokens(Vec<TokenRow>),
    Failure(FailureEntry),
    Window(Box<Window>),
    Finding(Box<Finding>),
    Finish,
}

#[derive(Debug, Default)]
struct Shared {
    dropped_rows: AtomicU64,
    dropped_notes: AtomicU64,
    dropped_tokens: AtomicU64,
    written_rows: AtomicU64,
    /// The first thing that went wrong.
    error: Mutex<Option<String>>,
}

impl Shared {
    fn fail(&self, why: String) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Hands events to the recorder without ever waiting. Cheap to clone, one for each thread.
#[derive(Debug, Clone)]
pub struct RecordSender {
    /// None when the log could not be created.
    channel: Option<SyncSender<Message>>,
    shared: Arc<Shared>,
}

impl RecordSender {
    /// Hands over rows; false when they were lost, which is counted.
    pub fn try_send(&self, rows: Vec<OpRow>) -> bool {
        let n = rows.len() as u64;
        let sent = self.offer(Message::Rows(rows));
        if !sent {
            self.shared.dropped_rows.fetch_add(n, Ordering::Relaxed);
        }
        sent
    }

    /// Hands over events of answers; false when they were lost, which is counted.
    pub fn tokens(&self, rows: Vec<TokenRow>) -> bool {
        let n = rows.len() as u64;
        let sent = self.offer(Message::Tokens(rows));
        if !sent {
            self.shared.dropped_tokens.fetch_add(n, Ordering::Relaxed);
        }
        sent
    }

    /// Hands over an entry of the failure table, before the first row that refers to it; false when it was lost.
    pub fn failure(&self, entry: FailureEntry) -> bool {
        self.note(Message::Failure(entry))
    }

    /// Hands over a window; false when it was lost.
    pub fn window(&self, window: Window) -> bool {
        self.note(Message::Window(Box::new(window)))
    }

    /// Hands over a finding; false when it was lost.
    pub fn finding(&self, finding: Finding) -> bool {
        self.note(Message::Finding(Box::new(finding)))
    }

    /// Rows that are in the file: they survive `kill -9`.
    #[must_use]
    pub fn written_rows(&self) -> u64 {
        self.shared.written_rows.load(Ordering::Acquire)
    }

    /// Rows that were lost so far.
    #[must_use]
    pub fn dropped_rows(&self) -> u64 {
        self.shared.dropped_rows.load(Ordering::Relaxed)
    }

    fn note(&self, message: Message) -> bool {
        let sent = self.offer(message);
        if !sent {
            self.shared.dropped_notes.fetch_add(1, Ordering::Relaxed);
        }
        sent
    }

    fn offer(&self, message: Message) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.try_send(message).is_ok())
    }
}

/// How the recording went.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordOutcome {
    /// The document as stored: with the findings `events-dropped` and `record-failed` where they apply, and with the
    /// digest of the fingerprint.
    pub document: RunDocument,
    /// Rows that are missing from the log.
    pub dropped: u64,
    /// Windows, findings and failure entries that are missing from the log.
    pub dropped_notes: u64,
    /// Events of answers that are missing from the log.
    pub dropped_tokens: u64,
    /// Why the record is not complete, in one line; none when it is.
    pub error: Option<String>,
}

/// Starts recordings.
#[derive(Debug)]
pub struct Recorder;

impl Recorder {
    /// Begins to record a run in the folder `dir`, which is made if needed and must not hold a log yet. `fingerprint` is
    /// the text of `fingerprint.json`. When anything fails, the run goes on: the handle knows why.
    #[must_use]
    pub fn start(dir: &Path, mut manifest: Manifest, fingerprint: Option<&str>) -> RecorderHandle {
        manifest.fingerprint = fingerprint.map(|text| digest::sha256(text.as_bytes()));
        let digest = manifest.fingerprint.clone();
        let prepared = prepare(dir, fingerprint).map_err(|error| chain(&error)).and_then(|()| {
            Writer::create(&dir.join(event_log::FILE), &manifest).map_err(|error| chain(&error))
        });
        RecorderHandle::over(dir, prepared, digest)
    }
}

fn prepare(dir: &Path, fingerprint: Option<&str>) -> Result<(), FileError> {
    std::fs::create_dir_all(dir).map_err(|source| FileError::new("create", dir, source))?;
    match fingerprint {
        Some(text) => files::write_atomic(&dir.join(store::FINGERPRINT), text.as_bytes()),
        None => Ok(()),
    }
}

/// A recording that is going on.
#[derive(Debug)]
pub struct RecorderHandle {
    sender: RecordSender,
    /// Receives once, when the log is closed.
    closed: Receiver<()>,
    dir: PathBuf,
    fingerprint: Option<String>,
}

impl RecorderHandle {
    fn over(dir: &Path, writer: Result<Writer, String>, fingerprint: Option<String>) -> Self {
        let shared = Arc::new(Shared::default());
        let (channel, messages) = sync_channel(CAPACITY);
        let (done, closed) = sync_channel(1);
        let thread_shared = Arc::clone(&shared);
        let started = writer.and_then(|writer| {
            thread::Builder::new()
                .name("recorder".to_owned())
                .spawn(move || {
                    record(writer, &messages, &thread_shared);
                    // Nobody waits any longer when this fails.
                    done.try_send(()).ok();
                })
                .map_err(|error| format!("cannot start the recorder's thread: {error}"))
        });
        let channel = match started {
            Ok(_detached) => Some(channel),
            Err(why) => {
                shared.fail(why);
                None
            }
        };
        let sender = RecordSender { channel, shared };
        Self { sender, closed, dir: dir.to_owned(), fingerprint }
    }

    /// A sender for a thread of the run.
    #[must_use]
    pub fn sender(&self) -> RecordSender {
        self.sender.clone()
    }

    /// The folder of the run.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Why the recording is broken already; none while it goes well.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.sender.shared.error()
    }

    /// Closes the log and stores the document: `digests.json`, then `run.json` as the sign that the run is complete.
    /// What clones of the sender hand over after this call is lost. `generator.events_dropped` of the document is at
    /// least what the recorder lost. Waits for a hanging device at most 30 s.
    #[must_use]
    pub fn finish(self, mut document: RunDocument) -> RecordOutcome {
        self.close();
        let shared = &self.sender.shared;
        let dropped = shared.dropped_rows.load(Ordering::Acquire);
        let dropped_notes = shared.dropped_notes.load(Ordering::Acquire);
        let dropped_tokens = shared.dropped_tokens.load(Ordering::Acquire);
        let lost = dropped + dropped_notes + dropped_tokens;
        if lost > 0 && shared.error().is_none() {
            let tokens = match dropped_tokens {
                0 => String::new(),
                _ => format!(", {dropped_tokens} events of answers"),
            };
            document.findings.push(Finding::new(
                FindingCode::EventsDropped,
                format!("the recorder lost {dropped} operations{tokens} and {dropped_notes} other events"),
                "the figures of the run are complete, its event log is not; store runs on a faster disk",
            ));
        }
        document.fingerprint =
            self.fingerprint.clone().filter(|_| self.dir.join(store::FINGERPRINT).exists());
        document.generator.events_dropped = document.generator.events_dropped.max(lost);
        if let Some(why) = shared.error() {
            document.findings.push(failed(&why));
        }
        if let Err(error) = store::complete(&self.dir, &document) {
            let why = chain(&error);
            if shared.error().is_none() {
                document.findings.push(failed(&why));
            }
            shared.fail(why);
        }
        RecordOutcome { document, dropped, dropped_notes, dropped_tokens, error: shared.error() }
    }

    /// Tells the thread to finish and waits for it, within [`PATIENCE`].
    fn close(&self) {
        let Some(channel) = &self.sender.channel else { return };
        let deadline = Instant::now() + PATIENCE;
        while let Err(TrySendError::Full(_)) = channel.try_send(Message::Finish) {
            if Instant::now() >= deadline {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match self.closed.recv_timeout(left) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => {
                self.sender.shared.fail(format!("the event log was not written within {PATIENCE:?}"));
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.sender.shared.fail("the recorder's thread ended before its time".to_owned());
            }
        }
    }
}

fn failed(why: &str) -> Finding {
    Finding::new(
        FindingCode::RecordFailed,
        format!("the run was not recorded completely: {why}"),
        "the figures shown are whole; make room or give another folder with --out, and repeat the run to keep its evidence",
    )
}

/// The thread's loop: ends with [`Message::Finish`] or when every sender is gone.
fn record(writer: Writer, messages: &Receiver<Message>, shared: &Shared) {
    let clock = Instant::now();
    let mut writer = Some(writer);
    let mut taken_rows = 0;
    loop {
        let message = match messages.recv_timeout(TICK) {
            Ok(Message::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
        };
        let now_ns = clock.elapsed().as_nanos() as u64;
        let Some(log) = writer.as_mut() else {
            if let Some(message) = message {
                lose(&message, shared);
            }
            continue;
        };
        if let Some(Message::Rows(rows)) = &message {
            taken_rows += rows.len() as u64;
        }
        let written = message.as_ref().map_or(Ok(()), |message| append(log, message, now_ns));
        match written.and_then(|()| log.tick(now_ns)) {
            Ok(()) => shared.written_rows.store(log.written_rows(), Ordering::Release),
            // One bad entry does not end the log.
            Err(error @ WriteError::Payload { .. }) => {
                shared.dropped_notes.fetch_add(1, Ordering::Relaxed);
                shared.fail(chain(&error));
            }
            Err(error) => {
                shared.fail(chain(&error));
                // What waited for this write is lost with it.
                shared.dropped_rows.fetch_add(taken_rows - log.written_rows(), Ordering::Relaxed);
                writer = None;
            }
        }
    }
    while let Ok(message) = messages.try_recv() {
        lose(&message, shared);
    }
    if let Some(log) = writer {
        let unwritten = taken_rows - log.written_rows();
        let dropped_tokens = shared.dropped_tokens.load(Ordering::Acquire);
        match log.finish(shared.dropped_rows.load(Ordering::Acquire), dropped_tokens) {
            Ok(end) => shared.written_rows.store(end.operations, Ordering::Release),
            Err(error) => {
                shared.dropped_rows.fetch_add(unwritten, Ordering::Relaxed);
                shared.fail(chain(&error));
            }
        }
    }
}

fn append(log: &mut Writer, message: &Message, now_ns: u64) -> Result<(), WriteError> {
    match message {
        Message::Rows(rows) => log.operations(rows, now_ns),
        Message::Tokens(rows) => log.tokens(rows, now_ns),
        Message::Failure(entry) => log.failure(entry, now_ns),
        Message::Window(window) => log.window(window, now_ns),
        Message::Finding(finding) => log.finding(finding, now_ns),
        Message::Finish => Ok(()),
    }
}

fn lose(message: &Message, shared: &Shared) {
    match message {
        Message::Rows(rows) => shared.dropped_rows.fetch_add(rows.len() as u64, Ordering::Relaxed),
        Message::Tokens(rows) => shared.dropped_tokens.fetch_add(rows.len() as u64, Ordering::Relaxed),
        _ => shared.dropped_notes.fetch_add(1, Ordering::Relaxed),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{document, manifest};

    #[test]
    fn a_full_disk_ends_the_log_and_comes_back_as_a_finding() {
        let folder = tempfile::tempdir().unwrap();
        // A file whose every write fails as on a full disk; the header goes elsewhere first.
        let path = folder.path().join(event_log::FILE);
        let mut writer = Writer::create(&path, &manifest("run-1")).unwrap();
        writer.redirect(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let handle = RecorderHandle::over(folder.path(), Ok(writer), None);
        assert!(handle.sender().try_send(vec![OpRow::default(); 10]));
        while handle.error().is_none() {
            thread::yield_now();
        }
        assert!(handle.sender().try_send(vec![OpRow::default(); 5]), "the channel still takes them");
        let outcome = handle.finish(document("run-1"));
        let error = outcome.error.unwrap();
        assert!(error.contains("No space left"), "{error}");
        assert_eq!(outcome.dropped, 15, "those of the failed write and those after it");
        let codes: Vec<_> = outcome.document.findings.iter().map(|f| f.code).collect();
        assert_eq!(codes, [FindingCode::RecordFailed]);
        assert!(folder.path().join(store::RUN).exists(), "the document is kept nevertheless");
    }

    #[test]
    fn a_folder_that_cannot_be_made_fails_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("file");
        std::fs::write(&blocked, b"x").unwrap();
        let handle = Recorder::start(&blocked.join("run-1"), manifest("run-1"), Some("{}"));
        assert!(handle.error().is_some());
        assert!(!handle.sender().try_send(vec![OpRow::default(); 7]));
        let outcome = handle.finish(document("run-1"));
        assert_eq!(outcome.dropped, 7);
        assert!(outcome.error.unwrap().contains("run-1"));
        assert_eq!(outcome.document.findings.len(), 1);
        assert_eq!(outcome.document.fingerprint, None);
    }

    #[test]
    fn a_folder_removed_during_the_run_is_a_finding() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("run-1");
        let handle = Recorder::start(&dir, manifest("run-1"), None);
        assert_eq!(handle.error(), None);
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(handle.sender().try_send(vec![OpRow::default()]));
        let outcome = handle.finish(document("run-1"));
        assert!(outcome.error.is_some());
        assert_eq!(outcome.document.findings[0].code, FindingCode::RecordFailed);
    }

    #[test]
    fn a_recorder_that_is_too_slow_loses_and_says_so() {
        // A channel whose other end nobody reads stands for a device that hangs.
        let shared = Arc::new(Shared::default());
        let (channel, _messages) = sync_channel(1);
        let sender = RecordSender { channel: Some(channel), shared };
        assert!(sender.try_send(vec![OpRow::default(); 3]));
        assert!(!sender.try_send(vec![OpRow::default(); 4]));
        assert!(!sender.window(Window::default()));
        assert_eq!(sender.dropped_rows(), 4);
        assert_eq!(sender.shared.dropped_notes.load(Ordering::Relaxed), 1);
    }
}
