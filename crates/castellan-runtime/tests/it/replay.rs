//! The turn machine on what sessions have recorded.

use std::path::PathBuf;
use std::sync::Arc;

use castellan_core::event::Answer;
use castellan_core::{CancelSource, Event};
use castellan_gate::{Permission, trace};
use castellan_runtime::replay::session::{Present, replay};
use castellan_runtime::replay::{Record, Verdict, read};
use castellan_runtime::{Limits, Session, TurnOutcome};

use crate::world::{FunctionModel, HANGS, World, calls, error, results, says};

fn verdict(world: &World, file: &std::path::Path) -> Verdict {
    let lines = match read(file).unwrap() {
        Record::Session(lines) => Some(lines),
        Record::Episode(_) => None,
    };
    let lines = lines.unwrap();
    let catalog = world.parts.gate.catalog();
    let version = world.parts.version;
    replay(&lines, Present { version, catalog })
}

fn file(world: &World, session: &Session) -> PathBuf {
    trace::path(&world.parts.traces, session.id())
}

/// One that calls, calls wrongly, repeats itself, is empty and then done.
fn busy() -> Arc<FunctionModel> {
    FunctionModel::new(|messages| match results(messages) {
        0 => calls(&[("look", r#"{"text": "a",}"#), ("do", r#"{"text": "b"}"#)]),
        2 => calls(&[("loook", "{}"), ("look", "not json {")]),
        4..10 => calls(&[("look", r#"{"text": "again"}"#)]),
        _ => says("done"),
    })
}

async fn turn(session: &mut Session, text: &str) -> TurnOutcome {
    session.say(text.to_owned());
    let never = CancelSource::new();
    session.run(never.token()).await.unwrap()
}

fn agrees(verdict: &Verdict) {
    assert!(matches!(verdict, Verdict::Agrees { .. }), "{verdict:?}");
}

#[tokio::test]
async fn a_session_agrees_with_its_replay() {
    let world = World::new(busy());
    let mut session = world.begin();
    for text in ["go", "and again"] {
        turn(&mut session, text).await;
    }
    let file = file(&world, &session);
    let total = std::fs::read_to_string(&file).unwrap().lines().count();
    let note = String::new();
    assert_eq!(
        verdict(&world, &file),
        Verdict::Agrees { lines: total, note }
    );
}

#[tokio::test]
async fn a_line_that_is_missing_or_changed_is_found() {
    let world = World::new(busy());
    let mut session = world.begin();
    turn(&mut session, "go").await;
    let file = file(&world, &session);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for missing in 0..lines.len() - 1 {
        let mut left = lines.clone();
        left.remove(missing);
        std::fs::write(&file, left.join("\n") + "\n").unwrap();
        if missing == 0 {
            assert!(read(&file).is_err());
            continue;
        }
        let Verdict::Diverges { line, .. } = verdict(&world, &file) else {
            panic!("line {missing} is not missed");
        };
        assert_eq!(line, missing + 1);
    }
    // Numbered anew, so that only the machine can tell.
    let mut caught = 0;
    for missing in 1..lines.len() - 1 {
        let mut left = lines.clone();
        left.remove(missing);
        let renumbered = left.iter().enumerate().map(|(at, line)| {
            let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
            event["seq"] = (at + 1).into();
            event.to_string() + "\n"
        });
        std::fs::write(&file, renumbered.collect::<String>()).unwrap();
        let kind = kind(lines[missing]);
        let verdict = verdict(&world, &file);
        if let Verdict::Diverges { .. } = verdict {
            caught += 1;
        } else {
            // What policy said is from outside; and a model may say less.
            assert!(kind == "policy", "{kind}: {verdict:?}");
        }
    }
    assert!(caught > 20, "{caught}");
}

fn kind(line: &str) -> String {
    let event: serde_json::Value = serde_json::from_str(line).unwrap();
    event["kind"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_model_that_was_shown_something_else_is_found() {
    let world = World::new(busy());
    let mut session = world.begin();
    turn(&mut session, "go").await;
    let file = file(&world, &session);
    let text = std::fs::read_to_string(&file).unwrap();
    for (from, to, words) in [
        (r#""messages":2,"#, r#""messages":3,"#, "3 messages"),
        (
            r#""output":"did b""#,
            r#""output":"did something else""#,
            "bytes",
        ),
        (r#""output":"did b""#, r#""output":"did c""#, "other words"),
        (
            r#""arguments":{"text":"b"}"#,
            r#""arguments":{"text":"c"}"#,
            "understood as",
        ),
        (r#""outcome":"done","#, r#""outcome":"odd","#, ""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        std::fs::write(&file, changed).unwrap();
        match verdict(&world, &file) {
            Verdict::Diverges { what, .. } => assert!(what.contains(words), "{what}"),
            agrees @ Verdict::Agrees { .. } => assert!(words.is_empty(), "{from}: {agrees:?}"),
        }
    }
}

#[tokio::test]
async fn decisions_failures_limits_and_stops_agree() {
    let model = FunctionModel::new(|messages| match results(messages) {
        0 | 1 => calls(&[("do", r#"{"text": "x"}"#)]),
        2 => Err(error("gone")),
        3 => Err(error(HANGS)),
        _ => calls(&[("look", &format!("{{\"text\": \"{}\"}}", results(messages)))]),
    });
    let mut world = World::new(model);
    world.parts.permission = Permission::default();
    world.parts.limits = Limits::turns(5);
    let mut session = world.begin();
    for approve in [true, false] {
        let outcome = if approve {
            turn(&mut session, "go").await
        } else {
            let never = CancelSource::new();
            session.run(never.token()).await.unwrap()
        };
        let TurnOutcome::Waiting(cycle) = outcome else {
            panic!("{outcome:?}");
        };
        let items = session.waiting();
        let answers = items.iter().map(|item| Answer::new(item.call_id, approve));
        session
            .decide(cycle, "test", answers.collect())
            .await
            .unwrap();
    }
    let never = CancelSource::new();
    let failed = session.run(never.token()).await.unwrap();
    assert!(
        matches!(failed, TurnOutcome::Over(_, Some(_))),
        "{failed:?}"
    );
    agrees(&verdict(&world, &file(&world, &session)));
    // Taken up again, it fails again.
    session.take_up().unwrap();
    session.run(never.token()).await.unwrap();
    agrees(&verdict(&world, &file(&world, &session)));
}

#[tokio::test]
async fn every_beginning_of_a_session_agrees_and_says_what_comes_next() {
    let world = World::new(busy());
    let mut session = world.begin();
    turn(&mut session, "go").await;
    let file = file(&world, &session);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for end in 1..lines.len() {
        std::fs::write(&file, lines[..end].join("\n") + "\n").unwrap();
        let verdict = verdict(&world, &file);
        let Verdict::Agrees { note, .. } = &verdict else {
            panic!("{end}: {verdict:?}");
        };
        assert_eq!(note.is_empty(), end == 1, "{end}: {note}");
    }
}

#[tokio::test]
async fn a_torn_line_is_passed_over_and_said() {
    let world = World::new(busy());
    let mut session = world.begin();
    turn(&mut session, "go").await;
    let file = file(&world, &session);
    let text = std::fs::read_to_string(&file).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    std::fs::write(&file, format!("{first}\n{{\"ts\": 1, \"se\n{rest}")).unwrap();
    let Verdict::Agrees { note, .. } = verdict(&world, &file) else {
        panic!("it diverges");
    };
    assert!(note.contains("1 torn"), "{note}");
}

#[tokio::test]
async fn a_session_begun_twice_is_found() {
    let world = World::new(busy());
    let mut session = world.begin();
    turn(&mut session, "go").await;
    let file = file(&world, &session);
    let text = std::fs::read_to_string(&file).unwrap();
    let first = text.lines().next().unwrap();
    assert!(matches!(
        serde_json::from_str::<castellan_core::Recorded>(first)
            .unwrap()
            .event,
        Event::SessionStart { .. }
    ));
    let count = text.lines().count() + 1;
    let again = first.replace(r#""seq":1,"#, &format!(r#""seq":{count},"#));
    std::fs::write(&file, format!("{text}{again}\n")).unwrap();
    let Verdict::Diverges { line, what } = verdict(&world, &file) else {
        panic!("it agrees");
    };
    assert_eq!(line, count);
    assert!(what.contains("has begun already"), "{what}");
}
