//! A tool from a name, a line and a function, and those that change what clients are shown.

use std::sync::Arc;

use castellan_core::tool::{CallContext, DefaultDecision, Effect, Inspection, Report, SessionView};
use castellan_core::{Call, EffectStatus, Outcome, Surface, Tool, ToolSpec};
use castellan_mcp::{Change, Changes};
use futures::future::{BoxFuture, FutureExt as _, ready};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// The domain of all of them.
pub(crate) const DOMAIN: &str = "conformance";

/// The arguments of a call.
pub(crate) type Arguments = Map<String, Value>;

/// What a call comes to.
pub(crate) type Came = Result<Report, Outcome>;

type Run = Arc<dyn Fn(Arguments, CallContext) -> BoxFuture<'static, Came> + Send + Sync>;

/// The parameters of a tool that takes none, or whose schema is written out.
#[derive(JsonSchema)]
struct Nothing {}

/// A tool that only reads and needs nobody's leave.
pub(crate) struct Fixture {
    spec: ToolSpec,
    run: Run,
}

impl Fixture {
    /// A tool without parameters.
    pub(crate) fn new<F>(
        name: &str,
        summary: &str,
        run: impl Fn(Arguments, CallContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Came> + Send + 'static,
    {
        let mut spec = ToolSpec::new::<Nothing>(name, DOMAIN, summary, summary);
        spec.effects = vec![Effect::ReadOnly];
        spec.surfaces = vec![Surface::Mcp];
        spec.default = DefaultDecision::Allow;
        Self {
            spec,
            run: Arc::new(move |arguments, context| run(arguments, context).boxed()),
        }
    }

    /// A tool that answers the same without looking around.
    pub(crate) fn fixed(name: &str, summary: &str, report: fn() -> Report) -> Self {
        Self::new(name, summary, move |_, _| ready(Ok(report())))
    }

    /// The same with these parameters.
    pub(crate) fn taking(mut self, parameters: Value) -> Self {
        self.spec.parameters = parameters;
        self
    }

    /// The same with one parameter, a text that must be given.
    pub(crate) fn taking_text(self, name: &str) -> Self {
        self.taking(form(name, "string"))
    }

    pub(crate) fn tool(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }
}

impl Tool for Fixture {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn parse(&self, arguments: Arguments) -> Result<Box<dyn Call>, Outcome> {
        Ok(Box::new(Made {
            name: self.spec.name.clone(),
            run: Arc::clone(&self.run),
            arguments,
        }))
    }
}

struct Made {
    name: String,
    run: Run,
    arguments: Arguments,
}

impl Call for Made {
    fn inspect<'a>(
        &'a mut self,
        _view: &'a SessionView,
    ) -> BoxFuture<'a, Result<Inspection, Outcome>> {
        let inspection = Inspection::new(&self.name, format!("run {}", self.name));
        ready(Ok(inspection)).boxed()
    }

    fn execute(self: Box<Self>, context: CallContext) -> BoxFuture<'static, Report> {
        let running = (self.run)(self.arguments, context);
        running
            .map(|came| came.unwrap_or_else(Report::from))
            .boxed()
    }
}

/// The tools that change what clients are shown, as far as clients are told.
pub(crate) fn changing(changes: &Arc<Changes>) -> Vec<Arc<dyn Tool>> {
    let tool = |name, summary, change: Change| {
        let changes = Arc::clone(changes);
        Fixture::new(name, summary, move |_, _| {
            changes.announce(&change);
            ready(Ok(said("changed")))
        })
        .tool()
    };
    vec![
        tool(
            "test_trigger_tool_change",
            "Says that the tools have changed",
            Change::Tools,
        ),
        tool(
            "test_trigger_prompt_change",
            "Says that the prompts have changed",
            Change::Prompts,
        ),
    ]
}

/// What a call says that has changed nothing.
pub(crate) fn said(text: impl Into<String>) -> Report {
    let (output, effect) = (text.into(), EffectStatus::None);
    Outcome::Done { output, effect }.into()
}

/// JSON Schema of an object with one field that must be there.
pub(crate) fn form(field: &str, kind: &str) -> Value {
    json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]})
}

/// A text among the arguments; empty where it is none.
pub(crate) fn text(arguments: &Arguments, name: &str) -> String {
    let value = arguments.get(name).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}
