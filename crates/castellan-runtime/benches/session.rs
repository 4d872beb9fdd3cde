//! What a long session costs: opening one of 10,000 messages, and a step in it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, prints it, and stops where something is wrong"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use castellan_core::event::{CallItem, Decision, State as Activity, TurnEnd};
use castellan_core::message::IssuedCall;
use castellan_core::model::{Finish, ModelInfo, Usage};
use castellan_core::secret::Redaction;
use castellan_core::tool::{Effect, FileMark, SessionEffect};
use castellan_core::{
    CallId, Caller, Cancel, CancelSource, EffectStatus, Event, Ids, Model, ModelError, ModelEvent,
    ModelReply, ModelRequest, Principal, RawCall, Recorded, SessionId, Surface, Timestamp, Tool,
};
use castellan_gate::gate::{Gate, Parts as GateParts, Settings};
use castellan_gate::policy::NoProjectRules;
use castellan_gate::{Catalog, Guards, Permission};
use castellan_runtime::principals::Local;
use castellan_runtime::session::Watcher;
use castellan_runtime::session::request::messages;
use castellan_runtime::session::state::State;
use castellan_runtime::{Limits, Parts, Session};
use castellan_store::{Settings as StoreSettings, Store, Synchronous, events};
use castellan_testkit::{FakeTool, ManualClock, SequentialIds};
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::{Map, Value, json};

/// Each has five messages: the person's, two answers, two results.
const TURNS: usize = 2_000;
const ROUNDS: usize = 15;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let parts = parts(folder.path());
    let ids = SequentialIds::default();
    let id = SessionId::mint(&ids);
    let log = log(id, &ids);
    let bytes: usize = log
        .iter()
        .map(|one| serde_json::to_vec(one).unwrap().len())
        .sum();
    println!(
        "session: {} messages, {} events, {:.1} MB",
        TURNS * 5,
        log.len(),
        bytes as f64 / 1e6
    );
    let stored = log.clone();
    let write = parts
        .store
        .write(move |tx| events::append(tx, id, 0, &stored, &[]));
    write.await.unwrap();
    timed("load its events", ROUNDS, async || {
        let load = parts.store.read(move |tx| events::load(tx, id, 0));
        assert_eq!(load.await.unwrap().len(), log.len());
    })
    .await;
    timed("fold them into the state", ROUNDS, async || {
        State::rebuild(&log).unwrap();
    })
    .await;
    let state = State::rebuild(&log).unwrap();
    timed("make the request", ROUNDS, async || {
        assert!(messages(&state).len() > TURNS * 5);
    })
    .await;
    timed("open it where there is no trace", 3, async || {
        std::fs::remove_dir_all(&parts.traces).unwrap_or_default();
        drop(Session::open(parts.clone(), id).await.unwrap());
    })
    .await;
    timed("open it", ROUNDS, async || {
        drop(Session::open(parts.clone(), id).await.unwrap());
    })
    .await;
    let mut session = Session::open(parts.clone(), id).await.unwrap();
    timed(
        "a whole turn of 20 steps with a call each, the model aside",
        3,
        async || {
            session.say("go".to_owned());
            let keep = CancelSource::new();
            session.run(keep.token()).await.unwrap();
        },
    )
    .await;
}

/// Prints the median.
async fn timed(what: &str, rounds: usize, mut work: impl AsyncFnMut()) {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begun = Instant::now();
        work().await;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let middle = times.get(rounds / 2).copied().unwrap_or_default();
    println!("session: {what}: {:.1} ms", middle.as_secs_f64() * 1000.0);
}

struct Silent;

impl Watcher for Silent {
    fn see(&self, _event: &Recorded) {}
}

/// Calls `look` twenty times a turn.
struct Busy(ModelInfo, std::sync::Mutex<u32>);

impl Model for Busy {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn ask(
        &self,
        request: ModelRequest,
        _cancel: Cancel,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        drop(request);
        let mut asked = self.1.lock().unwrap();
        *asked += 1;
        let calls = if asked.is_multiple_of(20) {
            vec![]
        } else {
            vec![RawCall::new("look", format!("\"{asked}\""))]
        };
        let reply = ModelReply {
            text: "some words".to_owned(),
            reasoning: None,
            calls,
            finish: Finish::Stop,
            usage: None,
            attempts: 1,
        };
        futures::stream::iter([Ok(ModelEvent::Reply(reply))]).boxed()
    }
}

fn parts(folder: &Path) -> Parts {
    let settings = StoreSettings {
        synchronous: Synchronous::Normal,
        ..StoreSettings::default()
    };
    let clock = Arc::new(ManualClock::new());
    let ids = Arc::new(SequentialIds::default());
    let mut look = FakeTool::echo();
    look.spec.name = "look".to_owned();
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(look)];
    let gate = Gate::new(GateParts {
        catalog: Arc::new(Catalog::new(tools).unwrap()),
        principals: Arc::new(Local),
        clock: clock.clone(),
        ids: ids.clone(),
        redaction: Redaction::default(),
        settings: Settings {
            parallel: 4,
            timeout: Duration::from_secs(60),
            spill: folder.join("spill"),
        },
        guards: Guards::default(),
    });
    let info = ModelInfo {
        name: "test".to_owned(),
        model: "busy".to_owned(),
        context_window: None,
        supports_vision: false,
    };
    Parts {
        prompts: Vec::new(),
        store: Store::open(folder.join("castellan.db"), settings).unwrap(),
        gate: Arc::new(gate),
        model: Arc::new(Busy(info, std::sync::Mutex::new(0))),
        clock,
        ids,
        watcher: Arc::new(Silent),
        notices: Arc::new(castellan_core::port::Unwatched),
        traces: folder.join("traces"),
        permission: Permission {
            grants: vec![],
            skip: true,
        },
        rules: Arc::new(NoProjectRules),
        patience: None,
        limits: Limits::turns(100),
        compact_at: 0.8,
        prices: BTreeMap::new(),
        version: "0",
    }
}

/// Turns of the usual kind.
fn log(session: SessionId, ids: &dyn Ids) -> Vec<Recorded> {
    let caller = Caller {
        principal: Principal::Person("me".to_owned()),
        surface: Surface::Interactive,
        capabilities: Vec::new(),
    };
    let start = Event::SessionStart {
        version: "0".to_owned(),
        cwd: "/".into(),
        caller,
        prompts: Vec::new(),
    };
    let mut all = vec![start];
    for number in 0..TURNS {
        turn(&mut all, number, ids);
    }
    let recorded = |(seq, event)| Recorded {
        ts: Timestamp(1_767_225_600_000),
        seq: Some(seq),
        session,
        event,
    };
    (1..).zip(all).map(recorded).collect()
}

fn turn(all: &mut Vec<Event>, number: usize, ids: &dyn Ids) {
    all.push(Event::UserTurn {
        text: format!("Now look at file {number} and say what is wrong. ").repeat(3),
        pictures: vec![],
    });
    let calls: Vec<CallId> = (0..2).map(|_| CallId::mint(ids)).collect();
    let arguments = |call: usize| json!({"path": format!("src/{number}/{call}.rs"), "offset": 1});
    let issued = |(call, id): (usize, &CallId)| IssuedCall {
        call_id: *id,
        raw: RawCall::new("look", arguments(call).to_string()),
    };
    all.push(request(number));
    all.push(response(calls.iter().enumerate().map(issued).collect()));
    for (call, id) in calls.iter().enumerate() {
        let prepared: Map<String, Value> = arguments(call).as_object().unwrap().clone();
        all.push(Event::ToolPrepared {
            call_id: *id,
            name: "look".to_owned(),
            arguments: prepared,
            repairs: vec![],
            header: format!("look at src/{number}/{call}.rs"),
            label: "look".to_owned(),
            effects: vec![Effect::ReadOnly],
        });
        all.push(Event::Policy {
            call_id: *id,
            decision: Decision::Allow,
            by: "default".to_owned(),
            reason: "look runs unasked".to_owned(),
        });
    }
    let item = |id: &CallId| CallItem {
        call_id: *id,
        name: "look".to_owned(),
        header: "look".to_owned(),
    };
    all.push(Event::ToolInfo {
        items: calls.iter().map(item).collect(),
    });
    for (call, id) in calls.iter().enumerate() {
        let mark = FileMark {
            size: 400,
            digest: "0123456789abcdef".repeat(4),
        };
        let seen = SessionEffect::FileSeen {
            path: format!("/src/{number}/{call}.rs").into(),
            mark,
        };
        all.push(Event::ToolResult {
            call_id: *id,
            name: "look".to_owned(),
            output: "    let line = of(\"code\");\n".repeat(16),
            is_error: false,
            effect: EffectStatus::None,
            outcome: "done".to_owned(),
            code: None,
            duration_ms: 1,
            spill: None,
            session_effects: vec![seen],
            pictures: vec![],
        });
    }
    all.push(request(number));
    all.push(response(vec![]));
    all.push(Event::StateChange {
        state: Activity::Idle,
        reason: Some(TurnEnd::Done),
    });
}

fn request(number: usize) -> Event {
    Event::ModelRequest {
        model: "busy".to_owned(),
        messages: number * 5,
        tools: 1,
        size: number as u64 * 2_000,
        fingerprint: String::new(),
        purpose: castellan_core::event::Purpose::Turn,
    }
}

fn response(calls: Vec<IssuedCall>) -> Event {
    Event::ModelResponse {
        text: "The file has a function that is too long, and a name that says too little. "
            .repeat(4),
        reasoning: None,
        finish: if calls.is_empty() {
            Finish::Stop
        } else {
            Finish::ToolCalls
        },
        calls,
        usage: Some(Usage {
            prompt_tokens: 1_000,
            completion_tokens: 100,
            ..Usage::default()
        }),
        attempts: 1,
        duration_ms: 1_000,
    }
}
