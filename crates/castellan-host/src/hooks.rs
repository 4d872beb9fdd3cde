//! Hooks as children of this machine: each under a helper of its own, with a clean environment, a
//! deadline and a cancel, and nothing of it left afterwards.

use std::time::Duration;

use castellan_core::port::{HookEnd, HookJob, Hooks};
use castellan_core::text::chain;
use castellan_core::{Cancel, CancelSource};
use futures::future::{BoxFuture, FutureExt as _};

use crate::error::Error;
use crate::shell::{End, Shell, ShellJob, ShellReport, Stream};

/// The most bytes a hook may write. One that answers with more is ended and has said nothing; of
/// more on standard error the beginning is kept.
pub const OUTPUT_LIMIT: usize = 1024 * 1024;
/// Time a hook has to end by itself once its time is over. Short: it holds up a call.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// The variables that hold the folder the session began in; the second is the one that hooks of
/// other agents read.
const PROJECT: [&str; 2] = ["CASTELLAN_PROJECT_DIR", "CLAUDE_PROJECT_DIR"];

/// Runs hooks through a [`Shell`].
#[derive(Debug, Clone)]
pub struct ShellHooks {
    shell: Shell,
    environment: Vec<(String, String)>,
}

impl ShellHooks {
    /// Hooks that get `environment`, the project's folder, and nothing else.
    #[must_use]
    pub const fn new(shell: Shell, environment: Vec<(String, String)>) -> Self {
        Self { shell, environment }
    }

    /// The command of a hook, enclosed as every command that works in the session's folder.
    fn job(&self, hook: &HookJob) -> Result<ShellJob, Error> {
        let mut env = self.environment.clone();
        let project = hook.project.to_string_lossy();
        env.extend(PROJECT.map(|name| (name.to_owned(), project.clone().into_owned())));
        let mut job = ShellJob::bash(&hook.command, &hook.cwd, env, hook.timeout);
        job.input = Some(hook.input.clone());
        job.term_grace = TERM_GRACE;
        let workspace = hook.project.canonicalize();
        let workspace = workspace.as_ref().unwrap_or(&hook.project);
        job.sandbox = self.shell.sandbox().policy(workspace)?;
        Ok(job)
    }

    async fn end(&self, hook: HookJob, cancel: Cancel) -> HookEnd {
        let unstarted =
            |error: &Error| HookEnd::Broken(format!("could not be started: {}", chain(error)));
        let job = match self.job(&hook) {
            Ok(job) => job,
            Err(error) => return unstarted(&error),
        };
        let mut written = Written::default();
        let mut ran = self.once(job.clone(), &mut written, cancel.clone()).await;
        // A session's working folder may vanish; that must not end its hooks.
        if matches!(ran, Err(Error::WorkingFolder { .. })) && hook.project != hook.cwd {
            let job = ShellJob {
                cwd: hook.project,
                ..job
            };
            ran = self.once(job, &mut written, cancel).await;
        }
        match ran {
            Ok(report) => written.end(report, hook.timeout),
            Err(error) => unstarted(&error),
        }
    }

    async fn once(
        &self,
        job: ShellJob,
        written: &mut Written,
        cancel: Cancel,
    ) -> Result<ShellReport, Error> {
        let stop = CancelSource::new();
        let token = stop.token();
        let ran = self.shell.run(
            job,
            |stream, chunk| {
                if !written.take(stream, chunk) {
                    stop.cancel();
                }
            },
            token,
        );
        tokio::pin!(ran);
        tokio::select! {
            ran = &mut ran => return ran,
            () = cancel => stop.cancel(),
        }
        ran.await
    }
}

impl Hooks for ShellHooks {
    fn run(&self, job: HookJob, cancel: Cancel) -> BoxFuture<'_, HookEnd> {
        self.end(job, cancel).boxed()
    }
}

/// What a hook has written.
#[derive(Debug, Default)]
struct Written {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    too_much: bool,
}

impl Written {
    /// Takes more of it; false where it is too much.
    fn take(&mut self, stream: Stream, chunk: &[u8]) -> bool {
        let buffer = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let room = OUTPUT_LIMIT.saturating_sub(buffer.len());
        buffer.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
        // Half an answer is none. A reason is one without its end, and what counts beside it is the
        // exit code.
        self.too_much |= stream == Stream::Stdout && chunk.len() > room;
        !self.too_much
    }

    fn end(self, report: ShellReport, timeout: Duration) -> HookEnd {
        if self.too_much {
            return HookEnd::Broken("wrote more than 1 MiB".to_owned());
        }
        if report.cancelled {
            return HookEnd::Cancelled;
        }
        if report.timed_out {
            return HookEnd::Broken(format!("did not end within {} s", timeout.as_secs()));
        }
        match report.end {
            End::Exited(code) => HookEnd::Exited {
                code,
                stdout: self.stdout,
                stderr: self.stderr,
            },
            End::Signalled { name, .. } => HookEnd::Broken(format!("was ended by {name}")),
            End::Unended => HookEnd::Broken("could not be ended".to_owned()),
            End::HelperLost { reason } => {
                HookEnd::Broken(format!("was lost with its supervisor: {reason}"))
            }
        }
    }
}
