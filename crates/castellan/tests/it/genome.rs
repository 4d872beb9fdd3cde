//! How the harness evolves, and the way back.

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::mcp_client::Pipe;
use crate::program::{config, run, wait_until};

/// A client whose person approves everything.
fn client(home: &Home) -> Pipe {
    Pipe::with_person(
        home,
        &[],
        |_| json!({"action": "accept", "content": {"approve": true}}),
    )
}

/// Proposes a change and has it accepted.
fn mutate(pipe: &mut Pipe, target: &str, change: &Value) {
    let proposal = json!({"target": target, "change": change, "rationale": "to see"});
    let proposed = pipe.call("castellan_propose_mutation", &proposal);
    let id = &proposed["result"]["structuredContent"]["proposal"];
    assert!(id.is_string(), "{proposed}");
    let resolve = json!({"proposal": id, "decision": "accept", "reason": "looked at"});
    let accepted = pipe.call("castellan_resolve_mutation", &resolve);
    assert_eq!(accepted["result"]["isError"], false, "{accepted}");
}

fn listed(pipe: &mut Pipe, tool: &str) -> Option<String> {
    let list = pipe.request("tools/list", &json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    let card = tools.iter().find(|card| card["name"] == tool)?;
    Some(card["description"].as_str().unwrap().to_owned())
}

#[test]
fn what_was_accepted_is_told_and_taken_back() {
    let home = Home::new();
    let fresh = run(&home, &["genome", "log"]);
    assert!(fresh.stdout.contains("version 1"), "{fresh:?}");
    assert!(!home.castellan_home().join("castellan.db").exists());
    let mut pipe = client(&home);
    mutate(&mut pipe, "/substrate/weights", &json!({"food": 2.0}));
    let log = run(&home, &["genome", "log"]);
    assert!(log.stdout.contains("version 2"), "{log:?}");
    assert!(log.stdout.contains("looked at"), "{log:?}");
    let diff = run(&home, &["genome", "diff", "1"]);
    assert!(diff.stdout.contains("+      \"food\": 2.0"), "{diff:?}");
    let back = run(
        &home,
        &["genome", "rollback", "1", "--reason", "it was worse"],
    );
    assert_eq!(back.code, 0, "{back:?}");
    let shown = run(&home, &["genome", "show", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["version"], 3);
    assert_eq!(shown["genome"]["substrate"]["weights"], json!({}));
    let audit = run(&home, &["audit", "--json"]);
    assert!(audit.stdout.contains("it was worse"), "{}", audit.stdout);
    let again = run(&home, &["genome", "rollback", "1"]);
    assert!(again.stderr.contains("holds already"), "{again:?}");
    for args in [
        &["genome", "rollback", "9"][..],
        &["genome", "show", "9"],
        &["genome", "diff", "1", "9"],
    ] {
        let unknown = run(&home, args);
        assert_eq!(unknown.code, 2, "{unknown:?}");
        assert!(unknown.stderr.contains("genome log"), "{unknown:?}");
    }
}

#[test]
fn tools_are_shown_as_the_genome_says_and_clients_hear_of_it() {
    let home = Home::new();
    let (mut pipe, mut other) = (client(&home), client(&home));
    mutate(
        &mut pipe,
        "/tools",
        &json!({
            "castellan_recall": {"visible": false},
            "castellan_remember": {"visible": true, "summary": "Keep a fact"},
            "castellan_describe_tool": {"visible": false},
        }),
    );
    wait_until("the other client to be told", || {
        other.request("ping", &json!({}));
        let told = |note: &Value| note["method"] == "notifications/tools/list_changed";
        other.notes.iter().any(told)
    });
    assert_eq!(listed(&mut other, "castellan_recall"), None);
    let kept = listed(&mut other, "castellan_remember");
    assert_eq!(kept.as_deref(), Some("Keep a fact"));
    // Nobody would find the others without it.
    assert!(listed(&mut other, "castellan_describe_tool").is_some());
    let hidden = other.call("castellan_recall", &json!({"key": "a"}));
    assert_eq!(hidden["error"]["data"]["error_code"], "TOOL_NOT_AVAILABLE");
}

#[test]
fn a_rule_of_the_genome_holds_and_no_mutation_takes_it_away() {
    let home = Home::new();
    let mut pipe = client(&home);
    mutate(
        &mut pipe,
        "/policy/actions",
        &json!({"castellan_remember": "deny"}),
    );
    let remember = json!({"key": "a", "value": "b"});
    wait_until("the rule to hold", || {
        let denied = pipe.call("castellan_remember", &remember);
        denied["result"]["structuredContent"]["error_code"] == "DENIED"
    });
    // From the first call on where the server is new.
    let mut new = client(&home);
    let denied = new.call("castellan_remember", &remember);
    let told = &denied["result"]["structuredContent"];
    assert_eq!(told["error_code"], "DENIED", "{denied}");
    assert!(told["error"].as_str().unwrap().contains("genome"), "{told}");
    for (target, change) in [
        ("/policy/actions/castellan_remember", json!("ask")),
        ("/policy/actions/castellan_remember", Value::Null),
        ("/policy", json!({"actions": null})),
        ("/policy/actions", json!({"castellan_remember": "allow"})),
    ] {
        let proposal = json!({"target": target, "change": change, "rationale": "freedom"});
        let refused = new.call("castellan_propose_mutation", &proposal);
        let code = &refused["result"]["structuredContent"]["error_code"];
        assert_eq!(code, "MUTATION_REFUSED", "{refused}");
    }
    let proposal = json!({
        "target": "/policy/actions", "change": {"castellan_recall": "allow"}, "rationale": "x"
    });
    let refused = new.call("castellan_propose_mutation", &proposal);
    let code = &refused["result"]["structuredContent"]["error_code"];
    assert_eq!(code, "VALIDATION", "{refused}");
}

#[test]
fn sessions_take_their_words_and_their_model_from_the_genome() {
    let server = ModelServer::answering(|_| Reply::text("done"));
    let home = Home::new();
    let both = format!(
        "model = \"test\"\n{}[models.other]\nbase_url = \"{}\"\nmodel = \"another\"\n",
        config(&server),
        server.base_url()
    );
    home.write_config(&both);
    let mut pipe = client(&home);
    mutate(
        &mut pipe,
        "/prompts",
        &json!({"tone": "Answer in one line."}),
    );
    mutate(
        &mut pipe,
        "/models",
        &json!({"main": {"model": "other", "temperature": 0.25, "max_tokens": 77}}),
    );
    let done = run(&home, &["exec", "hello"]);
    assert_eq!(done.code, 0, "{done:?}");
    let asked = server.requests().pop().unwrap();
    let system = asked.messages()[0]["content"].as_str().unwrap().to_owned();
    assert!(system.ends_with("Answer in one line."), "{system}");
    let body = asked.body;
    assert_eq!(
        (&body["model"], &body["temperature"]),
        (&json!("another"), &json!(0.25))
    );
    assert_eq!(body["max_tokens"], 77);
    let named = run(&home, &["exec", "--model", "test", "hello"]);
    assert_eq!(named.code, 0, "{named:?}");
    assert_eq!(server.requests().pop().unwrap().body["model"], "scripted");
}

#[test]
fn the_status_line_says_what_is_there() {
    let home = Home::new();
    let quiet = run(&home, &["statusline"]);
    assert_eq!(quiet.stdout, "castellan: quiet\n");
    assert!(!home.castellan_home().join("castellan.db").exists());
    let mut pipe = client(&home);
    let deposit = |zone: &str| json!({"zone": zone, "signal": "food", "amount": 1});
    pipe.call("castellan_deposit_signal", &deposit("north"));
    let one = run(&home, &["statusline"]);
    assert_eq!(one.stdout, "castellan: 1 zone\n");
    pipe.call("castellan_deposit_signal", &deposit("south"));
    let two = run(&home, &["statusline", "--json"]);
    let two: Value = serde_json::from_str(&two.stdout).unwrap();
    assert_eq!(
        (&two["zones"], &two["pending_approvals"]),
        (&json!(2), &json!(0))
    );
    let status = pipe.call("castellan_multiplexer_status", &json!({}));
    let line = &status["result"]["structuredContent"]["line"];
    assert_eq!(line, "castellan: 2 zones");
}
