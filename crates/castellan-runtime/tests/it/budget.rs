//! Token budgets, and what a session says it has used.

use std::collections::BTreeMap;

use castellan_core::event::TurnEnd;
use castellan_core::model::Usage;
use castellan_core::{CancelSource, ErrorCode, ModelError, ModelReply};
use castellan_runtime::{Price, Session, TurnOutcome};

use crate::world::{FunctionModel, World, calls, results, says};

const USED: Usage = Usage {
    prompt_tokens: 1_000,
    completion_tokens: 100,
    cached_tokens: 400,
    reasoning_tokens: 0,
};

fn counted(reply: Result<ModelReply, ModelError>) -> Result<ModelReply, ModelError> {
    reply.map(|reply| ModelReply {
        usage: Some(USED),
        ..reply
    })
}

/// Makes nine calls, one after the other.
fn busy() -> std::sync::Arc<FunctionModel> {
    FunctionModel::new(|messages| match results(messages) {
        done @ 0..9 => counted(calls(&[("do", &format!("\"{done}\""))])),
        _ => counted(says("done")),
    })
}

async fn run(session: &mut Session) -> TurnOutcome {
    session.run(CancelSource::new().token()).await.unwrap()
}

#[tokio::test]
async fn a_turn_that_used_its_tokens_ends_says_so_and_goes_on() {
    let mut world = World::new(busy());
    world.parts.limits.turn_tokens = Some(4_000);
    let mut session = world.begin();
    session.say("go".into());
    let TurnOutcome::Over(TurnEnd::Limit, Some(error)) = run(&mut session).await else {
        unreachable!("the limit is reached")
    };
    assert_eq!(error.code, ErrorCode::TokenLimit);
    assert!(error.message.contains("4400 of 4000"), "{}", error.message);
    assert_eq!(world.done().len(), 4);
    let id = session.id();
    drop(session);
    let mut session = world.open(id).await;
    session.take_up().unwrap();
    assert!(matches!(
        run(&mut session).await,
        TurnOutcome::Over(TurnEnd::Limit, _)
    ));
    assert_eq!(world.done().len(), 8);
}

#[tokio::test]
async fn a_session_that_used_its_tokens_goes_on_only_with_more() {
    let mut world = World::new(busy());
    world.parts.limits.session_tokens = Some(5_000);
    let mut session = world.begin();
    session.say("go".into());
    assert!(matches!(
        run(&mut session).await,
        TurnOutcome::Over(TurnEnd::Limit, _)
    ));
    session.take_up().unwrap();
    assert!(matches!(
        run(&mut session).await,
        TurnOutcome::Over(TurnEnd::Limit, _)
    ));
    assert_eq!(world.done().len(), 5);
    let id = session.id();
    drop(session);
    world.parts.limits.session_tokens = None;
    let mut session = world.open(id).await;
    session.take_up().unwrap();
    assert_eq!(
        run(&mut session).await,
        TurnOutcome::Over(TurnEnd::Done, None)
    );
}

#[tokio::test]
async fn what_was_used_survives_and_has_a_price_where_one_is_known() {
    let mut world = World::new(busy());
    let price = Price {
        input: 1.0,
        output: 10.0,
        cached_input: Some(0.5),
    };
    world.parts.prices = BTreeMap::from([("function".to_owned(), price)]);
    let mut session = world.begin();
    session.say("go".into());
    run(&mut session).await;
    let spent = session.usage();
    let id = session.id();
    drop(session);
    assert_eq!(world.open(id).await.usage(), spent);
    let totals = spent[0].totals;
    assert_eq!((spent.len(), totals.requests, totals.estimated), (1, 10, 0));
    assert_eq!(
        (totals.prompt_tokens, totals.completion_tokens),
        (10_000, 1_000)
    );
    assert_eq!(totals.cached_tokens, 4_000);
    assert!((spent[0].cost.unwrap() - 0.018).abs() < 1e-9);
}

#[tokio::test]
async fn a_budget_binds_where_the_server_counts_nothing_too() {
    let mut world = World::new(FunctionModel::new(|messages| {
        calls(&[("do", &format!("\"{}\"", results(messages)))])
    }));
    world.parts.limits.turn_tokens = Some(1_000);
    let mut session = world.begin();
    session.say("go".into());
    let TurnOutcome::Over(TurnEnd::Limit, Some(error)) = run(&mut session).await else {
        unreachable!("the limit is reached")
    };
    assert_eq!(error.code, ErrorCode::TokenLimit);
    let totals = session.usage()[0].totals;
    assert!(
        totals.estimated == totals.requests && totals.requests > 0,
        "{totals:?}"
    );
}
