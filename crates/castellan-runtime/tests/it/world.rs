//! What the tests of sessions stand on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use castellan_core::message::RawCall;
use castellan_core::model::{Finish, ModelInfo};
use castellan_core::secret::Redaction;
use castellan_core::tool::{DefaultDecision, Effect};
use castellan_core::{
    Cancel, EffectStatus, Event, Message, Model, ModelError, ModelEvent, ModelReply, ModelRequest,
    Outcome, Recorded, SessionId, Tool,
};
use castellan_gate::gate::{Gate, Parts as GateParts, Settings};
use castellan_gate::policy::NoProjectRules;
use castellan_gate::{Catalog, Guards, Permission};
use castellan_runtime::principals::Local;
use castellan_runtime::session::Watcher;
use castellan_runtime::{Limits, Parts, Session};
use castellan_store::{Settings as StoreSettings, Store, Synchronous, events};
use castellan_testkit::{FakeTool, ManualClock, SequentialIds};
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::Value;

type Answers = dyn Fn(&[Message]) -> Result<ModelReply, ModelError> + Send + Sync;

/// A model whose answer is a function of what it is shown.
pub(crate) struct FunctionModel {
    info: ModelInfo,
    answers: Box<Answers>,
    pub(crate) requests: Mutex<Vec<ModelRequest>>,
}

impl FunctionModel {
    pub(crate) fn new(
        answers: impl Fn(&[Message]) -> Result<ModelReply, ModelError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with_window(None, answers)
    }

    /// One that says how many tokens it takes.
    pub(crate) fn with_window(
        context_window: Option<u64>,
        answers: impl Fn(&[Message]) -> Result<ModelReply, ModelError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let info = ModelInfo {
            name: "test".into(),
            model: "function".into(),
            context_window,
            supports_vision: false,
        };
        Arc::new(Self {
            info,
            answers: Box::new(answers),
            requests: Mutex::default(),
        })
    }
}

impl Model for FunctionModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn ask(
        &self,
        request: ModelRequest,
        cancel: Cancel,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let answer = (self.answers)(&request.messages).map(ModelEvent::Reply);
        self.requests.lock().unwrap().push(request);
        // An answer that is a refusal to answer stands for a server that hangs.
        if matches!(&answer, Err(error) if error.message == HANGS) {
            let ended = ModelError::new(castellan_core::ErrorCode::Cancelled, "cancelled");
            return futures::stream::once(async move {
                cancel.await;
                Err(ended)
            })
            .boxed();
        }
        futures::stream::iter([answer]).boxed()
    }
}

/// The message of an error that stands for a server that never answers.
pub(crate) const HANGS: &str = "hangs";

pub(crate) fn error(message: &str) -> ModelError {
    ModelError::new(castellan_core::ErrorCode::ModelUnreachable, message)
}

pub(crate) fn says(text: &str) -> Result<ModelReply, ModelError> {
    reply(text, vec![])
}

/// An answer with calls, all under the provider's one constant id.
pub(crate) fn calls(calls: &[(&str, &str)]) -> Result<ModelReply, ModelError> {
    let raw = |(name, arguments): &(&str, &str)| RawCall {
        provider_id: Some("call_0".into()),
        ..RawCall::new(*name, *arguments)
    };
    reply("", calls.iter().map(raw).collect())
}

fn reply(text: &str, calls: Vec<RawCall>) -> Result<ModelReply, ModelError> {
    Ok(ModelReply {
        text: text.into(),
        reasoning: None,
        finish: if calls.is_empty() {
            Finish::Stop
        } else {
            Finish::ToolCalls
        },
        calls,
        usage: None,
        attempts: 1,
    })
}

/// How many tool results the model is shown.
pub(crate) fn results(messages: &[Message]) -> usize {
    messages
        .iter()
        .filter(|message| matches!(message, Message::ToolResult { .. }))
        .count()
}

/// What has really been done, by what: the world outside of the log.
pub(crate) type Deeds = Arc<Mutex<BTreeMap<String, u32>>>;

/// Remembers what it sees.
#[derive(Default)]
pub(crate) struct Seen(pub(crate) Mutex<Vec<Recorded>>);

impl Watcher for Seen {
    fn see(&self, event: &Recorded) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// A store in a folder of its own and what a session runs on.
pub(crate) struct World {
    _folder: tempfile::TempDir,
    pub(crate) parts: Parts,
    pub(crate) deeds: Deeds,
    pub(crate) seen: Arc<Seen>,
}

impl World {
    pub(crate) fn new(model: Arc<FunctionModel>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let deeds = Deeds::default();
        let settings = StoreSettings {
            synchronous: Synchronous::Normal,
            ..StoreSettings::default()
        };
        let store = Store::open(folder.path().join("castellan.db"), settings).unwrap();
        let seen = Arc::<Seen>::default();
        let parts = parts(folder.path(), store, model, &deeds, &seen);
        Self {
            _folder: folder,
            parts,
            deeds,
            seen,
        }
    }

    pub(crate) fn begin(&self) -> Session {
        Session::begin(self.parts.clone(), Path::new("/"), "me").unwrap()
    }

    pub(crate) async fn open(&self, id: SessionId) -> Session {
        Session::open(self.parts.clone(), id).await.unwrap()
    }

    pub(crate) async fn log(&self, id: SessionId) -> Vec<Recorded> {
        self.parts
            .store
            .read(move |tx| events::load(tx, id, 0))
            .await
            .unwrap()
    }

    /// How often each thing was done.
    pub(crate) fn done(&self) -> BTreeMap<String, u32> {
        self.deeds.lock().unwrap().clone()
    }
}

fn parts(
    folder: &Path,
    store: Store,
    model: Arc<FunctionModel>,
    deeds: &Deeds,
    seen: &Arc<Seen>,
) -> Parts {
    let clock = Arc::new(ManualClock::new());
    let ids = Arc::new(SequentialIds::default());
    let gate = Gate::new(GateParts {
        catalog: Arc::new(Catalog::new(tools(deeds)).unwrap()),
        principals: Arc::new(Local),
        clock: clock.clone(),
        ids: ids.clone(),
        redaction: Redaction::default(),
        settings: Settings {
            parallel: 4,
            timeout: Duration::from_secs(60),
            spill: folder.join("spill"),
        },
        guards: Guards {
            grants: Some(store.clone()),
            ..Guards::default()
        },
    });
    Parts {
        prompts: Vec::new(),
        store,
        gate: Arc::new(gate),
        model,
        clock,
        ids,
        watcher: Arc::clone(seen) as _,
        notices: Arc::new(castellan_core::port::Unwatched),
        traces: folder.join("traces"),
        permission: Permission {
            grants: vec![],
            skip: true,
        },
        rules: Arc::new(NoProjectRules),
        patience: None,
        limits: Limits::turns(10),
        compact_at: 0.8,
        prices: BTreeMap::new(),
        version: "0",
    }
}

/// `do`, which changes the world; `look`, which only reads; `wait`, which ends when cancelled;
/// `much`, whose result is long.
fn tools(deeds: &Deeds) -> Vec<Arc<dyn Tool>> {
    let ledger = Arc::clone(deeds);
    let act = FakeTool::new("do", Effect::Writes, move |args, _| {
        let what = args
            .get("text")
            .and_then(Value::as_str)
            .unwrap_or("?")
            .to_owned();
        let mut ledger = ledger.lock().unwrap();
        *ledger.entry(what.clone()).or_default() += 1;
        if let Some(token) = args.get("token").and_then(Value::as_str) {
            *ledger.entry(format!("{what} with {token}")).or_default() += 1;
        }
        drop(ledger);
        async move {
            Outcome::Done {
                output: format!("did {what}"),
                effect: EffectStatus::Committed,
            }
        }
    });
    let mut wait = FakeTool::new("wait", Effect::Writes, |_, context| async move {
        context.progress.output("waiting\n");
        context.cancel.await;
        Outcome::Cancelled {
            output: "stopped".into(),
            effect: EffectStatus::Partial,
        }
    });
    wait.spec.default = DefaultDecision::Allow;
    let mut look = FakeTool::echo();
    look.spec.name = "look".into();
    let much = FakeTool::new("much", Effect::ReadOnly, |args, _| {
        let letter = args.get("text").and_then(Value::as_str).unwrap_or("?");
        let text = format!("BEGIN{}END", letter.repeat(100_000));
        async move { Outcome::read(text) }
    });
    vec![
        Arc::new(act),
        Arc::new(look),
        Arc::new(wait),
        Arc::new(much),
    ]
}

/// The kinds of these events, in order.
pub(crate) fn kinds(log: &[Recorded]) -> Vec<&'static str> {
    log.iter().map(|recorded| recorded.event.kind()).collect()
}

/// The outputs of the calls in the log, in order.
pub(crate) fn outputs(log: &[Recorded]) -> Vec<String> {
    log.iter()
        .filter_map(|recorded| match &recorded.event {
            Event::ToolResult { output, .. } => Some(output.clone()),
            _ => None,
        })
        .collect()
}
