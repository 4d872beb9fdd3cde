//! Signals: what is deposited, read and found in the history, and every way to get it wrong.

use castellan_core::{ErrorCode, Principal};
use serde_json::{Value, json};

use crate::drive::World;

const DEPOSIT: &str = "castellan_deposit_signal";
const READ: &str = "castellan_read_signal";
const HISTORY: &str = "castellan_query_field_history";

fn deposit(zone: &str, signal: &str, amount: f64) -> Value {
    json!({"zone": zone, "signal": signal, "amount": amount})
}

#[tokio::test]
async fn a_deposit_answers_before_and_after_and_fades_by_its_half_life() {
    let world = World::new();
    let first = world.call(DEPOSIT, deposit("grid", "food", 8.0)).await;
    assert_eq!(
        first,
        json!({
            "zone": "grid", "signal": "food", "before": 0.0, "after": 8.0, "half_life": 600.0,
            "total_deposited": 8.0, "deposits": 1, "at": world.now(),
        })
    );
    world.advance(600);
    let second = world.call(DEPOSIT, deposit("grid", "food", 1.0)).await;
    assert_eq!(
        (&second["before"], &second["after"]),
        (&json!(4.0), &json!(5.0))
    );
    world.advance(1200);
    let read = world
        .call(READ, json!({"zone": "grid", "signal": "food"}))
        .await;
    assert_eq!(read["signals"][0]["strength"], json!(1.25));
    assert_eq!(read["signals"][0]["total_deposited"], json!(9.0));
    assert_eq!(read["signals"][0]["last_by"], json!("mcp_client:tester"));
    assert_eq!(read["pressure"], json!(1.25));
}

#[tokio::test]
async fn a_zone_is_read_strongest_first_with_its_pressure() {
    let mut world = World::new();
    world.caller = Principal::Agent("anna".to_owned());
    for (signal, amount) in [("a", 1.0), ("b", 3.0), ("c", 2.0)] {
        world.call(DEPOSIT, deposit("grid", signal, amount)).await;
    }
    let read = world.call(READ, json!({"zone": "grid"})).await;
    let names: Vec<&str> = read["signals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|signal| signal["signal"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["b", "c", "a"]);
    assert_eq!(
        (&read["pressure"], &read["total"]),
        (&json!(6.0), &json!(3))
    );
    assert_eq!(read["signals"][0]["last_by"], json!("agent:anna"));
}

#[tokio::test]
async fn what_nobody_deposited_has_no_strength_and_what_was_meant_is_named() {
    let world = World::new();
    world.call(DEPOSIT, deposit("grid", "food", 1.0)).await;
    let typo = world.call(READ, json!({"zone": "gird"})).await;
    assert_eq!(
        (&typo["total"], &typo["pressure"]),
        (&json!(0), &json!(0.0))
    );
    assert!(
        typo["note"]
            .as_str()
            .unwrap()
            .contains("did you mean `grid`?")
    );
    let other = world
        .call(READ, json!({"zone": "grid", "signal": "foot"}))
        .await;
    assert_eq!(other["signals"][0]["strength"], json!(0.0));
    assert_eq!(other["signals"][0]["last_by"], Value::Null);
    assert_eq!(other["pressure"], json!(1.0));
    assert!(
        other["note"]
            .as_str()
            .unwrap()
            .contains("did you mean `food`?")
    );
}

#[tokio::test]
async fn evaporation_takes_away_and_never_more_than_there_is() {
    let world = World::new();
    world.call(DEPOSIT, deposit("grid", "food", 5.0)).await;
    let take = |amount: f64| json!({"zone": "grid", "signal": "food", "amount": amount, "evaporate": true});
    let less = world.call(DEPOSIT, take(-2.0)).await;
    assert_eq!((&less["after"], &less["note"]), (&json!(3.0), &Value::Null));
    let none = world.call(DEPOSIT, take(-10.0)).await;
    assert_eq!(none["after"], json!(0.0));
    assert_eq!(none["total_deposited"], json!(5.0));
    assert!(none["note"].as_str().unwrap().contains("less of it"));
}

#[tokio::test]
async fn a_signal_stops_growing_at_its_limit_and_says_so() {
    let world = World::new();
    let much = json!({"zone": "grid", "signal": "food", "amount": 1e6, "half_life": 0});
    for _ in 0..999 {
        world.call(DEPOSIT, much.clone()).await;
    }
    let full = world.call(DEPOSIT, much.clone()).await;
    assert_eq!(full["after"], json!(1e9));
    let more = world.call(DEPOSIT, much).await;
    assert_eq!(more["after"], json!(1e9));
    assert!(
        more["note"]
            .as_str()
            .unwrap()
            .contains("no signal grows beyond")
    );
}

#[tokio::test]
async fn numbers_that_are_none_are_refused_and_nothing_is_deposited() {
    let world = World::new();
    let with =
        |amount: &str| format!(r#"{{"zone": "grid", "signal": "food", "amount": {amount}}}"#);
    for amount in [
        "\"NaN\"",
        "NaN",
        "\"Infinity\"",
        "Infinity",
        "-Infinity",
        "\"inf\"",
        "1e400",
        "\"1e400\"",
        "-1e400",
        "0",
        "-1",
        "\"-1\"",
        "1000001",
        "1e300",
        "null",
        "\"much\"",
        "[1]",
        "{}",
        "true",
        "\"\"",
    ] {
        let (_, report) = world.call_raw(DEPOSIT, &with(amount)).await;
        let code = report.outcome.code();
        let text = report.outcome.into_text();
        assert_eq!(code, Some(ErrorCode::Validation), "{amount}: {text}");
        assert!(!text.is_empty());
    }
    for half_life in ["-1", "\"-0.5\"", "\"NaN\"", "1e400", "1e30", "\"soon\""] {
        let raw = format!(
            r#"{{"zone": "grid", "signal": "food", "amount": 1, "half_life": {half_life}}}"#
        );
        let (_, report) = world.call_raw(DEPOSIT, &raw).await;
        assert_eq!(
            report.outcome.code(),
            Some(ErrorCode::Validation),
            "{half_life}"
        );
    }
    let read = world.call(READ, json!({"zone": "grid"})).await;
    assert_eq!(read["total"], json!(0));
    // What can be understood is.
    let (_, report) = world.call_raw(DEPOSIT, &with("\"2.5\"")).await;
    assert!(!report.outcome.is_error());
}

#[tokio::test]
async fn names_that_are_none_are_refused_with_one_that_would_do() {
    let world = World::new();
    for zone in [
        "",
        "Grid",
        "a b",
        "ünder",
        "a\u{0}b",
        "../\n",
        &"x".repeat(65),
    ] {
        for (tool, arguments) in [
            (DEPOSIT, deposit(zone, "food", 1.0)),
            (DEPOSIT, deposit("grid", zone, 1.0)),
            (READ, json!({"zone": zone})),
            (READ, json!({"zone": "grid", "signal": zone})),
            (HISTORY, json!({"zone": zone})),
            (HISTORY, json!({"signal": zone})),
        ] {
            let (code, _) = world.fails(tool, arguments.clone()).await;
            assert_eq!(code, ErrorCode::Validation, "{tool} {arguments}");
        }
    }
    let (_, text) = world.fails(DEPOSIT, deposit("Grid", "food", 1.0)).await;
    assert!(text.contains("`grid` would be one"), "{text}");
    let misspelled = json!({"zone": "grid", "signal": "food", "amont": 1});
    let (_, text) = world.fails(DEPOSIT, misspelled).await;
    assert!(text.contains("did you mean `amount`?"), "{text}");
}

#[tokio::test]
async fn history_shows_deposits_newest_first_within_its_bounds() {
    let world = World::new();
    for number in 1..=120_u32 {
        world
            .call(DEPOSIT, deposit("grid", "food", f64::from(number)))
            .await;
        world.advance(1);
    }
    let usual = world.call(HISTORY, json!({"zone": "grid"})).await;
    assert_eq!(
        (&usual["total"], &usual["shown"]),
        (&json!(120), &json!(100))
    );
    assert_eq!(usual["deposits"][0]["amount"], json!(120.0));
    assert_eq!(
        usual["retention"],
        json!({"days": 7, "per_signal": 10_000, "in_all": 100_000})
    );
    let some = json!({"zone": "grid", "since": "10s", "until": "5s", "limit": 3});
    let some = world.call(HISTORY, some).await;
    assert_eq!((&some["total"], &some["shown"]), (&json!(6), &json!(3)));
    let early = world
        .call(HISTORY, json!({"since": "2020-01-01T00:00:00Z"}))
        .await;
    assert!(
        early["note"]
            .as_str()
            .unwrap()
            .contains("history begins at")
    );
    let other = world.call(HISTORY, json!({"zone": "other"})).await;
    assert_eq!(other["total"], json!(0));
}

#[tokio::test]
async fn history_is_resampled_with_decay_and_agrees_with_what_was_read() {
    let world = World::new();
    let mut read = Vec::new();
    for number in 0..6_u32 {
        if number % 2 == 0 {
            world.call(DEPOSIT, deposit("grid", "food", 4.0)).await;
            world.call(DEPOSIT, deposit("grid", "home", 1.0)).await;
        }
        let now = world.call(READ, json!({"zone": "grid"})).await;
        read.push(now["pressure"].as_f64().unwrap());
        if number < 5 {
            world.advance(60);
        }
    }
    let sampled = json!({"zone": "grid", "since": "5m", "step": 60});
    let sampled = world.call(HISTORY, sampled).await;
    assert_eq!(
        (&sampled["total"], &sampled["shown"]),
        (&json!(6), &json!(6))
    );
    let samples = &sampled["samples"];
    assert_eq!(samples["signals"], json!(2));
    let pressure = samples["pressure"][0]["values"].as_array().unwrap();
    assert_eq!(pressure.len(), read.len());
    for (sample, read) in pressure.iter().zip(read) {
        assert!(
            (sample.as_f64().unwrap() - read).abs() < 1e-6,
            "{sample} {read}"
        );
    }
    // Of one signal alone there is no pressure to tell.
    let one = json!({"zone": "grid", "signal": "home", "step": 60, "limit": 2});
    let one = world.call(HISTORY, one).await;
    assert_eq!(one["samples"]["pressure"], json!([]));
    assert_eq!(
        one["samples"]["series"][0]["strengths"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn only_the_newest_samples_are_shown_and_the_rest_is_counted() {
    let world = World::new();
    for number in 0..30 {
        world
            .call(DEPOSIT, deposit("grid", &format!("s{number}"), 1.0))
            .await;
    }
    let many = json!({"since": "1d", "step": 1, "limit": 500});
    let many = world.call(HISTORY, many).await;
    assert_eq!(
        (&many["total"], &many["shown"]),
        (&json!(86_401), &json!(500))
    );
    let samples = &many["samples"];
    assert_eq!(samples["series"].as_array().unwrap().len(), 8);
    assert_eq!(samples["signals"], json!(30));
    assert_eq!(samples["pressure"], json!([]));
    assert!(
        many["note"]
            .as_str()
            .unwrap()
            .starts_with("8 of 30 signals")
    );
    assert!(many.to_string().len() < 64 * 1024);
}

#[tokio::test]
async fn questions_about_history_that_make_no_sense_are_refused() {
    let world = World::new();
    for arguments in [
        json!({"step": 0}),
        json!({"step": -1}),
        json!({"step": "NaN"}),
        json!({"step": 1e9}),
        json!({"limit": 0}),
        json!({"limit": 501}),
        json!({"limit": -1}),
        json!({"since": "yesterday"}),
        json!({"until": {}}),
        json!({"since": "1m", "until": "2m"}),
        json!({"since": "99999999999999999999d"}),
    ] {
        let (code, text) = world.fails(HISTORY, arguments.clone()).await;
        assert_eq!(code, ErrorCode::Validation, "{arguments}: {text}");
    }
}
