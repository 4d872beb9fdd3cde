//! A tool that does what its test says.

use std::sync::Arc;

use castellan_core::tool::{
    Call, CallContext, DefaultDecision, Effect, Inspection, Report, SessionView, ToolSpec,
};
use castellan_core::{Outcome, Surface, Tool};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Map, Value, json};

type Behaviour =
    Arc<dyn Fn(Map<String, Value>, CallContext) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// A tool made for one test. Its parameters are `text` (which a bare string stands for), `number`,
/// `path` (calls with the same one run in order) and `token` (a secret); all may be left out.
#[derive(Clone)]
pub struct FakeTool {
    /// Its spec, to be changed at will before it goes into a catalog.
    pub spec: ToolSpec,
    behaviour: Behaviour,
    inspected: fn(&mut Inspection),
}

#[derive(schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Params {
    text: Option<String>,
    number: Option<i64>,
    path: Option<String>,
    token: Option<String>,
}

impl FakeTool {
    /// A tool of that name and effect; it asks unless it only reads.
    pub fn new<F, R>(name: &str, effect: Effect, behaviour: F) -> Self
    where
        F: Fn(Map<String, Value>, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        let mut spec = ToolSpec::new::<Params>(name, "test", "A test tool", "A test tool");
        spec.effects = vec![effect];
        spec.surfaces = Surface::ALL.to_vec();
        spec.primary_key = Some("text".into());
        spec.secret_parameters = vec!["token".into()];
        spec.examples = vec![json!({"text": "hello"})];
        if effect == Effect::ReadOnly {
            spec.default = DefaultDecision::Allow;
        }
        Self {
            spec,
            behaviour: Arc::new(move |args, context| behaviour(args, context).boxed()),
            inspected: |_| {},
        }
    }

    /// The same tool, `change` having the last word on what is found when a call is looked at.
    #[must_use]
    pub fn inspected(mut self, change: fn(&mut Inspection)) -> Self {
        self.inspected = change;
        self
    }

    /// A tool that says its `text` back.
    #[must_use]
    pub fn echo() -> Self {
        Self::new("echo", Effect::ReadOnly, |args, _| async move {
            Outcome::read(args.get("text").and_then(Value::as_str).unwrap_or_default())
        })
    }
}

impl std::fmt::Debug for FakeTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeTool")
            .field("name", &self.spec.name)
            .finish_non_exhaustive()
    }
}

impl Tool for FakeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, Outcome> {
        let behaviour = Arc::clone(&self.behaviour);
        let name = self.spec.name.clone();
        Ok(Box::new(FakeCall {
            name,
            arguments,
            behaviour,
            inspected: self.inspected,
        }))
    }
}

struct FakeCall {
    name: String,
    arguments: Map<String, Value>,
    behaviour: Behaviour,
    inspected: fn(&mut Inspection),
}

impl Call for FakeCall {
    fn inspect<'a>(
        &'a mut self,
        _view: &'a SessionView,
    ) -> BoxFuture<'a, Result<Inspection, Outcome>> {
        let mut inspection = Inspection::new(&self.name, format!("do {}", self.name));
        let text = |key: &str| self.arguments.get(key).and_then(Value::as_str);
        inspection.paths = text("path").map(Into::into).into_iter().collect();
        inspection.commands = text("text").map(str::to_owned).into_iter().collect();
        (self.inspected)(&mut inspection);
        futures::future::ready(Ok(inspection)).boxed()
    }

    fn execute(self: Box<Self>, context: CallContext) -> BoxFuture<'static, Report> {
        (self.behaviour)(self.arguments, context)
            .map(Report::from)
            .boxed()
    }
}
