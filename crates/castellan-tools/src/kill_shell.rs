//! `kill_shell`: ends a background command.

use std::sync::Arc;

use castellan_core::tool::{
    CallContext, Effect, Inspection, Report, SessionEffect, SessionView, ToolSpec, TypedTool,
};
use castellan_core::{EffectStatus, Outcome};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bash::background::{Background, canonical};
use crate::bash_output::{absent, shell_spec};

/// The arguments of `kill_shell`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The id that `bash` returned, such as `b1`.
    id: String,
}

/// The tool.
#[derive(Debug)]
pub struct KillShell {
    spec: ToolSpec,
    background: Background,
}

impl KillShell {
    /// The tool, for the commands of `background`.
    #[must_use]
    pub fn new(background: Background) -> Self {
        let mut spec = shell_spec::<Params>(
            "kill_shell",
            "End a background shell and everything it started",
            "End a command that `bash` started with `background: true`, with everything it started. \
             What it wrote can still be read with `bash_output`.",
        );
        spec.side_effects = vec!["ends the command".to_owned()];
        spec.effects = vec![Effect::Executes];
        Self { spec, background }
    }
}

impl TypedTool for KillShell {
    type Params = Params;
    type Plan = ();

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn inspect<'a>(
        &'a self,
        params: &'a Params,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, ()), Outcome>> {
        let mut header = format!("end {}", params.id);
        if let Some(shell) = view.shells.get(&canonical(&params.id)) {
            header.push_str(&format!(" ({})", shell.command));
        }
        let inspection = Inspection::new("kill_shell", header);
        futures::future::ready(Ok((inspection, ()))).boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: Params,
        (): (),
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        async move {
            let (view, id) = (&context.view, canonical(&params.id));
            let Some(entry) = self.background.get(view.session, &id) else {
                return absent(&self.background, view, &id);
            };
            let Some(end) = entry.end().await else {
                let what = format!("{id} was asked to end and has not ended yet");
                return Outcome::failed(what, "look at it with `bash_output`").into();
            };
            let seconds = end.elapsed.as_secs_f64();
            let (text, effect) = if end.on_request {
                let how = end.how;
                let text = format!("{id} with all it had started: {how} after {seconds:.1} s");
                (text, EffectStatus::Committed)
            } else {
                let text = format!("{id} had ended already, after {seconds:.1} s: {}", end.how);
                (text, EffectStatus::None)
            };
            let outcome = Outcome::Done {
                output: text,
                effect,
            };
            Report {
                session: vec![SessionEffect::ShellEnded { id }],
                ..outcome.into()
            }
        }
        .boxed()
    }
}
