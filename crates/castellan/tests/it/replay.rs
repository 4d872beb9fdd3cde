//! `castellan trace replay` of sessions, as they are and as somebody has changed them.

use std::path::PathBuf;

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::program::{config, run};

/// A home with a session of two turns, in which the model reads, writes, runs a command and is told
/// of failures; with its id.
fn worked() -> (Home, String) {
    let server = ModelServer::scripted([
        Reply::calls([
            ("read_file", json!({"path": "a.txt"})),
            ("read_file", json!({"path": "missing.txt"})),
        ]),
        Reply::calls([("bash", json!({"command": "wc -l <a.txt; exit 3"}))]),
        Reply::text("It has one line."),
        Reply::calls([("write_file", json!({"path": "b.txt", "content": "two\n"}))]),
        Reply::text("Written."),
    ]);
    let home = Home::new();
    home.write("a.txt", "line one\n");
    home.write_config(&config(&server));
    let first = run(&home, &["exec", "--json", "--skip-permissions", "look"]);
    assert_eq!(first.code, 0, "{first:?}");
    let id = first.session();
    let again = [
        "exec",
        "--json",
        "--skip-permissions",
        "--resume",
        &id,
        "now write",
    ];
    let second = run(&home, &again);
    assert_eq!(second.code, 0, "{second:?}");
    (home, id)
}

fn file(home: &Home, id: &str) -> PathBuf {
    home.castellan_home().join(format!("traces/{id}.jsonl"))
}

/// The place of the first line of this kind that has `text`.
fn place(lines: &[&str], kind: &str, text: &str) -> usize {
    let kind = format!("\"kind\":\"{kind}\"");
    let fits = |line: &&str| line.contains(&kind) && line.contains(text);
    lines.iter().position(fits).unwrap()
}

#[test]
fn a_session_is_replayed_from_its_trace() {
    let (home, id) = worked();
    // The world it worked in, and its model, are gone.
    for name in ["a.txt", "b.txt"] {
        std::fs::remove_file(home.workspace().join(name)).unwrap();
    }
    let total = std::fs::read_to_string(file(&home, &id))
        .unwrap()
        .lines()
        .count();
    let replayed = run(&home, &["trace", "replay", &id]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    assert_eq!(replayed.stdout, format!("agrees in {total} lines\n"));
    assert!(home.read("b.txt").is_none());
}

#[test]
fn a_changed_trace_of_a_session_diverges_at_its_line() {
    let (home, id) = worked();
    let file = file(&home, &id);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (kind, old, new, word) in [
        // Of the same length, so that only the words tell.
        ("tool_result", "line one", "line two", "/output"),
        ("model_response", "Written.", "Removed.", "/text"),
        ("user_turn", "now write", "now erase", "/text"),
        ("policy", "\"allow\"", "\"deny\"", "/decision"),
        (
            "tool_result",
            "\"is_error\":false",
            "\"is_error\":true",
            "/is_error",
        ),
    ] {
        let at = place(&lines, kind, old);
        let mut changed = lines.clone();
        let line = lines[at].replacen(old, new, 1);
        changed[at] = &line;
        std::fs::write(&file, changed.join("\n") + "\n").unwrap();
        let replayed = run(&home, &["trace", "replay", &id, "--json"]);
        assert_eq!(replayed.code, 1, "{kind}: {replayed:?}");
        let verdict: Value = serde_json::from_str(&replayed.stdout).unwrap();
        assert_eq!(verdict["verdict"], "diverges");
        assert_eq!(verdict["line"], at + 1, "{kind}: {verdict}");
        let what = verdict["what"].as_str().unwrap();
        assert!(
            what.contains(word) && what.contains("the store has"),
            "{what}"
        );
    }
}

#[test]
fn a_trace_that_lacks_its_end_agrees_and_it_is_said() {
    let (home, id) = worked();
    let file = file(&home, &id);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let left = &lines[..lines.len() - 2];
    std::fs::write(&file, left.join("\n") + "\n").unwrap();
    let replayed = run(&home, &["trace", "replay", &id]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    assert!(
        replayed.stdout.contains("the store goes on for 2 events"),
        "{}",
        replayed.stdout
    );
}

#[test]
fn without_the_store_the_next_request_tells_what_was_changed_before_it() {
    let (home, id) = worked();
    let text = std::fs::read_to_string(file(&home, &id)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let elsewhere = Home::new();
    elsewhere.write("t.jsonl", &text);
    let replayed = run(&elsewhere, &["trace", "replay", "t.jsonl"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    let at = place(&lines, "tool_result", "line one");
    let mut changed = lines.clone();
    let line = lines[at].replacen("line one", "line two", 1);
    changed[at] = &line;
    elsewhere.write("t.jsonl", changed.join("\n") + "\n");
    let replayed = run(&elsewhere, &["trace", "replay", "t.jsonl", "--json"]);
    assert_eq!(replayed.code, 1, "{replayed:?}");
    let verdict: Value = serde_json::from_str(&replayed.stdout).unwrap();
    let next = at + place(&lines[at..], "model_request", "");
    assert_eq!(verdict["line"], next + 1, "{verdict}");
    assert!(
        verdict["what"].as_str().unwrap().contains("other words"),
        "{verdict}"
    );
}
