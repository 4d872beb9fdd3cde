//! What a person is told when a model can't be used, and which kind of failure it is (L09, L10).

use std::sync::Arc;
use std::time::Duration;

use castellan_core::model::Overflow;
use castellan_core::{ErrorCode, ModelError};
use castellan_host::http::Timeouts;
use castellan_llm::{ApiKey, ChatModel, ChatSettings};
use castellan_testkit::{ManualClock, ModelServer, Reply, SequentialIds};
use serde_json::json;

use crate::world::{Asked, Ticking, ask, ask_once, delta, end, hello, http, model_with, settings};

async fn failure(reply: Reply) -> ModelError {
    let server = ModelServer::scripted([reply]);
    let error = ask_once(&server).await.error().clone();
    server.assert_spent();
    error
}

#[tokio::test]
async fn a_page_in_place_of_an_answer_says_where_to_look() {
    let page = "<!doctype html><html><title>Sign in to continue</title></html>";
    for reply in [Reply::html(page), Reply::raw(200, "text/plain", page)] {
        let server = ModelServer::scripted([reply.clone(), reply]);
        let asked = ask_once(&server).await;
        let error = asked.error();
        assert_eq!(error.code, ErrorCode::ModelProtocol);
        assert_eq!(asked.restarts().len(), 1);
        for part in [server.base_url().as_str(), "text/", "Sign in to continue"] {
            assert!(error.message.contains(part), "{part}: {error}");
        }
        assert_eq!(error.hint, "does the base URL end in /v1?");
        server.assert_spent();
    }
}

#[tokio::test]
async fn json_that_is_no_chat_and_plain_words_are_no_answer_either() {
    let status = failure(Reply::json(200, &json!({"status": "ok"}))).await;
    assert_eq!(status.code, ErrorCode::ModelProtocol);
    assert!(status.message.contains("application/json"), "{status}");
    let words = failure(Reply::raw(200, "text/plain", "Ollama is running")).await;
    assert!(words.message.contains("Ollama is running"), "{words}");
}

// L09
#[tokio::test]
async fn too_long_is_known_in_the_words_of_several_servers() {
    let slot = "prompt has 9001 tokens but the slot holds 8192";
    for reply in [
        Reply::error(400, slot),
        Reply::sse([json!({"error": {"message": slot}})]),
        Reply::bare(200).then_bytes(format!(
            "event: error\ndata: {{\"message\": \"{slot}\"}}\n\n"
        )),
        Reply::json(200, &json!({"error": {"message": slot, "code": 400}})),
        Reply::json(
            400,
            &json!({"error": {"message": "no", "code": "context_length_exceeded"}}),
        ),
        Reply::json(
            400,
            &json!({"object": "error", "code": 400, "message":
            "This model's maximum context length is 8192 tokens. However, you requested 9001 tokens"}),
        ),
        Reply::json(
            400,
            &json!({"error": {"type": "exceed_context_size_error", "message":
            "request (9001 tokens) exceeds the available context size (8192 tokens)"}}),
        ),
        Reply::json(
            422,
            &json!({"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"}),
        ),
        Reply::raw(413, "text/html", "<h1>413 Request Entity Too Large</h1>"),
        Reply::error(500, "prompt is too long: 210000 tokens > 200000 maximum"),
    ] {
        let error = failure(reply.clone()).await;
        assert_eq!(error.code, ErrorCode::ModelContextOverflow, "{reply:?}");
    }
}

// L09
#[tokio::test]
async fn how_much_is_too_long_is_handed_on() {
    let slot = "prompt has 9001 tokens but the slot holds 8192";
    let named = Some(Overflow {
        limit: Some(8192),
        asked: Some(9001),
    });
    for (reply, overflow) in [
        (Reply::error(400, slot), named),
        (Reply::sse([json!({"error": {"message": slot}})]), named),
        (
            Reply::json(
                400,
                &json!({"error": {"message": "the request exceeds the available context size",
                    "type": "exceed_context_size_error", "n_prompt_tokens": 9001, "n_ctx": 8192}}),
            ),
            named,
        ),
        (
            Reply::raw(413, "text/html", "<h1>413 Request Entity Too Large</h1>"),
            Some(Overflow::default()),
        ),
        (Reply::error(400, "no such tool"), None),
    ] {
        assert_eq!(failure(reply.clone()).await.overflow, overflow, "{reply:?}");
    }
}

// L09
#[tokio::test]
async fn a_refusal_that_merely_mentions_the_context_is_no_overflow() {
    let error = failure(Reply::error(
        400,
        "invalid tool name `get.context`: context tools need a prefix",
    ))
    .await;
    assert_eq!(error.code, ErrorCode::ModelRejected);
    assert!(error.message.contains("get.context"), "{error}");
}

#[tokio::test]
async fn a_refused_key_is_named_by_its_source_and_never_shown() {
    let secret = "sk-live-0123456789";
    let server =
        ModelServer::scripted([Reply::error(401, &format!("Incorrect API key: {secret}"))]);
    let settings = ChatSettings {
        api_key: ApiKey::new(secret),
        key_source: "OPENAI_API_KEY in the environment".to_owned(),
        ..settings(&server)
    };
    let model = model_with(settings, &ManualClock::skipping());
    let asked = ask(&model, hello()).await;
    assert_eq!(asked.error().code, ErrorCode::ModelUnauthorized);
    assert!(
        asked
            .error()
            .hint
            .contains("OPENAI_API_KEY in the environment")
    );
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some(format!("Bearer {secret}").as_str())
    );
    assert!(!format!("{asked:?} {model:?}").contains(secret));
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_refused_before_anything_is() {
    let server = ModelServer::scripted([]);
    let settings = ChatSettings {
        api_key: ApiKey::new("sk-1\nsk-2"),
        key_source: "models.main.api_key".to_owned(),
        ..settings(&server)
    };
    let asked = ask(&model_with(settings, &ManualClock::skipping()), hello()).await;
    assert_eq!(asked.error().code, ErrorCode::ModelUnauthorized);
    assert!(!format!("{:?}", asked.error()).contains("sk-1"));
}

#[tokio::test]
async fn a_missing_model_is_named() {
    let error = failure(Reply::error(
        404,
        "model \"m1\" not found, try pulling it first",
    ))
    .await;
    assert_eq!(error.code, ErrorCode::ModelRejected);
    assert!(
        error.hint.contains("`m1`") && error.hint.contains("/v1"),
        "{}",
        error.hint
    );
}

#[tokio::test]
async fn a_used_up_account_is_not_asked_again() {
    let body =
        json!({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}});
    assert_eq!(
        failure(Reply::json(429, &body)).await.code,
        ErrorCode::ModelRateLimited
    );
}

#[tokio::test]
async fn an_address_that_is_none_is_a_matter_of_configuration() {
    for address in ["", "ftp://host/v1", "http://a b/v1"] {
        let settings = ChatSettings::new("main", address, "m1");
        let asked = ask(&model_with(settings, &ManualClock::skipping()), hello()).await;
        assert_eq!(
            asked.error().code,
            ErrorCode::ModelNotConfigured,
            "{address}"
        );
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let half = delta(&json!({"content": "half"}));
    for reply in [Reply::hang(), Reply::sse_unfinished([half]).then_hang()] {
        let server = ModelServer::scripted([reply]);
        let short = Duration::from_millis(50);
        let settings = ChatSettings {
            timeouts: Timeouts {
                first_byte: short,
                idle: short,
            },
            attempts: 1,
            ..settings(&server)
        };
        let asked = ask(&model_with(settings, &ManualClock::skipping()), hello()).await;
        assert_eq!(
            asked.error().code,
            ErrorCode::ModelUnreachable,
            "{:?}",
            asked.error()
        );
        assert!(
            asked.error().message.contains("in time"),
            "{}",
            asked.error()
        );
    }
}

#[tokio::test]
async fn an_answer_used_up_by_reasoning_or_withheld_is_not_asked_for_again() {
    let end =
        |reason| json!({"choices": [{"delta": {"reasoning": "hm"}, "finish_reason": reason}]});
    let error = failure(Reply::sse([end("length")])).await;
    assert!(error.hint.contains("max_tokens"), "{error:?}");
    assert_eq!(
        failure(Reply::sse([end("content_filter")])).await.code,
        ErrorCode::ModelRejected
    );
}

#[tokio::test]
async fn an_answer_without_end_is_given_up_at_a_bound() {
    let mebibyte = "x".repeat(1 << 20);
    let words = delta(&json!({"content": mebibyte})).to_string();
    let blanks = "\n".repeat(1 << 20);
    let endless =
        |piece: String| (0..65).fold(Reply::bare(200), |reply, _| reply.then_bytes(piece.clone()));
    for reply in [endless(format!("data: {words}\n\n")), endless(blanks)] {
        let error = failure(reply.then_hang()).await;
        assert_eq!(error.code, ErrorCode::ModelProtocol, "{error}");
        assert!(error.message.contains("more than 64 MiB"), "{error}");
    }
}

/// Asks a server that says `reply`, once, by a clock that moves on a second with each piece.
async fn ask_while_time_goes_by(reply: Reply) -> Asked {
    let server = ModelServer::scripted([reply]);
    let settings = ChatSettings {
        attempts: 1,
        timeouts: Timeouts {
            first_byte: Duration::from_secs(90),
            idle: Duration::from_secs(60),
        },
        ..settings(&server)
    };
    let model = ChatModel::new(
        settings,
        http(),
        Arc::new(Ticking::new()),
        Arc::new(SequentialIds::new()),
    );
    ask(&model, hello()).await
}

#[tokio::test]
async fn signs_of_life_alone_do_not_keep_a_request_alive() {
    let alive = |reply: Reply, sign: &str, times: usize| {
        (0..times).fold(reply, |reply, _| reply.then_bytes(sign))
    };
    let words = || delta(&json!({"content": "half"})).to_string();
    for sign in [": keepalive\n\n", "data: ping\n\n", "\n"] {
        let before = alive(Reply::bare(200), sign, 100).then_hang();
        let after = alive(Reply::bare(200).then_data(&words()), sign, 70).then_hang();
        for (reply, limit) in [(before, "90 s"), (after, "60 s")] {
            let asked = ask_while_time_goes_by(reply).await;
            let error = asked.error();
            assert_eq!(error.code, ErrorCode::ModelUnreachable, "{sign}: {error}");
            assert!(error.message.contains("in time"), "{sign}: {error}");
            assert!(error.message.contains(limit), "{sign}: {error}");
        }
        let slow = alive(Reply::bare(200), sign, 80).then_data(&words());
        let slow = alive(slow, sign, 50).then_data(&words());
        let slow = alive(slow, sign, 50).then_data(&end("stop").to_string());
        let asked = ask_while_time_goes_by(slow).await;
        assert_eq!(asked.reply().text, "halfhalf", "{sign}");
    }
}

#[tokio::test]
async fn blanks_alone_do_not_keep_a_whole_answer_alive() {
    let blanks =
        |reply: Reply, times: usize| (0..times).fold(reply, |reply, _| reply.then_bytes(" "));
    let endless = blanks(Reply::bare(200).then_bytes("{"), 70).then_hang();
    let asked = ask_while_time_goes_by(endless).await;
    assert!(asked.error().message.contains("in time"), "{asked:?}");
    let slow = blanks(Reply::bare(200), 80).then_bytes("{");
    let slow = blanks(slow, 50).then_bytes(r#""choices": [{"message": {"content": "yes"}}]"#);
    let slow = blanks(slow, 50).then_bytes("}");
    assert_eq!(ask_while_time_goes_by(slow).await.reply().text, "yes");
}

#[tokio::test]
async fn a_compressed_answer_that_was_not_asked_for_is_named() {
    let packed = || Reply::raw(200, "text/event-stream", b"\x1f\x8b\x08".to_vec());
    for encoding in ["gzip", "br"] {
        let error = failure(packed().header("content-encoding", encoding)).await;
        assert_eq!(error.code, ErrorCode::ModelProtocol);
        assert!(
            error.message.contains(&format!("encoding `{encoding}`")),
            "{error}"
        );
    }
    let plain = Reply::text("yes").header("content-encoding", "identity");
    let server = ModelServer::scripted([plain]);
    assert_eq!(ask_once(&server).await.reply().text, "yes");
}

#[tokio::test]
async fn a_host_that_was_redirected_to_and_is_not_there_is_named() {
    let gone = ModelServer::scripted([]);
    let target = gone.base_url();
    drop(gone);
    let redirect = Reply::bare(307).header("location", &format!("{target}/chat/completions"));
    let server = ModelServer::scripted([redirect]);
    let settings = ChatSettings {
        attempts: 1,
        ..settings(&server)
    };
    let asked = ask(&model_with(settings, &ManualClock::skipping()), hello()).await;
    let host = target.trim_start_matches("http://").trim_end_matches("/v1");
    assert_eq!(
        asked.error().hint,
        format!("is the server at {host} running?")
    );
}
