//! What a model's server says, as far as a whole session depends on it.

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::program::{config, run};

fn chunk(delta: &Value, finish: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn answer(delta: &Value, finish: &str) -> Reply {
    Reply::sse([
        chunk(delta, &Value::Null),
        chunk(&json!({}), &json!(finish)),
    ])
}

#[test]
fn a_call_written_into_the_text_runs_through_the_gate_and_says_where_it_came_from() {
    let home = Home::new();
    home.write("a.txt", "line one\n");
    let read = r#"{"name": "read_file", "arguments": {"path": "a.txt"}}"#;
    let write = "I'll write.\n<tool_call>\n<function=write_file>\n<parameter=path>\nb.txt\n\
                 </parameter>\n<parameter=content>\n[1,2]\n</parameter>\n</function>\n</tool_call>";
    let server = ModelServer::scripted([
        answer(&json!({"content": read}), "stop"),
        answer(&json!({"content": write}), "stop"),
    ]);
    home.write_config(&config(&server));
    let ran = run(&home, &["exec", "--json", "go"]);
    // Reading is allowed, writing needs somebody: such a call has no more rights than any other.
    assert_eq!(ran.code, 3, "{ran:?}");
    let prepared = ran.kind("tool_prepared");
    assert_eq!(prepared.len(), 2);
    for event in &prepared {
        assert_eq!(event["repairs"][0], "taken from the text of the answer");
    }
    assert_eq!(prepared[1]["arguments"]["content"], "[1,2]");
    assert_eq!(ran.results()[0].1, "     1\tline one\n");
    assert_eq!(home.read("b.txt"), None);
    let shown: String = ran
        .kind("content")
        .iter()
        .map(|event| event["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(shown.trim(), "I'll write.");
    let answers = ran.kind("model_response");
    assert_eq!(
        (&answers[0]["text"], &answers[1]["text"]),
        (&json!(""), &json!("I'll write."))
    );
    assert_eq!(answers[0]["calls"][0]["from_text"], true);
    // The model is shown it as a call.
    let asked = server.requests().pop().unwrap();
    let call = &asked.messages()[2]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "read_file");
}

#[test]
fn reasoning_survives_the_store_and_goes_back_while_the_turn_lasts() {
    let home = Home::new();
    let hidden = json!({"type": "reasoning.encrypted", "data": "q+/=é", "index": 0});
    let call = json!({
        "reasoning": "hm",
        "reasoning_details": [hidden],
        "tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash",
            "arguments": "{\"command\": \"echo hi\"}"}}],
    });
    let server = ModelServer::scripted([answer(&call, "tool_calls")]);
    let configured = config(&server).replace(
        "[database]",
        "[models.test.capabilities]\nsend_reasoning = \"reasoning_details\"\n[database]",
    );
    home.write_config(&configured);
    let first = run(&home, &["exec", "--json", "go"]);
    assert_eq!(first.code, 3, "{first:?}");
    assert_eq!(first.kind("model_response")[0]["reasoning"], "hm");
    let id = first.session();
    for (prompt, sent) in [(None, json!([hidden])), (Some("and now?"), Value::Null)] {
        server.push(Reply::text("done"));
        let resume = ["exec", "--skip-permissions", "--resume", &id];
        let more = run(&home, &resume.into_iter().chain(prompt).collect::<Vec<_>>());
        assert_eq!(more.code, 0, "{more:?}");
        let asked = server.requests().pop().unwrap();
        assert_eq!(asked.messages()[2]["reasoning_details"], sent, "{prompt:?}");
    }
}

// L05: four turns with one call each, all under the server's one constant id; resumed after two.
#[test]
fn calls_under_a_constant_id_run_once_each_and_keep_their_own_results() {
    let home = Home::new();
    let server = ModelServer::scripted([]);
    home.write_config(&config(&server));
    let mut id = None;
    for turn in 0..4 {
        home.write(format!("{turn}.txt"), format!("content {turn}\n"));
        let call = json!({"tool_calls": [{"index": 0, "id": "call_0", "function": {
            "name": "read_file", "arguments": json!({"path": format!("{turn}.txt")}).to_string()}}]});
        server.push(answer(&call, "tool_calls"));
        server.push(Reply::text("read it"));
        let resume: Vec<&str> = id.iter().flat_map(|id: &String| ["--resume", id]).collect();
        let arguments = [&["exec", "--json"], resume.as_slice(), &["go on"]].concat();
        let ran = run(&home, &arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ran.kind("tool_result").len(), 1);
        id = Some(ran.session());
    }
    let asked = server.requests().pop().unwrap();
    let mut ids = Vec::new();
    let mut turn = 0;
    for pair in asked.messages().windows(2) {
        let Some(call) = pair[0]["tool_calls"].get(0) else {
            continue;
        };
        assert!(
            call["function"]["arguments"]
                .as_str()
                .unwrap()
                .contains(&format!("{turn}.txt"))
        );
        assert_eq!(pair[1]["tool_call_id"], call["id"]);
        assert!(
            pair[1]["content"]
                .as_str()
                .unwrap()
                .contains(&format!("content {turn}"))
        );
        ids.push(call["id"].to_string());
        turn += 1;
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((turn, ids.len()), (4, 4));
}

#[test]
fn a_model_that_can_not_call_tools_is_told_of_with_what_to_do() {
    let server = ModelServer::scripted([Reply::error(400, "scripted does not support tools")]);
    let home = Home::new();
    home.write_config(&config(&server));
    let ran = run(&home, &["exec", "go"]);
    assert_eq!(ran.code, 1);
    for part in [
        "does not support tools",
        "can't call tools; choose one that can",
    ] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
}
