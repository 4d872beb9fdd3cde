//! Calls from outside any session.

use std::path::Path;
use std::sync::Arc;

use castellan_core::caller::Claim;
use castellan_core::event::Decision;
use castellan_core::port::{Elicitation, Elicited};
use castellan_core::{CancelSource, EffectStatus, ErrorCode, Event, Principal, Recorded, Surface};
use castellan_gate::Permission;
use castellan_gate::trace::{self, Line};
use castellan_runtime::{Connection, Engine, EngineParts, OutsideCall, Reply, TraceTo};
use castellan_store::audit;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::world::{FunctionModel, Seen, World, kinds, says};

/// Answers every question with this, and remembers it.
struct Person {
    answer: Elicited,
    asked: std::sync::Mutex<Vec<String>>,
}

impl Person {
    fn new(answer: Elicited) -> Arc<Self> {
        let asked = std::sync::Mutex::default();
        Arc::new(Self { answer, asked })
    }
}

impl Elicitation for Person {
    fn ask(&self, question: String, _schema: Value) -> BoxFuture<'_, Elicited> {
        self.asked.lock().unwrap().push(question);
        Box::pin(std::future::ready(self.answer.clone()))
    }
}

struct Outside {
    world: World,
    engine: Engine,
    connection: Connection,
    trace: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

fn outside() -> Outside {
    let world = World::new(FunctionModel::new(|_| says("")));
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.jsonl");
    let engine = Engine::new(parts(&world, &trace)).unwrap();
    let connection = engine.connect(Path::new("/")).unwrap();
    Outside {
        world,
        engine,
        connection,
        trace,
        _folder: folder,
    }
}

fn parts(world: &World, trace: &Path) -> EngineParts {
    EngineParts {
        gate: Arc::clone(&world.parts.gate),
        store: Some(world.parts.store.clone()),
        clock: Arc::clone(&world.parts.clock),
        ids: Arc::clone(&world.parts.ids),
        trace: TraceTo::File(trace.to_owned()),
        permission: Permission::default(),
        rules: Arc::clone(&world.parts.rules),
        patience: None,
        meter: Arc::default(),
    }
}

impl Outside {
    async fn call(&self, name: &str, arguments: Value, person: Option<Arc<Person>>) -> Reply {
        // Dropped, it would stop the call.
        let stop = CancelSource::new();
        let call = OutsideCall {
            claim: Claim {
                principal: Principal::McpClient("probe".to_owned()),
                surface: Surface::Mcp,
                token: None,
            },
            name: name.to_owned(),
            arguments: arguments.to_string(),
            cancel: stop.token(),
            person: person.map(|person| person as _),
            peer: None,
            model: None,
            watcher: Arc::<Seen>::default(),
        };
        self.engine.call(&self.connection, call).await.unwrap()
    }

    fn traced(&self) -> Vec<Recorded> {
        let lines = trace::read(&self.trace).unwrap();
        lines
            .map(|line| match line {
                Line::Event(event) => Ok(*event),
                Line::Unreadable { problem, .. } => Err(problem),
            })
            .collect::<Result<_, _>>()
            .unwrap()
    }
}

#[tokio::test]
async fn a_call_from_outside_passes_the_gate_and_is_traced_in_full() {
    let outside = outside();
    let reply = outside.call("look", json!({"text": "hello"}), None).await;
    assert!(!reply.is_error, "{reply:?}");
    assert_eq!(reply.effect, EffectStatus::None);
    let traced = outside.traced();
    let expected = [
        "mcp_tool",
        "tool_prepared",
        "policy",
        "tool_info",
        "tool_result",
    ];
    assert_eq!(kinds(&traced), expected);
    let numbers: Vec<_> = traced.iter().map(|event| event.seq.unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert!(
        traced
            .iter()
            .all(|event| event.session == outside.connection.id())
    );
}

#[tokio::test]
async fn what_needs_a_person_is_denied_where_there_is_none() {
    let outside = outside();
    let reply = outside.call("do", json!({"text": "a"}), None).await;
    assert_eq!(reply.code, Some(ErrorCode::Denied));
    assert!(reply.output.contains("person"), "{}", reply.output);
    assert!(outside.world.done().is_empty());
    let store = &outside.world.parts.store;
    let all = audit::Filter {
        since: None,
        caller: None,
        limit: 10,
    };
    let rows = store.read(move |tx| audit::list(tx, &all));
    let rows = rows.await.unwrap().rows;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].entry.outcome, "denied");
    assert_eq!(rows[0].entry.caller, "mcp_client:probe");
}

#[tokio::test]
async fn the_person_behind_the_client_decides() {
    let outside = outside();
    let person = Person::new(Elicited::Accepted(
        json!({"approve": true, "reason": "use b next time"}),
    ));
    let reply = outside
        .call("do", json!({"text": "a"}), Some(Arc::clone(&person)))
        .await;
    assert!(!reply.is_error, "{reply:?}");
    assert!(reply.output.contains("use b next time"), "{}", reply.output);
    assert_eq!(outside.world.done().get("a"), Some(&1));
    let asked = person.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("do"), "{asked:?}");
    let resolved = outside.traced().into_iter().any(
        |event| matches!(event.event, Event::ApprovalResolved { by, .. } if by.contains("person")),
    );
    assert!(resolved);

    for (answer, why) in [
        (
            Elicited::Accepted(json!({"approve": false, "reason": "not today"})),
            "not today",
        ),
        (
            Elicited::Accepted(json!({"approve": "yes"})),
            "gave no reason",
        ),
        (Elicited::Declined, "declined"),
        (Elicited::Cancelled, "closed"),
    ] {
        let person = Person::new(answer);
        let reply = outside.call("do", json!({"text": "b"}), Some(person)).await;
        assert_eq!(reply.code, Some(ErrorCode::Denied));
        assert!(reply.output.contains(why), "{}", reply.output);
    }
    assert_eq!(outside.world.done().get("b"), None);
}

#[tokio::test]
async fn a_call_that_can_not_be_traced_does_not_run() {
    let world = World::new(FunctionModel::new(|_| says("")));
    let mut parts = parts(&world, Path::new("/dev/full"));
    parts.permission.skip = true;
    let engine = Engine::new(parts).unwrap();
    let connection = engine.connect(Path::new("/")).unwrap();
    let stop = CancelSource::new();
    let call = OutsideCall {
        claim: Claim {
            principal: Principal::McpClient("probe".to_owned()),
            surface: Surface::Mcp,
            token: None,
        },
        name: "do".to_owned(),
        arguments: json!({"text": "a"}).to_string(),
        cancel: stop.token(),
        person: None,
        peer: None,
        model: None,
        watcher: Arc::<Seen>::default(),
    };
    let failed = engine.call(&connection, call).await.unwrap_err();
    let words = castellan_core::text::chain(&failed);
    assert!(words.contains("No space left"), "{words}");
    assert!(world.done().is_empty());
}

#[tokio::test]
async fn a_trace_that_holds_something_is_not_written_over() {
    let world = World::new(FunctionModel::new(|_| says("")));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "precious").unwrap();
    let refused = Engine::new(parts(&world, file.path())).unwrap_err();
    let words = castellan_core::text::chain(&refused);
    assert!(words.contains("holds something"), "{words}");
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "precious");
}

#[tokio::test]
async fn an_unknown_tool_is_a_result_that_names_the_nearest() {
    let outside = outside();
    let reply = outside.call("loook", json!({}), None).await;
    assert_eq!(reply.code, Some(ErrorCode::ToolNotFound));
    assert!(reply.output.contains("look"), "{}", reply.output);
    let denied = |event: &Recorded| {
        matches!(
            &event.event,
            Event::Policy {
                decision: Decision::Deny,
                ..
            }
        )
    };
    assert!(!outside.traced().iter().any(denied));
}
