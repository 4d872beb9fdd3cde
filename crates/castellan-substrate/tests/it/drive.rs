//! Calls tools as the gate does: arguments read, held against the schema, parsed, inspected, run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use castellan_core::arguments::{fit, read};
use castellan_core::port::Unwatched;
use castellan_core::secret::Redaction;
use castellan_core::tool::{CallContext, Inspection, Report, SessionView};
use castellan_core::{
    CallId, Caller, CancelSource, Clock as _, ErrorCode, Outcome, Principal, SessionId, Surface,
    Tool,
};
use castellan_store::{LateStore, Settings, Store};
use castellan_substrate::{Needs, all};
use castellan_testkit::{ManualClock, SequentialIds};
use serde_json::Value;

/// A store with the tools on it, a clock that the test moves, and a caller.
pub(crate) struct World {
    _folder: Option<tempfile::TempDir>,
    pub(crate) path: PathBuf,
    pub(crate) store: LateStore,
    pub(crate) clock: ManualClock,
    pub(crate) caller: Principal,
    pub(crate) session: Option<SessionId>,
    pub(crate) redaction: Redaction,
    pub(crate) stop: CancelSource,
    tools: Vec<Arc<dyn Tool>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("castellan.db");
        Self {
            _folder: Some(folder),
            ..Self::at(&path)
        }
    }

    /// On the database at `path`, which somebody else removes.
    pub(crate) fn at(path: &Path) -> Self {
        let store = LateStore::of(Store::open(path, Settings::default()).unwrap());
        let needs = Needs {
            store: store.clone(),
            ids: Arc::new(SequentialIds::new()),
            user: "anna".to_owned(),
        };
        Self {
            _folder: None,
            path: path.to_owned(),
            store,
            clock: ManualClock::new(),
            caller: Principal::McpClient("tester".to_owned()),
            session: None,
            redaction: Redaction::default(),
            stop: CancelSource::new(),
            tools: all(&needs),
        }
    }

    pub(crate) fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.tools
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Runs a call whose arguments are this text, to its end or to where it is refused.
    pub(crate) async fn call_raw(&self, name: &str, raw: &str) -> (Option<Inspection>, Report) {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name);
        let tool = tool.unwrap_or_else(|| panic!("no tool {name}"));
        let spec = tool.spec();
        let refused = |problem: String| (None, Outcome::invalid(problem, "").into());
        let mut object = match read(raw, spec.primary_key.as_deref()) {
            Ok(arguments) => arguments.object,
            Err(problem) => return refused(problem),
        };
        if let Err(problem) = fit(&mut object, &spec.parameters) {
            return refused(problem);
        }
        let mut call = match tool.parse(object) {
            Ok(call) => call,
            Err(outcome) => return (None, outcome.into()),
        };
        let view = self.view();
        let inspection = match call.inspect(&view).await {
            Ok(inspection) => inspection,
            Err(outcome) => return (None, outcome.into()),
        };
        let report = call.execute(self.context(view)).await;
        (Some(inspection), report)
    }

    pub(crate) async fn report(&self, name: &str, arguments: &Value) -> Report {
        self.call_raw(name, &arguments.to_string()).await.1
    }

    /// The object a call answers with; a call that fails is a failure of the test.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Value {
        let report = self.report(name, &arguments).await;
        match report.outcome {
            Outcome::Done { output, .. } => serde_json::from_str(&output).unwrap(),
            outcome => panic!("{name} {arguments}: {}", outcome.into_text()),
        }
    }

    /// The code and text a call fails with; a call that succeeds is a failure of the test.
    pub(crate) async fn fails(&self, name: &str, arguments: Value) -> (ErrorCode, String) {
        let outcome = self.report(name, &arguments).await.outcome;
        let Some(code) = outcome.code() else {
            panic!("{name} {arguments} succeeded: {}", outcome.into_text())
        };
        (code, outcome.into_text())
    }

    fn view(&self) -> SessionView {
        SessionView {
            session: self.session,
            cwd: PathBuf::from("/"),
            workspace: PathBuf::from("/"),
            seen: Default::default(),
            shells: Default::default(),
            result_limit: 256 * 1024,
            redaction: self.redaction.clone(),
        }
    }

    fn context(&self, view: SessionView) -> CallContext {
        CallContext {
            call_id: CallId::mint(&SequentialIds::new()),
            caller: Caller {
                principal: self.caller.clone(),
                surface: Surface::Mcp,
                capabilities: Vec::new(),
            },
            view: Arc::new(view),
            cancel: self.stop.token(),
            progress: Arc::new(Unwatched),
            overflow: Arc::new(Unwatched),
            redaction: self.redaction.clone(),
            left: Default::default(),
            clock: Arc::new(self.clock.clone()),
            model: None,
            elicitation: None,
            peer: None,
        }
    }

    pub(crate) fn now(&self) -> String {
        self.clock.now().to_string()
    }
}
