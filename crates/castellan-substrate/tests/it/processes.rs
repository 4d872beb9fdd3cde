//! Several processes on one database, and processes that are killed.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::child::{Other, say, wait_for_go};
use crate::drive::World;

const PROCESSES: usize = 8;
const DEPOSITS: u64 = 1000;

/// What a started process does.
pub(crate) fn work(task: &str, place: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (task, number) = task.split_once(' ').unwrap_or((task, "0"));
    let number: u64 = number.parse().unwrap();
    match task {
        "deposit" => runtime.block_on(deposit(place, number)),
        "count" => runtime.block_on(count(place, number)),
        "mix" => runtime.block_on(mix(place)),
        "fill" => runtime.block_on(crate::faults::fill(place)),
        other => panic!("no task `{other}`"),
    }
}

/// Starts `count` processes with the same task and lets them go at the same time.
fn together(count: usize, task: &str, place: &Path) {
    let mut others: Vec<Other> = (0..count).map(|_| Other::start(task, place)).collect();
    for other in &mut others {
        other.expect("ready");
    }
    for other in &mut others {
        other.go();
    }
    for other in others {
        other.succeeds();
    }
}

/// Deposits 1 into one signal that does not fade, `times` times, by 8 tasks at once.
async fn deposit(place: &Path, times: u64) {
    let world = Arc::new(World::at(place));
    say("ready");
    wait_for_go();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let world = Arc::clone(&world);
        tasks.spawn(async move {
            for _ in 0..times / 8 {
                let arguments = json!({"zone": "z", "signal": "s", "amount": 1.0, "half_life": 0});
                world.call("castellan_deposit_signal", arguments).await;
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}

#[tokio::test]
async fn deposits_of_eight_processes_add_up_exactly() {
    let world = World::new();
    together(PROCESSES, &format!("deposit {DEPOSITS}"), &world.path);
    let read = json!({"zone": "z", "signal": "s"});
    let read = world.call("castellan_read_signal", read).await;
    let signal = &read["signals"][0];
    assert_eq!(signal["strength"], json!(8000.0));
    assert_eq!(signal["total_deposited"], json!(8000.0));
    assert_eq!(signal["deposits"], json!(8000));
    let history = world
        .call(
            "castellan_query_field_history",
            json!({"zone": "z", "limit": 1}),
        )
        .await;
    assert_eq!(history["total"], json!(8000));
    assert_eq!(history["deposits"][0]["strength"], json!(8000.0));
    world.store.get().unwrap().check().await.unwrap();
}

/// Counts up a slot, each time over the version just read, until it has done so `times` times.
async fn count(place: &Path, times: u64) {
    let world = World::at(place);
    say("ready");
    wait_for_go();
    let (mut done, mut lost) = (0, 0);
    while done < times {
        let read = world
            .call("castellan_read_blackboard", json!({"slot": "n"}))
            .await;
        let next = json!({
            "slot": "n",
            "value": read["value"].as_i64().unwrap() + 1,
            "expected_version": read["version"],
        });
        let outcome = world.report("castellan_write_blackboard", &next).await;
        match outcome
            .outcome
            .code()
            .map(castellan_core::ErrorCode::as_str)
        {
            None => done += 1,
            Some("CONCURRENT_UPDATE") => lost += 1,
            Some(other) => panic!("{other}: {}", outcome.outcome.into_text()),
        }
    }
    say(&format!("lost {lost}"));
}

#[tokio::test]
async fn of_racing_writers_of_a_slot_none_is_overwritten_unseen() {
    let world = World::new();
    let first = json!({"slot": "n", "value": 0, "expected_version": 0});
    world.call("castellan_write_blackboard", first).await;
    together(4, "count 50", &world.path);
    let read = world
        .call("castellan_read_blackboard", json!({"slot": "n"}))
        .await;
    assert_eq!(
        (&read["value"], &read["version"]),
        (&json!(200), &json!(201))
    );
}

/// Changes everything there is to change until it is killed, and says how often it was answered.
async fn mix(place: &Path) {
    let world = World::at(place);
    for number in 1_u64.. {
        let key = format!("k{}", number % 7);
        for (tool, arguments) in [
            (
                "castellan_deposit_signal",
                json!({"zone": "z", "signal": "s", "amount": 1.0, "half_life": 0}),
            ),
            (
                "castellan_write_blackboard",
                json!({"slot": "n", "value": number}),
            ),
            (
                "castellan_remember",
                json!({"key": key, "value": number.to_string()}),
            ),
        ] {
            world.call(tool, arguments).await;
        }
        say(&number.to_string());
    }
}

#[tokio::test]
async fn what_was_answered_survives_a_kill_at_any_moment() {
    let world = World::new();
    let mut answered = 0;
    for round in 0..15_usize {
        let mut other = Other::start("mix", &world.path);
        let mut said = Vec::new();
        // Killed after more and more work, the first time right after the first answers.
        for _ in 0..=round * 3 {
            said.push(other.hear().unwrap());
        }
        said.extend(other.kill());
        answered += u64::try_from(said.len()).unwrap();
        world.store.get().unwrap().check().await.unwrap();
        let read = world
            .call("castellan_read_signal", json!({"zone": "z", "signal": "s"}))
            .await;
        let signal = &read["signals"][0];
        let deposits = signal["deposits"].as_u64().unwrap();
        assert!(
            deposits >= answered,
            "round {round}: {deposits} of {answered}"
        );
        // Whole or not at all: the signal and its history tell the same.
        let sum = f64::from(u32::try_from(deposits).unwrap());
        assert_eq!(signal["strength"], json!(sum));
        let newest = world
            .call(
                "castellan_query_field_history",
                json!({"zone": "z", "limit": 1}),
            )
            .await;
        assert_eq!(newest["total"].as_u64().unwrap(), deposits);
        assert_eq!(newest["deposits"][0]["strength"], signal["strength"]);
        let slot = world
            .call("castellan_read_blackboard", json!({"slot": "n"}))
            .await;
        let version = slot["version"].as_u64().unwrap();
        assert!(version >= answered && version <= deposits);
        assert!(matches!(slot["value"], Value::Number(_)));
    }
}
