//! Answers in the shapes that servers have been seen to send.

use super::*;
use serde_json::json;

fn answer(chunks: &[Value]) -> Result<ModelReply, Void> {
    let mut answer = Answer::of_tools(["list"]);
    for chunk in chunks {
        answer.take(chunk).unwrap();
    }
    answer.finish().map(|(_, reply)| reply)
}

/// The words of the reasoning.
fn words(reply: &ModelReply) -> Option<&str> {
    reply
        .reasoning
        .as_ref()
        .map(|reasoning| reasoning.text.as_str())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the callers make the value for this call"
)]
fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn ended(reason: &Value) -> Value {
    json!({"choices": [{"delta": {}, "finish_reason": reason}]})
}

fn list(arguments: &str) -> Value {
    delta(
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "list", "arguments": arguments}}]}),
    )
}

#[test]
fn words_and_reasoning_are_kept_apart() {
    let reply = answer(&[
        delta(json!({"role": "assistant", "content": null, "reasoning_content": "hm"})),
        delta(json!({"reasoning": "m", "reasoning_content": "m"})),
        delta(json!({"content": "yes", "reasoning": null})),
        end("stop"),
    ])
    .unwrap();
    assert_eq!((reply.text.as_str(), words(&reply)), ("yes", Some("hmm")));
    assert_eq!(reply.finish, Finish::Stop);
}

#[test]
fn content_may_be_a_list_of_parts() {
    let reply = answer(&[delta(json!({"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
        "b",
        {"type": "image"},
    ]}))])
    .unwrap();
    assert_eq!((reply.text.as_str(), words(&reply)), ("ab", Some("hm")));
}

#[test]
fn chunks_without_choices_or_deltas_do_no_harm() {
    let reply = answer(&[
        json!({}),
        json!({"choices": []}),
        json!({"choices": null, "error": null}),
        json!({"choices": [{"delta": null}]}),
        json!({"choices": [{}]}),
        json!([1]),
        delta(json!({"content": "a", "tool_calls": null, "function_call": null})),
        json!({"choices": [{"index": 1, "delta": {"content": "other"}}]}),
        end(""),
        end("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}),
    ])
    .unwrap();
    assert_eq!(reply.text, "a");
    assert_eq!(
        reply.usage,
        Some(Usage {
            prompt_tokens: 7,
            completion_tokens: 2,
            ..Usage::default()
        })
    );
}

#[test]
fn why_it_stopped_is_judged_by_what_came() {
    for (reason, finish) in [
        ("stop", Finish::ToolCalls),
        ("function_call", Finish::ToolCalls),
        ("tool_calls", Finish::ToolCalls),
        ("length", Finish::Length),
    ] {
        assert_eq!(
            answer(&[list("{}"), end(reason)]).unwrap().finish,
            finish,
            "{reason}"
        );
    }
    let text = delta(json!({"content": "a"}));
    assert_eq!(answer(&[list("{}")]).unwrap().finish, Finish::ToolCalls);
    assert_eq!(
        answer(&[text.clone(), end("tool_calls")]).unwrap().finish,
        Finish::Stop
    );
    let other = answer(&[text, end("repetition")]).unwrap().finish;
    assert_eq!(other, Finish::Other("repetition".to_owned()));
}

#[test]
fn what_counts_is_what_arrived_whatever_the_server_calls_its_end() {
    let (text, call) = (delta(json!({"content": "a"})), list("{\"path\":\"x\"}"));
    let half = list("{\"path\":\"/et");
    for reason in [
        json!("stop"),
        json!("STOP"),
        json!("end_turn"),
        json!("eos"),
        json!("eos_token"),
        json!("tool_calls"),
        json!("TOOL_CALLS"),
        json!("tool_use"),
        json!("function_call"),
        json!("tool-calls"),
        json!("completed"),
        json!({"type": "stop"}),
        json!(null),
        json!(""),
    ] {
        let (end, case) = (ended(&reason), reason.to_string());
        let words = answer(&[text.clone(), end.clone()]).unwrap();
        assert_eq!(
            (words.finish, words.calls.len()),
            (Finish::Stop, 0),
            "{case}"
        );
        let called = answer(&[call.clone(), end.clone()]).unwrap();
        assert_eq!(called.finish, Finish::ToolCalls, "{case}");
        assert!(called.calls[0].complete, "{case}");
        assert_eq!(answer(&[end]), Err(Void::Empty), "{case}");
    }
    for reason in [
        json!("length"),
        json!("max_tokens"),
        json!("MAX_TOKENS"),
        json!("model_length"),
    ] {
        let end = ended(&reason);
        let whole = answer(&[call.clone(), end.clone()]).unwrap();
        assert!(
            whole.finish == Finish::Length && whole.calls[0].complete,
            "{reason}"
        );
        assert!(
            !answer(&[half.clone(), end]).unwrap().calls[0].complete,
            "{reason}"
        );
    }
}

#[test]
fn of_an_end_that_is_no_good_one_nothing_half_is_run() {
    let (text, call) = (delta(json!({"content": "a"})), list("{\"path\":\"x\"}"));
    let half = list("{\"path\":\"/et");
    for reason in [
        json!("abort"),
        json!("pause_turn"),
        json!(7),
        json!(true),
        json!({"x": 1}),
    ] {
        let end = ended(&reason);
        assert!(matches!(
            answer(&[text.clone(), end.clone()]).unwrap().finish,
            Finish::Other(_)
        ));
        assert!(
            answer(&[call.clone(), end.clone()]).unwrap().calls[0].complete,
            "{reason}"
        );
        assert!(
            !answer(&[half.clone(), end.clone()]).unwrap().calls[0].complete,
            "{reason}"
        );
        // A call cut before its arguments looks like one that has none.
        assert!(
            !answer(&[list(""), end]).unwrap().calls[0].complete,
            "{reason}"
        );
    }
    for reason in [
        json!("error"),
        json!("network_error"),
        json!("MALFORMED_FUNCTION_CALL"),
    ] {
        assert_eq!(
            answer(&[text.clone(), ended(&reason)]),
            Err(Void::Failed),
            "{reason}"
        );
    }
    for reason in [
        json!("SAFETY"),
        json!("content_filter"),
        json!("recitation"),
    ] {
        assert!(
            !answer(&[call.clone(), ended(&reason)]).unwrap().calls[0].complete,
            "{reason}"
        );
        assert_eq!(answer(&[ended(&reason)]), Err(Void::Withheld), "{reason}");
    }
}

#[test]
fn of_several_reasons_the_gravest_counts() {
    let reply = answer(&[list("{\"path\":\"/et"), end("length"), end("stop")]).unwrap();
    assert_eq!(reply.finish, Finish::Length);
    assert!(!reply.calls[0].complete);
    let reply = answer(&[list("{}"), end("tool_calls"), end("stop")]).unwrap();
    assert_eq!(reply.finish, Finish::ToolCalls);
}

#[test]
fn a_call_that_is_whole_in_an_answer_cut_by_length_is_complete() {
    let reply = answer(&[list("{\"path\":\"x\"}"), end("length")]).unwrap();
    assert!(reply.calls[0].complete);
}

#[test]
fn a_call_said_in_the_old_and_the_new_way_at_once_is_one_call() {
    // llama-cpp-python sends every piece twice, the name and id in each.
    let piece = |text: &str| {
        let function = json!({"name": "list", "arguments": text});
        let call =
            json!({"index": 0, "id": "call__0_list", "type": "function", "function": function});
        delta(json!({"content": null, "function_call": function, "tool_calls": [call]}))
    };
    let pieces = [
        "{", "\"", "path", "\":", " ", "\"x", "\"", ",\"", "limit", "\":", " ", "2", "0", "}",
    ];
    let mut chunks: Vec<_> = pieces.into_iter().map(piece).collect();
    chunks.push(end("tool_calls"));
    let reply = answer(&chunks).unwrap();
    assert_eq!(reply.calls.len(), 1, "{:?}", reply.calls);
    assert_eq!(reply.calls[0].arguments, "{\"path\": \"x\",\"limit\": 20}");
}

#[test]
fn a_single_call_of_the_old_api_is_a_call() {
    let reply = answer(&[
        delta(json!({"function_call": {"name": "list", "arguments": "{\"a\""}})),
        delta(json!({"function_call": {"arguments": ":1}"}})),
        end("function_call"),
    ])
    .unwrap();
    assert_eq!(
        (
            reply.calls[0].name.as_str(),
            reply.calls[0].arguments.as_str()
        ),
        ("list", "{\"a\":1}")
    );
    assert_eq!(reply.calls[0].provider_id, None);
}

#[test]
fn a_whole_message_is_an_answer_and_a_repeated_one_is_not_counted_twice() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "list", "arguments": "{}"}});
    let whole = json!({"choices": [{
        "message": {"role": "assistant", "content": "a", "tool_calls": [call("x"), call("x")]},
        "finish_reason": "tool_calls",
    }]});
    let reply = answer(std::slice::from_ref(&whole)).unwrap();
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("a", 2));
    let reply = answer(&[delta(json!({"content": "a"})), list("{}"), whole]).unwrap();
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("a", 1));
}

#[test]
fn a_refusal_is_an_answer() {
    assert_eq!(
        answer(&[delta(json!({"refusal": "no"})), end("stop")])
            .unwrap()
            .text,
        "no"
    );
}

#[test]
fn an_answer_of_nothing_is_none() {
    assert_eq!(answer(&[]), Err(Void::Empty));
    assert_eq!(
        answer(&[
            delta(json!({"role": "assistant", "content": ""})),
            end("stop")
        ]),
        Err(Void::Empty)
    );
    assert_eq!(
        answer(&[delta(json!({"content": "\n "})), end("stop")]),
        Err(Void::Empty)
    );
    let reasoning = delta(json!({"reasoning": "hm"}));
    assert_eq!(
        answer(&[reasoning.clone(), end("stop")]),
        Err(Void::OnlyReasoning)
    );
    assert_eq!(
        answer(&[reasoning, end("length")]),
        Err(Void::CutInReasoning)
    );
    assert_eq!(answer(&[end("content_filter")]), Err(Void::Withheld));
    assert_eq!(
        answer(&[delta(json!({"content": "a"})), end("error")]),
        Err(Void::Failed)
    );
}

#[test]
fn blanks_beside_calls_are_no_words() {
    let reply = answer(&[
        delta(json!({"content": "\n\n"})),
        list("{}"),
        end("tool_calls"),
    ])
    .unwrap();
    assert_eq!(reply.text, "");
}

#[test]
fn an_error_in_the_place_of_a_chunk_is_the_servers_complaint() {
    for chunk in [
        json!({"error": {"message": "too hot", "code": 500}}),
        json!({"error": "too hot"}),
        json!({"object": "error", "message": "too hot"}),
        json!({"choices": [{"delta": {"content": ""}, "finish_reason": "error"}], "error": {"message": "too hot"}}),
    ] {
        let complaint = Answer::default().take(&chunk).unwrap_err();
        assert_eq!(complaint.message, "too hot", "{chunk}");
    }
}
