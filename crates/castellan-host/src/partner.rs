//! A program that is spoken with in lines: what it is told goes to its standard input, what it says
//! is read from its standard output, a line at a time.
//!
//! The program is untrusted: a line has a bound, so has what it says without being asked, and it
//! ends with whoever speaks with it, like every command (see [`shell`](crate::shell)).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use castellan_core::CancelSource;
use castellan_core::text::{chain, plain};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::Error;
use crate::shell::{End, Shell, ShellJob, ShellReport, Stream};

/// The longest line a program may say, in bytes.
pub const LINE_LIMIT: usize = 1024 * 1024;
/// How many lines may wait to be heard.
pub const WAITING_LIMIT: usize = 64;
/// How much of the end of its standard error is kept, in bytes.
const COMPLAINT_LIMIT: usize = 2 * 1024;
/// How long a program may take to end by itself once there is nothing more for it to read.
const LEAVE: Duration = Duration::from_secs(2);

/// A program that is spoken with.
#[derive(Debug)]
pub struct Partner {
    feed: Option<Sender<Vec<u8>>>,
    lines: Receiver<String>,
    stop: Arc<CancelSource>,
    run: JoinSet<Result<ShellReport, Error>>,
    notes: Arc<Mutex<Notes>>,
}

/// Why nothing more is heard of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// What happened, in words that read after the program's name: `ended with exit code 1`.
    pub why: String,
    /// The end of what it wrote to its standard error; may be empty.
    pub complaint: String,
}

/// What is known of a program beside its lines.
#[derive(Debug, Default)]
struct Notes {
    /// What it did that is not accepted.
    fault: Option<String>,
    complaint: Vec<u8>,
}

impl Partner {
    /// Starts the program. That it can't be started is heard when it should speak.
    #[must_use]
    pub fn start(shell: &Shell, job: ShellJob) -> Self {
        let (feed, fed) = mpsc::channel(1);
        let (says, lines) = mpsc::channel(WAITING_LIMIT);
        let stop = Arc::new(CancelSource::new());
        let notes = Arc::<Mutex<Notes>>::default();
        let mut ear = Ear {
            says,
            line: Vec::new(),
            deaf: false,
            stop: Arc::clone(&stop),
            notes: Arc::clone(&notes),
        };
        let shell = shell.clone();
        let mut run = JoinSet::new();
        run.spawn(async move {
            let stop = ear.stop.token();
            let ran = shell.run_fed(job, fed, |stream, chunk| ear.take(stream, chunk), stop);
            let ran = ran.await;
            ear.end();
            ran
        });
        Self {
            feed: Some(feed),
            lines,
            stop,
            run,
            notes,
        }
    }

    /// Says one line; the line's end is added. Whether it is still there to hear it is learned by
    /// [`hear`](Self::hear).
    pub async fn say(&mut self, line: &str) {
        if let Some(feed) = &self.feed {
            // Nobody takes it once the program has ended.
            drop(feed.send(format!("{line}\n").into_bytes()).await);
        }
    }

    /// Says nothing more: what there is for it to read ends here.
    pub fn fall_silent(&mut self) {
        self.feed = None;
    }

    /// A line that is there already, without waiting for one.
    pub fn early(&mut self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Waits for its next line. Giving up the wait loses none.
    ///
    /// # Errors
    /// [`Silence`] where no more will come.
    pub async fn hear(&mut self) -> Result<String, Silence> {
        match self.lines.recv().await {
            Some(line) => Ok(line),
            None => Err(self.silence().await),
        }
    }

    /// Lets it end by itself, as there is nothing more for it to read, and ends it where it doesn't.
    pub async fn close(mut self) {
        self.fall_silent();
        if timeout(LEAVE, self.run.join_next()).await.is_err() {
            self.stop.cancel();
            while self.run.join_next().await.is_some() {}
        }
    }

    async fn silence(&mut self) -> Silence {
        let ended = match self.run.join_next().await {
            Some(Ok(Ok(report))) => described(&report),
            Some(Ok(Err(error))) => format!("could not be started: failed to {}", chain(&error)),
            Some(Err(_)) | None => "is gone".to_owned(),
        };
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let complaint = String::from_utf8_lossy(&notes.complaint);
        Silence {
            complaint: plain(complaint.trim()),
            why: notes.fault.take().unwrap_or(ended),
        }
    }
}

fn described(report: &ShellReport) -> String {
    match &report.end {
        _ if report.cancelled => "was stopped".to_owned(),
        _ if report.timed_out => "did not end in time".to_owned(),
        End::Exited(code) => format!("ended with exit code {code}"),
        End::Signalled { name, .. } => format!("was ended by {name}"),
        End::Unended => "could not be ended".to_owned(),
        End::HelperLost { reason } => format!("was lost with its supervisor: {reason}"),
    }
}

/// Makes lines of what a program writes.
struct Ear {
    says: Sender<String>,
    /// The beginning of a line.
    line: Vec<u8>,
    /// Whether it has said something that is not accepted: what it still says is the middle of
    /// something.
    deaf: bool,
    stop: Arc<CancelSource>,
    notes: Arc<Mutex<Notes>>,
}

impl Ear {
    fn take(&mut self, stream: Stream, chunk: &[u8]) {
        match stream {
            Stream::Stdout if self.deaf => {}
            Stream::Stdout => {
                for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                    self.hear(piece);
                }
            }
            Stream::Stderr => {
                let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
                notes.complaint.extend_from_slice(chunk);
                let surplus = notes.complaint.len().saturating_sub(COMPLAINT_LIMIT);
                notes.complaint.drain(..surplus);
            }
        }
    }

    fn hear(&mut self, piece: &[u8]) {
        if self.deaf {
            return;
        }
        if self.line.len() + piece.len() > LINE_LIMIT {
            return self.refuse(&format!("wrote a line of more than {LINE_LIMIT} bytes"));
        }
        self.line.extend_from_slice(piece);
        if self.line.ends_with(b"\n") {
            self.say();
        }
    }

    /// Passes the line on that has come whole.
    fn say(&mut self) {
        let Ok(line) = String::from_utf8(std::mem::take(&mut self.line)) else {
            return self.refuse("wrote a line that is not UTF-8");
        };
        let line = line.trim();
        // Blank lines say nothing. Where nobody listens any more, it is being ended already.
        if !line.is_empty()
            && let Err(mpsc::error::TrySendError::Full(_)) = self.says.try_send(line.to_owned())
        {
            self.refuse(&format!(
                "wrote more than {WAITING_LIMIT} lines that nobody had asked for"
            ));
        }
    }

    /// Notes what is not accepted, and ends the program over it. Nothing more of it is heard.
    fn refuse(&mut self, what: &str) {
        self.line.clear();
        self.deaf = true;
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.fault.get_or_insert_with(|| what.to_owned());
        drop(notes);
        self.stop.cancel();
    }

    /// Nothing more will come: a last line may lack its end.
    fn end(&mut self) {
        if !self.line.is_empty() {
            self.say();
        }
    }
}
