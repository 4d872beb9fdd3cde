//! Runs a tool as the gate does: parse, inspect, execute.

use std::path::Path;
use std::sync::Arc;

use castellan_core::arguments::fit;
use castellan_core::port::Unwatched;
use castellan_core::tool::{
    CallContext, Inspection, Report, SessionEffect, SessionView, Typed, TypedTool,
};
use castellan_core::{CallId, CancelSource, Outcome, Tool as _};
use castellan_testkit::{ManualClock, SequentialIds};
use castellan_tools::file::Closed;
use castellan_tools::parse::InProcess;
use castellan_tools::read_file::ReadFile;
use serde_json::Value;

/// A session's view of a folder.
pub(crate) fn view(folder: &Path) -> SessionView {
    SessionView {
        session: None,
        cwd: folder.to_owned(),
        workspace: folder.to_owned(),
        seen: Default::default(),
        shells: Default::default(),
        result_limit: 256 * 1024,
        redaction: Default::default(),
    }
}

/// Runs a call to its end, or to where it is refused.
pub(crate) async fn call<T: TypedTool>(tool: T, arguments: Value, view: &SessionView) -> Report {
    call_with(tool, arguments, view, |_| ()).await
}

/// The same, with something happening between inspection and execution.
pub(crate) async fn call_with<T: TypedTool>(
    tool: T,
    arguments: Value,
    view: &SessionView,
    between: impl FnOnce(&Inspection),
) -> Report {
    let tool = Typed::new(tool);
    let Value::Object(mut arguments) = arguments else {
        unreachable!("a test passes objects")
    };
    if let Err(problem) = fit(&mut arguments, &tool.spec().parameters) {
        return Outcome::invalid(problem, "").into();
    }
    let mut call = match tool.parse(arguments) {
        Ok(call) => call,
        Err(outcome) => return outcome.into(),
    };
    let inspection = match call.inspect(view).await {
        Ok(inspection) => inspection,
        Err(outcome) => return outcome.into(),
    };
    between(&inspection);
    let stop = CancelSource::new();
    call.execute(context(view, &stop, ManualClock::new())).await
}

/// What a running call is given.
pub(crate) fn context(view: &SessionView, stop: &CancelSource, clock: ManualClock) -> CallContext {
    CallContext {
        call_id: CallId::mint(&SequentialIds::default()),
        caller: castellan_core::Caller {
            principal: castellan_core::Principal::Person("tester".to_owned()),
            surface: castellan_core::Surface::Interactive,
            capabilities: Vec::new(),
        },
        view: Arc::new(view.clone()),
        cancel: stop.token(),
        progress: Arc::new(Unwatched),
        overflow: Arc::new(Unwatched),
        redaction: view.redaction.clone(),
        left: Default::default(),
        clock: Arc::new(clock),
        model: None,
        elicitation: None,
        peer: None,
    }
}

/// The text a model reads.
pub(crate) fn text(report: Report) -> String {
    report.outcome.into_text()
}

/// The view after a call.
pub(crate) fn after(view: &SessionView, report: &Report) -> SessionView {
    let mut view = view.clone();
    for effect in &report.session {
        match effect {
            SessionEffect::FileSeen { path, mark } => {
                view.seen.insert(path.clone(), mark.clone());
            }
            SessionEffect::WorkingFolder { path } => view.cwd.clone_from(path),
            SessionEffect::ShellStarted { .. } | SessionEffect::ShellEnded { .. } => {}
        }
    }
    view
}

/// A runtime whose threads file permissions hold for, also where the tests run as root.
pub(crate) fn unprivileged() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| {
            nix::unistd::setfsgid(nix::unistd::Gid::from_raw(65534));
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
        })
        .build()
        .unwrap()
}

/// `read_file`, which parses in this process.
pub(crate) fn reader(closed: Closed) -> ReadFile {
    ReadFile::new(closed, Arc::new(InProcess))
}
