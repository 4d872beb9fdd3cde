//! What the tools say of themselves is true: their examples run, and answers are as announced.

use castellan_core::tool::Effect;
use castellan_core::{Outcome, Surface};
use serde_json::{Map, Value};

use crate::drive::World;

/// Writers before readers, so that what an example reads is there.
const ORDER: [&str; 9] = [
    "castellan_deposit_signal",
    "castellan_read_signal",
    "castellan_query_field_history",
    "castellan_write_blackboard",
    "castellan_read_blackboard",
    "castellan_propose_mutation",
    "castellan_resolve_mutation",
    "castellan_remember",
    "castellan_recall",
];

#[tokio::test]
async fn every_example_runs_and_every_answer_follows_its_schema() {
    let world = World::new();
    let mut seen = 0;
    for name in ORDER {
        let tool = world.tools().iter().find(|tool| tool.spec().name == name);
        let spec = tool.unwrap().spec().clone();
        let schema = spec.output_schema.unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for example in &spec.examples {
            let report = world.report(name, example).await;
            let Outcome::Done { output, .. } = report.outcome else {
                panic!("{name} {example}: {}", report.outcome.into_text())
            };
            let reply: Value = serde_json::from_str(&output).unwrap();
            let problem = validator
                .validate(&reply)
                .err()
                .map(|error| error.to_string());
            assert_eq!(problem, None, "{name}: {reply}");
            assert_eq!(fields(&reply), announced(&schema, &reply), "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, 18);
    assert_eq!(world.tools().len(), ORDER.len());
}

fn fields(reply: &Value) -> Vec<&str> {
    let object = reply.as_object().unwrap();
    object.keys().map(String::as_str).collect()
}

/// The schema's properties that `reply` has, in the schema's order.
fn announced<'a>(schema: &'a Value, reply: &Value) -> Vec<&'a str> {
    let properties: &Map<String, Value> = schema["properties"].as_object().unwrap();
    let there = properties.keys().filter(|key| reply.get(*key).is_some());
    there.map(String::as_str).collect()
}

#[test]
fn every_spec_is_complete() {
    let world = World::new();
    for tool in world.tools() {
        let spec = tool.spec();
        let name = &spec.name;
        assert!(name.starts_with("castellan_"), "{name}");
        assert!((1..=80).contains(&spec.summary.chars().count()), "{name}");
        assert!(spec.description.len() > spec.summary.len(), "{name}");
        assert_eq!(spec.surfaces, [Surface::Mcp, Surface::Episode], "{name}");
        assert!(
            !spec.examples.is_empty() && !spec.effects.is_empty(),
            "{name}"
        );
        assert_eq!(spec.is_read_only(), spec.side_effects.is_empty(), "{name}");
        assert!(
            ["substrate", "evolve", "memory"].contains(&spec.domain.as_str()),
            "{name}"
        );
        let output = spec.output_schema.as_ref().unwrap();
        assert_eq!(output["type"], "object", "{name}");
        for schema in [&spec.parameters, output] {
            for (key, property) in schema["properties"].as_object().unwrap() {
                assert!(property.get("description").is_some(), "{name}: {key}");
            }
        }
        let high = name == "castellan_resolve_mutation";
        assert_eq!(spec.effects.contains(&Effect::HighImpact), high, "{name}");
    }
}
