//! The blackboard: versions, schemas, limits.

use castellan_core::ErrorCode;
use castellan_core::secret::Redaction;
use castellan_substrate::resource;
use serde_json::{Value, json};

use crate::drive::World;

const READ: &str = "castellan_read_blackboard";
const WRITE: &str = "castellan_write_blackboard";

#[tokio::test]
async fn a_value_is_read_as_it_was_written() {
    let world = World::new();
    for value in [
        json!({"b": 1, "a": [null, true, 1.5, "ü\u{0}\n"]}),
        json!("text"),
        json!(0),
        json!([]),
        Value::Null,
    ] {
        let write = json!({"slot": "plan", "value": value});
        let written = world.call(WRITE, write).await;
        let read = world.call(READ, json!({"slot": "plan"})).await;
        assert_eq!(read["value"], value);
        assert_eq!(read["version"], written["version"]);
        assert_eq!(read["author"], json!("mcp_client:tester"));
        let text = resource::read(&world.store, "blackboard://plan").await;
        let text: Value = serde_json::from_str(&text.unwrap().unwrap()).unwrap();
        assert_eq!(text, read);
    }
}

#[tokio::test]
async fn a_lost_race_tells_the_current_version() {
    let world = World::new();
    let write = |expected: u64| json!({"slot": "plan", "value": 1, "expected_version": expected});
    let first = world.call(WRITE, write(0)).await;
    assert_eq!(
        (&first["version"], &first["previous_version"]),
        (&json!(1), &json!(0))
    );
    let second = world.call(WRITE, write(1)).await;
    assert_eq!(second["version"], json!(2));
    for expected in [0, 1, 7] {
        let (code, text) = world.fails(WRITE, write(expected)).await;
        assert_eq!(code, ErrorCode::ConcurrentUpdate);
        assert!(
            text.contains(&format!("has version 2, not {expected}")),
            "{text}"
        );
        assert!(text.contains("mcp_client:tester"), "{text}");
    }
    let absent = json!({"slot": "other", "value": 1, "expected_version": 3});
    let (code, text) = world.fails(WRITE, absent).await;
    assert_eq!(code, ErrorCode::ConcurrentUpdate);
    assert!(text.contains("does not exist (version 0)"), "{text}");
    let read = world.call(READ, json!({"slot": "plan"})).await;
    assert_eq!(read["version"], json!(2));
}

#[tokio::test]
async fn an_empty_slot_is_said_with_those_that_are_near() {
    let world = World::new();
    let (code, text) = world.fails(READ, json!({"slot": "plan"})).await;
    assert_eq!(code, ErrorCode::NotFound);
    assert!(text.contains("castellan_write_blackboard"), "{text}");
    for slot in ["plan", "plans", "notes"] {
        world.call(WRITE, json!({"slot": slot, "value": 1})).await;
    }
    let (_, text) = world.fails(READ, json!({"slot": "paln"})).await;
    assert!(text.contains("f 3 slots the nearest are plan, "), "{text}");
    let other = resource::read(&world.store, "blackboard://none").await;
    assert_eq!(
        other.unwrap().unwrap_err().code(),
        Some(ErrorCode::NotFound)
    );
    let wrong = resource::read(&world.store, "blackboard://No Name").await;
    assert_eq!(
        wrong.unwrap().unwrap_err().code(),
        Some(ErrorCode::Validation)
    );
}

#[tokio::test]
async fn a_slot_holds_64_kib_and_no_more() {
    let world = World::new();
    let fits = "x".repeat(64 * 1024 - 2);
    world
        .call(WRITE, json!({"slot": "big", "value": fits}))
        .await;
    let (code, text) = world
        .fails(WRITE, json!({"slot": "big", "value": format!("{fits}x")}))
        .await;
    assert_eq!(code, ErrorCode::Validation);
    assert!(text.contains("65537 bytes"), "{text}");
    let missing = world.fails(WRITE, json!({"slot": "big"})).await;
    assert_eq!(missing.0, ErrorCode::Validation);
}

#[tokio::test]
async fn values_follow_the_schema_of_their_slot() {
    let world = World::new();
    let schema = json!({"type": "integer", "minimum": 0});
    let set = json!({"slot": "count", "value": 1, "schema": schema});
    let set = world.call(WRITE, set).await;
    assert_eq!(set["has_schema"], json!(true));
    for value in [json!(-1), json!("1"), json!(1.5), Value::Null] {
        let (code, text) = world
            .fails(WRITE, json!({"slot": "count", "value": value}))
            .await;
        assert_eq!(code, ErrorCode::Validation);
        assert!(text.contains("does not follow the slot's schema"), "{text}");
        assert!(text.contains("\"minimum\":0"), "{text}");
    }
    world
        .call(WRITE, json!({"slot": "count", "value": 2}))
        .await;
    let read = world.call(READ, json!({"slot": "count"})).await;
    assert_eq!((&read["value"], &read["schema"]), (&json!(2), &schema));
    // A new schema comes with a value that follows it, or not at all.
    let other = json!({"slot": "count", "value": 3, "schema": {"type": "string"}});
    assert_eq!(world.fails(WRITE, other).await.0, ErrorCode::Validation);
    let none = json!({"slot": "count", "value": "free", "schema": {}});
    assert_eq!(world.call(WRITE, none).await["has_schema"], json!(false));
    world
        .call(WRITE, json!({"slot": "count", "value": [1]}))
        .await;
}

#[tokio::test]
async fn schemas_that_reach_outside_or_lead_nowhere_are_refused() {
    let world = World::new();
    for schema in [
        json!({"$ref": "http://127.0.0.1:1/x.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "#"}),
        json!({"type": "no such type"}),
        json!({"pattern": "("}),
        json!({"minimum": "1"}),
        json!(true),
        json!("integer"),
        json!({"description": "x".repeat(17_000)}),
    ] {
        let write = json!({"slot": "count", "value": 1, "schema": schema});
        let (code, text) = world.fails(WRITE, write).await;
        assert_eq!(code, ErrorCode::Validation, "{schema}");
        assert!(text.contains("`schema` is not taken"), "{text}");
    }
    assert_eq!(
        world.fails(READ, json!({"slot": "count"})).await.0,
        ErrorCode::NotFound
    );
}

#[tokio::test]
async fn a_secret_this_process_knows_is_not_written_down() {
    let mut world = World::new();
    world.redaction = Redaction::new(["sk-secret-123".to_owned()]);
    let value = json!({"key sk-secret-123": ["Bearer sk-secret-123"], "n": 1});
    world
        .call(WRITE, json!({"slot": "plan", "value": value}))
        .await;
    let memory = json!({"key": "k", "value": "use sk-secret-123", "tags": ["sk-secret-123"]});
    world.call("castellan_remember", memory).await;
    let read = world.call(READ, json!({"slot": "plan"})).await;
    let recalled = world.call("castellan_recall", json!({"key": "k"})).await;
    let text = format!("{read}{recalled}");
    assert!(!text.contains("sk-secret-123"), "{text}");
    assert_eq!(text.matches("[redacted]").count(), 4, "{text}");
}
