//! Answers in every form that servers send them (L01, L10).

use castellan_core::message::RawCall;
use castellan_core::model::{Finish, Usage};
use castellan_core::{ErrorCode, ModelEvent};
use castellan_testkit::{ManualClock, ModelServer, Reply};
use serde_json::{Value, json};

use crate::world::{Asked, ask, ask_once, delta, end, hello, model_with, settings};

fn calls(asked: &Asked) -> Vec<(&str, &str)> {
    let calls = asked.reply().calls.iter();
    calls
        .map(|call| (call.name.as_str(), call.arguments.as_str()))
        .collect()
}

async fn stream(chunks: impl IntoIterator<Item = Value>) -> Asked {
    ask_once(&ModelServer::scripted([Reply::sse(chunks)])).await
}

#[tokio::test]
async fn words_arrive_as_they_come_and_are_whole_at_the_end() {
    let server = ModelServer::scripted([Reply::text("one two three").usage(11, 3)]);
    let asked = ask_once(&server).await;
    let words = ["one ", "two ", "three"].map(|word| ModelEvent::Text(word.to_owned()));
    assert_eq!(asked.events, words);
    let reply = asked.reply();
    assert_eq!((reply.text.as_str(), reply.attempts), ("one two three", 1));
    assert_eq!(reply.finish, Finish::Stop);
    assert_eq!(
        reply.usage,
        Some(Usage {
            prompt_tokens: 11,
            completion_tokens: 3,
            ..Usage::default()
        })
    );
    server.assert_spent();
}

#[tokio::test]
async fn an_answer_in_single_bytes_is_the_same_answer() {
    let call = [("read_file", json!({"path": "é/中.txt"}))];
    let server = ModelServer::scripted([Reply::text_and_calls("déjà vu", call)
        .byte_by_byte()
        .until_close()]);
    let asked = ask_once(&server).await;
    assert_eq!(asked.words(), "déjà vu");
    assert_eq!(calls(&asked), [("read_file", r#"{"path":"é/中.txt"}"#)]);
}

// L01
#[tokio::test]
async fn parallel_calls_are_kept_apart_in_all_four_odd_numberings() {
    let first =
        json!({"id": "a", "function": {"name": "read_file", "arguments": r#"{"path":"x"}"#}});
    let second =
        json!({"id": "b", "function": {"name": "read_file", "arguments": r#"{"path":"y"}"#}});
    let with_index = |call: &Value, index: u64| {
        let mut call = call.clone();
        call["index"] = json!(index);
        call
    };
    let part = |call: Value| delta(&json!({"tool_calls": [call]}));
    let whole = |a: Option<u64>, b: Option<u64>| {
        [(&first, a), (&second, b)]
            .map(|(call, index)| part(index.map_or(call.clone(), |index| with_index(call, index))))
            .to_vec()
    };
    let piece =
        |index: u64, text: &str| part(json!({"index": index, "function": {"arguments": text}}));
    let head = |index: u64, id: &str| {
        part(json!({"index": index, "id": id, "function": {"name": "read_file", "arguments": ""}}))
    };
    let interleaved = vec![
        head(0, "a"),
        head(1, "b"),
        piece(0, r#"{"pa"#),
        piece(1, r#"{"path":"#),
        piece(0, r#"th":"x"}"#),
        piece(1, r#""y"}"#),
    ];
    for chunks in [
        whole(None, None),
        whole(Some(0), Some(0)),
        interleaved,
        whole(Some(1), Some(2)),
        whole(None, Some(1)),
        whole(Some(0), None),
    ] {
        let asked = stream(chunks.into_iter().chain([end("tool_calls")])).await;
        assert_eq!(
            calls(&asked),
            [
                ("read_file", r#"{"path":"x"}"#),
                ("read_file", r#"{"path":"y"}"#)
            ]
        );
        assert_eq!(asked.reply().finish, Finish::ToolCalls);
        assert_eq!(asked.reply().calls[1].provider_id.as_deref(), Some("b"));
    }
}

#[tokio::test]
async fn a_call_cut_by_the_token_limit_is_marked_as_such() {
    let part = json!({"tool_calls": [{"index": 0, "id": "a", "function": {
        "name": "bash", "arguments": "{\"command\": \"rm -rf bu",
    }}]});
    let asked = stream([delta(&part), end("length")]).await;
    assert_eq!(asked.reply().finish, Finish::Length);
    assert_eq!(
        asked.reply().calls,
        [RawCall {
            provider_id: Some("a".to_owned()),
            complete: false,
            ..RawCall::new("bash", "{\"command\": \"rm -rf bu")
        }]
    );
}

#[tokio::test]
async fn reasoning_is_kept_apart_from_the_answer() {
    let asked = stream([
        delta(&json!({"reasoning_content": "hm", "content": null})),
        delta(&json!({"content": "yes"})),
        end("stop"),
    ])
    .await;
    assert_eq!(asked.events[0], ModelEvent::Reasoning("hm".to_owned()));
    assert_eq!(asked.thoughts(), Some("hm"));
    assert_eq!(asked.reply().text, "yes");
}

#[tokio::test]
async fn a_whole_answer_is_taken_where_a_stream_was_asked_for() {
    let body = json!({
        "choices": [{
            "message": {"role": "assistant", "content": "yes", "tool_calls": null},
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": 4, "completion_tokens": 1},
    });
    let server = ModelServer::scripted([
        Reply::json(200, &body),
        Reply::raw(
            200,
            "text/event-stream",
            serde_json::to_string_pretty(&body).unwrap(),
        ),
    ]);
    for _ in 0..2 {
        let asked = ask_once(&server).await;
        assert_eq!(
            (asked.words().as_str(), asked.reply().text.as_str()),
            ("yes", "yes")
        );
        assert_eq!(asked.reply().usage.unwrap().prompt_tokens, 4);
    }
}

#[tokio::test]
async fn a_stream_under_another_content_type_is_still_a_stream() {
    let text = format!(
        "data: {}\n\ndata: {}\n\n",
        delta(&json!({"content": "yes"})),
        end("stop")
    );
    for kind in ["application/json", "text/plain", "application/octet-stream"] {
        let server = ModelServer::scripted([Reply::raw(200, kind, text.clone())]);
        assert_eq!(ask_once(&server).await.reply().text, "yes", "{kind}");
    }
}

// L10
#[tokio::test]
async fn an_answer_that_is_no_answer_is_asked_for_again() {
    let role = delta(&json!({"role": "assistant", "content": ""}));
    let half = delta(&json!({"content": "half an ans"}));
    let error = json!({"error": {"message": "the backend went away", "code": 502}});
    for (what, reply) in [
        ("an error first", Reply::sse([error.clone()])),
        (
            "an error amid the words",
            Reply::sse_unfinished([half.clone(), error]),
        ),
        (
            "the role and no more",
            Reply::sse_unfinished([role.clone()]),
        ),
        ("only the end", Reply::sse([])),
        (
            "a proxy's page",
            Reply::html("<html><h1>502 Bad Gateway</h1></html>"),
        ),
        ("an empty body", Reply::sse_unfinished([])),
        ("no end", Reply::sse_unfinished([half.clone()])),
        (
            "a broken connection",
            Reply::sse_unfinished([half.clone()]).then_cut(),
        ),
        ("a closed connection", Reply::dropped()),
        ("no words", Reply::sse([role.clone(), end("stop")])),
        (
            "only reasoning",
            Reply::sse([delta(&json!({"reasoning": "hm"})), end("stop")]),
        ),
        (
            "broken JSON in an event",
            Reply::bare(200).then_data("{\"choices\": ["),
        ),
        (
            "broken JSON as a whole",
            Reply::raw(200, "application/json", "{\"choices\": ["),
        ),
        (
            "a named error event",
            Reply::bare(200).then_bytes("event: error\ndata: overloaded\n\n"),
        ),
        ("an error as its reason", Reply::sse([half, end("error")])),
    ] {
        let server = ModelServer::scripted([reply, Reply::text("whole")]);
        let asked = ask_once(&server).await;
        assert_eq!(asked.restarts().len(), 1, "{what}");
        assert_eq!(
            (asked.words().as_str(), asked.reply().text.as_str()),
            ("whole", "whole"),
            "{what}"
        );
        assert_eq!(asked.reply().attempts, 2, "{what}");
        server.assert_spent();
    }
}

#[tokio::test]
async fn an_answer_that_never_comes_is_an_error_with_the_servers_words() {
    let error = json!({"error": {"message": "the backend went away"}});
    let server = ModelServer::scripted((0..4).map(|_| Reply::sse([error.clone()])));
    let asked = ask_once(&server).await;
    assert_eq!(asked.error().code, ErrorCode::ModelUnreachable);
    assert!(
        asked.error().message.contains("the backend went away"),
        "{}",
        asked.error()
    );
    assert!(
        asked.error().message.contains("tried 4 times"),
        "{}",
        asked.error()
    );
    server.assert_spent();
    let server = ModelServer::scripted((0..4).map(|_| Reply::sse([end("stop")])));
    assert_eq!(
        ask_once(&server).await.error().code,
        ErrorCode::ModelProtocol
    );
}

#[tokio::test]
async fn a_stream_that_breaks_after_its_end_was_told_is_complete() {
    let chunks = [delta(&json!({"content": "yes"})), end("stop")];
    for reply in [
        Reply::sse_unfinished(chunks.clone()).then_cut(),
        Reply::sse_unfinished(chunks.clone()),
    ] {
        let asked = ask_once(&ModelServer::scripted([reply])).await;
        assert_eq!(
            (asked.reply().text.as_str(), asked.reply().attempts),
            ("yes", 1)
        );
    }
}

#[tokio::test]
async fn an_end_without_a_reason_is_an_end() {
    let asked = stream([delta(&json!({"content": "yes"}))]).await;
    assert_eq!(
        (asked.reply().text.as_str(), &asked.reply().finish),
        ("yes", &Finish::Stop)
    );
}

#[tokio::test]
async fn a_server_that_keeps_the_stream_open_after_its_end_is_not_waited_for() {
    let chunks = [delta(&json!({"content": "yes"})), end("stop")];
    let server = ModelServer::scripted([Reply::sse(chunks).then_hang()]);
    assert_eq!(ask_once(&server).await.reply().text, "yes");
}

#[tokio::test]
async fn events_are_read_however_they_are_set() {
    let (words, stop) = (delta(&json!({"content": "yes"})), end("stop"));
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}});
    for (what, text) in [
        (
            "no blank after the colon",
            format!("data:{words}\n\ndata:{stop}\n\ndata:{usage}\n\ndata:[DONE]\n\n"),
        ),
        (
            "carriage returns",
            format!("data: {words}\r\n\r\ndata: {stop}\r\n\r\ndata: {usage}\r\n\r\n"),
        ),
        (
            "a byte order mark",
            format!("\u{feff}data: {words}\n\ndata: {stop}\n\ndata: {usage}\n\n"),
        ),
        (
            "keep-alive comments",
            format!(": ping\n\ndata: {words}\n\n:\n\ndata: {stop}\n\n: ping\ndata: {usage}\n\n"),
        ),
        (
            "several objects in one line",
            format!("data: {words}{stop} {usage}\n\ndata: [DONE]\n\n"),
        ),
        (
            "no blank lines",
            format!("data: {words}\ndata: {stop}\ndata: {usage}\ndata: [DONE]\n"),
        ),
        (
            "an end in the same event",
            format!("data: {words}\n\ndata: {stop}\n\ndata: {usage}[DONE]\n\n"),
        ),
    ] {
        let reply = Reply::bare(200)
            .header("content-type", "text/event-stream")
            .then_bytes(text);
        let asked = ask_once(&ModelServer::scripted([reply])).await;
        assert_eq!(asked.reply().text, "yes", "{what}");
        assert_eq!(asked.reply().finish, Finish::Stop, "{what}");
        assert_eq!(asked.reply().usage.unwrap().prompt_tokens, 7, "{what}");
        assert_eq!(asked.reply().attempts, 1, "{what}");
    }
}

#[tokio::test]
async fn content_in_parts_and_refusals_are_words() {
    for (first, text) in [
        (
            json!({"content": [{"type": "text", "text": "y"}, {"type": "output_text", "text": "es"}]}),
            "yes",
        ),
        (json!({"content": null, "refusal": "no"}), "no"),
    ] {
        let asked = stream([delta(&first), end("stop")]).await;
        assert_eq!(
            (asked.words().as_str(), asked.reply().text.as_str()),
            (text, text)
        );
    }
}

#[tokio::test]
async fn signs_of_life_and_comments_are_passed_over() {
    let reply = Reply::bare(200)
        .header("content-type", "text/event-stream")
        .then_bytes(": PROCESSING\n\n")
        .then_data("ping")
        .then_data(&delta(&json!({"content": "yes"})).to_string())
        .then_data("[DONE]");
    assert_eq!(
        ask_once(&ModelServer::scripted([reply])).await.reply().text,
        "yes"
    );
}

#[tokio::test]
async fn half_a_character_is_read_as_a_replacement_for_one() {
    let event = r#"{"choices": [{"delta": {"content": "a\ud800b"}, "finish_reason": "stop"}]}"#;
    let whole = r#"{"choices": [{"message": {"content": "a\ud800b"}, "finish_reason": "stop"}]}"#;
    for reply in [
        Reply::bare(200).then_data(event),
        Reply::raw(200, "application/json", whole),
    ] {
        let asked = ask_once(&ModelServer::scripted([reply])).await;
        assert_eq!(asked.words(), "a\u{fffd}b");
        assert_eq!(asked.reply().attempts, 1);
    }
}

#[tokio::test]
async fn a_character_split_over_two_events_is_whole() {
    let part = |field: &str, text: &str| {
        format!(r#"{{"choices": [{{"delta": {{"{field}": "{text}"}}}}]}}"#)
    };
    let stream = |parts: [String; 2]| {
        let reply = parts
            .iter()
            .fold(Reply::bare(200), |reply, part| reply.then_data(part));
        ModelServer::scripted([reply.then_data("[DONE]")])
    };
    let both = stream([part("content", r"yes \ud83d"), part("content", r"\ude00!")]);
    let asked = ask_once(&both).await;
    assert_eq!(asked.words(), "yes \u{1f600}!");
    assert_eq!(asked.reply().text, "yes \u{1f600}!");
    let unlike = stream([part("reasoning", r"\ud83d"), part("content", r"\ude00!")]);
    let asked = ask_once(&unlike).await;
    assert_eq!(asked.reply().text, "\u{fffd}!");
    assert_eq!(asked.thoughts(), Some("\u{fffd}"));
    let last = stream([part("content", "yes "), part("content", r"\ud83d")]);
    assert_eq!(ask_once(&last).await.reply().text, "yes \u{fffd}");
}

#[tokio::test]
async fn calls_in_an_answer_of_which_a_part_was_withheld_are_not_complete() {
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "function": {
        "name": "bash", "arguments": "{\"command\": \"ls\"}",
    }}]});
    let asked = stream([delta(&call), end("content_filter")]).await;
    assert_eq!(asked.reply().finish, Finish::ContentFilter);
    assert!(!asked.reply().calls[0].complete);
}

#[tokio::test]
async fn a_long_lead_of_blanks_is_looked_at_once() {
    let lead = (0..20_000).fold(Reply::bare(200), |reply, _| reply.then_bytes([b'\n'; 100]));
    let reply = lead.then_data(
        &json!({"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}).to_string(),
    );
    let asked = ask_once(&ModelServer::scripted([reply])).await;
    assert_eq!(asked.reply().text, "yes");
}

#[tokio::test]
async fn a_model_can_be_asked_again() {
    let server = ModelServer::scripted([Reply::text("one"), Reply::text("two")]);
    let model = model_with(settings(&server), &ManualClock::skipping());
    assert_eq!(ask(&model, hello()).await.reply().text, "one");
    assert_eq!(ask(&model, hello()).await.reply().text, "two");
}
