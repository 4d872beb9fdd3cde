//! Memories by key.

use castellan_core::{ErrorCode, SessionId};
use castellan_testkit::SequentialIds;
use serde_json::json;

use crate::drive::World;

const REMEMBER: &str = "castellan_remember";
const RECALL: &str = "castellan_recall";

#[tokio::test]
async fn what_is_remembered_is_recalled_and_replaced_by_key() {
    let world = World::new();
    let first = json!({"key": "target", "value": "staging", "tags": ["ops"]});
    let first = world.call(REMEMBER, first).await;
    assert_eq!(
        first,
        json!({"key": "target", "scope": "global", "replaced": false, "at": world.now()})
    );
    let begun = world.now();
    world.advance(60);
    let second = json!({"key": "target", "value": "production"});
    assert_eq!(world.call(REMEMBER, second).await["replaced"], json!(true));
    // A bare string is the key.
    let (_, report) = world.call_raw(RECALL, "target").await;
    let text = report.outcome.into_text();
    let recalled: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        recalled,
        json!({
            "key": "target", "value": "production", "tags": [], "scope": "global",
            "author": "mcp_client:tester", "created": begun, "updated": world.now(),
        })
    );
}

#[tokio::test]
async fn the_narrowest_scope_is_recalled_first_and_no_other_session_sees_it() {
    let mut world = World::new();
    let ids = SequentialIds::starting_at(100);
    world.session = Some(SessionId::mint(&ids));
    for scope in ["global", "user", "workstream"] {
        let memory = json!({"key": "k", "value": format!("of {scope}"), "scope": scope});
        world.call(REMEMBER, memory).await;
    }
    let recalled = world.call(RECALL, json!({"key": "k"})).await;
    assert_eq!(recalled["value"], json!("of workstream"));
    assert_eq!(recalled["also_in"], json!(["user", "global"]));
    let of_user = world
        .call(RECALL, json!({"key": "k", "scope": "user"}))
        .await;
    assert_eq!(of_user["value"], json!("of user"));
    world.session = Some(SessionId::mint(&ids));
    let other = world.call(RECALL, json!({"key": "k"})).await;
    assert_eq!(other["value"], json!("of user"));
    world.session = None;
    let (code, text) = world
        .fails(
            REMEMBER,
            json!({"key": "k", "value": "v", "scope": "workstream"}),
        )
        .await;
    assert_eq!(code, ErrorCode::Validation);
    assert!(
        text.contains("use scope `user` or `global`") || text.contains("Use scope"),
        "{text}"
    );
}

#[tokio::test]
async fn an_unknown_key_is_said_with_the_nearest() {
    let world = World::new();
    let (code, text) = world.fails(RECALL, json!({"key": "deploy"})).await;
    assert_eq!(code, ErrorCode::NotFound);
    assert!(text.contains("castellan_remember"), "{text}");
    for key in ["deploy_target", "style", "owner"] {
        world
            .call(REMEMBER, json!({"key": key, "value": "v"}))
            .await;
    }
    let (_, text) = world.fails(RECALL, json!({"key": "deploy_taget"})).await;
    assert!(
        text.contains("f 3 keys the nearest are deploy_target, "),
        "{text}"
    );
}

#[tokio::test]
async fn what_can_not_be_kept_is_refused() {
    let world = World::new();
    let long = "x".repeat(129);
    for arguments in [
        json!({"key": "", "value": "v"}),
        json!({"key": " k", "value": "v"}),
        json!({"key": "a\nb", "value": "v"}),
        json!({"key": "a\u{0}b", "value": "v"}),
        json!({"key": long, "value": "v"}),
        json!({"key": "k", "value": ""}),
        json!({"key": "k", "value": "a\u{0}b"}),
        json!({"key": "k", "value": "x".repeat(32 * 1024 + 1)}),
        json!({"key": "k", "value": {"a": 1}}),
        json!({"key": "k", "value": "v", "tags": vec!["t"; 17]}),
        json!({"key": "k", "value": "v", "tags": [""]}),
        json!({"key": "k", "value": "v", "scope": "everywhere"}),
        json!({"key": "k"}),
    ] {
        let (code, text) = world.fails(REMEMBER, arguments.clone()).await;
        assert_eq!(code, ErrorCode::Validation, "{arguments}: {text}");
    }
    world
        .call(
            REMEMBER,
            json!({"key": "k", "value": "x".repeat(32 * 1024)}),
        )
        .await;
}
