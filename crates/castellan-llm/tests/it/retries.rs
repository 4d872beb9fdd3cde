//! What is tried again, after how long, and when it ends (L08).

use std::sync::Arc;
use std::time::Duration;

use castellan_core::{ErrorCode, ModelEvent};
use castellan_llm::{ChatModel, ChatSettings};
use castellan_testkit::{ManualClock, ModelServer, Reply, SequentialIds};

use crate::world::{ask, ask_once, hello, http, model_with, settings};

/// Asks a server that refuses once with this header, and returns how long was waited.
async fn wait_after(status: u16, header: Option<(&str, &str)>) -> Duration {
    let mut refusal = Reply::error(status, "slow down");
    if let Some((name, value)) = header {
        refusal = refusal.header(name, value);
    }
    let server = ModelServer::scripted([refusal, Reply::text("yes")]);
    let clock = ManualClock::skipping();
    let asked = ask(&model_with(settings(&server), &clock), hello()).await;
    assert_eq!(
        (asked.reply().text.as_str(), asked.reply().attempts),
        ("yes", 2)
    );
    let sleeps = clock.sleeps();
    assert_eq!(sleeps.len(), 1);
    let told = match &asked.events[0] {
        ModelEvent::Restart { wait_ms, .. } => Duration::from_millis(*wait_ms),
        other => panic!("{other:?}"),
    };
    assert_eq!(told.as_millis(), sleeps[0].as_millis());
    sleeps[0]
}

#[tokio::test]
async fn a_wait_is_as_long_as_the_server_asked_within_a_limit() {
    for status in [429, 529, 503] {
        for (value, at_least) in [
            ("5", 5000),
            ("1.5", 1500),
            ("999999", 60_000),
            ("61", 60_000),
        ] {
            let wait = wait_after(status, Some(("retry-after", value))).await;
            assert!(
                wait >= Duration::from_millis(at_least),
                "{status} {value}: {wait:?}"
            );
            assert!(
                wait <= Duration::from_secs(60),
                "{status} {value}: {wait:?}"
            );
        }
    }
    let wait = wait_after(429, Some(("retry-after-ms", "2500"))).await;
    assert!(wait >= Duration::from_millis(2500), "{wait:?}");
}

// L08: every way to ask for a time, under both statuses, and what is waited at least and at most.
#[tokio::test]
async fn no_way_to_ask_for_a_time_makes_a_hot_loop_or_an_endless_wait() {
    for status in [429, 529] {
        for (value, least, most) in [
            (Some("5"), 5_000, 6_000),
            (Some("0"), 250, 1_000),
            (Some("-1"), 250, 1_000),
            (Some("abc"), 250, 1_000),
            (Some("1.5"), 1_500, 2_500),
            (Some("Thu, 01 Jan 2015 00:00:00 GMT"), 250, 1_000),
            (Some("Thu, 01 Jan 2099 00:00:00 GMT"), 60_000, 60_000),
            (Some("999999"), 60_000, 60_000),
            (None, 250, 1_000),
        ] {
            let header = value.map(|value| ("retry-after", value));
            let wait = wait_after(status, header).await.as_millis();
            assert!(
                (least..=most).contains(&wait),
                "{status} {value:?}: {wait} ms"
            );
        }
    }
}

// L08: three agents that are told the same time at the same time.
#[tokio::test]
async fn three_agents_that_are_told_the_same_time_come_back_apart() {
    for status in [429, 529] {
        let refusal = || Reply::error(status, "slow down").header("retry-after", "5");
        let server = ModelServer::scripted([refusal(), refusal(), refusal()]);
        let clock = ManualClock::new();
        let agent = |seed: u64| {
            let ids = Arc::new(SequentialIds::starting_at(seed));
            ChatModel::new(settings(&server), http(), Arc::new(clock.clone()), ids)
        };
        let agents = [0x2000_0000, 0x8000_0000, 0xe000_0000].map(agent);
        let asked = futures::future::join_all(agents.iter().map(|agent| ask(agent, hello())));
        let come_back = async {
            clock.slept(3).await;
            for _ in 0..3 {
                server.push(Reply::text("yes"));
            }
            clock.advance(Duration::from_secs(60));
        };
        let (asked, ()) = futures::future::join(asked, come_back).await;
        assert!(asked.iter().all(|asked| asked.reply().text == "yes"));
        let mut waits = clock.sleeps();
        waits.sort_unstable();
        assert!(waits[0] >= Duration::from_secs(5) && waits[2] <= Duration::from_secs(6));
        for pair in waits.windows(2) {
            let apart = pair[1].saturating_sub(pair[0]);
            assert!(apart > Duration::from_millis(100), "{waits:?}");
        }
    }
}

#[tokio::test]
async fn a_date_is_a_time_to_wait_until() {
    // The clock of the test stands at the first second of 2026.
    let soon = wait_after(429, Some(("retry-after", "Thu, 01 Jan 2026 00:00:07 GMT"))).await;
    assert!(
        soon >= Duration::from_secs(7) && soon < Duration::from_secs(9),
        "{soon:?}"
    );
    let far = wait_after(429, Some(("retry-after", "Thu, 01 Jan 2099 00:00:00 GMT"))).await;
    assert_eq!(far, Duration::from_secs(60));
}

#[tokio::test]
async fn a_server_that_asks_for_no_time_still_gets_some() {
    for value in ["0", "-1", "abc", "Thu, 01 Jan 2015 00:00:00 GMT"] {
        let wait = wait_after(429, Some(("retry-after", value))).await;
        assert!(wait >= Duration::from_millis(250), "{value}: {wait:?}");
    }
    assert!(wait_after(429, None).await >= Duration::from_millis(250));
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
    for status in [
        408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529,
    ] {
        let server = ModelServer::scripted([Reply::error(status, "later"), Reply::text("yes")]);
        assert_eq!(ask_once(&server).await.reply().text, "yes", "{status}");
    }
    for status in [400, 401, 402, 403, 404, 405, 413, 422, 501] {
        let server = ModelServer::scripted([Reply::error(status, "no")]);
        assert!(ask_once(&server).await.end.is_err(), "{status}");
        server.assert_spent();
    }
}

#[tokio::test]
async fn the_last_error_keeps_what_the_server_said() {
    for status in [429, 529] {
        let refusals = (0..4).map(|_| {
            Reply::error(status, "quota for team 7 is used up").header("retry-after", "30")
        });
        let server = ModelServer::scripted(refusals);
        let clock = ManualClock::skipping();
        let asked = ask(&model_with(settings(&server), &clock), hello()).await;
        let error = asked.error();
        assert_eq!(error.code, ErrorCode::ModelRateLimited);
        for part in [
            "quota for team 7 is used up",
            &status.to_string(),
            "tried 4 times",
        ] {
            assert!(error.message.contains(part), "{part}: {error}");
        }
        assert!(error.hint.contains("30 s"), "{}", error.hint);
        assert_eq!(clock.sleeps().len(), 3);
        server.assert_spent();
    }
}

#[tokio::test]
async fn the_number_of_tries_is_a_setting() {
    let server = ModelServer::scripted([Reply::error(500, "no")]);
    let settings = ChatSettings {
        attempts: 1,
        ..settings(&server)
    };
    let asked = ask(&model_with(settings, &ManualClock::skipping()), hello()).await;
    assert!(
        !asked.error().message.contains("tried"),
        "{}",
        asked.error()
    );
    assert!(asked.restarts().is_empty());
    server.assert_spent();
}

#[tokio::test]
async fn a_longest_wait_is_a_setting() {
    let server = ModelServer::scripted([
        Reply::error(429, "no").header("retry-after", "50"),
        Reply::text("yes"),
    ]);
    let clock = ManualClock::skipping();
    let settings = ChatSettings {
        longest_wait: Duration::from_secs(2),
        ..settings(&server)
    };
    assert_eq!(
        ask(&model_with(settings, &clock), hello())
            .await
            .reply()
            .text,
        "yes"
    );
    assert_eq!(clock.sleeps(), [Duration::from_secs(2)]);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_again() {
    let server = ModelServer::scripted([]);
    let settings = settings(&server);
    drop(server);
    let clock = ManualClock::skipping();
    let asked = ask(&model_with(settings, &clock), hello()).await;
    assert_eq!(asked.error().code, ErrorCode::ModelUnreachable);
    assert!(
        asked.error().hint.contains("running?"),
        "{:?}",
        asked.error()
    );
    assert_eq!(clock.sleeps().len(), 3);
}

#[tokio::test]
async fn waits_get_longer() {
    let server = ModelServer::scripted((0..6).map(|_| Reply::error(503, "no")));
    let clock = ManualClock::skipping();
    let settings = ChatSettings {
        attempts: 6,
        ..settings(&server)
    };
    // Ids whose last bits are nearly all set, which makes the longest waits.
    let ids = SequentialIds::starting_at(0xffff_ff00);
    let model = ChatModel::new(settings, http(), Arc::new(clock.clone()), Arc::new(ids));
    ask(&model, hello()).await.end.unwrap_err();
    let waits: Vec<f64> = clock
        .sleeps()
        .iter()
        .map(|wait| wait.as_secs_f64().round())
        .collect();
    assert_eq!(waits, [1.0, 2.0, 4.0, 8.0, 16.0]);
}
