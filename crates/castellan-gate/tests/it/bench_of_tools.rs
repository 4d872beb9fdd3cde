//! What the tests of the gate stand on: a tool whose behaviour each test gives, a recorder that
//! remembers, and a gate over both.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use castellan_core::caller::Claim;
use castellan_core::event::Answer;
use castellan_core::message::{IssuedCall, RawCall};
use castellan_core::secret::Redaction;
use castellan_core::tool::{
    Call, CallContext, DefaultDecision, Effect, Inspection, Report, SessionView, ToolSpec,
};
use castellan_core::{
    CallId, Caller, CancelSource, Clock, Event, Outcome, Principal, Principals, Surface, Tool,
};
use castellan_gate::gate::Parts;
use castellan_gate::{
    Batch, Catalog, Error, Gate, Handled, Pending, Permission, Recorder, Settings,
};
use castellan_store::audit::AuditEntry;
use castellan_testkit::{ManualClock, SequentialIds};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Map, Value, json};

type Behaviour =
    Arc<dyn Fn(Map<String, Value>, CallContext) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// The parameters of every test tool.
#[derive(schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Params {
    text: Option<String>,
    number: Option<i64>,
    path: Option<String>,
    token: Option<String>,
}

/// A tool that does what its test says.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) spec: ToolSpec,
    behaviour: Behaviour,
}

impl Fake {
    pub(crate) fn new<F, R>(name: &str, effect: Effect, behaviour: F) -> Self
    where
        F: Fn(Map<String, Value>, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        let mut spec = ToolSpec::new::<Params>(name, "test", "A test tool", "A test tool");
        spec.effects = vec![effect];
        spec.surfaces = vec![Surface::Interactive];
        spec.primary_key = Some("text".into());
        spec.secret_parameters = vec!["token".into()];
        spec.examples = vec![json!({"text": "hello"})];
        spec.default = match effect {
            Effect::ReadOnly => DefaultDecision::Allow,
            _ => DefaultDecision::Ask,
        };
        Self {
            spec,
            behaviour: Arc::new(move |args, context| behaviour(args, context).boxed()),
        }
    }

    /// A tool that says its `text` back.
    pub(crate) fn echo() -> Self {
        Self::new("echo", Effect::ReadOnly, |args, _| async move {
            Outcome::read(args.get("text").and_then(Value::as_str).unwrap_or_default())
        })
    }
}

impl Tool for Fake {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn parse(&self, arguments: Map<String, Value>) -> Result<Box<dyn Call>, Outcome> {
        let behaviour = Arc::clone(&self.behaviour);
        Ok(Box::new(FakeCall {
            name: self.spec.name.clone(),
            arguments,
            behaviour,
        }))
    }
}

struct FakeCall {
    name: String,
    arguments: Map<String, Value>,
    behaviour: Behaviour,
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
        futures::future::ready(Ok(inspection)).boxed()
    }

    fn execute(self: Box<Self>, context: CallContext) -> BoxFuture<'static, Report> {
        (self.behaviour)(self.arguments, context)
            .map(Report::from)
            .boxed()
    }
}

/// A recorder that remembers, in order, what it was told.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) told: Mutex<Vec<Told>>,
    pub(crate) audit: Mutex<Vec<AuditEntry>>,
    /// Whether the next commits fail.
    pub(crate) full: std::sync::atomic::AtomicBool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    Noted(Event),
    Committed,
    Passed(Event),
}

impl Recorder for Memory {
    fn note(&self, event: Event) {
        self.told.lock().unwrap().push(Told::Noted(event));
    }

    fn audit(&self, entry: AuditEntry) {
        self.audit.lock().unwrap().push(entry);
    }

    fn commit(&self) -> BoxFuture<'_, Result<(), Error>> {
        if self.full.load(std::sync::atomic::Ordering::SeqCst) {
            return futures::future::ready(Err(Error::Record("disk full".into()))).boxed();
        }
        self.told.lock().unwrap().push(Told::Committed);
        futures::future::ready(Ok(())).boxed()
    }

    fn pass(&self, event: Event) {
        self.told.lock().unwrap().push(Told::Passed(event));
    }
}

impl Memory {
    /// The noted events.
    pub(crate) fn events(&self) -> Vec<Event> {
        let told = self.told.lock().unwrap();
        told.iter()
            .filter_map(|told| match told {
                Told::Noted(event) => Some(event.clone()),
                Told::Committed | Told::Passed(_) => None,
            })
            .collect()
    }

    /// The results, in the order they were noted: (tool, outcome, output).
    pub(crate) fn results(&self) -> Vec<(String, String, String)> {
        self.events()
            .into_iter()
            .filter_map(|event| match event {
                Event::ToolResult {
                    name,
                    outcome,
                    output,
                    ..
                } => Some((name, outcome, output)),
                _ => None,
            })
            .collect()
    }

    /// Live output, joined.
    pub(crate) fn live(&self) -> String {
        let told = self.told.lock().unwrap();
        told.iter()
            .filter_map(|told| match told {
                Told::Passed(Event::ToolOutputChunk { text, .. }) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }
}

struct Anyone;

impl Principals for Anyone {
    fn resolve(&self, claim: &Claim) -> Result<Caller, castellan_core::caller::Unidentified> {
        let principal = claim.principal.clone();
        Ok(Caller {
            principal,
            surface: claim.surface,
            capabilities: vec![],
        })
    }
}

/// A gate, a recorder and the calls of one batch.
pub(crate) struct Bench {
    pub(crate) gate: Gate,
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: ManualClock,
    pub(crate) ids: SequentialIds,
    pub(crate) permission: Permission,
    pub(crate) stop: CancelSource,
    pub(crate) result_limit: usize,
    _spill: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(tools: Vec<Fake>) -> Self {
        let spill = tempfile::tempdir().unwrap();
        let tools = tools
            .into_iter()
            .map(|tool| Arc::new(tool) as Arc<dyn Tool>)
            .collect();
        let clock = ManualClock::new();
        let gate = Gate::new(Parts {
            catalog: Arc::new(Catalog::new(tools).unwrap()),
            principals: Arc::new(Anyone),
            clock: Arc::new(clock.clone()) as Arc<dyn Clock>,
            ids: Arc::new(SequentialIds::default()),
            redaction: Redaction::new(["sk-test-123".to_owned()]),
            settings: Settings {
                parallel: 4,
                timeout: Duration::from_secs(10),
                spill: spill.path().to_owned(),
            },
        });
        Self {
            gate,
            memory: Arc::default(),
            clock,
            ids: SequentialIds::default(),
            permission: Permission::default(),
            stop: CancelSource::new(),
            result_limit: 10_000,
            _spill: spill,
        }
    }

    /// A call with these arguments as text.
    pub(crate) fn call(&self, name: &str, arguments: impl Into<String>) -> Pending {
        let raw = RawCall {
            provider_id: None,
            name: name.into(),
            arguments: arguments.into(),
            complete: true,
        };
        let call_id = CallId::mint(&self.ids);
        Pending {
            issued: IssuedCall { call_id, raw },
            asked: None,
            answer: None,
        }
    }

    pub(crate) async fn handle(&self, calls: &[Pending]) -> Result<Handled, Error> {
        let claim = Claim {
            principal: Principal::Person("me".into()),
            surface: Surface::Interactive,
            token: None,
        };
        let view = SessionView {
            session: None,
            cwd: "/".into(),
            workspace: "/".into(),
            seen: Default::default(),
            result_limit: self.result_limit,
        };
        self.gate
            .handle(Batch {
                claim: &claim,
                view: Arc::new(view),
                calls,
                permission: &self.permission,
                cancel: self.stop.token(),
                model: None,
                elicitation: None,
                recorder: Arc::clone(&self.memory) as _,
            })
            .await
    }
}

/// The calls with an answer to each.
pub(crate) fn answered(
    mut calls: Vec<Pending>,
    cycle: Handled,
    approve: bool,
    feedback: &str,
) -> Vec<Pending> {
    let Handled::Waiting(cycle_id) = cycle else {
        panic!("nobody was asked")
    };
    for call in &mut calls {
        call.asked = Some(cycle_id);
        let call_id = call.issued.call_id;
        call.answer = Some(Answer {
            call_id,
            approve,
            feedback: feedback.into(),
        });
    }
    calls
}
