//! Turns from their beginning to their end.

use castellan_core::event::{Answer, TurnEnd};
use castellan_core::{CancelSource, ErrorCode, Event, Message, RawCall};
use castellan_gate::Permission;
use castellan_runtime::{Error, Session, TurnOutcome};
use castellan_store::ErrorKind;

use crate::world::{FunctionModel, HANGS, World, calls, error, kinds, outputs, results, says};

fn done() -> TurnOutcome {
    TurnOutcome::Over(TurnEnd::Done, None)
}

async fn turn(session: &mut Session, text: &str) -> TurnOutcome {
    session.say(text.into());
    session.run(CancelSource::new().token()).await.unwrap()
}

#[tokio::test]
async fn a_turn_runs_its_calls_and_ends_with_few_commits() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\""), ("look", "\"b\"")]),
        _ => says("all done"),
    });
    let world = World::new(model);
    let mut session = world.begin();
    let before = world.parts.store.commits();
    assert_eq!(turn(&mut session, "go").await, done());
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
    let mut session = world.begin();
    let id = session.id();
    assert_eq!(turn(&mut session, "go").await, done());
    drop(session);
    let mut again = world.open(id).await;
    turn(&mut again, "and?").await;
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
        turn(&mut session, "one").await;
        if broken {
            drop(session);
            session = world.open(id).await;
        }
        turn(&mut session, "two").await;
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
    let limited = turn(&mut session, "go").await;
    assert!(
        matches!(&limited, TurnOutcome::Over(TurnEnd::Limit, Some(error)) if error.code == ErrorCode::TurnLimit),
        "{limited:?}"
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
    let mut session = world.begin();
    let outcome = turn(&mut session, "one").await;
    assert!(matches!(
        outcome,
        TurnOutcome::Over(TurnEnd::Failed, Some(_))
    ));
    let log = world.log(session.id()).await;
    assert!(log.iter().any(|event| matches!(&event.event, Event::Error { message, .. } if message == "connection refused")));
    assert_eq!(turn(&mut session, "two").await, done());
    let responses = world.log(session.id()).await;
    let responses = responses
        .iter()
        .filter(|event| event.event.kind() == "model_response");
    assert_eq!(responses.count(), 1);
}

#[tokio::test]
async fn a_cancel_ends_a_turn_while_the_model_thinks() {
    let world = World::new(FunctionModel::new(|_| Err(error(HANGS))));
    let mut session = world.begin();
    session.say("go".into());
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
    let mut session = world.begin();
    session.say("go".into());
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
    let mut session = world.begin();
    let id = session.id();
    let TurnOutcome::Waiting(cycle) = turn(&mut session, "go").await else {
        panic!()
    };
    drop(session);
    let mut session = world.open(id).await;
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
        feedback: "gently".into(),
        ..Answer::new(waiting[0].call_id, true)
    };
    session
        .decide(cycle, "terminal", vec![answer])
        .await
        .unwrap();
    assert_eq!(session.run(keep.token()).await.unwrap(), done());
    assert_eq!(world.done().get("a"), Some(&1));
    assert!(outputs(&world.log(id).await)[0].contains("gently"));
}

#[tokio::test]
async fn an_answer_to_a_closed_question_is_refused() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\"")]),
        1 => calls(&[("do", "\"b\"")]),
        _ => says("done"),
    });
    let mut world = World::new(model);
    world.parts.permission = Permission::default();
    let mut session = world.begin();
    let TurnOutcome::Waiting(first) = turn(&mut session, "go").await else {
        unreachable!("the call asks")
    };
    let yes = |session: &Session| {
        let call_id = session.waiting()[0].call_id;
        vec![Answer::new(call_id, true)]
    };
    let keep = CancelSource::new();
    session
        .decide(first, "terminal", yes(&session))
        .await
        .unwrap();
    let TurnOutcome::Waiting(second) = session.run(keep.token()).await.unwrap() else {
        unreachable!("the second call asks too")
    };
    let stale = session.decide(first, "terminal", yes(&session)).await;
    assert!(matches!(stale, Err(Error::AlreadyDecided { open: Some(open), .. }) if open == second));
    assert_eq!(world.done().keys().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn nothing_follows_from_a_result_that_could_not_be_stored() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\"")]),
        _ => says("done"),
    });
    let world = World::new(std::sync::Arc::clone(&model));
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON events WHEN NEW.kind = 'tool_result'
                  BEGIN SELECT RAISE(ABORT, 'the disk is on fire'); END";
    world
        .parts
        .store
        .write(move |tx| tx.execute(refuse, &[]))
        .await
        .unwrap();
    let mut session = world.begin();
    let id = session.id();
    session.say("go".into());
    let keep = CancelSource::new();
    assert!(session.run(keep.token()).await.is_err());
    assert!(session.run(keep.token()).await.is_err(), "it stays refused");
    assert_eq!(
        model.requests.lock().unwrap().len(),
        1,
        "the model is not asked on"
    );
    drop(session);
    world
        .parts
        .store
        .write(|tx| tx.execute("DROP TRIGGER refuse", &[]))
        .await
        .unwrap();
    let mut session = world.open(id).await;
    assert_eq!(session.run(keep.token()).await.unwrap(), done());
    assert!(outputs(&world.log(id).await)[0].contains("interrupted"));
    assert_eq!(world.done().get("a"), Some(&1), "and it did not run again");
}

#[tokio::test]
async fn a_marked_secret_is_in_no_stored_event_and_reaches_its_tool() {
    let world = World::new(FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[
            ("do", r#"{"text": "a", "token": "t0ps3cret"}"#),
            ("do", r#"{"text": "b", "token": "t0ps3cret", "#),
            ("do", r#"{"number": "x", "token": "t0ps3cret"}"#),
        ]),
        _ => says("done"),
    }));
    let mut session = world.begin();
    assert_eq!(turn(&mut session, "go").await, done());
    let log = format!("{:?}", world.log(session.id()).await);
    assert!(!log.contains("t0ps3cret"), "{log}");
    assert!(log.contains("secret:call_"), "{log}");
    assert_eq!(
        world.done().keys().collect::<Vec<_>>(),
        ["a", "a with t0ps3cret"]
    );
}

#[tokio::test]
async fn a_request_is_on_record_before_the_model_is_asked() {
    let model = FunctionModel::new(|_| Err(error(HANGS)));
    let world = World::new(std::sync::Arc::clone(&model));
    let mut session = world.begin();
    session.say("go".into());
    let stop = CancelSource::new();
    let asked = async {
        while model.requests.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let kinds = kinds(&world.seen.0.lock().unwrap());
        stop.cancel();
        kinds
    };
    let (_, kinds) = tokio::join!(session.run(stop.token()), asked);
    assert_eq!(kinds[..3], ["session_start", "user_turn", "model_request"]);
}

#[tokio::test]
async fn saying_something_else_closes_an_open_question_without_running_it() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\"")]),
        _ => says("as you like"),
    });
    let mut world = World::new(model);
    world.parts.permission = Permission::default();
    let mut session = world.begin();
    assert!(matches!(
        turn(&mut session, "go").await,
        TurnOutcome::Waiting(_)
    ));
    assert_eq!(turn(&mut session, "leave it").await, done());
    assert!(world.done().is_empty());
    let log = world.log(session.id()).await;
    assert!(outputs(&log)[0].contains("said something else"));
}

#[tokio::test]
async fn two_processes_can_not_drive_one_session() {
    let world = World::new(FunctionModel::new(|_| says("hello")));
    let mut session = world.begin();
    turn(&mut session, "hi").await;
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
    let mut session = world.begin();
    turn(&mut session, "go").await;
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
