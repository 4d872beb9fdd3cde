//! Calls that ask their client something.

use std::time::Duration;

use castellan_mcp::Limits;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::pipes::Pipes;
use super::web::Web;
use super::{call, code, modern, request, text, until, with_capabilities};

fn accepted(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

/// The same request with answers to what was asked.
fn retry(name: &str, asked: &Value, responses: Value) -> Value {
    let mut params = modern(call(name));
    params["inputResponses"] = responses;
    params["requestState"] = asked["result"]["requestState"].clone();
    params
}

#[tokio::test]
async fn an_older_client_is_sent_the_question() {
    let mut pipes = Pipes::legacy().await;
    let params = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
    pipes.send(&request(1, "tools/call", params)).await;
    let question = pipes.next().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who?");
    let required = &question["params"]["requestedSchema"]["required"];
    assert_eq!(*required, json!(["username", "email"]));
    let content = json!({"username": "a", "email": "b"});
    pipes
        .send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted(content)}))
        .await;
    let answer = pipes.next().await;
    assert!(
        text(&answer).starts_with("User response: action: accept"),
        "{answer}"
    );
}

#[tokio::test]
async fn an_older_client_over_http_is_asked_on_the_stream_of_its_call() {
    let web = Web::new().await;
    let session = web.session().await;
    let params = json!({"name": "test_sampling", "arguments": {"prompt": "Hi"}});
    let body = request(1, "tools/call", params).to_string();
    let mut stream = session.stream(Method::POST, &[], &body).await;
    let question = stream.next().await.unwrap().message;
    assert_eq!(question["method"], "sampling/createMessage");
    let result = json!({
        "role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"},
    });
    let told = session
        .post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
        .await;
    assert_eq!(told.status, StatusCode::ACCEPTED);
    let answer = stream.next().await.unwrap().message;
    assert_eq!(text(&answer), "LLM response: hello");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn three_questions_at_once_are_three_requests_to_an_older_client() {
    let mut pipes = Pipes::legacy().await;
    let name = "test_input_required_result_multiple_inputs";
    pipes.send(&request(1, "tools/call", call(name))).await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        let question = pipes.next().await;
        let method = question["method"].as_str().unwrap().to_owned();
        let result = match method.as_str() {
            "elicitation/create" => accepted(json!({"name": "a"})),
            "roots/list" => json!({"roots": [{"uri": "file:///r"}]}),
            _ => json!({"role": "assistant", "model": "m",
                "content": {"type": "text", "text": "hello"}}),
        };
        asked.push((
            method,
            json!({"jsonrpc": "2.0", "id": question["id"], "result": result}),
        ));
    }
    for (_, answer) in &asked {
        pipes.send(answer).await;
    }
    assert!(text(&pipes.next().await).contains("file:///r"));
    asked.sort_by(|a, b| a.0.cmp(&b.0));
    let methods: Vec<&str> = asked.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(
        methods,
        ["elicitation/create", "roots/list", "sampling/createMessage"]
    );
}

#[tokio::test]
async fn what_an_older_client_did_not_declare_is_not_asked() {
    let mut pipes = Pipes::new();
    let mut hello = super::introduction(super::LEGACY);
    hello["capabilities"] = json!({"elicitation": {"url": {}}});
    pipes.ask(request(0, "initialize", hello)).await;
    let params = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
    let answer = pipes.ask(request(1, "tools/call", params)).await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("has not declared"), "{answer}");
    let answer = pipes.call(2, "test_missing_capability").await;
    assert_eq!(code(&answer), -32021);
    assert_eq!(
        answer["error"]["data"]["requiredCapabilities"],
        json!({"sampling": {}})
    );
}

#[tokio::test]
async fn an_older_client_that_answers_nonsense_is_no_accept() {
    let mut pipes = Pipes::legacy().await;
    for (id, result) in [
        (1, json!({"action": "yes"})),
        (2, json!({})),
        (3, json!({"action": "accept"})),
    ] {
        let params = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
        pipes.send(&request(id, "tools/call", params)).await;
        let question = pipes.next().await;
        pipes
            .send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
            .await;
        let answer = pipes.next().await;
        assert!(text(&answer).contains("action: error"), "{answer}");
    }
}

#[tokio::test]
async fn a_modern_client_is_handed_the_question_and_calls_again() {
    let web = Web::new().await;
    let name = "test_input_required_result_elicitation";
    let asked = web.ask("tools/call", call(name)).await.message();
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required");
    let question = &result["inputRequests"]["user_name"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "What is your name?");
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "fixture"
    );
    let responses = json!({"user_name": accepted(json!({"name": "Alice"})), "more": 5});
    let params = retry(name, &asked, responses);
    let answer = web.ask_as("tools/call", params.clone()).await.message();
    assert_eq!(text(&answer), "Hello, Alice!");
    // The state is used up.
    let answer = web.ask_as("tools/call", params).await.message();
    assert_eq!(code(&answer), -32602);
}

#[tokio::test]
async fn questions_of_one_step_are_one_round_and_may_be_answered_in_parts() {
    let mut pipes = Pipes::new();
    let name = "test_input_required_result_multiple_inputs";
    let asked = pipes
        .ask(request(1, "tools/call", modern(call(name))))
        .await;
    let requests = asked["result"]["inputRequests"].as_object().unwrap();
    assert_eq!(requests.len(), 3);
    let one = json!({"user_name": accepted(json!({"name": "a"}))});
    let again = pipes
        .ask(request(2, "tools/call", retry(name, &asked, one)))
        .await;
    assert_eq!(again["result"]["resultType"], "input_required");
    assert_eq!(
        again["result"]["inputRequests"].as_object().unwrap().len(),
        2
    );
    let rest = json!({
        "client_roots": {"roots": [{"uri": "file:///r", "name": "r"}]},
        "greeting": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}},
    });
    let answer = pipes
        .ask(request(3, "tools/call", retry(name, &again, rest)))
        .await;
    assert!(text(&answer).contains("file:///r"), "{answer}");
}

#[tokio::test]
async fn a_call_may_ask_again_and_again() {
    let mut pipes = Pipes::new();
    let name = "test_input_required_result_multi_round";
    let first = pipes
        .ask(request(1, "tools/call", modern(call(name))))
        .await;
    let responses = json!({"step1": accepted(json!({"name": "a"}))});
    let second = pipes
        .ask(request(2, "tools/call", retry(name, &first, responses)))
        .await;
    assert!(
        second["result"]["inputRequests"]["step2"].is_object(),
        "{second}"
    );
    assert_ne!(
        first["result"]["requestState"],
        second["result"]["requestState"]
    );
    let responses = json!({"step2": accepted(json!({"color": "red"}))});
    let answer = pipes
        .ask(request(3, "tools/call", retry(name, &second, responses)))
        .await;
    assert!(text(&answer).contains("red"), "{answer}");
}

#[tokio::test]
async fn a_prompt_may_ask_as_well() {
    let web = Web::new().await;
    let name = json!({"name": "test_input_required_result_prompt"});
    let asked = web.ask("prompts/get", name.clone()).await.message();
    assert!(
        asked["result"]["inputRequests"]["user_context"].is_object(),
        "{asked}"
    );
    let mut params = modern(name);
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({"user_context": accepted(json!({"context": "sea"}))});
    let answer = web.ask_as("prompts/get", params).await.message();
    let said = answer["result"]["messages"][0]["content"]["text"]
        .as_str()
        .unwrap();
    assert!(said.contains("sea"), "{answer}");
}

#[tokio::test]
async fn a_state_counts_for_its_own_request_only() {
    let web = Web::new().await;
    let name = "test_input_required_result_tampered_state";
    let responses = json!({"confirm": accepted(json!({"ok": true}))});
    let asked = web.ask("tools/call", call(name)).await.message();
    let good = retry(name, &asked, responses.clone());
    let mut tampered = good.clone();
    let state = good["requestState"].as_str().unwrap();
    tampered["requestState"] = format!("{state}x").into();
    let mut other_name = good.clone();
    other_name["name"] = "test_input_required_result_request_state".into();
    let mut other_arguments = good.clone();
    other_arguments["arguments"] = json!({"a": 1});
    let mut other_client = good.clone();
    other_client["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = "else".into();
    let mut nonsense = good.clone();
    nonsense["requestState"] = "".into();
    for params in [
        tampered,
        other_name,
        other_arguments,
        other_client,
        nonsense,
    ] {
        let answer = web.ask_as("tools/call", params.clone()).await.message();
        assert_eq!(code(&answer), -32602, "{params}");
    }
    let answer = web.ask_as("tools/call", good).await.message();
    assert!(text(&answer).contains("state-ok"), "{answer}");
}

#[tokio::test]
async fn the_order_of_arguments_is_no_matter_to_a_state() {
    let web = Web::new().await;
    let name = "test_input_required_result_elicitation";
    let one = json!({"name": name, "arguments": {"a": {"x": 1, "y": 2}, "b": 3}});
    let asked = web.ask("tools/call", one).await.message();
    let other = json!({"name": name, "arguments": {"b": 3, "a": {"y": 2, "x": 1}}});
    let mut params = modern(other);
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({"user_name": accepted(json!({"name": "Bob"}))});
    let answer = web.ask_as("tools/call", params).await.message();
    assert_eq!(text(&answer), "Hello, Bob!");
}

#[tokio::test]
async fn an_answer_that_is_none_leaves_the_question_open() {
    let web = Web::new().await;
    let name = "test_input_required_result_elicitation";
    let asked = web.ask("tools/call", call(name)).await.message();
    for nonsense in [
        json!(12345),
        json!({"action": "yes"}),
        json!({"action": "accept"}),
    ] {
        let params = retry(name, &asked, json!({"user_name": nonsense}));
        let answer = web.ask_as("tools/call", params).await.message();
        assert_eq!(code(&answer), -32602, "{nonsense}");
    }
    let nothing = retry(name, &asked, json!({}));
    let again = web.ask_as("tools/call", nothing).await.message();
    assert_eq!(again["result"]["resultType"], "input_required");
    let responses = json!({"user_name": {"action": "decline"}});
    let answer = web
        .ask_as("tools/call", retry(name, &again, responses))
        .await
        .message();
    assert_eq!(text(&answer), "Hello, you!");
}

#[tokio::test]
async fn answers_to_what_nobody_asked_count_for_nothing() {
    let web = Web::new().await;
    let name = "test_input_required_result_elicitation";
    let mut params = modern(call(name));
    params["inputResponses"] = json!({"user_name": accepted(json!({"name": "Mallory"}))});
    let asked = web.ask_as("tools/call", params).await.message();
    assert_eq!(asked["result"]["resultType"], "input_required");
}

#[tokio::test]
async fn a_modern_client_is_asked_only_what_it_declared() {
    let web = Web::new().await;
    let name = "test_input_required_result_capabilities";
    let params = with_capabilities(call(name), json!({"sampling": {}}));
    let asked = web.ask_as("tools/call", params).await.message();
    let requests = asked["result"]["inputRequests"].as_object().unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), ["any"]);
    let params = with_capabilities(call("test_missing_capability"), json!({}));
    let answer = web.ask_as("tools/call", params).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(code(&answer.message()), -32021);
}

#[tokio::test]
async fn calls_nobody_comes_back_to_are_given_up() {
    let limits = Limits {
        parked_for: Duration::from_millis(50),
        ..Limits::default()
    };
    let mut pipes = Pipes::with(limits);
    let name = "test_input_required_result_elicitation";
    let asked = pipes
        .ask(request(1, "tools/call", modern(call(name))))
        .await;
    let server = pipes.server.clone();
    until("the end of the call", || server.parked() == 0).await;
    let responses = json!({"user_name": accepted(json!({"name": "a"}))});
    let answer = pipes
        .ask(request(2, "tools/call", retry(name, &asked, responses)))
        .await;
    assert_eq!(code(&answer), -32602);
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("call again"),
        "{answer}"
    );
}

#[tokio::test]
async fn calls_that_wait_are_bounded_and_the_oldest_gives_way() {
    let limits = Limits {
        parked_per_client: 3,
        ..Limits::default()
    };
    let mut pipes = Pipes::with(limits);
    let name = "test_input_required_result_elicitation";
    let mut asked = Vec::new();
    for id in 0..5 {
        asked.push(
            pipes
                .ask(request(id, "tools/call", modern(call(name))))
                .await,
        );
    }
    assert_eq!(pipes.server.parked(), 3);
    let responses = || json!({"user_name": accepted(json!({"name": "a"}))});
    let late = retry(name, &asked[1], responses());
    assert_eq!(
        code(&pipes.ask(request(10, "tools/call", late)).await),
        -32602
    );
    let good = retry(name, &asked[2], responses());
    let answer = pipes.ask(request(11, "tools/call", good)).await;
    assert_eq!(text(&answer), "Hello, a!");
    pipes.hang_up().await;
    let server = pipes.server.clone();
    until("the end of all calls", || server.parked() == 0).await;
}
