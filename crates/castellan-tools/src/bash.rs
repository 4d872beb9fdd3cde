//! `bash`: runs a command in a shell of its own, of which nothing is left when the call is over but
//! the folder it went to; or starts one in the background, of which nothing is left when the session
//! is.
//!
//! `background` has the commands in the background and `ring` what they wrote, `end` the words for
//! how commands end, `folder` the working folder, `refusal` the commands nobody is asked about,
//! `unanswered` the hint for commands that wanted to ask somebody.

pub(crate) mod background;
pub(crate) mod end;
mod folder;
mod refusal;
mod ring;
mod unanswered;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use castellan_core::caller::Surface;
use castellan_core::outcome::Retry;
use castellan_core::port::{Overflow, Progress};
use castellan_core::text::shorten;
use castellan_core::tool::{
    CallContext, DefaultDecision, Effect, Inspection, Preview, Report, SessionEffect, SessionView,
    ToolSpec, TypedTool,
};
use castellan_core::{EffectStatus, ErrorCode, Outcome};
use castellan_host::SandboxPolicy;
use castellan_host::capture::Capture;
use castellan_host::shell::{End, Shell, ShellJob, ShellReport, Stream};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::Deserialize;

use self::background::Start;
pub use self::background::{Background, Listed, MOST};
use crate::DOMAIN;

/// What a permission to run outside the sandbox is called. One for `bash` does not cover it.
pub const OUTSIDE_SANDBOX: &str = "bash_outside_sandbox";
/// The longest timeout a call may set, in seconds.
const LONGEST_TIMEOUT: i64 = 600;
/// How much longer the gate waits: ending a command that ignores being asked takes a while.
const ENDING: Duration = Duration::from_secs(15);
/// How long the start of a command in the background may take.
const STARTING: Duration = Duration::from_secs(30);
/// Time that is as good as none.
const NO_TIMEOUT: Duration = Duration::MAX;
/// Bytes of a result kept free for what is said about the command's end.
const NOTES: usize = 4 * 1024;

/// The arguments of `bash`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The command, as bash takes it.
    command: String,
    /// Seconds until the command is ended, 1 to 600. Default: the configured limit.
    #[schemars(range(min = 1, max = 600))]
    timeout: Option<i64>,
    /// Stop at the first command that fails (`set -e`). Default false.
    stop_on_error: Option<bool>,
    /// Run outside the sandbox, about which a person is asked: for a command that the sandbox has
    /// stopped and that must run all the same. Default false.
    outside_sandbox: Option<bool>,
    /// Return an id at once and let the command run on; it has no limit then but a `timeout` that is
    /// given. Default false.
    background: Option<bool>,
}

/// The tool.
#[derive(Debug)]
pub struct Bash {
    spec: ToolSpec,
    shell: Shell,
    background: Background,
    environment: Vec<(String, String)>,
    timeout: Duration,
}

impl Bash {
    /// The tool. Commands get `environment` and nothing else.
    #[must_use]
    pub fn new(
        shell: Shell,
        background: Background,
        environment: Vec<(String, String)>,
        timeout: Duration,
    ) -> Self {
        let mut spec = ToolSpec::new::<Params>(
            "bash",
            DOMAIN,
            "Run a bash command and return its output",
            "Run a command with bash and return what it wrote; lines from standard error begin with \
             `[stderr] `. There is no terminal and no input: anything that would prompt fails. `cd` \
             lasts: the next call starts in the folder where this one ended. What the command leaves \
             running is ended with it; for servers and long jobs set `background`, read with \
             `bash_output`, end with `kill_shell`. Where there is a sandbox, commands write only in \
             the workspace, the temporary folder and build caches; one that it has probably stopped \
             says so.",
        );
        spec.primary_key = Some("command".to_owned());
        spec.examples = vec![
            serde_json::json!({"command": "git status --short"}),
            serde_json::json!({"command": "make test", "timeout": 600}),
        ];
        spec.side_effects = vec!["whatever the command does".to_owned()];
        spec.effects = vec![Effect::Executes, Effect::Writes, Effect::Network];
        spec.labels = vec![OUTSIDE_SANDBOX.to_owned()];
        spec.surfaces = vec![Surface::Interactive, Surface::TaskAgent, Surface::Mcp];
        spec.cwd_note = Some("Commands start in {working_dir}.".to_owned());
        Self {
            spec,
            shell,
            background,
            environment,
            timeout,
        }
    }

    /// Whether a call leaves a sandbox that there is.
    fn leaves_sandbox(&self, params: &Params) -> bool {
        let sandbox = self.shell.sandbox();
        params.outside_sandbox == Some(true) && (sandbox.rung().is_some() || sandbox.is_required())
    }

    /// What encloses a call.
    fn policy(
        &self,
        params: &Params,
        view: &SessionView,
    ) -> Result<Option<SandboxPolicy>, Outcome> {
        let sandbox = self.shell.sandbox();
        let outside = self.leaves_sandbox(params);
        if outside && sandbox.is_required() {
            return Err(Outcome::Denied {
                by: "the configuration".to_owned(),
                reason: "it requires a sandbox for every command".to_owned(),
            });
        }
        if outside {
            return Ok(None);
        }
        let workspace = &view.workspace;
        let workspace = workspace
            .canonicalize()
            .unwrap_or_else(|_| workspace.clone());
        sandbox
            .policy(&workspace)
            .map_err(|error| end::unstarted(&error))
    }

    fn job(
        &self,
        params: &Params,
        view: &SessionView,
        policy: Option<SandboxPolicy>,
        timeout: Duration,
    ) -> ShellJob {
        let environment = self.environment.clone();
        let mut job = ShellJob::bash(&params.command, &view.cwd, environment, timeout);
        job.sandbox = policy;
        if params.stop_on_error == Some(true) {
            job.args.insert(0, "-e".to_owned());
        }
        job
    }

    async fn run(
        &self,
        params: Params,
        policy: Option<SandboxPolicy>,
        context: CallContext,
    ) -> Report {
        let timeout = self.timeout(&params);
        let mut job = self.job(&params, &context.view, policy.clone(), timeout);
        job.follow = true;
        let mut output = Output::new(&context);
        let ran = self
            .shell
            .run(
                job,
                |stream, chunk| output.take(stream, chunk),
                context.cancel.clone(),
            )
            .await;
        match ran {
            Ok(report) => {
                let environment = &self.environment;
                let (session, moved) =
                    folder::left(&report, &params.command, &context, environment);
                let written = output.end();
                let cwd = &context.view.cwd;
                let notice = policy.and_then(|policy| notice(&written, &report, &policy, cwd));
                let remarks = notice.unwrap_or_default() + &moved;
                let outcome = output.outcome(written, &report, timeout, &remarks);
                Report {
                    session,
                    ..outcome.into()
                }
            }
            Err(error) => end::unstarted(&error).into(),
        }
    }

    /// Starts the command and leaves it running.
    async fn start(
        &self,
        params: Params,
        policy: Option<SandboxPolicy>,
        context: CallContext,
    ) -> Report {
        let Some(session) = context.view.session else {
            return unattended().into();
        };
        let timeout = params.timeout.map(|_| self.timeout(&params));
        let command = shorten(params.command.trim(), 200);
        let limit = timeout.unwrap_or(NO_TIMEOUT);
        let job = self.job(&params, &context.view, policy, limit);
        let start = Start {
            job,
            command: command.clone(),
            timeout,
            redaction: context.redaction,
            clock: context.clock,
        };
        let known = &context.view.shells;
        match self.background.start(session, known, start).await {
            Ok(id) => {
                let outcome = Outcome::Done {
                    output: format!(
                        "{id} runs in the background. `bash_output` with the id {id} reads what it \
                         writes, `kill_shell` ends it; it ends with the session."
                    ),
                    effect: EffectStatus::Unknown,
                };
                Report {
                    session: vec![SessionEffect::ShellStarted { id, command }],
                    ..outcome.into()
                }
            }
            Err(refused) => end::not_started(refused).into(),
        }
    }

    fn timeout(&self, params: &Params) -> Duration {
        params
            .timeout
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(self.timeout, Duration::from_secs)
    }
}

/// Whether a command can start in the folder it was meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It can; this encloses the command.
    There(Option<SandboxPolicy>),
    /// It is lost: nothing is run, and the session goes to this folder.
    Gone(PathBuf),
}

impl TypedTool for Bash {
    type Params = Params;
    type Plan = Place;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        if params.command.trim().is_empty() {
            return Err(Outcome::invalid(
                "`command` is empty",
                "send the command to run",
            ));
        }
        if params.command.contains('\0') {
            return Err(Outcome::invalid("`command` has a NUL byte", "leave it out"));
        }
        match params.timeout {
            Some(seconds) if !(1..=LONGEST_TIMEOUT).contains(&seconds) => Err(Outcome::invalid(
                format!("`timeout` is {seconds}"),
                "it is a number of seconds from 1 to 600",
            )),
            _ => Ok(()),
        }
    }

    fn inspect<'a>(
        &'a self,
        params: &'a Params,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, Place), Outcome>> {
        let looked = refusal::refuse(&params.command, view, &self.environment)
            .and_then(|needs_person| Ok((needs_person, self.policy(params, view)?)));
        let (needs_person, policy) = match looked {
            Ok(looked) => looked,
            Err(outcome) => return futures::future::ready(Err(outcome)).boxed(),
        };
        if let Some(why) = folder::lost(&view.cwd) {
            let refuge = folder::refuge(view, &self.environment);
            let header = format!("leave {}, which {why}", view.cwd.display());
            let mut inspection = Inspection::new("bash", header);
            // Nothing is run, so there is nothing to ask about.
            inspection.default = Some(DefaultDecision::Allow);
            return futures::future::ready(Ok((inspection, Place::Gone(refuge)))).boxed();
        }
        let outside = self.leaves_sandbox(params);
        let background = params.background == Some(true);
        if background && view.session.is_none() {
            // Before anybody is asked about what can't be.
            return futures::future::ready(Err(unattended())).boxed();
        }
        let mut way = if outside { " outside the sandbox" } else { "" }.to_owned();
        if background {
            way.push_str(" in the background");
        }
        let header = format!(
            "run{way} {}{}",
            shorten(params.command.trim(), 300),
            view.elsewhere(Path::new(""))
        );
        let label = if outside { OUTSIDE_SANDBOX } else { "bash" };
        let mut inspection = Inspection::new(label, header);
        inspection.own_grant = outside;
        inspection.needs_person = needs_person;
        inspection.commands = vec![params.command.clone()];
        inspection.preview = Preview::Command {
            command: params.command.clone(),
            cwd: view.cwd.clone(),
        };
        inspection.deadline = Some(if background {
            STARTING
        } else {
            self.timeout(params) + ENDING
        });
        futures::future::ready(Ok((inspection, Place::There(policy)))).boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: Params,
        place: Place,
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        async move {
            let place = match place {
                // It may have gone while somebody was asked.
                Place::There(_) if folder::lost(&context.view.cwd).is_some() => {
                    Place::Gone(folder::refuge(&context.view, &self.environment))
                }
                place => place,
            };
            match place {
                Place::Gone(refuge) => folder::vanished(&context.view, refuge),
                Place::There(policy) if params.background == Some(true) => {
                    self.start(params, policy, context).await
                }
                Place::There(policy) => self.run(params, policy, context).await,
            }
        }
        .boxed()
    }
}

/// What a command has written, on its way to whoever watches, to the model, and, where it is too
/// long for that, to a file.
struct Output {
    capture: Capture,
    /// All that was written, as long as the capture has it all.
    whole: Option<String>,
    progress: Arc<dyn Progress>,
    overflow: Arc<dyn Overflow>,
}

impl Output {
    fn new(context: &CallContext) -> Self {
        let limit = context.view.result_limit;
        let kept = limit - NOTES.min(limit / 8);
        Self {
            capture: Capture::new(kept, &context.redaction),
            whole: Some(String::new()),
            progress: Arc::clone(&context.progress),
            overflow: Arc::clone(&context.overflow),
        }
    }

    fn take(&mut self, stream: Stream, chunk: &[u8]) {
        let text = self.capture.push(stream, chunk);
        self.pass_on(&text);
    }

    fn pass_on(&mut self, text: &str) {
        self.progress.output(text);
        match &mut self.whole {
            Some(whole) => {
                whole.push_str(text);
                if self.capture.is_cut() {
                    self.overflow.push(whole);
                    self.whole = None;
                }
            }
            None => self.overflow.push(text),
        }
    }

    /// All that was written, once nothing more comes.
    fn end(&mut self) -> String {
        let rest = self.capture.finish();
        self.pass_on(&rest);
        self.capture.text()
    }

    /// `text` is what was written, `remarks` what is said of the sandbox and the working folder.
    fn outcome(
        self,
        mut text: String,
        report: &ShellReport,
        timeout: Duration,
        remarks: &str,
    ) -> Outcome {
        let unanswered = unanswered::unanswered(&text, &report.end);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let (total, nuls) = (self.capture.total(), self.capture.nuls());
        let without = end::without_nuls(nuls, total);
        if let Some(place) = self.overflow.place() {
            let lines = self.capture.lines();
            let (what, without) = match without {
                Some(without) => ("the rest of the output", format!("; {without}")),
                None => ("the whole output, as plain text,", String::new()),
            };
            text.push_str(&format!(
                "[the command wrote {total} bytes in {lines} lines{without}; {what} is in {place}]\n"
            ));
        } else if let Some(without) = without {
            text.push_str(&format!("[{without}]\n"));
        }
        if text.is_empty() && (report.timed_out || report.cancelled) {
            text.push_str("(nothing was written until then; buffered output is lost)\n");
        }
        say_leftovers(&mut text, report);
        text.push_str(remarks);
        text.push_str(&unanswered.unwrap_or_default());
        ended(text, report, timeout)
    }
}

/// What to say of a command that failed where its sandbox has probably stopped it.
fn notice(
    written: &str,
    report: &ShellReport,
    policy: &SandboxPolicy,
    cwd: &Path,
) -> Option<String> {
    if report.end == End::Exited(0) || report.timed_out || report.cancelled {
        return None;
    }
    let notice = policy.notice(written, cwd)?;
    Some(format!(
        "[{notice}. If it must run all the same, `outside_sandbox: true` asks a person.]\n"
    ))
}

fn ended(mut text: String, report: &ShellReport, timeout: Duration) -> Outcome {
    let effect = EffectStatus::Unknown;
    let elapsed = report.elapsed.as_secs_f64();
    if report.timed_out {
        let asked = timeout.as_secs();
        text.push_str(&format!(
            "[timed out: the limit was {asked} s; ended after {elapsed:.1} s]"
        ));
        return Outcome::TimedOut {
            output: text,
            effect,
        };
    }
    if report.cancelled {
        text.push_str(&format!("[cancelled after {elapsed:.1} s]"));
        return Outcome::Cancelled {
            output: text,
            effect,
        };
    }
    let how = end::words(&report.end);
    let effect = match &report.end {
        // 1 is how tests and searches say no; 141 is a pipe whose reader had enough.
        End::Exited(0 | 1 | 141) => EffectStatus::Committed,
        End::Exited(_) => EffectStatus::Partial,
        End::Signalled { .. } | End::Unended | End::HelperLost { .. } => effect,
    };
    if effect != EffectStatus::Committed {
        return failed(text, &how, effect);
    }
    if report.end != End::Exited(0) {
        text.push_str(&format!("[{how}]"));
    }
    Outcome::Done {
        output: text,
        effect,
    }
}

fn failed(output: String, end: &str, effect: EffectStatus) -> Outcome {
    Outcome::Failed {
        output,
        code: ErrorCode::ToolFailed,
        what: format!("the command failed: {end}"),
        effect,
        retry: Retry::Useful,
        next: String::new(),
    }
}

/// What is said to a call that would leave something running where nothing could end it.
fn unattended() -> Outcome {
    let what = "a command can run in the background of a session only";
    Outcome::failed(what, "leave `background` out")
}

/// What became of processes the command left behind.
fn say_leftovers(text: &mut String, report: &ShellReport) {
    // Writing to a string can't fail.
    if report.ended_total > 0 {
        let names: Vec<String> = report
            .ended
            .iter()
            .map(|process| format!("{} (pid {})", shorten(&process.command, 60), process.pid))
            .collect();
        let number = report.ended_total;
        let what = if number == 1 {
            "process was"
        } else {
            "processes were"
        };
        writeln!(
            text,
            "[{number} background {what} ended with the command: {}]",
            names.join(", ")
        )
        .unwrap_or_default();
    }
    if let Some(pids) = end::survivors(report) {
        writeln!(text, "[could not be ended and still run: {pids}]").unwrap_or_default();
    }
}
