//! Models that go round in circles are told, and stopped when they don't listen.

use castellan_core::event::TurnEnd;
use castellan_core::{CancelSource, ErrorCode, Event, Message};
use castellan_runtime::{Session, TurnOutcome};

use crate::world::{FunctionModel, World, calls, outputs, results, says};

async fn go(session: &mut Session) -> TurnOutcome {
    session.run(CancelSource::new().token()).await.unwrap()
}

fn notices(log: &[castellan_core::Recorded]) -> Vec<String> {
    log.iter()
        .filter_map(|recorded| match &recorded.event {
            Event::Notice { text, .. } => Some(text.clone()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn the_same_call_again_and_again_is_told_once_and_then_ends_the_turn() {
    let world = World::new(FunctionModel::new(|_| calls(&[("look", "\"x\"")])));
    let mut session = world.begin();
    session.say("go".into());
    let TurnOutcome::Over(TurnEnd::Failed, Some(error)) = go(&mut session).await else {
        unreachable!("it is stopped")
    };
    assert_eq!(error.code, ErrorCode::ModelLoop);
    assert!(error.message.contains("look") && !error.hint.is_empty());
    let log = world.log(session.id()).await;
    assert_eq!(outputs(&log).len(), 6);
    assert_eq!(notices(&log).len(), 1, "{:?}", notices(&log));
    let told = log.iter().position(|e| e.event.kind() == "notice").unwrap();
    assert_eq!(outputs(&log[..told]).len(), 3);
    // Taking it up gives it as many tries again, in a new process too.
    let id = session.id();
    drop(session);
    let mut session = world.open(id).await;
    session.take_up().unwrap();
    assert!(matches!(
        go(&mut session).await,
        TurnOutcome::Over(TurnEnd::Failed, _)
    ));
    assert_eq!(outputs(&world.log(id).await).len(), 12);
}

#[tokio::test]
async fn a_model_that_listens_goes_on_and_the_word_rides_on_the_result() {
    let heard = |messages: &[Message]| {
        messages.iter().any(|message| {
            matches!(message, Message::ToolResult { output, .. } if output.contains("[castellan: you have made the same call (look)"))
        })
    };
    let model = FunctionModel::new(move |messages| match heard(messages) {
        false => calls(&[("look", "\"x\"")]),
        true => says("it does not change"),
    });
    let world = World::new(std::sync::Arc::clone(&model));
    let mut session = world.begin();
    session.say("go".into());
    assert_eq!(
        go(&mut session).await,
        TurnOutcome::Over(TurnEnd::Done, None)
    );
    assert_eq!(outputs(&world.log(session.id()).await).len(), 3);
}

#[tokio::test]
async fn a_poll_whose_result_changes_is_no_circle() {
    let count = std::sync::atomic::AtomicU32::new(0);
    let mut world = World::new(FunctionModel::new(move |messages| {
        match results(messages) {
            0..9 => {
                let text = format!(
                    "\"{}\"",
                    count.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                );
                calls(&[("look", &text)])
            }
            _ => says("done"),
        }
    }));
    world.parts.limits.max_turns = 20;
    let mut session = world.begin();
    session.say("go".into());
    assert_eq!(
        go(&mut session).await,
        TurnOutcome::Over(TurnEnd::Done, None)
    );
    assert!(notices(&world.log(session.id()).await).is_empty());
}
