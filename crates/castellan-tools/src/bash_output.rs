//! `bash_output`: what a background command has written since the last look.

use std::fmt::Write as _;
use std::sync::Arc;

use castellan_core::Outcome;
use castellan_core::caller::Surface;
use castellan_core::text::{counted, one_line, shorten};
use castellan_core::tool::{
    CallContext, DefaultDecision, Effect, Inspection, Offered, Report, SessionEffect, SessionView,
    ToolSpec, TypedTool,
};
use futures::future::{BoxFuture, FutureExt as _};
use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::DOMAIN;
use crate::bash::background::{Background, Look, canonical};
use crate::bash::end;
use crate::search::compile_filter;

/// Bytes of a result kept free for what is said about the command.
const NOTES: usize = 1024;

/// The arguments of `bash_output`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The id that `bash` returned, such as `b1`.
    id: String,
    /// Only lines that match this regex; the others count as read.
    filter: Option<String>,
}

/// What the specs of the tools for background shells have in common.
pub(crate) fn shell_spec<P: JsonSchema>(name: &str, summary: &str, description: &str) -> ToolSpec {
    let mut spec = ToolSpec::new::<P>(name, DOMAIN, summary, description);
    spec.primary_key = Some("id".to_owned());
    spec.examples = vec![serde_json::json!({"id": "b1"})];
    spec.preconditions = vec!["a background shell was started in this session".to_owned()];
    spec.surfaces = vec![Surface::Interactive, Surface::TaskAgent];
    // They touch nothing but what this session started itself.
    spec.default = DefaultDecision::Allow;
    spec.offered = Offered::WithShells;
    spec.auto_in_task_agent = true;
    spec
}

/// The tool.
#[derive(Debug)]
pub struct BashOutput {
    spec: ToolSpec,
    background: Background,
}

impl BashOutput {
    /// The tool, for the commands of `background`.
    #[must_use]
    pub fn new(background: Background) -> Self {
        let mut spec = shell_spec::<Params>(
            "bash_output",
            "Read what a background shell has written since the last look",
            "Read what a command that `bash` started with `background: true` has written since it \
             was last read, and whether it still runs. Returns at once. Of what nobody reads the \
             latest 256 KiB are kept.",
        );
        let filtered = serde_json::json!({"id": "b1", "filter": "error|warning"});
        spec.examples.push(filtered);
        spec.effects = vec![Effect::ReadOnly];
        Self { spec, background }
    }
}

impl TypedTool for BashOutput {
    type Params = Params;
    type Plan = ();

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        match &params.filter {
            Some(filter) => compile_filter(filter).map(drop),
            None => Ok(()),
        }
    }

    fn inspect<'a>(
        &'a self,
        params: &'a Params,
        _view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, ()), Outcome>> {
        let header = format!("read the output of {}", params.id);
        let inspection = Inspection::new("bash_output", header);
        futures::future::ready(Ok((inspection, ()))).boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: Params,
        (): (),
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        futures::future::ready(self.look(&params, &context.view)).boxed()
    }
}

impl BashOutput {
    fn look(&self, params: &Params, view: &SessionView) -> Report {
        let id = canonical(&params.id);
        let Some(entry) = self.background.get(view.session, &id) else {
            return absent(&self.background, view, &id);
        };
        let filter = match params.filter.as_deref().map(compile_filter).transpose() {
            Ok(filter) => filter,
            Err(outcome) => return outcome.into(),
        };
        let limit = view.result_limit.saturating_sub(NOTES).max(NOTES);
        let look = entry.look(limit, filter.is_some());
        let outcome = Outcome::read(text(&id, &entry.command, &look, filter.as_ref()));
        let session = match look.end {
            Some(_) => vec![SessionEffect::ShellEnded { id }],
            None => Vec::new(),
        };
        Report {
            session,
            ..outcome.into()
        }
    }
}

/// What the model reads of a look.
fn text(id: &str, command: &str, look: &Look, filter: Option<&RegexMatcher>) -> String {
    let mut text = String::new();
    let taken = &look.taken;
    if taken.lost > 0 {
        let lost = taken.lost;
        text.push_str(&format!(
            "[{lost} bytes before this were pushed out unread]\n"
        ));
    }
    let mut left_out = 0_u64;
    for line in taken.text.split_inclusive('\n') {
        let shown = filter.is_none_or(|filter| {
            let line = line.trim_end_matches(['\n', '\r']);
            filter.is_match(line.as_bytes()).unwrap_or(true)
        });
        if shown {
            text.push_str(line);
        } else {
            left_out += 1;
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let mut say = |line: String| writeln!(text, "{line}").unwrap_or_default();
    if taken.text.is_empty() {
        say("[nothing new]".to_owned());
    }
    if left_out > 0 {
        say(format!(
            "[{left_out} lines don't match `filter` and are left out]"
        ));
    }
    if taken.waiting > 0 {
        say(format!(
            "[{} bytes more are there: read again]",
            taken.waiting
        ));
    }
    if let Some(without) = end::without_nuls(look.nuls, look.total) {
        say(format!("[{without}]"));
    }
    let (seconds, total, lines) = (look.elapsed.as_secs_f64(), look.total, look.lines);
    let command = one_line(&shorten(command, 60));
    let state = match &look.end {
        Some(end) => format!("has ended after {seconds:.1} s: {}", end.how),
        None => format!("has been running for {seconds:.3} s"),
    };
    say(format!(
        "[{id} (`{command}`) {state}; {} in {} so far]",
        counted(total, "byte"),
        counted(lines, "line")
    ));
    text
}

/// What is said of an id that this process has no command for.
pub(crate) fn absent(background: &Background, view: &SessionView, id: &str) -> Report {
    if let Some(shell) = view.shells.get(id) {
        let command = &shell.command;
        let (how, session) = if shell.running {
            let id = id.to_owned();
            (
                "ended when the session was left",
                vec![SessionEffect::ShellEnded { id }],
            )
        } else {
            ("has ended", Vec::new())
        };
        let what = format!("{id} (`{command}`) {how}; its output is not kept any more");
        let outcome = Outcome::failed(what, "start it again if it is still needed");
        return Report {
            session,
            ..outcome.into()
        };
    }
    let listed = view.session.map_or_else(Vec::new, |id| background.list(id));
    let ids: Vec<&str> = listed.iter().map(|listed| listed.id.as_str()).collect();
    let next = if ids.is_empty() {
        "`bash` with `background: true` starts one and returns its id".to_owned()
    } else {
        format!("the ids of this session: {}", ids.join(", "))
    };
    Outcome::invalid(
        format!("there is no background shell `{}`", one_line(id)),
        next,
    )
    .into()
}
