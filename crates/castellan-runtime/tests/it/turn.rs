//! Turns from their beginning to their end.

use castellan_core::event::{Answer, TurnEnd};
use castellan_core::{CancelSource, Event, Message, RawCall};
use castellan_gate::Permission;
use castellan_runtime::{Error, Session, TurnOutcome};
use castellan_store::ErrorKind;

use crate::world::{FunctionModel, HANGS, World, calls, error, kinds, outputs, results, says};

fn done() -> TurnOutcome {
    TurnOutcome::Over(TurnEnd::Done, None)
}

async fn turn(session: &Session, text: &str) -> TurnOutcome {
    session.say(text.into()).await.unwrap();
    session.run(CancelSource::new().token()).await.unwrap()
}

#[tokio::test]
async fn a_turn_runs_its_calls_and_ends_with_few_commits() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\""), ("look", "\"b\"")]),
        _ => says("all done"),
    });
    let world = World::new(model);
    let session = world.begin();
    let before = world.parts.store.commits();
    assert_eq!(turn(&session, "go").await, done());
    let commits = world.parts.store.commits() - before;
    assert!(commits <= 5, "{commits} commits");
    assert_eq!(session.last_answer(), "all done");
    let log = world.log(session.id()).await;
    assert_eq!(
        kinds(&log),
        [
            "session_start",
            "user_turn",
            "model_request",
            "model_response",
            "tool_prepared",
            "policy",
            "tool_prepared",
            "policy",
            "tool_info",
            "tool_result",
            "tool_result",
            "model_request",
            "model_response",
            "state_change",
        ]
    );
    let seqs: Vec<u64> = log.iter().filter_map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=14).collect::<Vec<u64>>());
    let shown: Vec<_> = world
        .seen
        .0
        .lock()
        .unwrap()
        .iter()
        .filter(|e| e.seq.is_some())
        .cloned()
        .collect();
    assert_eq!(shown, log, "a watcher sees what is stored, as it is stored");
}

#[tokio::test]
async fn a_provider_that_uses_one_id_for_every_call_gets_each_result_beside_its_call() {
    let model = FunctionModel::new(|messages| match results(messages) {
        done @ 0..4 => calls(&[("do", &format!("\"step {done}\""))]),
        _ => says("four steps"),
    });
    let world = World::new(std::sync::Arc::clone(&model));
    let session = world.begin();
    let id = session.id();
    assert_eq!(turn(&session, "go").await, done());
    drop(session);
    let again = world.open(id).await;
    turn(&again, "and?").await;
    assert_eq!(
        world.done().values().copied().collect::<Vec<_>>(),
        [1, 1, 1, 1]
    );
    let last = model.requests.lock().unwrap().last().unwrap().clone();
    let mut seen = Vec::new();
    for pair in last.messages.windows(2) {
        if let [
            Message::Assistant { calls, .. },
            Message::ToolResult {
                call_id, output, ..
            },
        ] = pair
        {
            assert_eq!(calls[0].call_id, *call_id);
            seen.push((calls[0].raw.arguments.clone(), output.clone()));
        }
    }
    let wanted: Vec<_> = (0..4)
        .map(|n| (format!("\"step {n}\""), format!("did step {n}")))
        .collect();
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn a_resumed_session_asks_exactly_what_the_unbroken_one_asks() {
    let script = |messages: &[Message]| match results(messages) {
        0 => calls(&[("do", "\"a\""), ("nothing", "{}"), ("look", "{broken")]),
        _ => says("done"),
    };
    let mut asked = Vec::new();
    for broken in [false, true] {
        let model = FunctionModel::new(script);
        let world = World::new(std::sync::Arc::clone(&model));
        let mut session = world.begin();
        let id = session.id();
        turn(&session, "one").await;
        if broken {
            drop(session);
            session = world.open(id).await;
        }
        turn(&session, "two").await;
        let requests = model.requests.lock().unwrap();
        asked.push(
            requests
                .iter()
                .map(|request| request.messages.clone())
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(asked[0].len(), 3);
    assert_eq!(asked[0], asked[1]);
}

#[tokio::test]
async fn a_turn_that_reached_its_limit_can_be_taken_up() {
    let world = World::new(FunctionModel::new(|messages| match results(messages) {
        done @ 0..15 => calls(&[("do", &format!("\"{done}\""))]),
        _ => says("done"),
    }));
    let mut session = world.begin();
    assert_eq!(
        turn(&session, "go").await,
        TurnOutcome::Over(TurnEnd::Limit, None)
    );
    assert_eq!(world.done().len(), 10);
    session.take_up().unwrap();
    assert_eq!(
        session.run(CancelSource::new().token()).await.unwrap(),
        done()
    );
    assert_eq!(world.done().len(), 15);
    assert!(matches!(session.take_up(), Err(Error::NothingToDo(_))));
}

#[tokio::test]
async fn a_model_that_fails_ends_the_turn_and_leaves_no_empty_message() {
    let world = World::new(FunctionModel::new(|messages| {
        match messages
            .iter()
            .any(|m| matches!(m, Message::User { text } if text.contains("two")))
        {
            false => Err(error("connection refused")),
            true => says("better"),
        }
    }));
    let session = world.begin();
    let outcome = turn(&session, "one").await;
    assert!(matches!(
        outcome,
        TurnOutcome::Over(TurnEnd::Failed, Some(_))
    ));
    let log = world.log(session.id()).await;
    assert!(log.iter().any(|event| matches!(&event.event, Event::Error { message, .. } if message == "connection refused")));
    assert_eq!(turn(&session, "two").await, done());
    let responses = world.log(session.id()).await;
    let responses = responses
        .iter()
        .filter(|event| event.event.kind() == "model_response");
    assert_eq!(responses.count(), 1);
}

#[tokio::test]
async fn a_cancel_ends_a_turn_while_the_model_thinks() {
    let world = World::new(FunctionModel::new(|_| Err(error(HANGS))));
    let session = world.begin();
    session.say("go".into()).await.unwrap();
    let stop = CancelSource::new();
    let (outcome, ()) = tokio::join!(session.run(stop.token()), async { stop.cancel() });
    assert_eq!(
        outcome.unwrap(),
        TurnOutcome::Over(TurnEnd::Cancelled, None)
    );
}

#[tokio::test]
async fn a_cancel_ends_a_turn_while_a_tool_runs_and_every_call_has_a_result() {
    let world = World::new(FunctionModel::new(|_| {
        calls(&[
            ("wait", "{\"path\": \"/x\"}"),
            ("wait", "{\"path\": \"/x\"}"),
        ])
    }));
    let session = world.begin();
    session.say("go".into()).await.unwrap();
    let stop = CancelSource::new();
    let running = async {
        let output = |event: &castellan_core::Recorded| event.event.kind() == "tool_output_chunk";
        while !world.seen.0.lock().unwrap().iter().any(output) {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(session.run(stop.token()), running);
    assert_eq!(
        outcome.unwrap(),
        TurnOutcome::Over(TurnEnd::Cancelled, None)
    );
    let mut outputs = outputs(&world.log(session.id()).await);
    outputs.sort();
    assert_eq!(outputs, ["cancelled before it began", "stopped"]);
}

#[tokio::test]
async fn an_open_question_survives_and_is_answered_later() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\"")]),
        _ => says("done"),
    });
    let mut world = World::new(model);
    world.parts.permission = Permission::default();
    let session = world.begin();
    let id = session.id();
    let TurnOutcome::Waiting(cycle) = turn(&session, "go").await else {
        panic!()
    };
    drop(session);
    let session = world.open(id).await;
    let token = || CancelSource::new();
    let keep = token();
    assert_eq!(
        session.run(keep.token()).await.unwrap(),
        TurnOutcome::Waiting(cycle)
    );
    let waiting = session.waiting();
    assert_eq!(waiting[0].header, "do do");
    assert!(world.done().is_empty());
    let answer = Answer {
        call_id: waiting[0].call_id,
        approve: true,
        feedback: "gently".into(),
    };
    session.decide(cycle, vec![answer]).await.unwrap();
    assert_eq!(session.run(keep.token()).await.unwrap(), done());
    assert_eq!(world.done().get("a"), Some(&1));
    assert!(outputs(&world.log(id).await)[0].contains("gently"));
}

#[tokio::test]
async fn saying_something_else_closes_an_open_question_without_running_it() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\"")]),
        _ => says("as you like"),
    });
    let mut world = World::new(model);
    world.parts.permission = Permission::default();
    let session = world.begin();
    assert!(matches!(
        turn(&session, "go").await,
        TurnOutcome::Waiting(_)
    ));
    assert_eq!(turn(&session, "leave it").await, done());
    assert!(world.done().is_empty());
    let log = world.log(session.id()).await;
    assert!(outputs(&log)[0].contains("said something else"));
}

#[tokio::test]
async fn two_processes_can_not_drive_one_session() {
    let world = World::new(FunctionModel::new(|_| says("hello")));
    let session = world.begin();
    turn(&session, "hi").await;
    let second = Session::open(world.parts.clone(), session.id()).await;
    assert!(matches!(second, Err(Error::Store(error)) if error.kind() == ErrorKind::Busy));
    let id = session.id();
    drop(session);
    world.open(id).await;
}

#[tokio::test]
async fn raw_arguments_stay_in_the_log_as_the_model_sent_them() {
    let sent = "{'text': 'a',}";
    let world = World::new(FunctionModel::new(move |messages| {
        match results(messages) {
            0 => calls(&[("do", sent)]),
            _ => says("done"),
        }
    }));
    let session = world.begin();
    turn(&session, "go").await;
    let log = world.log(session.id()).await;
    let raw: Vec<RawCall> = log
        .iter()
        .filter_map(|event| match &event.event {
            Event::ModelResponse { calls, .. } => Some(calls.iter().map(|call| call.raw.clone())),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(raw[0].arguments, sent);
    assert_eq!(world.done().get("a"), Some(&1));
}
