//! What a person is told when a model can't be used, and which kind of failure it is (L09, L10).

use std::time::Duration;

use castellan_core::{ErrorCode, ModelError};
use castellan_host::http::Timeouts;
use castellan_llm::{ApiKey, ChatSettings};
use castellan_testkit::{ManualClock, ModelServer, Reply};
use serde_json::json;

use crate::world::{ask, ask_once, delta, hello, model_with, settings};

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
        let server = ModelServer::scripted([reply]);
        let asked = ask_once(&server).await;
        let error = asked.error();
        assert_eq!(error.code, ErrorCode::ModelProtocol);
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
async fn a_model_without_tools_is_told_from_a_bad_request() {
    let error = failure(Reply::error(
        400,
        "registry.ollama.ai/library/m1 does not support tools",
    ))
    .await;
    assert!(error.hint.contains("can't call tools"), "{}", error.hint);
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
