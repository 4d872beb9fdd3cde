//! The background commands of this process, by session.
//!
//! Each runs under a helper of its own like any other command, in a task that is tracked here: it
//! outlives the turn that started it, and ends with its session ([`Background::close`]) or with this
//! process. What it writes goes into a bounded ring that is read without waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use castellan_core::port::{Notice, Notices};
use castellan_core::secret::Redaction;
use castellan_core::tool::{BackgroundShell, SessionEffect, SessionView};
use castellan_core::{CancelSource, Clock, SessionId};
use castellan_host::Error;
use castellan_host::capture::Capture;
use castellan_host::shell::{Shell, ShellJob, ShellReport, Stream};
use futures::channel::oneshot;
use tokio_util::task::TaskTracker;

use super::end;
use super::ring::{Ring, Taken};

/// How many may run at once in a session.
pub const MOST: usize = 8;
/// How many that have ended are kept for reading, in a session.
const ENDED_KEPT: usize = 16;
/// Bytes of text kept of one command that nobody has read.
const KEPT: usize = 256 * 1024;
/// How long [`Background::close`] waits. A helper needs less, whatever its command does.
const CLOSING: Duration = Duration::from_secs(10);

/// The background commands of this process. Clones share them.
#[derive(Debug, Clone)]
pub struct Background {
    shell: Shell,
    tasks: TaskTracker,
    sessions: Arc<Mutex<BTreeMap<SessionId, Shells>>>,
}

/// Those of one session.
#[derive(Debug, Default)]
struct Shells {
    /// The number of the last one.
    last: u32,
    entries: BTreeMap<u32, Arc<Entry>>,
}

/// One command.
pub(crate) struct Entry {
    pub(crate) command: String,
    began: Duration,
    clock: Arc<dyn Clock>,
    stop: CancelSource,
    /// Cancelled once it is over.
    over: CancelSource,
    inside: Mutex<Inside>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

struct Inside {
    capture: Capture,
    ring: Ring,
    end: Option<Ended>,
    /// Whether the session was told of the end.
    told: bool,
}

/// How a command ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// In words.
    pub(crate) how: String,
    /// Whether somebody asked for it.
    pub(crate) on_request: bool,
    pub(crate) elapsed: Duration,
}

/// What is to run.
pub(crate) struct Start {
    pub(crate) job: ShellJob,
    /// The command text, shortened.
    pub(crate) command: String,
    /// How long it may run, where it was said.
    pub(crate) timeout: Option<Duration>,
    pub(crate) redaction: Redaction,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Why nothing was started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// As many run as may.
    TooMany(Vec<Listed>),
    /// This stood in the way.
    Failed(Error),
    /// The task that was to start it is gone.
    BrokeDown,
}

/// A background command as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What it is called: `b1`, `b2`, …
    pub id: String,
    /// The command text, shortened.
    pub command: String,
    /// How it ended; `None` while it runs.
    pub end: Option<String>,
    /// How long it has been running, or ran.
    pub elapsed: Duration,
    /// Bytes it has written in all.
    pub total: u64,
}

/// What a look at a command came to.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) taken: Taken,
    pub(crate) end: Option<Ended>,
    pub(crate) elapsed: Duration,
    pub(crate) total: u64,
    pub(crate) lines: u64,
    pub(crate) nuls: u64,
}

impl Background {
    /// No commands yet; they will run in `shell`.
    #[must_use]
    pub fn new(shell: Shell) -> Self {
        Self {
            shell,
            tasks: TaskTracker::new(),
            sessions: Arc::default(),
        }
    }

    /// The commands of a session, oldest first, those that have ended included as long as they can
    /// be read.
    #[must_use]
    pub fn list(&self, session: SessionId) -> Vec<Listed> {
        let sessions = self.sessions();
        sessions.get(&session).map_or_else(Vec::new, Shells::list)
    }

    /// Ends the commands of a session, because it is left, and forgets them. Returns those that
    /// were running. Takes a few seconds at most, whatever they do.
    pub async fn close(&self, session: SessionId) -> Vec<Listed> {
        let shells = self.sessions().remove(&session).unwrap_or_default();
        shells.end().await
    }

    /// The same for all sessions of this process.
    pub async fn close_all(&self) -> Vec<Listed> {
        let all = std::mem::take(&mut *self.sessions());
        let ends = all.into_values().map(Shells::end);
        futures::future::join_all(ends).await.concat()
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionId, Shells>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command and returns its id once it runs.
    pub(crate) async fn start(
        &self,
        session: SessionId,
        known: &BTreeMap<String, BackgroundShell>,
        start: Start,
    ) -> Result<String, NotStarted> {
        let entry = Arc::new(Entry {
            command: start.command,
            began: start.clock.monotonic(),
            clock: start.clock,
            stop: CancelSource::new(),
            over: CancelSource::new(),
            inside: Mutex::new(Inside {
                capture: Capture::new(0, &start.redaction),
                ring: Ring::new(KEPT),
                end: None,
                told: false,
            }),
        });
        let number = self
            .sessions()
            .entry(session)
            .or_default()
            .add(known, &entry)?;
        let (tell, started) = oneshot::channel::<()>();
        let task = run(
            self.shell.clone(),
            start.job,
            start.timeout,
            Arc::clone(&entry),
            tell,
        );
        let ended = self.tasks.spawn(task);
        if started.await.is_ok() {
            return Ok(id(number));
        }
        // Nothing was started, and the task is about to say why.
        if let Some(shells) = self.sessions().get_mut(&session) {
            shells.entries.remove(&number);
        }
        Err(match ended.await {
            Ok(Err(error)) => NotStarted::Failed(error),
            Ok(Ok(())) | Err(_) => NotStarted::BrokeDown,
        })
    }

    /// The command that is called `id`, where this process has it.
    pub(crate) fn get(&self, session: Option<SessionId>, id: &str) -> Option<Arc<Entry>> {
        let (session, number) = (session?, number(id)?);
        self.sessions().get(&session)?.entries.get(&number).cloned()
    }
}

/// Runs a command to its end.
async fn run(
    shell: Shell,
    job: ShellJob,
    timeout: Option<Duration>,
    entry: Arc<Entry>,
    tell: oneshot::Sender<()>,
) -> Result<(), Error> {
    let ran = shell
        .run_told(
            job,
            // Whoever waited for it may have gone.
            || tell.send(()).unwrap_or_default(),
            |stream, chunk| entry.take(stream, chunk),
            entry.stop.token(),
        )
        .await;
    let result = ran.map(|report| {
        entry.ended(Ended {
            how: how(&report, timeout),
            on_request: report.cancelled,
            elapsed: report.elapsed,
        });
    });
    entry.over.cancel();
    result
}

/// The end of a command in words.
fn how(report: &ShellReport, timeout: Option<Duration>) -> String {
    let mut how = match timeout {
        _ if report.cancelled => "ended on request".to_owned(),
        Some(limit) if report.timed_out => {
            format!("timed out: the limit was {} s", limit.as_secs())
        }
        _ => end::words(&report.end),
    };
    if let Some(pids) = end::survivors(report) {
        how.push_str(&format!("; still there: {pids}"));
    }
    how
}

impl Shells {
    /// Adds a command, unless there are too many; what was started last in an earlier process
    /// counts for its number.
    fn add(
        &mut self,
        known: &BTreeMap<String, BackgroundShell>,
        entry: &Arc<Entry>,
    ) -> Result<u32, NotStarted> {
        let running: Vec<Listed> = self
            .list()
            .into_iter()
            .filter(|listed| listed.end.is_none())
            .collect();
        if running.len() >= MOST {
            return Err(NotStarted::TooMany(running));
        }
        let ended = self.entries.iter().filter(|(_, entry)| entry.is_over());
        let ended: Vec<u32> = ended.map(|(number, _)| *number).collect();
        for number in ended.iter().take(ended.len().saturating_sub(ENDED_KEPT)) {
            self.entries.remove(number);
        }
        let before = known.keys().filter_map(|id| number(id)).max();
        let number = self.last.max(before.unwrap_or(0)) + 1;
        self.last = number;
        self.entries.insert(number, Arc::clone(entry));
        Ok(number)
    }

    fn list(&self) -> Vec<Listed> {
        self.entries
            .iter()
            .map(|(number, entry)| entry.listed(*number))
            .collect()
    }

    async fn end(self) -> Vec<Listed> {
        let running = |entry: &&Arc<Entry>| !entry.is_over();
        let ends: Vec<_> = self
            .entries
            .values()
            .filter(running)
            .map(|entry| {
                entry.stop.cancel();
                entry.over.token()
            })
            .collect();
        let mut listed = self.list();
        listed.retain(|listed| listed.end.is_none());
        // What it says is of no use any more: each helper ends its command by itself.
        drop(tokio::time::timeout(CLOSING, futures::future::join_all(ends)).await);
        listed
    }
}

impl Entry {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, stream: Stream, chunk: &[u8]) {
        let mut inside = self.inside();
        let text = inside.capture.push(stream, chunk);
        inside.ring.push(&text);
    }

    fn ended(&self, end: Ended) {
        let mut inside = self.inside();
        let rest = inside.capture.finish();
        inside.ring.push(&rest);
        inside.end = Some(end);
    }

    fn is_over(&self) -> bool {
        self.inside().end.is_some()
    }

    fn elapsed(&self, end: Option<&Ended>) -> Duration {
        end.map_or_else(
            || self.clock.monotonic().saturating_sub(self.began),
            |end| end.elapsed,
        )
    }

    fn listed(&self, number: u32) -> Listed {
        let inside = self.inside();
        Listed {
            id: id(number),
            command: self.command.clone(),
            end: inside.end.as_ref().map(|end| end.how.clone()),
            elapsed: self.elapsed(inside.end.as_ref()),
            total: inside.capture.total(),
        }
    }

    /// Reads on. Whoever looks at a command that has ended knows that it has.
    pub(crate) fn look(&self, limit: usize, whole_lines: bool) -> Look {
        let mut inside = self.inside();
        let end = inside.end.clone();
        inside.told |= end.is_some();
        let taken = inside.ring.take(limit, whole_lines && end.is_none());
        Look {
            taken,
            elapsed: self.elapsed(end.as_ref()),
            end,
            total: inside.capture.total(),
            lines: inside.capture.lines(),
            nuls: inside.capture.nuls(),
        }
    }

    /// Ends it and waits for the end. Returns how it ended, if it did.
    pub(crate) async fn end(&self) -> Option<Ended> {
        if !self.is_over() {
            self.stop.cancel();
            drop(tokio::time::timeout(CLOSING, self.over.token()).await);
        }
        let mut inside = self.inside();
        inside.told |= inside.end.is_some();
        inside.end.clone()
    }

    /// The end, if there is one that nobody was told of; from now on somebody is.
    fn take_end(&self) -> Option<(Ended, usize)> {
        let mut inside = self.inside();
        let end = inside.end.clone().filter(|_| !inside.told)?;
        inside.told = true;
        Some((end, inside.ring.unread()))
    }
}

impl Notices for Background {
    /// Ends nobody was told of, and those of commands that ended with the process that ran them.
    fn take(&self, view: &SessionView) -> Vec<Notice> {
        let Some(session) = view.session else {
            return Vec::new();
        };
        let sessions = self.sessions();
        let entries = sessions.get(&session).map(|shells| &shells.entries);
        let has = |id: &str| {
            number(id).is_some_and(|number| entries.is_some_and(|all| all.contains_key(&number)))
        };
        let lost = view
            .shells
            .iter()
            .filter(|(id, shell)| shell.running && !has(id));
        let mut notices: Vec<Notice> = lost
            .map(|(id, shell)| {
                let text = format!(
                    "the background shell {id} (`{}`) ended when the session was left; what it \
                     wrote is gone",
                    shell.command
                );
                notice(id.clone(), text)
            })
            .collect();
        for (number, entry) in entries.into_iter().flatten() {
            if let Some((end, unread)) = entry.take_end() {
                let seconds = end.elapsed.as_secs_f64();
                let unread = match unread {
                    0 => String::new(),
                    bytes => format!("; {bytes} bytes of its output are not read yet"),
                };
                let text = format!(
                    "the background shell {} (`{}`) has ended after {seconds:.1} s: {}{unread}",
                    id(*number),
                    entry.command,
                    end.how
                );
                notices.push(notice(id(*number), text));
            }
        }
        notices
    }
}

fn notice(id: String, text: String) -> Notice {
    Notice {
        text,
        session: vec![SessionEffect::ShellEnded { id }],
    }
}

fn id(number: u32) -> String {
    format!("b{number}")
}

/// An id as it is given out; what is none stays what it is.
pub(crate) fn canonical(sent: &str) -> String {
    number(sent).map_or_else(|| sent.trim().to_owned(), id)
}

/// The number in an id; a bare number is taken for one.
fn number(id: &str) -> Option<u32> {
    let id = id.trim();
    id.strip_prefix('b').unwrap_or(id).parse().ok()
}
