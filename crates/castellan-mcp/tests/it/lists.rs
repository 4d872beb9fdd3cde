//! Lists, prompts, resources, completion, and word of what has changed.

use std::collections::BTreeSet;

use castellan_mcp::{Change, Limits};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::pipes::Pipes;
use super::web::{Stream, Web};
use super::{MODERN, code, modern, request};

fn names(answer: &Value, list: &str) -> Vec<String> {
    let entries = answer["result"][list].as_array().unwrap();
    let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
    entries.iter().map(name).collect()
}

#[tokio::test]
async fn pages_follow_one_another_to_the_end() {
    let limits = Limits {
        page: 10,
        ..Limits::default()
    };
    let mut pipes = Pipes::with(limits);
    pipes.introduce(super::LEGACY).await;
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let params = cursor.map_or_else(|| json!({}), |cursor: Value| json!({"cursor": cursor}));
        let page = pipes.ask(request(1, "tools/list", params)).await;
        let names = names(&page, "tools");
        assert!(names.len() <= 10);
        all.extend(names);
        cursor = page["result"].get("nextCursor").cloned();
        if cursor.is_none() {
            break;
        }
    }
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(all.len(), 35);
    for cursor in [
        json!("nonsense"),
        json!("AAAA"),
        json!("dG9vbHMvbGlzdABub25l"),
    ] {
        let answer = pipes
            .ask(request(2, "tools/list", json!({"cursor": cursor})))
            .await;
        assert_eq!(code(&answer), -32602, "{cursor}");
    }
    let answer = pipes
        .ask(request(3, "tools/list", json!({"cursor": 5})))
        .await;
    assert_eq!(code(&answer), -32602);
}

#[tokio::test]
async fn a_list_is_the_same_bytes_each_time() {
    let web = Web::new().await;
    let first = web.ask("tools/list", json!({})).await.body;
    let other = Web::new().await;
    assert_eq!(other.ask("tools/list", json!({})).await.body, first);
}

#[tokio::test]
async fn schemas_are_sent_word_for_word() {
    let mut pipes = Pipes::legacy().await;
    let list = pipes.ask(request(1, "tools/list", json!({}))).await;
    let tools = list["result"]["tools"].as_array().unwrap();
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "json_schema_2020_12_tool");
    let keys: Vec<&String> = tool.unwrap()["inputSchema"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    let expected = [
        "$schema",
        "type",
        "$defs",
        "properties",
        "allOf",
        "if",
        "then",
        "else",
    ];
    assert_eq!(keys[..8], expected);
}

#[tokio::test]
async fn prompts_are_listed_and_filled_in() {
    let web = Web::new().await;
    let list = web.ask("prompts/list", json!({})).await.message();
    assert_eq!(names(&list, "prompts").len(), 5);
    let arguments = json!({"arg1": "a", "arg2": "b"});
    let params = json!({"name": "test_prompt_with_arguments", "arguments": arguments});
    let prompt = web.ask("prompts/get", params).await.message();
    let said = &prompt["result"]["messages"][0];
    assert_eq!(said["role"], "user");
    assert_eq!(
        said["content"]["text"],
        "Prompt with arguments: arg1='a', arg2='b'"
    );
    let answer = web
        .ask("prompts/get", json!({"name": "none"}))
        .await
        .message();
    assert_eq!(code(&answer), -32602);
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    let web = Web::new().await;
    let list = web.ask("resources/list", json!({})).await.message();
    assert_eq!(names(&list, "resources"), ["static-text", "static-binary"]);
    let list = web
        .ask("resources/templates/list", json!({}))
        .await
        .message();
    assert_eq!(
        list["result"]["resourceTemplates"][0]["uriTemplate"],
        "test://template/{id}/data"
    );
    let params = json!({"uri": "test://static-binary"});
    let read = web.ask("resources/read", params).await.message();
    let contents = &read["result"]["contents"][0];
    assert_eq!(contents["mimeType"], "image/png");
    assert!(
        contents["blob"].as_str().unwrap().starts_with("iVBOR"),
        "{contents}"
    );
    assert_eq!(read["result"]["ttlMs"], 0);
}

#[tokio::test]
async fn completion_has_at_most_a_hundred_values_and_says_how_many_there_are() {
    let mut pipes = Pipes::legacy().await;
    let of = |name: &str| {
        json!({
            "ref": {"type": "ref/prompt", "name": name},
            "argument": {"name": "arg1", "value": "par"},
        })
    };
    let params = of("test_prompt_with_arguments");
    let answer = pipes.ask(request(1, "completion/complete", params)).await;
    let completion = &answer["result"]["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&completion["total"], &completion["hasMore"]),
        (&json!(150), &json!(true))
    );
    let answer = pipes
        .ask(request(2, "completion/complete", of("unknown")))
        .await;
    assert_eq!(answer["result"]["completion"]["values"], json!([]));
}

#[tokio::test]
async fn an_older_client_hears_of_changes_and_of_what_it_subscribed_to() {
    let mut pipes = Pipes::legacy().await;
    let watched = json!({"uri": "test://watched"});
    pipes
        .ask(request(1, "resources/subscribe", watched.clone()))
        .await;
    let resource = |name: &str| Change::Resource(format!("test://{name}"));
    pipes.fixture.announce(&resource("other"));
    pipes.fixture.announce(&resource("watched"));
    let note = pipes.next().await;
    assert_eq!(note["method"], "notifications/resources/updated");
    assert_eq!(note["params"], watched);
    pipes
        .ask(request(2, "resources/unsubscribe", watched))
        .await;
    pipes.fixture.announce(&resource("watched"));
    pipes.fixture.announce(&Change::Tools);
    assert_eq!(
        pipes.next().await["method"],
        "notifications/tools/list_changed"
    );
    pipes.fixture.announce(&Change::Prompts);
    assert_eq!(
        pipes.next().await["method"],
        "notifications/prompts/list_changed"
    );
    pipes.fixture.announce(&Change::Resources);
    assert_eq!(
        pipes.next().await["method"],
        "notifications/resources/list_changed"
    );
}

#[tokio::test]
async fn subscriptions_are_bounded() {
    let limits = Limits {
        watched: 2,
        ..Limits::default()
    };
    let mut pipes = Pipes::with(limits);
    pipes.introduce(super::LEGACY).await;
    for id in 0..4 {
        let params = json!({"uri": format!("test://{id}")});
        let answer = pipes.ask(request(id, "resources/subscribe", params)).await;
        assert_eq!(answer.get("error").is_some(), id >= 2, "{answer}");
    }
    let again = json!({"uri": "test://0"});
    let answer = pipes.ask(request(9, "resources/subscribe", again)).await;
    assert_eq!(answer["result"], json!({}));
}

async fn listen(web: &Web, notifications: Value) -> Stream {
    let params = modern(json!({"notifications": notifications}));
    let body = request("sub", "subscriptions/listen", params).to_string();
    let headers = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "subscriptions/listen"),
    ];
    let response = web.open(Method::POST, &headers, body).await;
    assert_eq!(response.status(), StatusCode::OK);
    Stream::of(response)
}

#[tokio::test]
async fn a_modern_client_hears_what_it_listens_for_and_nothing_else() {
    let web = Web::new().await;
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://watched"]});
    let mut stream = listen(&web, filter.clone()).await;
    let first = stream.next().await.unwrap().message;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], filter);
    let id =
        |note: &Value| note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!(id(&first), "sub");
    web.fixture.announce(&Change::Prompts);
    web.fixture
        .announce(&Change::Resource("test://other".to_owned()));
    web.fixture.announce(&Change::Tools);
    let note = stream.next().await.unwrap().message;
    assert_eq!(note["method"], "notifications/tools/list_changed");
    assert_eq!(id(&note), "sub");
    web.fixture
        .announce(&Change::Resource("test://watched".to_owned()));
    let note = stream.next().await.unwrap().message;
    assert_eq!(note["method"], "notifications/resources/updated");
    assert_eq!(note["params"]["uri"], "test://watched");
    assert!(stream.is_quiet().await);
}

#[tokio::test]
async fn a_modern_client_on_pipes_listens_until_it_cancels() {
    let mut pipes = Pipes::new();
    let filter = json!({"notifications": {"promptsListChanged": true}});
    pipes
        .send(&request(1, "subscriptions/listen", modern(filter)))
        .await;
    assert_eq!(
        pipes.next().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    pipes.fixture.announce(&Change::Prompts);
    assert_eq!(
        pipes.next().await["method"],
        "notifications/prompts/list_changed"
    );
    let params = json!({"requestId": 1});
    pipes
        .send(&super::notice("notifications/cancelled", params))
        .await;
    let answer = pipes.ask(request(2, "tools/list", modern(json!({})))).await;
    assert!(answer["result"]["tools"].is_array());
    pipes.fixture.announce(&Change::Prompts);
    let answer = pipes.ask(request(3, "tools/list", modern(json!({})))).await;
    assert!(answer["result"]["tools"].is_array());
}
