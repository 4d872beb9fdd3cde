//! The genome: proposals, decisions, drift, the way back.

use castellan_core::event::MutationAction;
use castellan_core::tool::Preview;
use castellan_core::{Clock as _, ErrorCode, Event};
use castellan_store::genome::Origin;
use castellan_substrate::genome::{Genome, history};
use castellan_substrate::resource;
use serde_json::{Value, json};

use crate::drive::World;

const PROPOSE: &str = "castellan_propose_mutation";
const RESOLVE: &str = "castellan_resolve_mutation";

fn weights(change: &Value) -> Value {
    json!({"target": "/substrate/weights", "change": change, "rationale": "to see"})
}

fn resolve(proposal: &Value, decision: &str) -> Value {
    json!({"proposal": proposal, "decision": decision, "reason": "it was looked at"})
}

async fn current(world: &World) -> Value {
    let text = resource::read(&world.store, "genome://current").await;
    serde_json::from_str(&text.unwrap().unwrap()).unwrap()
}

#[tokio::test]
async fn a_proposal_shows_what_would_change_and_changes_nothing() {
    let world = World::new();
    let before = current(&world).await;
    assert_eq!(
        (&before["version"], &before["drift"]),
        (&json!(1), &json!(0.0))
    );
    let report = world.report(PROPOSE, &weights(&json!({"food": 2.0}))).await;
    let reply: Value = serde_json::from_str(&report.outcome.into_text()).unwrap();
    assert_eq!(reply["base_version"], json!(1));
    assert_eq!(reply["base_hash"], before["hash"]);
    assert_eq!(reply["drift"], json!({"step": 0.2, "from_baseline": 0.2}));
    assert!(
        reply["diff"]
            .as_str()
            .unwrap()
            .contains("+      \"food\": 2.0")
    );
    assert_eq!(
        report.events,
        [Event::Mutation {
            action: MutationAction::Proposed,
            proposal: Some(reply["proposal"].as_str().unwrap().to_owned()),
            version: 1,
            drift: 0.2,
            reason: "to see".to_owned(),
        }]
    );
    let after = current(&world).await;
    assert_eq!(
        (&after["hash"], &after["genome"]),
        (&before["hash"], &before["genome"])
    );
    let log = history::log(&world.store, 10).await.unwrap();
    assert_eq!((log.versions.total, log.open.total), (1, 1));
}

#[tokio::test]
async fn an_accepted_mutation_holds_and_steers_the_pressure() {
    let world = World::new();
    for (signal, amount) in [("food", 3.0), ("danger", 1.0)] {
        let deposit = json!({"zone": "grid", "signal": signal, "amount": amount});
        world.call("castellan_deposit_signal", deposit).await;
    }
    let change = json!({"weights": {"food": 2.0, "danger": -4.0}, "half_life": 0});
    let proposal = json!({"target": "/substrate", "change": change, "rationale": "to see"});
    let proposed = world.call(PROPOSE, proposal).await;
    let arguments = resolve(&proposed["proposal"], "accept");
    let (inspection, report) = world.call_raw(RESOLVE, &arguments.to_string()).await;
    let inspection = inspection.unwrap();
    assert!(
        inspection.header.contains("/substrate"),
        "{}",
        inspection.header
    );
    let Preview::Diff { unified, note, .. } = inspection.preview else {
        panic!("who decides sees the diff")
    };
    assert_eq!(unified, proposed["diff"].as_str().unwrap());
    assert!(
        note.contains("to see") && note.contains("mcp_client:tester"),
        "{note}"
    );
    let accepted: Value = serde_json::from_str(&report.outcome.into_text()).unwrap();
    assert_eq!(
        (&accepted["version"], &accepted["decision"]),
        (&json!(2), &json!("accept"))
    );
    assert_eq!(accepted["hash"], proposed["result_hash"]);
    assert!(matches!(
        &report.events[..],
        [Event::Mutation {
            action: MutationAction::Accepted,
            version: 2,
            ..
        }]
    ));
    let read = world
        .call("castellan_read_signal", json!({"zone": "grid"}))
        .await;
    assert_eq!(read["pressure"], json!(2.0));
    // A new signal fades as the genome says, one that exists as before.
    let new = json!({"zone": "grid", "signal": "new", "amount": 1});
    let new = world.call("castellan_deposit_signal", new).await;
    assert_eq!(new["half_life"], json!(0.0));
    let old = json!({"zone": "grid", "signal": "food", "amount": 1});
    let old = world.call("castellan_deposit_signal", old).await;
    assert_eq!(old["half_life"], json!(600.0));
    let now = current(&world).await;
    assert_eq!(now["proposal"], proposed["proposal"]);
    assert_eq!(now["genome"]["substrate"]["weights"]["danger"], json!(-4.0));
    let first = resource::read(&world.store, "genome://1").await;
    assert!(first.unwrap().unwrap().contains("\"version\":1"));
}

#[tokio::test]
async fn a_rejected_mutation_is_kept_with_its_reason() {
    let world = World::new();
    let proposed = world.call(PROPOSE, weights(&json!({"food": 2.0}))).await;
    let report = world
        .report(RESOLVE, &resolve(&proposed["proposal"], "reject"))
        .await;
    assert!(!report.outcome.is_error());
    assert!(matches!(
        &report.events[..],
        [Event::Mutation { action: MutationAction::Rejected, version: 1, reason, .. }]
            if reason == "it was looked at"
    ));
    for decision in ["accept", "reject"] {
        let (code, text) = world
            .fails(RESOLVE, resolve(&proposed["proposal"], decision))
            .await;
        assert_eq!(code, ErrorCode::AlreadyDecided);
        assert!(text.contains("it was looked at"), "{text}");
    }
    assert_eq!(current(&world).await["version"], json!(1));
}

#[tokio::test]
async fn a_stale_proposal_is_a_conflict_and_how_to_rebase_it_is_said() {
    let world = World::new();
    let one = world.call(PROPOSE, weights(&json!({"food": 2.0}))).await;
    let two = world.call(PROPOSE, weights(&json!({"home": 3.0}))).await;
    let gone = json!({
        "target": "/substrate/weights", "change": {"food": 2.0}, "rationale": "the same again",
    });
    let three = world.call(PROPOSE, gone).await;
    world
        .call(RESOLVE, resolve(&one["proposal"], "accept"))
        .await;
    let (code, text) = world
        .fails(RESOLVE, resolve(&two["proposal"], "accept"))
        .await;
    assert_eq!(code, ErrorCode::ConcurrentUpdate);
    assert!(
        text.contains("made against version 1, and version 2 holds now"),
        "{text}"
    );
    // The arguments in the text are those of a proposal on the version that holds.
    let begin = text.find("{\"target\"").unwrap();
    let arguments = text.split_at(begin).1.trim_end_matches('.');
    let rebased = world
        .report(PROPOSE, &serde_json::from_str(arguments).unwrap())
        .await;
    let rebased: Value = serde_json::from_str(&rebased.outcome.into_text()).unwrap();
    assert_eq!(rebased["base_version"], json!(2));
    world
        .call(RESOLVE, resolve(&rebased["proposal"], "accept"))
        .await;
    let weights = current(&world).await["genome"]["substrate"]["weights"].clone();
    assert_eq!(weights, json!({"food": 2.0, "home": 3.0}));
    let (code, text) = world
        .fails(RESOLVE, resolve(&three["proposal"], "accept"))
        .await;
    assert_eq!(code, ErrorCode::ConcurrentUpdate);
    assert!(text.contains("changes nothing"), "{text}");
    // It can still be rejected.
    world
        .call(RESOLVE, resolve(&three["proposal"], "reject"))
        .await;
}

#[tokio::test]
async fn what_nobody_may_accept_is_refused_at_once_and_not_kept() {
    let world = World::new();
    let deny = json!({
        "target": "/policy/actions", "change": {"bash": "deny"}, "rationale": "never",
    });
    let deny = world.call(PROPOSE, deny).await;
    world
        .call(RESOLVE, resolve(&deny["proposal"], "accept"))
        .await;
    for (target, change, wanted) in [
        (
            "/policy/actions/bash",
            json!("allow"),
            ErrorCode::MutationRefused,
        ),
        (
            "/policy",
            json!({"actions": null}),
            ErrorCode::MutationRefused,
        ),
        ("", Value::Null, ErrorCode::Validation),
        ("/nowhere", json!(1), ErrorCode::NotFound),
        ("substrate", json!(1), ErrorCode::NotFound),
        ("/substrate/half_life", json!(-1), ErrorCode::Validation),
        ("/substrate/half_life", json!("NaN"), ErrorCode::Validation),
        ("/substrate", json!({"wieghts": {}}), ErrorCode::Validation),
        ("/substrate", json!({}), ErrorCode::Validation),
        (
            "/prompts",
            json!({"a": "x".repeat(70_000)}),
            ErrorCode::Validation,
        ),
    ] {
        let arguments = json!({"target": target, "change": change, "rationale": "to see"});
        let (code, text) = world.fails(PROPOSE, arguments).await;
        assert_eq!(code, wanted, "{target} {change}: {text}");
    }
    for rationale in ["", "  ", "a\u{0}"] {
        let arguments = json!({"target": "/prompts", "change": {"a": "b"}, "rationale": rationale});
        assert_eq!(
            world.fails(PROPOSE, arguments).await.0,
            ErrorCode::Validation
        );
    }
    let log = history::log(&world.store, 10).await.unwrap();
    assert_eq!((log.versions.total, log.open.total), (2, 0));
}

#[tokio::test]
async fn a_proposal_that_is_none_is_said_with_those_that_are_open() {
    let world = World::new();
    for id in ["", "mut_", "7", "ws_00000000000000000000000000000001"] {
        let (code, _) = world.fails(RESOLVE, resolve(&json!(id), "accept")).await;
        assert_eq!(code, ErrorCode::Validation, "{id}");
    }
    let absent = json!("mut_00000000000000000000000000000009");
    let (code, text) = world.fails(RESOLVE, resolve(&absent, "accept")).await;
    assert_eq!(code, ErrorCode::NotFound);
    assert!(text.contains("o proposal is open"), "{text}");
    let open = world.call(PROPOSE, weights(&json!({"food": 2.0}))).await;
    let (_, text) = world.fails(RESOLVE, resolve(&absent, "accept")).await;
    assert!(text.contains(open["proposal"].as_str().unwrap()), "{text}");
    let without = json!({"proposal": open["proposal"], "decision": "accept", "reason": ""});
    assert_eq!(world.fails(RESOLVE, without).await.0, ErrorCode::Validation);
    let neither = resolve(&open["proposal"], "perhaps");
    assert_eq!(world.fails(RESOLVE, neither).await.0, ErrorCode::Validation);
}

#[tokio::test]
async fn a_rollback_brings_an_earlier_version_back_as_a_new_one() {
    let world = World::new();
    let store = &world.store;
    // Before anything was proposed there is nothing to go back to, and that is no error.
    let now = world.clock.now();
    let nothing = history::roll_back(store, 1, ("person:anna", "to see", now), |_| Ok(())).await;
    assert_eq!(nothing.unwrap(), None);
    for weight in [2.0, 3.0] {
        let proposed = world.call(PROPOSE, weights(&json!({"food": weight}))).await;
        world
            .call(RESOLVE, resolve(&proposed["proposal"], "accept"))
            .await;
    }
    let (version, event) = history::roll_back(store, 1, ("person:anna", "worse", now), |_| Ok(()))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (version.stored.version, &version.genome),
        (4, &Genome::default())
    );
    assert_eq!(version.stored.origin, Origin::Rollback(1));
    assert!(matches!(
        event,
        Event::Mutation {
            action: MutationAction::RolledBack,
            version: 4,
            drift: 0.0,
            ..
        }
    ));
    assert_eq!(current(&world).await["restored"], json!(1));
    let diff = history::diff(store, 3, 4).await.unwrap();
    assert!(diff.contains("-      \"food\": 3.0"), "{diff}");
    assert_eq!(history::diff(store, 1, 4).await.unwrap(), "");
    assert!(history::diff(store, 1, 9).await.is_err());
    assert!(
        history::roll_back(store, 9, ("a", "b", now), |_| Ok(()))
            .await
            .is_err()
    );
    let log = history::log(store, 2).await.unwrap();
    assert_eq!((log.versions.rows.len(), log.versions.total), (2, 4));
    assert_eq!(history::version(store, 9).await.unwrap(), None);
}

#[tokio::test]
async fn a_resource_of_the_genome_that_is_none_is_said() {
    let world = World::new();
    for (uri, wanted) in [
        ("genome://2", ErrorCode::NotFound),
        ("genome://newest", ErrorCode::Validation),
        ("genome://-1", ErrorCode::Validation),
        ("genome://", ErrorCode::Validation),
    ] {
        let read = resource::read(&world.store, uri).await.unwrap();
        assert_eq!(read.unwrap_err().code(), Some(wanted), "{uri}");
    }
    for uri in ["pane://1", "episode://1", "nothing", ""] {
        assert!(resource::read(&world.store, uri).await.is_none(), "{uri}");
    }
}
