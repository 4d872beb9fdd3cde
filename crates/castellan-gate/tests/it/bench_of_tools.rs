//! What the tests of the gate stand on: a tool whose behaviour each test gives, a recorder that
//! remembers, and a gate over both.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use castellan_core::caller::Claim;
use castellan_core::event::Answer;
use castellan_core::message::{IssuedCall, RawCall};
use castellan_core::port::Elicitation;
use castellan_core::secret::Redaction;
use castellan_core::tool::SessionView;
use castellan_core::{
    CallId, Caller, CancelSource, Clock, Event, Principal, Principals, Surface, Tool,
};
use castellan_gate::gate::Parts;
use castellan_gate::{
    Asked, Batch, Catalog, Error, Gate, Guards, Handled, Pending, Permission, Policy, Recorder,
    Settings,
};
use castellan_store::audit::AuditEntry;
use castellan_testkit::{FakeTool, ManualClock, SequentialIds};
use futures::future::{BoxFuture, FutureExt as _};

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
    /// The rules of the project.
    pub(crate) rules: Policy,
    pub(crate) surface: Surface,
    pub(crate) workspace: PathBuf,
    /// The working folder, where it is not the workspace.
    pub(crate) cwd: Option<PathBuf>,
    /// Whether somebody can be asked who is not at a terminal.
    pub(crate) elicitation: Option<Arc<dyn Elicitation>>,
    pub(crate) stop: CancelSource,
    pub(crate) result_limit: usize,
    _spill: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(tools: Vec<FakeTool>) -> Self {
        Self::guarded(tools, Guards::default())
    }

    /// A bench whose calls are guarded.
    pub(crate) fn guarded(tools: Vec<FakeTool>, guards: Guards) -> Self {
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
            guards,
        });
        Self {
            gate,
            memory: Arc::default(),
            clock,
            ids: SequentialIds::default(),
            permission: Permission::default(),
            rules: Policy::default(),
            surface: Surface::Interactive,
            workspace: "/".into(),
            cwd: None,
            elicitation: None,
            stop: CancelSource::new(),
            result_limit: 10_000,
            _spill: spill,
        }
    }

    /// A call with these arguments as text.
    pub(crate) fn call(&self, name: &str, arguments: impl Into<String>) -> Pending {
        let raw = RawCall::new(name, arguments);
        let call_id = CallId::mint(&self.ids);
        Pending {
            issued: IssuedCall { call_id, raw },
            prepared: false,
            asked: None,
            answer: None,
            answered_by: None,
        }
    }

    pub(crate) async fn handle(&self, calls: &[Pending]) -> Result<Handled, Error> {
        let claim = Claim {
            principal: Principal::Person("me".into()),
            surface: self.surface,
            token: None,
        };
        let view = SessionView {
            session: None,
            cwd: self.cwd.clone().unwrap_or(self.workspace.clone()),
            workspace: self.workspace.clone(),
            seen: Default::default(),
            shells: Default::default(),
            result_limit: self.result_limit,
            redaction: Default::default(),
        };
        self.gate
            .handle(Batch {
                claim: &claim,
                view: Arc::new(view),
                calls,
                permission: &self.permission,
                rules: &self.rules,
                cancel: self.stop.token(),
                model: None,
                elicitation: self.elicitation.clone(),
                peer: None,
                recorder: Arc::clone(&self.memory) as _,
            })
            .await
    }
}

impl Bench {
    /// The calls with what was last asked about them.
    pub(crate) fn asked(&self, calls: &[Pending]) -> Vec<Pending> {
        let last = self
            .memory
            .events()
            .into_iter()
            .rev()
            .find_map(|event| match event {
                Event::ApproveRequest { cycle_id, items } => Some((cycle_id, items)),
                _ => None,
            });
        let (cycle_id, items) = last.unwrap();
        let asked = |call: &Pending| {
            let item = items
                .iter()
                .find(|item| item.call_id == call.issued.call_id)?
                .clone();
            Some(Asked { cycle_id, item })
        };
        let with = |call: &Pending| Pending {
            prepared: true,
            asked: asked(call),
            ..call.clone()
        };
        calls.iter().map(with).collect()
    }

    /// The same with an answer to each.
    pub(crate) fn answered(&self, calls: &[Pending], approve: bool, said: &str) -> Vec<Pending> {
        let mut calls = self.asked(calls);
        for call in &mut calls {
            let feedback = said.to_owned();
            call.answer = Some(Answer {
                feedback,
                ..Answer::new(call.issued.call_id, approve)
            });
        }
        calls
    }
}
