//! `castellan_write_blackboard`: writes a slot, if it still is as the writer thinks.

use std::sync::Arc;

use castellan_core::tool::{CallContext, Effect};
use castellan_core::{ErrorCode, Outcome, Tool, ToolSpec};
use castellan_store::LateStore;
use castellan_store::blackboard::{self, Slot, Writing, Written};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::name::check_name;
use crate::operation::{Answer, Failure, Operation, SUBSTRATE, author, failed, redacted, spec};
use crate::shape;

const NAME: &str = "castellan_write_blackboard";

/// The longest value, in bytes of JSON.
pub(crate) const VALUE_LIMIT: usize = 64 * 1024;

/// How often a write begins anew because the slot's schema was changed meanwhile.
const ATTEMPTS: u32 = 8;

/// The arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// The slot: 1 to 64 of a-z 0-9 _ . : / -.
    slot: String,
    /// Any JSON, at most 64 KiB. It takes the place of what stood there.
    value: Value,
    /// Write only if the slot has this version; 0 if it must be new. Left out, any version.
    expected_version: Option<u64>,
    /// A JSON schema that this value and all later ones must follow; `{}` to take it away. Left
    /// out, the slot keeps its own.
    schema: Option<Value>,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// The slot.
    slot: String,
    /// The version it has now.
    version: u64,
    /// The version it had before, 0 where it is new.
    previous_version: u64,
    /// When, RFC 3339.
    at: String,
    /// Whether values of this slot must follow a JSON schema.
    has_schema: bool,
}

struct WriteBlackboard {
    spec: ToolSpec,
    store: LateStore,
}

/// The tool.
pub(crate) fn tool(store: LateStore) -> Arc<dyn Tool> {
    let mut spec = spec::<Params, Reply>(
        NAME,
        SUBSTRATE,
        "Write a JSON value into a blackboard slot, optionally only over one version",
        "Write any JSON into a slot of the blackboard that all agents of this store share. With \
         `expected_version` the write happens only if nobody wrote meanwhile; a lost race fails \
         with CONCURRENT_UPDATE and the current version, so read again and decide anew. A slot \
         can carry a JSON schema that its values must follow.",
    );
    spec.preconditions = vec![
        "the value has at most 64 KiB and follows the slot's schema, if it has one".to_owned(),
        "with expected_version: the slot has that version".to_owned(),
    ];
    spec.side_effects = vec!["replaces the slot's value for every agent of this store".to_owned()];
    spec.examples = vec![
        json!({"slot": "plan", "value": {"steps": ["build", "test"]}}),
        json!({"slot": "plan", "value": {"steps": ["build"]}, "expected_version": 1}),
        json!({"slot": "count", "value": 0, "schema": {"type": "integer", "minimum": 0}}),
    ];
    spec.effects = vec![Effect::Writes];
    crate::operation::tool(WriteBlackboard { spec, store })
}

impl Operation for WriteBlackboard {
    type Params = Params;
    type Reply = Reply;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        check_name("slot", &params.slot)?;
        let size = params.value.to_string().len();
        if size > VALUE_LIMIT {
            return Err(Outcome::invalid(
                format!("the value has {size} bytes of JSON, a slot holds at most {VALUE_LIMIT}"),
                "write less, or split it over several slots",
            ));
        }
        let Some(schema) = &params.schema else {
            return Ok(());
        };
        shape::check(schema)
            .map_err(|problem| Outcome::invalid(format!("`schema` is not taken: {problem}"), ""))
    }

    fn header(&self, params: &Params) -> String {
        match params.expected_version {
            Some(0) => format!("write new slot {}", params.slot),
            Some(version) => format!("write slot {} over version {version}", params.slot),
            None => format!("write slot {}", params.slot),
        }
    }

    async fn run(&self, params: Params, context: &CallContext) -> Result<Answer<Reply>, Failure> {
        let value = redacted(params.value, &context.redaction);
        let given = params.schema.map(|schema| {
            let empty = schema.as_object().is_some_and(serde_json::Map::is_empty);
            (!empty).then(|| schema.to_string())
        });
        for _ in 0..ATTEMPTS {
            let name = params.slot.clone();
            let known = self
                .store
                .read(move |tx| blackboard::get(tx, &name))
                .await?;
            let held_against = known.and_then(|slot| slot.schema);
            let schema = given.clone().unwrap_or_else(|| held_against.clone());
            hold_against(schema.as_deref(), &value)?;
            let writing = Writing {
                slot: params.slot.clone(),
                value: value.to_string(),
                expected: params.expected_version,
                held_against,
                schema,
                author: author(context),
                at: context.clock.now(),
            };
            let work = move |tx: &castellan_store::Tx<'_>| blackboard::write(tx, &writing);
            match self.store.write(work).await? {
                Written::Done(slot) => return Ok(reply(slot).into()),
                Written::OtherVersion(now) => {
                    return Err(lost(&params.slot, params.expected_version, now).into());
                }
                Written::OtherSchema => {}
            }
        }
        Err(failed(
            ErrorCode::ConcurrentUpdate,
            format!("others keep changing the schema of slot `{}`", params.slot),
            "call it again in a moment",
        )
        .into())
    }
}

fn hold_against(schema: Option<&str>, value: &Value) -> Result<(), Outcome> {
    let Some(text) = schema else {
        return Ok(());
    };
    let schema = serde_json::from_str(text)
        .map_err(|error| failed(ErrorCode::Internal, format!("a stored schema: {error}"), ""))?;
    shape::fits(&schema, value).map_err(|problem| {
        Outcome::invalid(
            format!("the value does not follow the slot's schema: {problem}"),
            format!("the schema is {text}"),
        )
    })
}

fn reply(slot: Slot) -> Reply {
    Reply {
        slot: slot.slot,
        version: slot.version,
        previous_version: slot.version.saturating_sub(1),
        at: slot.at.to_string(),
        has_schema: slot.schema.is_some(),
    }
}

fn lost(name: &str, expected: Option<u64>, now: Option<Slot>) -> Outcome {
    let expected = expected.unwrap_or(0);
    let what = match now {
        Some(slot) => format!(
            "slot `{name}` has version {}, not {expected}: {} wrote it at {}",
            slot.version, slot.author, slot.at
        ),
        None => {
            format!("slot `{name}` does not exist (version 0), so it has no version {expected}")
        }
    };
    failed(
        ErrorCode::ConcurrentUpdate,
        what,
        "read the slot again, and write over the version you then see",
    )
}
