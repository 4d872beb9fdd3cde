//! What must hold of every request, whatever the history.

use super::*;
use castellan_testkit::SequentialIds;
use proptest::prelude::*;

fn issued(
    ids: &SequentialIds,
    provider_id: Option<&str>,
    name: &str,
    arguments: &str,
) -> IssuedCall {
    IssuedCall {
        call_id: CallId::mint(ids),
        raw: RawCall {
            provider_id: provider_id.map(str::to_owned),
            ..RawCall::new(name, arguments)
        },
    }
}

fn assistant(text: &str, calls: Vec<IssuedCall>) -> Message {
    Message::Assistant {
        text: text.to_owned(),
        reasoning: None,
        calls,
    }
}

fn result(call: &IssuedCall, output: &str) -> Message {
    Message::ToolResult {
        call_id: call.call_id,
        name: call.raw.name.clone(),
        output: output.to_owned(),
        is_error: false,
    }
}

fn user(text: &str) -> Message {
    Message::User {
        text: text.to_owned(),
    }
}

fn written(messages: Vec<Message>) -> Value {
    let settings = ChatSettings::new("main", "http://h/v1", "m");
    let request = ModelRequest {
        messages,
        tools: Vec::new(),
    };
    body(&request, &settings, "m", Refused::default())["messages"].take()
}

fn only_arguments(raw: &str) -> String {
    let call = issued(&SequentialIds::new(), None, "list", raw);
    let messages = written(vec![assistant("", vec![call])]);
    messages[0]["tool_calls"][0]["function"]["arguments"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn a_conversation_is_written_as_the_api_documents_it() {
    let call = issued(
        &SequentialIds::new(),
        Some("c1"),
        "list",
        r#"{ "path": "a" }"#,
    );
    let settings = ChatSettings {
        extra_body: Map::from_iter([
            ("temperature".to_owned(), json!(0)),
            ("tool_choice".to_owned(), json!("required")),
        ]),
        ..ChatSettings::new("main", "http://h/v1", "m")
    };
    let request = ModelRequest {
        messages: vec![
            Message::System {
                text: "Be brief.".to_owned(),
            },
            user("hi"),
            assistant("", vec![call.clone()]),
            result(&call, "a.txt"),
            assistant("done", Vec::new()),
        ],
        tools: vec![ToolCard {
            name: "list".to_owned(),
            description: "Lists files.".to_owned(),
            parameters: json!({"type": "object"}),
        }],
    };
    assert_eq!(
        body(&request, &settings, "m1", Refused::default()),
        json!({
            "model": "m1",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": null, "tool_calls": [{
                    "id": "c1", "type": "function",
                    "function": {"name": "list", "arguments": "{ \"path\": \"a\" }"},
                }]},
                {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
                {"role": "assistant", "content": "done"},
            ],
            "tools": [{"type": "function", "function": {
                "name": "list", "description": "Lists files.", "parameters": {"type": "object"},
            }}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0,
            "tool_choice": "required",
        })
    );
}

#[test]
fn tools_and_the_count_of_tokens_are_left_out_where_they_are_not_wanted() {
    let settings = ChatSettings::new("main", "http://h/v1", "m");
    let request = ModelRequest {
        messages: vec![user("hi")],
        tools: Vec::new(),
    };
    let body = body(
        &request,
        &settings,
        "m",
        Refused::default().with(Habit::Counting),
    );
    assert_eq!(
        (body.get("tools"), body.get("stream_options")),
        (None, None)
    );
}

#[test]
fn configured_fields_replace_ours() {
    let mut settings = ChatSettings::new("main", "http://h/v1", "m");
    settings
        .extra_body
        .insert("stream".to_owned(), json!(false));
    let request = ModelRequest {
        messages: vec![user("hi")],
        tools: Vec::new(),
    };
    assert_eq!(
        body(&request, &settings, "m", Refused::default())["stream"],
        false
    );
}

#[test]
fn a_message_of_calls_alone_has_the_content_its_server_takes() {
    let call = issued(&SequentialIds::new(), None, "list", "{}");
    for text in ["", " \n"] {
        for (blank, content) in [
            (BlankContent::Null, Some(Value::Null)),
            (BlankContent::Empty, Some(json!(""))),
            (BlankContent::Omitted, None),
        ] {
            let settings = ChatSettings {
                blank_content: blank,
                ..ChatSettings::new("main", "http://h", "m")
            };
            let messages = vec![assistant(text, vec![call.clone()])];
            let request = ModelRequest {
                messages,
                tools: Vec::new(),
            };
            let body = body(&request, &settings, "m", Refused::default());
            assert_eq!(body["messages"][0].get("content"), content.as_ref());
        }
    }
}

#[test]
fn no_text_is_empty() {
    let call = issued(&SequentialIds::new(), None, "list", "{}");
    let messages = written(vec![
        Message::System {
            text: " ".to_owned(),
        },
        user("\n"),
        assistant(" ", Vec::new()),
        assistant("", vec![call.clone()]),
        result(&call, ""),
    ]);
    assert_eq!(messages[0], json!({"role": "user", "content": NO_WORDS}));
    assert_eq!(messages[1]["content"], Value::Null);
    assert_eq!(messages[2]["content"], NO_OUTPUT);
    assert_eq!(messages.as_array().unwrap().len(), 3);
}

#[test]
fn arguments_are_always_an_object_and_a_valid_one_is_left_byte_for_byte() {
    for exact in [
        "{}",
        "{ \"a\" : 1.0 }",
        "{\"a\":1,\"a\":2}",
        "\n{\"é\":\"\\u00e9\"}",
    ] {
        assert_eq!(only_arguments(exact), exact);
    }
    assert_eq!(only_arguments(""), "{}");
    assert_eq!(only_arguments("{'a': 1,}"), r#"{"a":1}"#);
    assert_eq!(only_arguments("ls -la"), r#"{"_raw":"ls -la"}"#);
    assert_eq!(only_arguments("[1]"), r#"{"_raw":"[1]"}"#);
    assert_eq!(only_arguments("{\"a\": \"b"), r#"{"_raw":"{\"a\": \"b"}"#);
}

#[test]
fn arguments_that_were_cut_are_not_understood_as_others() {
    let mut call = issued(&SequentialIds::new(), None, "list", "{'a': 1,}");
    call.raw.complete = false;
    let messages = written(vec![assistant("", vec![call])]);
    assert_eq!(
        messages[0]["tool_calls"][0]["function"]["arguments"],
        r#"{"_raw":"{'a': 1,}"}"#
    );
}

#[test]
fn a_providers_id_is_kept_where_it_names_one_call_only() {
    let ids = SequentialIds::new();
    let long = "x".repeat(LONGEST_ID + 1);
    let given = [
        Some("call_0"),
        Some("call_0"),
        Some(""),
        None,
        Some("own"),
        Some(long.as_str()),
    ];
    let mut history = Vec::new();
    for id in given {
        let call = issued(&ids, id, "list", "{}");
        history.extend([assistant("", vec![call.clone()]), result(&call, "x")]);
    }
    let messages = written(history);
    let mut seen = Vec::new();
    for pair in messages.as_array().unwrap().chunks(2) {
        let id = pair[0]["tool_calls"][0]["id"].as_str().unwrap();
        assert_eq!(pair[1]["tool_call_id"], id);
        seen.push(id);
    }
    assert_eq!(seen[4], "own");
    assert!(
        seen.iter()
            .enumerate()
            .all(|(at, id)| at == 4 || id.starts_with("call_019b"))
    );
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), given.len());
}

#[test]
fn results_stand_behind_their_calls_in_their_order() {
    let ids = SequentialIds::new();
    let calls: Vec<IssuedCall> = ["a", "b", "c"]
        .iter()
        .map(|id| issued(&ids, Some(id), "list", "{}"))
        .collect();
    let stray = issued(&ids, Some("d"), "list", "{}");
    let messages = written(vec![
        assistant("", calls.clone()),
        user("wait"),
        result(&calls[1], "two"),
        result(&stray, "stray"),
        result(&calls[0], "one"),
    ]);
    let shape: Vec<(&str, &str)> = messages
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|message| {
            (
                message["role"].as_str().unwrap(),
                message["content"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        shape,
        [
            ("tool", "one"),
            ("tool", "two"),
            ("tool", NO_RESULT),
            ("user", "wait")
        ]
    );
}

#[test]
fn a_name_the_model_made_up_is_written_in_letters_that_servers_take() {
    let ids = SequentialIds::new();
    for (name, sent) in [
        ("functions.read file", "functions_read_file"),
        ("", NO_NAME),
        ("é", "_"),
    ] {
        let messages = written(vec![assistant("", vec![issued(&ids, None, name, "{}")])]);
        assert_eq!(messages[0]["tool_calls"][0]["function"]["name"], sent);
    }
}

proptest! {
    #[test]
    fn any_arguments_are_sent_as_an_object(raw in "(\\PC{0,20}|[{}\\[\\]\"':,a1\\\\ \n]{0,20})") {
        prop_assert!(serde_json::from_str::<Map<String, Value>>(&only_arguments(&raw)).is_ok());
    }
}
