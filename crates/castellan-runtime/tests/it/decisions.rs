//! Answers that carry permissions for good, answers that come too late, and rules of a project.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use castellan_core::event::{Always, Answer, Scope, TurnEnd};
use castellan_core::{CancelSource, CycleId, Event};
use castellan_gate::policy::{Policy, ProjectRules};
use castellan_gate::{Error as GateError, Permission};
use castellan_runtime::{Error, Session, TurnOutcome};
use castellan_store::audit;
use castellan_store::grants::{self, Filter, GrantRow, Place};
use castellan_testkit::ManualClock;

use crate::world::{FunctionModel, World, calls, kinds, outputs, results, says};

fn done() -> TurnOutcome {
    TurnOutcome::Over(TurnEnd::Done, None)
}

/// A world in which the model makes `count` calls one after the other, each asked about.
fn asking(count: usize) -> World {
    let model = FunctionModel::new(move |messages| {
        if results(messages) < count {
            calls(&[("do", "\"a\"")])
        } else {
            says("done")
        }
    });
    let mut world = World::new(model);
    world.parts.permission = Permission::default();
    world
}

async fn run(session: &mut Session) -> TurnOutcome {
    let keep = CancelSource::new();
    session.run(keep.token()).await.unwrap()
}

async fn ask(session: &mut Session) -> CycleId {
    session.say("go".into());
    match run(session).await {
        TurnOutcome::Waiting(cycle) => cycle,
        TurnOutcome::Over(..) => unreachable!("the call asks"),
    }
}

fn always(session: &Session, scope: Scope) -> Vec<Answer> {
    let item = session.waiting().remove(0);
    vec![Answer {
        always: Some(Always {
            grant: item.grants[0].clone(),
            scope,
        }),
        ..Answer::new(item.call_id, true)
    }]
}

async fn given(world: &World) -> Vec<GrantRow> {
    let list = |tx: &castellan_store::Tx<'_>| grants::list(tx, &Filter::default(), 10);
    world.parts.store.read(list).await.unwrap().rows
}

#[tokio::test]
async fn an_answer_for_good_is_kept_with_it_and_holds_from_then_on() {
    let world = asking(3);
    let mut session = world.begin();
    let cycle = ask(&mut session).await;
    let answers = always(&session, Scope::Session);
    session.decide(cycle, "terminal", answers).await.unwrap();
    assert_eq!(run(&mut session).await, done());
    assert_eq!(world.done()["a"], 3);
    let row = given(&world).await.remove(0);
    assert_eq!(row.grant.to_string(), "do");
    assert_eq!(row.place, Place::Session(session.id()));
    assert_eq!(row.who, "person:me");
    // The first call ran by its own yes, the others by the grant.
    assert_eq!(row.uses, 2);
    let audited = world
        .parts
        .store
        .read(|tx| {
            let filter = audit::Filter {
                since: None,
                caller: None,
                limit: 10,
            };
            audit::list(tx, &filter)
        })
        .await
        .unwrap();
    let entry = audited
        .rows
        .into_iter()
        .find(|row| row.entry.tool == "grant");
    let entry = entry.unwrap().entry;
    assert!(
        entry.params.contains("given by terminal: `do` in session"),
        "{}",
        entry.params
    );
    // Another session asks.
    let mut other = world.begin();
    ask(&mut other).await;
}

#[tokio::test]
async fn a_process_that_dies_after_the_answer_has_kept_both_and_runs_the_call_once() {
    let world = asking(1);
    let mut session = world.begin();
    let id = session.id();
    let cycle = ask(&mut session).await;
    let answers = always(&session, Scope::Everywhere);
    session.decide(cycle, "terminal", answers).await.unwrap();
    drop(session);
    assert_eq!(given(&world).await.len(), 1);
    assert!(world.done().is_empty());
    let mut session = world.open(id).await;
    assert_eq!(run(&mut session).await, done());
    assert_eq!(world.done()["a"], 1);
}

#[tokio::test]
async fn an_answer_whose_permission_can_not_be_kept_is_not_kept_either() {
    let world = asking(1);
    let mut session = world.begin();
    let id = session.id();
    let cycle = ask(&mut session).await;
    let break_it = "ALTER TABLE grants RENAME TO elsewhere";
    let store = &world.parts.store;
    store.write(|tx| tx.execute(break_it, &[])).await.unwrap();
    let answers = always(&session, Scope::Everywhere);
    assert!(session.decide(cycle, "terminal", answers).await.is_err());
    drop(session);
    assert!(!kinds(&world.log(id).await).contains(&"approval_resolved"));
    let mend_it = "ALTER TABLE elsewhere RENAME TO grants";
    store.write(|tx| tx.execute(mend_it, &[])).await.unwrap();
    assert!(given(&world).await.is_empty());
    let session = world.open(id).await;
    assert_eq!(session.open_question(), Some(cycle));
}

#[tokio::test]
async fn only_what_was_offered_is_permitted_for_good() {
    let world = asking(1);
    let mut session = world.begin();
    let cycle = ask(&mut session).await;
    let call_id = session.waiting()[0].call_id;
    let with = |grant: &str, approve| Answer {
        always: Some(Always {
            grant: grant.to_owned(),
            scope: Scope::Everywhere,
        }),
        ..Answer::new(call_id, approve)
    };
    for answer in [with("*", true), with("bash", true), with("do", false)] {
        let refused = session.decide(cycle, "terminal", vec![answer]).await;
        assert!(
            matches!(refused, Err(Error::NotOffered { .. })),
            "{refused:?}"
        );
    }
    assert!(given(&world).await.is_empty());
    assert_eq!(session.open_question(), Some(cycle));
}

#[tokio::test]
async fn the_first_answer_about_a_call_counts_and_the_others_stay_open() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\""), ("do", "\"b\"")]),
        _ => says("done"),
    });
    let mut world = World::new(model);
    world.parts.permission = Permission::default();
    let mut session = world.begin();
    let cycle = ask(&mut session).await;
    let [first, second] = [0, 1].map(|one| session.waiting()[one].call_id);
    let no = vec![Answer::new(first, false)];
    session.decide(cycle, "terminal", no).await.unwrap();
    assert_eq!(session.open_question(), Some(cycle));
    let late = session
        .decide(cycle, "browser", vec![Answer::new(first, true)])
        .await;
    assert!(
        matches!(late, Err(Error::AlreadyDecided { open: Some(open), .. }) if open == cycle),
        "{late:?}"
    );
    let yes = vec![Answer::new(second, true)];
    session.decide(cycle, "browser", yes).await.unwrap();
    assert_eq!(run(&mut session).await, done());
    assert_eq!(world.done().keys().collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn a_question_that_nobody_answers_in_time_is_denied() {
    let mut world = asking(1);
    let clock = ManualClock::new();
    world.parts.clock = Arc::new(clock.clone());
    world.parts.patience = Some(Duration::from_secs(60));
    let mut session = world.begin();
    let id = session.id();
    let cycle = ask(&mut session).await;
    clock.advance(Duration::from_secs(59));
    assert_eq!(run(&mut session).await, TurnOutcome::Waiting(cycle));
    // Also across a restart.
    drop(session);
    clock.advance(Duration::from_secs(1));
    let mut session = world.open(id).await;
    assert_eq!(run(&mut session).await, done());
    assert!(world.done().is_empty());
    let log = world.log(id).await;
    assert!(
        outputs(&log)[0].starts_with("Denied by timeout: nobody answered in time"),
        "{:?}",
        outputs(&log)
    );
    let resolved = log.iter().find_map(|recorded| match &recorded.event {
        Event::ApprovalResolved { by, .. } => Some(by.as_str()),
        _ => None,
    });
    assert_eq!(resolved, Some("timeout"));
}

struct Broken;

impl ProjectRules for Broken {
    fn read(&self, folder: &Path) -> Result<Policy, GateError> {
        Err(GateError::Policy {
            what: format!("the rules in {} are wrong", folder.display()),
            hint: String::new(),
        })
    }
}

#[tokio::test]
async fn a_session_does_not_begin_without_the_rules_of_its_project() {
    let mut world = asking(1);
    world.parts.rules = Arc::new(Broken);
    let begun = Session::begin(world.parts, Path::new("/"), "me");
    assert!(matches!(begun, Err(Error::Gate(GateError::Policy { .. }))));
}
