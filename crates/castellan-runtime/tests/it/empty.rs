//! Answers that hold nothing, or nothing but reasoning.

use castellan_core::event::TurnEnd;
use castellan_core::model::Finish;
use castellan_core::{CancelSource, ErrorCode, Message, ModelError, ModelReply, Reasoning};
use castellan_runtime::TurnOutcome;

use crate::world::{FunctionModel, World, calls, results, says};

fn nothing(finish: Finish, reasoning: &str) -> Result<ModelReply, ModelError> {
    says(" \n").map(|reply| ModelReply {
        finish,
        reasoning: Reasoning::of_words(reasoning.to_owned()),
        ..reply
    })
}

fn shown(messages: &[Message], words: &str) -> bool {
    format!("{messages:?}").contains(words)
}

async fn turn(world: &World) -> (castellan_runtime::Session, TurnOutcome) {
    let mut session = world.begin();
    session.say("go".into());
    let outcome = session.run(CancelSource::new().token()).await.unwrap();
    (session, outcome)
}

#[tokio::test]
async fn a_model_that_answers_nothing_is_told_and_goes_on() {
    for (finish, reasoning, word) in [
        (Finish::Stop, "", "your last answer was empty"),
        (Finish::Stop, "hm", "only your reasoning arrived"),
        (Finish::Length, "hm", "reached the output limit"),
        (
            Finish::Other("odd".into()),
            "",
            "your last answer was empty",
        ),
    ] {
        let model = FunctionModel::new(move |messages| match results(messages) {
            0 => calls(&[("look", "\"x\"")]),
            _ if shown(messages, word) => says("done"),
            _ => nothing(finish.clone(), reasoning),
        });
        let world = World::new(std::sync::Arc::clone(&model));
        let (session, outcome) = turn(&world).await;
        assert_eq!(outcome, TurnOutcome::Over(TurnEnd::Done, None), "{word}");
        assert_eq!(session.last_answer(), "done");
        for request in model.requests.lock().unwrap().iter() {
            for message in &request.messages {
                if let Message::Assistant { text, calls, .. } = message {
                    assert!(!text.trim().is_empty() || !calls.is_empty(), "{request:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_model_that_never_answers_anything_ends_the_turn_after_three_tries() {
    let model = FunctionModel::new(|_| nothing(Finish::Stop, ""));
    let world = World::new(std::sync::Arc::clone(&model));
    let (mut session, outcome) = turn(&world).await;
    let TurnOutcome::Over(TurnEnd::Failed, Some(error)) = outcome else {
        unreachable!("{outcome:?}")
    };
    assert_eq!(error.code, ErrorCode::ModelEmpty);
    assert_eq!(model.requests.lock().unwrap().len(), 3);
    // What was told is told once each time, and taking it up begins anew.
    session.take_up().unwrap();
    session.run(CancelSource::new().token()).await.unwrap();
    assert_eq!(model.requests.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn an_answer_withheld_by_a_filter_ends_the_turn_at_once() {
    let model = FunctionModel::new(|_| nothing(Finish::ContentFilter, ""));
    let world = World::new(std::sync::Arc::clone(&model));
    let (_session, outcome) = turn(&world).await;
    assert!(
        matches!(&outcome, TurnOutcome::Over(TurnEnd::Failed, Some(error)) if error.message.contains("content filter")),
        "{outcome:?}"
    );
    assert_eq!(model.requests.lock().unwrap().len(), 1);
}
