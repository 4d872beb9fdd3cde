//! A session shared by several surfaces while it lives.

use std::sync::Arc;
use std::time::Duration;

use castellan_core::event::{Answer, State as Activity, TurnEnd};
use castellan_core::{Event, Message};
use castellan_gate::Permission;
use castellan_runtime::live::{QUEUE_LIMIT, Said};
use castellan_runtime::session::Watcher;
use castellan_runtime::{Audience, Error, Live, Question, Refusal, Session, Standing};
use castellan_testkit::ManualClock;
use tokio::task::JoinSet;

use crate::world::{FunctionModel, HANGS, Seen, World, calls, error, outputs, results, says};

struct Running {
    live: Live,
    driver: JoinSet<Result<Session, Error>>,
}

fn start(world: &World, session: Session, patience: Option<Duration>) -> Running {
    let (live, drive) = Live::start(session, Arc::clone(&world.parts.clock), patience);
    let mut driver = JoinSet::new();
    driver.spawn(drive);
    Running { live, driver }
}

impl Running {
    /// Waits until the session stands like that.
    async fn until(&self, is: impl FnMut(&Standing) -> bool) -> Standing {
        self.live.standing().wait_for(is).await.unwrap().clone()
    }

    async fn over(&self) -> Option<TurnEnd> {
        let idle = |standing: &Standing| {
            standing.activity == Activity::Idle && standing.queued == 0 && standing.last.is_some()
        };
        self.until(idle).await.last.map(|(end, _)| end)
    }

    async fn asked(&self) -> Question {
        let standing = self.until(|standing| standing.question.is_some()).await;
        standing.question.unwrap()
    }

    async fn left(mut self) -> Session {
        self.live.leave().await;
        self.driver.join_next().await.unwrap().unwrap().unwrap()
    }
}

/// Says the number of messages it was shown by a person.
fn counts() -> Arc<FunctionModel> {
    FunctionModel::new(|messages| {
        let said = messages
            .iter()
            .filter(|message| matches!(message, Message::User { .. }));
        says(&format!("{} said", said.count()))
    })
}

/// Calls `do` once, then is done.
fn acts() -> Arc<FunctionModel> {
    FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\"")]),
        _ => says("done"),
    })
}

fn asking(model: Arc<FunctionModel>) -> World {
    let mut world = World::new(model);
    world.parts.permission = Permission::default();
    world
}

#[tokio::test]
async fn what_is_said_while_a_turn_is_under_way_is_said_afterwards_in_order() {
    let world = asking(acts());
    let running = start(&world, world.begin(), None);
    running.live.say("first").unwrap();
    let question = running.asked().await;
    running.live.say("second").unwrap();
    running.live.say("third").unwrap();
    running.until(|standing| standing.queued == 2).await;
    let yes = vec![Answer::new(question.items[0].call_id, true)];
    running
        .live
        .decide(question.cycle_id, "a", yes)
        .await
        .unwrap();
    assert_eq!(running.over().await, Some(TurnEnd::Done));
    let id = running.live.id();
    drop(running.left().await);
    let said: Vec<String> = world
        .log(id)
        .await
        .into_iter()
        .filter_map(|recorded| match recorded.event {
            Event::UserTurn { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["first", "second", "third"]);
}

#[tokio::test]
async fn the_first_answer_wins_and_the_second_is_told_so() {
    let world = asking(acts());
    let running = start(&world, world.begin(), None);
    running.live.say("go").unwrap();
    let Question { cycle_id, items } = running.asked().await;
    let other = running.live.clone();
    let call_id = items[0].call_id;
    let (first, second) = tokio::join!(
        running
            .live
            .decide(cycle_id, "a", vec![Answer::new(call_id, true)]),
        other.decide(cycle_id, "b", vec![Answer::new(call_id, false)]),
    );
    assert!(first.is_ok());
    assert!(matches!(
        second,
        Err(Refusal::Session(Error::AlreadyDecided { .. }))
    ));
    running.over().await;
    assert_eq!(world.done().get("a"), Some(&1));
}

#[tokio::test]
async fn a_question_of_a_stored_session_is_open_again_for_whoever_comes() {
    let world = asking(acts());
    let running = start(&world, world.begin(), None);
    running.live.say("go").unwrap();
    let asked = running.asked().await;
    let id = running.live.id();
    drop(running.left().await);
    let again = start(&world, world.open(id).await, None);
    assert_eq!(again.asked().await, asked);
    let yes = vec![Answer::new(asked.items[0].call_id, true)];
    again.live.decide(asked.cycle_id, "b", yes).await.unwrap();
    assert_eq!(again.over().await, Some(TurnEnd::Done));
    assert_eq!(world.done().get("a"), Some(&1));
}

#[tokio::test]
async fn a_stop_ends_the_turn_and_gives_back_what_was_queued() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("wait", "{}")]),
        _ => says("done"),
    });
    let world = World::new(model);
    let running = start(&world, world.begin(), None);
    running.live.say("go").unwrap();
    running
        .until(|standing| standing.activity == Activity::Running)
        .await;
    running.live.say("later").unwrap();
    assert_eq!(running.live.stop(), [Said::from("later")]);
    assert_eq!(running.over().await, Some(TurnEnd::Cancelled));
    assert!(running.live.stop().is_empty());
    running.live.say("again").unwrap();
    running
        .until(|standing| matches!(standing.last, Some((TurnEnd::Done, _))))
        .await;
}

#[tokio::test]
async fn a_stop_closes_an_open_question() {
    let world = asking(acts());
    let running = start(&world, world.begin(), None);
    running.live.say("go").unwrap();
    let question = running.asked().await;
    assert!(running.live.stop().is_empty());
    assert_eq!(running.over().await, Some(TurnEnd::Cancelled));
    let yes = vec![Answer::new(question.items[0].call_id, true)];
    let late = running.live.decide(question.cycle_id, "a", yes).await;
    assert!(matches!(
        late,
        Err(Refusal::Session(Error::AlreadyDecided { open: None, .. }))
    ));
    assert!(world.done().is_empty());
}

#[tokio::test]
async fn a_turn_that_failed_is_taken_up_again() {
    let tries = std::sync::atomic::AtomicU32::new(0);
    let model = FunctionModel::new(move |_| {
        match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Err(error("connection refused")),
            _ => says("done"),
        }
    });
    let world = World::new(model);
    let running = start(&world, world.begin(), None);
    assert!(matches!(
        running.live.take_up().await,
        Err(Refusal::Session(Error::NothingToDo(_)))
    ));
    running.live.say("go").unwrap();
    assert_eq!(running.over().await, Some(TurnEnd::Failed));
    let standing = running.live.standing().borrow().clone();
    assert!(standing.unfinished);
    assert_eq!(
        standing.last.unwrap().1.unwrap().message,
        "connection refused"
    );
    running.live.take_up().await.unwrap();
    let done = |standing: &Standing| matches!(standing.last, Some((TurnEnd::Done, None)));
    running.until(done).await;
    assert!(running.driver.len() == 1);
}

#[tokio::test]
async fn a_question_nobody_answers_in_time_is_denied() {
    let mut world = asking(acts());
    let clock = Arc::new(ManualClock::new());
    world.parts.clock = Arc::clone(&clock) as _;
    let running = start(&world, world.begin(), Some(Duration::from_secs(60)));
    running.live.say("go").unwrap();
    running.asked().await;
    clock.slept(1).await;
    clock.advance(Duration::from_secs(60));
    assert_eq!(running.over().await, Some(TurnEnd::Done));
    assert!(world.done().is_empty());
    let log = world.log(running.live.id()).await;
    assert!(outputs(&log)[0].contains("nobody answered in time"));
}

#[tokio::test]
async fn leaving_in_mid_turn_stops_it_and_gives_the_session_back() {
    let world = World::new(FunctionModel::new(|_| Err(error(HANGS))));
    let running = start(&world, world.begin(), None);
    running.live.say("go").unwrap();
    running
        .until(|standing| standing.activity == Activity::Running)
        .await;
    let live = running.live.clone();
    let session = running.left().await;
    assert!(session.is_unfinished());
    assert!(matches!(live.say("late"), Err(Refusal::Left)));
    assert!(matches!(live.take_up().await, Err(Refusal::Left)));
}

#[tokio::test]
async fn the_queue_has_an_end() {
    let world = asking(acts());
    let running = start(&world, world.begin(), None);
    running.live.say("go").unwrap();
    running.asked().await;
    for _ in 0..QUEUE_LIMIT {
        running.live.say("more").unwrap();
    }
    assert!(matches!(running.live.say("more"), Err(Refusal::Full)));
}

#[tokio::test]
async fn everyone_in_the_audience_sees_every_event_until_they_part() {
    let mut world = World::new(counts());
    let audience = Arc::new(Audience::default());
    let (stays, goes) = (Arc::<Seen>::default(), Arc::<Seen>::default());
    let gone = Arc::clone(&goes) as Arc<dyn Watcher>;
    audience.join(Arc::clone(&stays) as _);
    audience.join(Arc::clone(&gone));
    world.parts.watcher = Arc::clone(&audience) as _;
    let running = start(&world, world.begin(), None);
    running.live.say("one").unwrap();
    running.over().await;
    assert_eq!(*stays.0.lock().unwrap(), *goes.0.lock().unwrap());
    audience.part(&gone);
    let before = goes.0.lock().unwrap().len();
    running.live.say("two").unwrap();
    running.until(|standing| standing.queued == 0).await;
    drop(running.left().await);
    assert_eq!(goes.0.lock().unwrap().len(), before);
    assert!(stays.0.lock().unwrap().len() > before);
}
