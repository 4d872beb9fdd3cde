//! Execute: runs the calls of a batch, several at once; a call that is not done at once gets a task
//! of its own.
//!
//! Calls that touch a path in common run one after the other, in the order of the batch. Each has
//! a deadline and a cancel that returns within a second. A panic or a failure in one is that
//! call's outcome; its siblings go on.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use castellan_core::event::LogLevel;
use castellan_core::outcome::Retry;
use castellan_core::port::Progress;
use castellan_core::secret::{RedactedStream, Redaction};
use castellan_core::text::{panic_words, plain};
use castellan_core::tool::{CallContext, Report};
use castellan_core::{Call, CallId, Cancel, Clock, EffectStatus, ErrorCode, Event, Outcome, Tool};
use futures::channel::oneshot;
use futures::future::{FutureExt as _, Shared};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::recorder::Recorder;

/// How long a cancelled call has to come back by itself.
const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// How often live output is shown.
const FLUSH_EVERY: Duration = Duration::from_millis(25);
/// How much live output is shown at once.
const FLUSH_AT: usize = 4 * 1024;

/// A call that may run.
pub(crate) struct Ready {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) call: Box<dyn Call>,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) deadline: Duration,
    pub(crate) context: CallContext,
    pub(crate) output: Arc<LiveOutput>,
}

/// A call that is over.
pub(crate) struct Ended {
    pub(crate) call_id: CallId,
    pub(crate) report: Report,
    pub(crate) duration: Duration,
}

/// Runs the calls; each future resolves when its call is over. At most `parallel` run at once.
pub(crate) fn start(
    calls: Vec<Ready>,
    parallel: usize,
) -> Vec<futures::future::BoxFuture<'static, Ended>> {
    let permits = Arc::new(Semaphore::new(parallel.max(1)));
    let mut earlier: Vec<(Vec<PathBuf>, Shared<oneshot::Receiver<()>>)> = Vec::new();
    let mut running = Vec::with_capacity(calls.len());
    for ready in calls {
        let before: Vec<_> = earlier
            .iter()
            .filter(|(paths, _)| paths.iter().any(|path| ready.paths.contains(path)))
            .map(|(_, done)| done.clone())
            .collect();
        let (over, done) = oneshot::channel::<()>();
        earlier.push((ready.paths.clone(), done.shared()));
        let permits = Arc::clone(&permits);
        running.push(
            async move {
                let ended = run(ready, before, permits).await;
                // Dropping it is the signal: it also comes when this future is dropped.
                drop(over);
                ended
            }
            .boxed(),
        );
    }
    running
}

async fn run(
    ready: Ready,
    before: Vec<Shared<oneshot::Receiver<()>>>,
    permits: Arc<Semaphore>,
) -> Ended {
    let Ready {
        tool,
        call,
        deadline,
        context,
        output,
        ..
    } = ready;
    let call_id = context.call_id;
    let clock = Arc::clone(&context.clock);
    let mut cancel = context.cancel.clone();
    let turn = async {
        futures::future::join_all(before).await;
        permits.acquire().await
    };
    let permit = tokio::select! {
        biased;
        () = &mut cancel => None,
        permit = turn => permit.ok(),
    };
    let started = clock.monotonic();
    let Some(_permit) = permit else {
        let output = "cancelled before it began".to_owned();
        let outcome = Outcome::Cancelled {
            output,
            effect: EffectStatus::None,
        };
        return Ended {
            call_id,
            report: outcome.into(),
            duration: Duration::ZERO,
        };
    };
    let may_change = if tool.spec().is_read_only() {
        EffectStatus::None
    } else {
        EffectStatus::Unknown
    };
    let left = context.left.clone();
    let report = supervise(call, context, deadline, &output, may_change, cancel).await;
    left.take(&report.session);
    output.close();
    Ended {
        call_id,
        report,
        duration: clock.monotonic().saturating_sub(started),
    }
}

async fn supervise(
    call: Box<dyn Call>,
    context: CallContext,
    deadline: Duration,
    output: &LiveOutput,
    may_change: EffectStatus,
    mut cancel: Cancel,
) -> Report {
    let clock: Arc<dyn Clock> = Arc::clone(&context.clock);
    let mut work = Box::pin(AssertUnwindSafe(call.execute(context)).catch_unwind());
    // Much of what tools do is done at once: that needs no task, no timer and no other thread.
    if let Poll::Ready(ended) = futures::poll!(&mut work) {
        return ended_by_itself(ended, may_change);
    }
    let mut task = JoinSet::new();
    task.spawn(work);
    let mut late = clock.sleep(deadline).fuse();
    let mut grace = futures::future::Fuse::terminated();
    let mut asked_to_stop = false;
    let mut flush = tokio::time::interval(FLUSH_EVERY);
    flush.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            ended = task.join_next() => return match ended {
                Some(Ok(ended)) => ended_by_itself(ended, may_change),
                // Nobody aborts the task, and its panics are caught within.
                Some(Err(_)) | None => Outcome::failed("the call was stopped from outside", "").into(),
            },
            () = &mut cancel, if !asked_to_stop => {
                asked_to_stop = true;
                grace = clock.sleep(CANCEL_GRACE).fuse();
            }
            () = &mut grace => {
                let output = "cancelled; it did not stop by itself and was given up".to_owned();
                return Outcome::Cancelled { output, effect: may_change }.into();
            }
            () = &mut late => {
                let seconds = deadline.as_secs();
                let output = format!("timed out after {seconds} s and was given up");
                return Outcome::TimedOut { output, effect: may_change }.into();
            }
            _ = flush.tick() => output.flush(),
        }
    }
}

/// The report of a call that came to its end, or what is said of one that broke down.
fn ended_by_itself(ended: std::thread::Result<Report>, may_change: EffectStatus) -> Report {
    ended.unwrap_or_else(|panic| {
        let words = panic_words(&*panic);
        Outcome::Failed {
            output: String::new(),
            code: ErrorCode::Internal,
            what: format!("the tool broke down (a defect of the tool itself: {words})"),
            effect: may_change,
            retry: Retry::Useful,
            next: "try another way if it happens again".to_owned(),
        }
        .into()
    })
}

/// What a running call shows while it runs: gathered into pieces, made plain, redacted, bounded.
pub(crate) struct LiveOutput {
    call_id: CallId,
    recorder: Arc<dyn Recorder>,
    limit: usize,
    redaction: Redaction,
    state: Mutex<Live>,
}

struct Live {
    redacted: RedactedStream,
    waiting: String,
    shown: usize,
    closed: bool,
}

impl LiveOutput {
    pub(crate) fn new(
        call_id: CallId,
        recorder: Arc<dyn Recorder>,
        redaction: Redaction,
        limit: usize,
    ) -> Self {
        let state = Live {
            redacted: RedactedStream::new(redaction.clone()),
            waiting: String::new(),
            shown: 0,
            closed: false,
        };
        Self {
            call_id,
            recorder,
            limit,
            redaction,
            state: Mutex::new(state),
        }
    }

    /// Shows whole lines that wait.
    fn flush(&self) {
        let mut live = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = live.waiting.rfind('\n') {
            let rest = live.waiting.split_off(end + 1);
            let text = std::mem::replace(&mut live.waiting, rest);
            self.show(&mut live, &text);
        }
    }

    /// Shows the rest. Nothing is shown afterwards.
    fn close(&self) {
        let mut live = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = std::mem::take(&mut live.waiting);
        text.push_str(&live.redacted.finish());
        self.show(&mut live, &text);
        live.closed = true;
    }

    /// Shows an event with a message, unless the call is over.
    fn pass(&self, event: impl FnOnce(CallId, String) -> Event, message: &str) {
        let live = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !live.closed {
            let message = self.redaction.apply(plain(message));
            self.recorder.pass(event(self.call_id, message));
        }
    }

    fn show(&self, live: &mut Live, text: &str) {
        if text.is_empty() || live.closed || live.shown > self.limit {
            return;
        }
        live.shown += text.len();
        let mut text = plain(text);
        if live.shown > self.limit {
            text = format!("[live output ends here, after {} bytes]\n", self.limit);
        }
        self.recorder.pass(Event::ToolOutputChunk {
            call_id: self.call_id,
            text,
        });
    }
}

impl Progress for LiveOutput {
    fn output(&self, text: &str) {
        let mut live = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if live.closed || live.shown > self.limit {
            return;
        }
        let text = live.redacted.push(text);
        live.waiting.push_str(&text);
        if live.waiting.len() >= FLUSH_AT {
            let text = std::mem::take(&mut live.waiting);
            self.show(&mut live, &text);
        }
    }

    fn advance(&self, done: u64, total: Option<u64>, message: &str) {
        self.pass(
            |call_id, message| Event::ToolProgress {
                call_id,
                done,
                total,
                message,
            },
            message,
        );
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.pass(
            |call_id, message| Event::ToolLog {
                call_id,
                level,
                message,
            },
            message,
        );
    }
}
