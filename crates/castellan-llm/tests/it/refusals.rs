//! Servers that refuse a part of what is sent (L12 and their kin): it is left out, at once and for
//! good, and a person is told where there is nothing to leave out.

use castellan_core::message::IssuedCall;
use castellan_core::{CallId, ErrorCode, Message, ModelRequest, RawCall};
use castellan_llm::{BlankContent, ChatSettings};
use castellan_testkit::{ManualClock, ModelServer, RecordedRequest, Reply, SequentialIds};
use serde_json::{Map, Value, json};

use crate::world::{ask, ask_once, call, card, delta, end, hello, model_with, settings};

/// A conversation in which the model called a tool without a word and got nothing back.
fn tool_only() -> ModelRequest {
    let call_id = CallId::mint(&SequentialIds::new());
    let raw = RawCall::new("list", "{}");
    ModelRequest {
        messages: vec![
            Message::System {
                text: "Be brief.".to_owned(),
            },
            Message::User {
                text: "go".to_owned(),
            },
            Message::Assistant {
                text: " \n".to_owned(),
                reasoning: None,
                calls: vec![IssuedCall { call_id, raw }],
            },
            Message::ToolResult {
                call_id,
                name: "list".to_owned(),
                output: String::new(),
                is_error: false,
            },
        ],
        tools: vec![card("list")],
    }
}

/// Every text of a request; none may be empty.
fn has_empty_block(request: &RecordedRequest) -> bool {
    request.messages().iter().any(|message| {
        message["role"] != "assistant" && message["content"].as_str().is_none_or(str::is_empty)
    })
}

fn judged(request: &RecordedRequest, takes: fn(Option<&Value>) -> bool) -> Reply {
    let answer = request
        .messages()
        .iter()
        .find(|message| message["role"] == "assistant");
    if has_empty_block(request) {
        return Reply::error(400, "text content blocks must be non-empty");
    }
    if takes(answer.unwrap().get("content")) {
        Reply::text("yes")
    } else {
        Reply::error(
            400,
            "messages.2.content: Input should be a valid string or null",
        )
    }
}

// L12: one server wants `null`, one `""`, one no content, one refuses every empty block.
#[tokio::test]
async fn an_answer_of_calls_alone_is_written_as_each_strict_server_takes_it() {
    let servers: [fn(&RecordedRequest) -> Reply; 4] = [
        |request| judged(request, |content| content == Some(&Value::Null)),
        |request| judged(request, |content| content == Some(&json!(""))),
        |request| judged(request, |content| content.is_none()),
        |request| {
            judged(request, |content| {
                content
                    .and_then(Value::as_str)
                    .is_some_and(|text| !text.trim().is_empty())
            })
        },
    ];
    for (number, server) in servers.into_iter().enumerate() {
        for blank in [
            BlankContent::Null,
            BlankContent::Empty,
            BlankContent::Omitted,
        ] {
            let server = ModelServer::answering(server);
            let settings = ChatSettings {
                blank_content: blank,
                ..settings(&server)
            };
            let model = model_with(settings, &ManualClock::new());
            let asked = ask(&model, tool_only()).await;
            assert_eq!(asked.reply().text, "yes", "server {number}, {blank:?}");
            // What was learnt holds.
            assert_eq!(ask(&model, tool_only()).await.reply().attempts, 1);
            let requests = server.requests();
            let result = requests[0].messages().last().unwrap();
            assert_eq!(result["content"], "(no output)");
        }
    }
}

// L12: the same turn as it comes in.
#[tokio::test]
async fn an_answer_of_calls_alone_has_no_words_however_its_content_is_written() {
    let tool = json!([{"index": 0, "id": "a", "function": {"name": "list", "arguments": "{}"}}]);
    for content in [
        None,
        Some(Value::Null),
        Some(json!("")),
        Some(json!([{"type": "text", "text": ""}])),
        Some(json!([])),
        Some(json!(" \n\t ")),
    ] {
        let mut message = Map::from_iter([("tool_calls".to_owned(), tool.clone())]);
        message.extend(content.map(|content| ("content".to_owned(), content)));
        let message = Value::Object(message);
        let whole = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
        let server = ModelServer::scripted([
            Reply::sse([delta(&message), end("tool_calls")]),
            Reply::json(200, &whole),
        ]);
        for _ in 0..2 {
            let asked = ask_once(&server).await;
            assert_eq!(asked.reply().text, "", "{message}");
            assert_eq!(call(asked.reply()), ("list", "{}"), "{message}");
        }
    }
}

/// Asks a server that answers `refusals` one after the other, and returns the body it took.
async fn after(refusals: &[(u16, &str)], extra: Value) -> Value {
    let refusals = refusals
        .iter()
        .map(|(status, said)| Reply::error(*status, said));
    let server = ModelServer::scripted(refusals.chain([Reply::text("one"), Reply::text("two")]));
    let Value::Object(extra_body) = extra else {
        panic!("{extra} is no object")
    };
    let settings = ChatSettings {
        extra_body,
        ..settings(&server)
    };
    let clock = ManualClock::new();
    let model = model_with(settings, &clock);
    assert_eq!(ask(&model, tool_only()).await.reply().text, "one");
    let again = ask(&model, tool_only()).await;
    assert_eq!(
        (again.reply().text.as_str(), again.reply().attempts),
        ("two", 1)
    );
    assert!(clock.sleeps().is_empty());
    server.assert_spent();
    server.requests().pop().unwrap().body
}

#[tokio::test]
async fn the_limit_of_an_answer_goes_under_the_name_that_is_taken() {
    let said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                'max_completion_tokens' instead.";
    let body = after(&[(400, said)], json!({"max_tokens": 99})).await;
    assert_eq!(
        (&body["max_completion_tokens"], &body["max_tokens"]),
        (&json!(99), &Value::Null)
    );
    let said = "Unrecognized request argument supplied: max_completion_tokens";
    let body = after(&[(400, said)], json!({"max_completion_tokens": 99})).await;
    assert_eq!(
        (&body["max_tokens"], &body["max_completion_tokens"]),
        (&json!(99), &Value::Null)
    );
}

#[tokio::test]
async fn several_refusals_are_heeded_one_after_the_other() {
    let refusals = [
        (422, "unknown field `stream_options`"),
        (400, "parallel_tool_calls is not supported by this model"),
        (500, "Jinja Exception: System role not supported"),
        (400, "streaming is not supported with tools"),
    ];
    let body = after(&refusals, json!({"parallel_tool_calls": false})).await;
    assert_eq!(body["stream"], false);
    assert!(body["stream_options"].is_null() && body["parallel_tool_calls"].is_null());
    assert_eq!(
        body["messages"][0],
        json!({"role": "user", "content": "Be brief.\n\ngo"})
    );
    assert_eq!(body["messages"][1]["role"], "assistant");
}

#[tokio::test]
async fn words_of_the_system_without_a_user_become_a_message_of_their_own() {
    let server = ModelServer::scripted([
        Reply::error(400, "Only user and assistant roles are supported!"),
        Reply::text("yes"),
    ]);
    let request = ModelRequest {
        messages: vec![Message::System {
            text: "Be brief.".to_owned(),
        }],
        tools: Vec::new(),
    };
    ask(&model_with(settings(&server), &ManualClock::new()), request)
        .await
        .end
        .unwrap();
    let messages = server.requests()[1].messages().to_vec();
    assert_eq!(messages, [json!({"role": "user", "content": "Be brief."})]);
}

#[tokio::test]
async fn a_server_that_refuses_the_same_thing_again_is_not_asked_for_ever() {
    for said in [
        "stream_options is not supported",
        "System role not supported",
        "content must be a string, not null",
        "streaming is not supported",
    ] {
        let server = ModelServer::scripted([Reply::error(400, said), Reply::error(400, said)]);
        let model = model_with(settings(&server), &ManualClock::new());
        // More lessons than one may lie in a complaint about content.
        while server.requests().len() < 2 {
            let asked = ask(&model, tool_only()).await;
            assert_ne!(asked.error().code, ErrorCode::ModelUnreachable, "{said}");
        }
        assert!(server.requests().len() <= 4, "{said}");
    }
}

#[tokio::test]
async fn a_model_that_takes_no_tools_is_named_with_what_to_do() {
    for (status, said, hint) in [
        (
            400,
            "registry.ollama.ai/library/m1 does not support tools",
            "can't call tools",
        ),
        (
            400,
            "`tools` is not supported by this model",
            "can't call tools",
        ),
        (
            404,
            "No endpoints found that support tool use.",
            "can't call tools",
        ),
        (500, "Function calling is not supported", "can't call tools"),
        (
            400,
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            "started with the options it names",
        ),
        (
            500,
            "tools param requires --jinja flag",
            "started with the options it names",
        ),
    ] {
        let server = ModelServer::scripted([Reply::error(status, said)]);
        let asked = ask(
            &model_with(settings(&server), &ManualClock::new()),
            tool_only(),
        )
        .await;
        let error = asked.error();
        assert_eq!(error.code, ErrorCode::ModelRejected, "{said}");
        assert!(
            error.message.contains(said) && error.hint.contains(hint),
            "{error:?}"
        );
        server.assert_spent();
    }
}

#[tokio::test]
async fn a_refusal_after_the_answer_began_teaches_the_same() {
    let error = json!({"error": {"message": "Unknown field: stream_options", "code": 400}});
    let server = ModelServer::scripted([Reply::sse([error.clone()]), Reply::text("yes")]);
    let asked = ask(&model_with(settings(&server), &ManualClock::new()), hello()).await;
    assert_eq!(asked.reply().text, "yes");
    assert!(server.requests()[1].body["stream_options"].is_null());
    // Words that were shown are not left standing without a sign that they are void.
    let half = delta(&json!({"content": "half"}));
    let server = ModelServer::scripted([Reply::sse([half, error]), Reply::text("yes")]);
    let asked = ask_once(&server).await;
    assert_eq!((asked.words().as_str(), asked.restarts().len()), ("yes", 1));
}
