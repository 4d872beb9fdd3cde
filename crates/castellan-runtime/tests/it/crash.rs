//! A session cut off after any of its events goes on as if nothing had happened, but for calls
//! that had begun: those are said to have an unknown effect and never run again.

use castellan_core::event::TurnEnd;
use castellan_core::{CancelSource, Event, Message, Recorded, SessionId};
use castellan_runtime::{Session, TurnOutcome};
use castellan_store::events;

use crate::world::{FunctionModel, World, calls, outputs, results, says};

fn script(messages: &[Message]) -> Result<castellan_core::ModelReply, castellan_core::ModelError> {
    match results(messages) {
        0 => calls(&[("do", "\"a\""), ("look", "\"b\""), ("do", "\"c\"")]),
        3 => calls(&[("do", "\"d\""), ("missing", "{}")]),
        _ => says("finished"),
    }
}

/// The log of an unbroken session.
async fn whole_log() -> (SessionId, Vec<Recorded>) {
    let world = World::new(FunctionModel::new(script));
    let mut session = world.begin();
    session.say("go".into());
    session.run(CancelSource::new().token()).await.unwrap();
    (session.id(), world.log(session.id()).await)
}

/// A world in which only the first `events` of a session happened.
async fn broken_off(id: SessionId, log: &[Recorded]) -> World {
    let world = World::new(FunctionModel::new(script));
    let log = log.to_vec();
    world
        .parts
        .store
        .write(move |tx| events::append(tx, id, 0, &log, &[]))
        .await
        .unwrap();
    world
}

#[tokio::test]
async fn a_session_cut_off_after_any_event_goes_on_and_runs_nothing_twice() {
    let (id, log) = whole_log().await;
    assert!(log.len() > 20, "{}", log.len());
    for cut in 2..log.len() {
        let world = broken_off(id, &log[..cut]).await;
        let begun: Vec<_> = log[..cut]
            .iter()
            .flat_map(|event| match &event.event {
                Event::ToolInfo { items } => items.clone(),
                _ => vec![],
            })
            .map(|item| item.call_id)
            .collect();
        let ended: Vec<_> = log[..cut]
            .iter()
            .filter_map(|event| match &event.event {
                Event::ToolResult { call_id, .. } => Some(*call_id),
                _ => None,
            })
            .collect();
        let mut session = world.open(id).await;
        let outcome = session.run(CancelSource::new().token()).await.unwrap();
        assert_eq!(outcome, TurnOutcome::Over(TurnEnd::Done, None), "cut {cut}");
        assert_eq!(session.last_answer(), "finished", "cut {cut}");
        let after = world.log(id).await;
        assert_eq!(after[..cut], log[..cut], "what was stored stays, cut {cut}");
        let interrupted = begun.iter().filter(|call| !ended.contains(call)).count();
        let said = outputs(&after)
            .iter()
            .filter(|text| text.contains("interrupted"))
            .count();
        assert_eq!(said, interrupted, "cut {cut}");
        // What had begun before the cut happened in another process, if at all.
        assert!(
            world.done().values().all(|times| *times == 1),
            "cut {cut}: {:?}",
            world.done()
        );
        let calls_made = |log: &[Recorded]| {
            log.iter()
                .flat_map(|event| match &event.event {
                    Event::ModelResponse { calls, .. } => calls.clone(),
                    _ => vec![],
                })
                .count()
        };
        assert_eq!(
            outputs(&after).len(),
            calls_made(&after),
            "one result a call, cut {cut}"
        );
    }
}

#[tokio::test]
async fn interrupted_calls_say_what_is_known_of_their_effect() {
    let (id, log) = whole_log().await;
    let started = log
        .iter()
        .position(|event| event.event.kind() == "tool_info")
        .unwrap();
    let world = broken_off(id, &log[..=started]).await;
    let mut session = world.open(id).await;
    session.run(CancelSource::new().token()).await.unwrap();
    let texts = outputs(&world.log(id).await);
    assert!(
        texts[0].contains("whether it took effect is unknown"),
        "{}",
        texts[0]
    );
    assert!(texts[1].contains("nothing was changed"), "{}", texts[1]);
    assert_eq!(
        world.done().keys().collect::<Vec<_>>(),
        ["d"],
        "a and c may have happened before"
    );
}

/// Field case L02: the log has calls `c1` and `c2` and a result only for `c2`.
#[tokio::test]
async fn l02_a_call_without_a_result_gets_one_before_anything_is_sent() {
    let (id, log) = whole_log().await;
    let ends: Vec<usize> = (0..log.len())
        .filter(|at| log[*at].event.kind() == "tool_result")
        .collect();
    // The results of the first two of the three calls made together never arrived.
    let mut log = [&log[..ends[0]], &log[ends[2]..=ends[2]]].concat();
    for (seq, event) in (1..).zip(&mut log) {
        event.seq = Some(seq);
    }
    let model = FunctionModel::new(script);
    let world = World::new(std::sync::Arc::clone(&model));
    let stored = log.clone();
    let write = world
        .parts
        .store
        .write(move |tx| events::append(tx, id, 0, &stored, &[]));
    write.await.unwrap();
    let mut session = world.open(id).await;
    session.run(CancelSource::new().token()).await.unwrap();
    let after = world.log(id).await;
    // The repair is durable, stands before the next request, and nothing was run again.
    let added = &after[log.len()..];
    assert_eq!(
        crate::world::kinds(&added[..3]),
        ["tool_result", "tool_result", "model_request"]
    );
    assert!(outputs(added)[0].contains("whether it took effect is unknown"));
    assert!(outputs(added)[1].contains("nothing was changed"));
    assert_eq!(world.done().keys().collect::<Vec<_>>(), ["d"]);
    let requests = model.requests.lock().unwrap();
    let results: Vec<_> = requests[0]
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::ToolResult { output, .. } => Some(output.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 3);
    assert_eq!(results[2], "did c");
}

/// Field case L02: one user had 311 of them.
#[tokio::test]
async fn l02_311_orphans_are_all_settled_at_once() {
    const ORPHANS: usize = 311;
    let all: Vec<String> = (0..ORPHANS).map(|number| format!("\"{number}\"")).collect();
    let script = move |messages: &[Message]| match results(messages) {
        0 => {
            let all: Vec<(&str, &str)> = all.iter().map(|one| ("do", one.as_str())).collect();
            calls(&all)
        }
        _ => says("finished"),
    };
    let world = World::new(FunctionModel::new(script.clone()));
    let mut session = world.begin();
    let id = session.id();
    session.say("go".into());
    session.run(CancelSource::new().token()).await.unwrap();
    let log = world.log(id).await;
    let started = log
        .iter()
        .position(|event| event.event.kind() == "tool_info")
        .unwrap();
    let cut = log[..=started].to_vec();
    let world = World::new(FunctionModel::new(script));
    let write = world
        .parts
        .store
        .write(move |tx| events::append(tx, id, 0, &cut, &[]));
    write.await.unwrap();
    let mut session = world.open(id).await;
    let before = world.parts.store.commits();
    let outcome = session.run(CancelSource::new().token()).await.unwrap();
    assert_eq!(outcome, TurnOutcome::Over(TurnEnd::Done, None));
    let commits = world.parts.store.commits() - before;
    assert!(commits <= 4, "{commits} commits");
    let said = outputs(&world.log(id).await);
    let unknown = said.iter().filter(|text| text.contains("is unknown"));
    assert_eq!((said.len(), unknown.count()), (ORPHANS, ORPHANS));
    assert!(world.done().is_empty(), "none ran again");
}

/// Field case L02, the reverse.
#[tokio::test]
async fn l02_a_result_without_a_call_and_a_second_result_are_not_shown_to_the_model() {
    let (id, log) = whole_log().await;
    let end = log
        .iter()
        .rposition(|event| event.event.kind() == "tool_result")
        .unwrap();
    let mut log = log[..=end].to_vec();
    let (mut stray, mut second) = (log[end].clone(), log[end].clone());
    (stray.seq, second.seq) = (Some(end as u64 + 2), Some(end as u64 + 3));
    if let Event::ToolResult {
        call_id, output, ..
    } = &mut stray.event
    {
        (*call_id, *output) = (
            "call_ffffffffffffffffffffffffffffffff".parse().unwrap(),
            "stray".into(),
        );
    }
    if let Event::ToolResult { output, .. } = &mut second.event {
        *output = "second".into();
    }
    log.extend([stray, second]);
    let model = FunctionModel::new(script);
    let world = World::new(std::sync::Arc::clone(&model));
    let stored = log.clone();
    world
        .parts
        .store
        .write(move |tx| events::append(tx, id, 0, &stored, &[]))
        .await
        .unwrap();
    let mut session: Session = world.open(id).await;
    session.run(CancelSource::new().token()).await.unwrap();
    let request = format!("{:?}", model.requests.lock().unwrap()[0].messages);
    assert!(!request.contains("stray") && !request.contains("second"));
}

#[tokio::test]
async fn a_call_left_open_before_something_was_said_is_settled_first() {
    let (id, log) = whole_log().await;
    let started = log
        .iter()
        .position(|event| event.event.kind() == "tool_info")
        .unwrap();
    let world = broken_off(id, &log[..=started]).await;
    let mut session = world.open(id).await;
    session.say("what happened?".into());
    session.run(CancelSource::new().token()).await.unwrap();
    let kinds = crate::world::kinds(&world.log(id).await);
    let said = kinds.iter().rposition(|kind| *kind == "user_turn").unwrap();
    assert_eq!(
        kinds[said - 3..said],
        ["tool_result", "tool_result", "tool_result"]
    );
}
