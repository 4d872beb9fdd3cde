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

fn start(session: Session) -> Running {
    let (live, drive) = Live::start(session);
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
    let running = start(world.begin());
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
    let running = start(world.begin());
    running.live.say("go").unwrap();
    let Question {
        cycle_id, items, ..
    } = running.asked().await;
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
async fn a_call_keeps_its_number_while_others_are_answered_and_in_another_process() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("do", "\"a\""), ("do", "\"b\""), ("do", "\"c\"")]),
        _ => says("done"),
    });
    let world = asking(model);
    let running = start(world.begin());
    running.live.say("go").unwrap();
    let asked = running.asked().await;
    assert_eq!((asked.numbers.as_slice(), asked.asked), (&[1, 2, 3][..], 3));
    let no = vec![Answer::new(asked.items[1].call_id, false)];
    running.live.decide(asked.cycle_id, "a", no).await.unwrap();
    let left = Question {
        items: vec![asked.items[0].clone(), asked.items[2].clone()],
        numbers: vec![1, 3],
        ..asked
    };
    running
        .until(|standing| standing.question.as_ref() == Some(&left))
        .await;
    let id = running.live.id();
    drop(running.left().await);
    let again = start(world.open(id).await);
    assert_eq!(again.asked().await, left);
}

#[tokio::test]
async fn a_question_of_a_stored_session_is_open_again_for_whoever_comes() {
    let world = asking(acts());
    let running = start(world.begin());
    running.live.say("go").unwrap();
    let asked = running.asked().await;
    let id = running.live.id();
    drop(running.left().await);
    let again = start(world.open(id).await);
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
    let running = start(world.begin());
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
    let running = start(world.begin());
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
    let running = start(world.begin());
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
    world.parts.patience = Some(Duration::from_secs(60));
    let running = start(world.begin());
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
    let running = start(world.begin());
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
    let running = start(world.begin());
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
    let running = start(world.begin());
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

/// A model that answers at length, and hangs where it is asked for a summary.
fn long_answers() -> Arc<FunctionModel> {
    FunctionModel::new(|messages| {
        if matches!(&messages[0], Message::System { text } if text.starts_with("You write summaries"))
        {
            return Err(error(HANGS));
        }
        says(&"a long answer ".repeat(1_500))
    })
}

#[tokio::test]
async fn a_compaction_is_stopped_like_a_turn_and_nothing_else_is_done_meanwhile() {
    let world = World::new(long_answers());
    let running = start(world.begin());
    for text in ["one", "two", "three"] {
        running.live.say(text.to_owned()).unwrap();
    }
    running.over().await;
    let (live, other) = (running.live.clone(), running.live.clone());
    let meanwhile = async {
        running
            .until(|standing| standing.activity == Activity::Running)
            .await;
        assert!(matches!(other.compact(None).await, Err(Refusal::Busy)));
        assert!(matches!(other.take_up().await, Err(Refusal::Busy)));
        other.say("later".to_owned()).unwrap();
        assert_eq!(other.stop().len(), 1);
    };
    let (compacted, ()) = tokio::join!(live.compact(Some("dates".to_owned())), meanwhile);
    assert!(
        matches!(compacted, Err(Refusal::Session(Error::Stopped))),
        "{compacted:?}"
    );
    running.live.say("four".to_owned()).unwrap();
    running.over().await;
    let id = running.live.id();
    let session = running.left().await;
    assert!(!session.is_unfinished());
    let log = world.log(id).await;
    assert!(!crate::world::kinds(&log).contains(&"compaction"));
}

#[tokio::test]
async fn a_question_comes_before_a_compaction() {
    let world = asking(acts());
    let running = start(world.begin());
    running.live.say("go".to_owned()).unwrap();
    running.asked().await;
    assert!(matches!(
        running.live.compact(None).await,
        Err(Refusal::Busy)
    ));
}

#[tokio::test]
async fn what_is_said_right_after_a_stop_is_said() {
    for _ in 0..50 {
        let model = FunctionModel::new(|messages| {
            let said = format!("{messages:?}");
            if said.contains("again") {
                says("ok")
            } else {
                Err(error(HANGS))
            }
        });
        let world = World::new(model);
        let running = start(world.begin());
        running.live.say("go".to_owned()).unwrap();
        drop(running.live.stop());
        running.live.say("again".to_owned()).unwrap();
        running
            .until(|standing| matches!(standing.last, Some((TurnEnd::Done, _))))
            .await;
        running.left().await;
    }
}

#[tokio::test]
async fn queueing_does_not_give_a_question_more_time() {
    let mut world = asking(acts());
    let clock = Arc::new(ManualClock::new());
    world.parts.clock = Arc::clone(&clock) as _;
    world.parts.patience = Some(Duration::from_secs(60));
    let running = start(world.begin());
    running.live.say("go".to_owned()).unwrap();
    running.asked().await;
    clock.slept(1).await;
    clock.advance(Duration::from_secs(40));
    running.live.say("hello?".to_owned()).unwrap();
    while clock.sleeps().last() != Some(&Duration::from_secs(20)) {
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_secs(20));
    assert_eq!(running.over().await, Some(TurnEnd::Done));
    let log = world.log(running.live.id()).await;
    assert!(outputs(&log)[0].contains("nobody answered in time"));
}

#[tokio::test]
async fn whoever_holds_a_handle_learns_that_the_driver_was_dropped() {
    let world = World::new(FunctionModel::new(|_| Err(error(HANGS))));
    let mut running = start(world.begin());
    running.live.say("go".to_owned()).unwrap();
    running
        .until(|standing| standing.activity == Activity::Running)
        .await;
    running.live.say("later".to_owned()).unwrap();
    running.driver.shutdown().await;
    let standing = running.until(|standing| standing.left).await;
    assert_eq!((standing.queued, standing.activity), (0, Activity::Idle));
    assert!(matches!(
        running.live.say("late".to_owned()),
        Err(Refusal::Left)
    ));
    assert!(matches!(
        running.live.compact(None).await,
        Err(Refusal::Left)
    ));
    assert!(
        !running
            .live
            .usage()
            .iter()
            .any(|spent| spent.cost.is_some())
    );
}

/// Answers all that is asked, unless somebody was faster.
async fn answer_all(live: &Live, question: &Question, approve: bool) {
    let items = question.items.iter();
    let answers = items.map(|item| Answer::new(item.call_id, approve));
    drop(
        live.decide(question.cycle_id, "hand", answers.collect())
            .await,
    );
}

/// Several people at once, each saying, stopping, answering, taking up and compacting as they like.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn however_many_hands_meddle_nothing_is_lost_said_twice_or_left_open() {
    const HANDS: usize = 4;
    const SAID: usize = 25;
    let model = FunctionModel::new(|messages| match messages.last() {
        Some(Message::User { .. }) => calls(&[("do", "\"a\""), ("look", "\"b\"")]),
        _ => says("done"),
    });
    let world = asking(model);
    let running = start(world.begin());
    let id = running.live.id();
    let mut hands = JoinSet::new();
    for hand in 0..HANDS {
        let live = running.live.clone();
        hands.spawn(async move {
            let mut taken_back = Vec::new();
            for number in 0..SAID {
                let text = format!("<{hand}-{number}>");
                if live.say(text.clone()).is_err() {
                    taken_back.push(text);
                }
                let question = live.standing().borrow().question.clone();
                if let Some(question) = question {
                    answer_all(&live, &question, hand % 2 == 0).await;
                }
                match (number + hand) % 5 {
                    0 => taken_back.extend(live.stop().into_iter().map(|said| said.text)),
                    1 => drop(live.take_up().await),
                    2 => drop(live.compact(None).await),
                    _ => tokio::task::yield_now().await,
                }
            }
            taken_back
        });
    }
    let mut taken_back = Vec::new();
    while let Some(back) = hands.join_next().await {
        taken_back.extend(back.unwrap());
    }
    // Questions that are still open are answered until all is said.
    loop {
        let standing = running
            .until(|it| it.question.is_some() || (it.queued == 0 && it.activity == Activity::Idle))
            .await;
        let Some(question) = standing.question else {
            break;
        };
        answer_all(&running.live, &question, true).await;
    }
    running.left().await;
    let log = world.log(id).await;
    let mut said: Vec<String> = taken_back;
    let (mut made, mut ended) = (Vec::new(), Vec::new());
    for recorded in &log {
        match &recorded.event {
            Event::UserTurn { text, .. } => said.push(text.clone()),
            Event::ModelResponse { calls, .. } => {
                made.extend(calls.iter().map(|call| call.call_id));
            }
            Event::ToolResult { call_id, .. } => ended.push(*call_id),
            _ => {}
        }
    }
    said.sort();
    let mut all: Vec<String> = (0..HANDS)
        .flat_map(|hand| (0..SAID).map(move |number| format!("<{hand}-{number}>")))
        .collect();
    all.sort();
    assert_eq!(said, all);
    made.sort();
    ended.sort();
    assert_eq!(made, ended, "every call has exactly one result");
}

#[tokio::test]
async fn an_answer_that_can_not_be_stored_ends_the_driver_and_everybody_learns_it() {
    let world = asking(acts());
    let mut running = start(world.begin());
    running.live.say("go").unwrap();
    let question = running.asked().await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON events WHEN NEW.kind = 'approval_resolved'
                  BEGIN SELECT RAISE(ABORT, 'the disk is on fire'); END";
    let write = world.parts.store.write(move |tx| tx.execute(refuse, &[]));
    write.await.unwrap();
    let yes = vec![Answer::new(question.items[0].call_id, true)];
    let decided = running
        .live
        .decide(question.cycle_id, "terminal", yes)
        .await;
    assert!(matches!(decided, Err(Refusal::Left)), "{decided:?}");
    assert!(running.until(|standing| standing.left).await.left);
    let ended = running.driver.join_next().await.unwrap().unwrap();
    assert!(matches!(ended, Err(Error::Gate(_) | Error::Store(_))));
    assert!(world.done().is_empty());
}
