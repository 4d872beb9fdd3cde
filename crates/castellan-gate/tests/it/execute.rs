//! Several calls at once: order, bounds, deadlines, cancels and panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use castellan_core::tool::Effect;
use castellan_core::{Event, Outcome};
use serde_json::Value;
use tokio::sync::{Barrier, Notify};

use castellan_testkit::FakeTool;

use crate::bench_of_tools::{Bench, Told};

#[tokio::test]
async fn calls_run_at_the_same_time() {
    // Each call waits for the other: one after the other they would never end.
    let both = Arc::new(Barrier::new(2));
    let tool = FakeTool::new("meet", Effect::ReadOnly, move |_, _| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            Outcome::read("met")
        }
    });
    let bench = Bench::new(vec![tool]);
    let calls = [bench.call("meet", "{}"), bench.call("meet", "{}")];
    bench.handle(&calls).await.unwrap();
    assert_eq!(bench.memory.results().len(), 2);
}

#[tokio::test]
async fn at_most_four_calls_run_at_once() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let tool = FakeTool::new("count", Effect::ReadOnly, move |_, _| {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        async move {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            Outcome::read("counted")
        }
    });
    let bench = Bench::new(vec![tool]);
    let calls: Vec<_> = (0..12).map(|_| bench.call("count", "{}")).collect();
    bench.handle(&calls).await.unwrap();
    assert_eq!(bench.memory.results().len(), 12);
    assert_eq!(seen.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn calls_on_the_same_path_run_in_order() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let tool = FakeTool::new("step", Effect::ReadOnly, move |args, _| {
        let order = Arc::clone(&order);
        async move {
            let number = args.get("number").and_then(Value::as_i64).unwrap();
            order.lock().unwrap().push(number);
            // The later a call, the less it yields: unordered, the last would end first.
            for _ in number..20 {
                tokio::task::yield_now().await;
            }
            order.lock().unwrap().push(number);
            Outcome::read("stepped")
        }
    });
    let bench = Bench::new(vec![tool]);
    let call = |n: i64| bench.call("step", format!(r#"{{"number": {n}, "path": "/same"}}"#));
    bench
        .handle(&(0..6).map(call).collect::<Vec<_>>())
        .await
        .unwrap();
    let order = seen.lock().unwrap().clone();
    assert_eq!(order, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
}

#[tokio::test]
async fn a_panic_is_the_result_of_its_call_only() {
    let bad = FakeTool::new("bad", Effect::Writes, |_, _| async {
        panic!("index out of bounds")
    });
    let mut bench = Bench::new(vec![bad, FakeTool::echo()]);
    bench.permission.skip = true;
    let calls = [bench.call("bad", "{}"), bench.call("echo", "\"fine\"")];
    bench.handle(&calls).await.unwrap();
    let results = bench.memory.results();
    let bad = results.iter().find(|(name, ..)| name == "bad").unwrap();
    assert!(
        bad.2.contains("index out of bounds") && bad.1 == "failed",
        "{bad:?}"
    );
    let effect = bench
        .memory
        .events()
        .into_iter()
        .find_map(|event| match event {
            Event::ToolResult { name, effect, .. } if name == "bad" => Some(effect),
            _ => None,
        });
    assert_eq!(effect, Some(castellan_core::EffectStatus::Unknown));
    assert!(
        results
            .iter()
            .any(|(name, outcome, _)| name == "echo" && outcome == "done")
    );
}

/// A tool that says when it runs and never ends by itself.
fn stuck(started: &Arc<Notify>) -> FakeTool {
    let started = Arc::clone(started);
    FakeTool::new("stuck", Effect::Writes, move |_, _| {
        let started = Arc::clone(&started);
        async move {
            started.notify_one();
            futures::future::pending().await
        }
    })
}

#[tokio::test]
async fn a_call_past_its_deadline_is_ended() {
    let started = Arc::new(Notify::new());
    let mut bench = Bench::new(vec![stuck(&started)]);
    bench.permission.skip = true;
    let calls = [bench.call("stuck", "{}")];
    let late = async {
        started.notified().await;
        bench.clock.advance(Duration::from_secs(10));
    };
    let (handled, ()) = tokio::join!(bench.handle(&calls), late);
    handled.unwrap();
    assert_eq!(bench.memory.results()[0].1, "timed_out");
}

#[tokio::test]
async fn a_cancel_ends_what_runs_after_a_second_and_what_waits_at_once() {
    let started = Arc::new(Notify::new());
    let mut bench = Bench::new(vec![stuck(&started)]);
    bench.permission.skip = true;
    let call = || bench.call("stuck", r#"{"path": "/same"}"#);
    let calls = [call(), call()];
    let cancel = async {
        started.notified().await;
        bench.stop.cancel();
        // The second call never began: its result is there before the first one's second is over.
        while bench.memory.results().is_empty() {
            tokio::task::yield_now().await;
        }
        let sleeps = bench.clock.sleeps();
        assert!(sleeps.contains(&Duration::from_secs(1)), "{sleeps:?}");
        bench.clock.advance(Duration::from_secs(1));
    };
    let (handled, ()) = tokio::join!(bench.handle(&calls), cancel);
    handled.unwrap();
    let results = bench.memory.results();
    assert!(results.iter().all(|(_, outcome, _)| outcome == "cancelled"));
    assert!(results[0].2.contains("before it began"), "{results:?}");
}

#[tokio::test]
async fn a_call_that_heeds_the_cancel_keeps_what_it_said() {
    let started = Arc::new(Notify::new());
    let running = Arc::clone(&started);
    let tool = FakeTool::new("heeds", Effect::Writes, move |_, context| {
        let running = Arc::clone(&running);
        async move {
            running.notify_one();
            context.cancel.await;
            let effect = castellan_core::EffectStatus::Partial;
            Outcome::Cancelled {
                output: "half done".into(),
                effect,
            }
        }
    });
    let mut bench = Bench::new(vec![tool]);
    bench.permission.skip = true;
    let calls = [bench.call("heeds", "{}")];
    let cancel = async {
        started.notified().await;
        bench.stop.cancel();
    };
    let (handled, ()) = tokio::join!(bench.handle(&calls), cancel);
    handled.unwrap();
    assert_eq!(bench.memory.results()[0].2, "half done");
}

#[tokio::test]
async fn live_output_is_bounded_and_ends_before_the_result() {
    let tool = FakeTool::new("talk", Effect::ReadOnly, |_, context| async move {
        for number in 0..5000 {
            context.progress.output(&format!("line {number}\n"));
        }
        context.progress.output("no newline");
        Outcome::read("done talking")
    });
    let mut bench = Bench::new(vec![tool]);
    bench.result_limit = 20_000;
    bench.handle(&[bench.call("talk", "{}")]).await.unwrap();
    let live = bench.memory.live();
    assert!(
        live.len() < 26_000 && live.contains("live output ends here"),
        "{}",
        live.len()
    );
    let told = bench.memory.told.lock().unwrap().clone();
    let result = told
        .iter()
        .position(|told| matches!(told, Told::Noted(Event::ToolResult { .. })))
        .unwrap();
    assert!(
        !told[result..]
            .iter()
            .any(|told| matches!(told, Told::Passed(_)))
    );
}
