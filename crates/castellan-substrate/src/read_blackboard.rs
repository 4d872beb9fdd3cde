//! `castellan_read_blackboard`: what stands in a slot.

use std::sync::Arc;

use castellan_core::nearest::nearest;
use castellan_core::tool::{CallContext, Effect};
use castellan_core::{ErrorCode, Outcome, Tool, ToolSpec};
use castellan_store::blackboard::{self, Slot};
use castellan_store::{Error, LateStore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::name::check_name;
use crate::operation::{Answer, Failure, Operation, SUBSTRATE, failed, spec};

const NAME: &str = "castellan_read_blackboard";

/// How many slots are looked at for the name that was meant.
const LOOKED_AT: u32 = 1000;

/// How many names an error lists.
const LISTED: usize = 5;

/// The arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// The slot, such as `plan`.
    slot: String,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// The slot.
    pub(crate) slot: String,
    /// What stands there, any JSON.
    pub(crate) value: Value,
    /// From 1, one more with each write; to be sent as `expected_version`.
    pub(crate) version: u64,
    /// Who wrote it.
    pub(crate) author: String,
    /// When, RFC 3339.
    pub(crate) at: String,
    /// The JSON schema that values of this slot follow, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<Value>,
}

struct ReadBlackboard {
    spec: ToolSpec,
    store: LateStore,
}

/// The tool.
pub(crate) fn tool(store: LateStore) -> Arc<dyn Tool> {
    let mut spec = spec::<Params, Reply>(
        NAME,
        SUBSTRATE,
        "Read a blackboard slot: its JSON value, version, author and time",
        "Read what stands in a slot of the blackboard that all agents of this store share, with \
         its version. Send that version as `expected_version` to castellan_write_blackboard to \
         change the slot only if nobody else did meanwhile.",
    );
    spec.primary_key = Some("slot".to_owned());
    spec.preconditions = vec!["somebody has written into the slot".to_owned()];
    spec.examples = vec![json!({"slot": "plan"})];
    spec.effects = vec![Effect::ReadOnly];
    crate::operation::tool(ReadBlackboard { spec, store })
}

impl Operation for ReadBlackboard {
    type Params = Params;
    type Reply = Reply;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        check_name("slot", &params.slot)
    }

    fn header(&self, params: &Params) -> String {
        format!("read slot {}", params.slot)
    }

    async fn run(&self, params: Params, _context: &CallContext) -> Result<Answer<Reply>, Failure> {
        Ok(read(&self.store, params.slot).await?.into())
    }
}

/// What stands in the slot `name`.
pub(crate) async fn read(store: &LateStore, name: String) -> Result<Reply, Failure> {
    let found = store
        .glance(move |tx| {
            let slot = blackboard::get(tx, &name)?;
            let others = match slot {
                Some(_) => None,
                None => Some(blackboard::names(tx, LOOKED_AT)?),
            };
            Ok((name.clone(), slot, others))
        })
        .await?;
    let (name, slot, others) = found;
    if let Some(slot) = slot {
        return Ok(reply(slot)?);
    }
    let (names, total) = others.map_or_else(Default::default, |page| (page.rows, page.total));
    let mut close = nearest(&name, names.iter().map(String::as_str));
    close.truncate(LISTED);
    let next = if close.is_empty() {
        "the blackboard is empty; castellan_write_blackboard writes into it".to_owned()
    } else {
        format!("of {total} slots the nearest are {}", close.join(", "))
    };
    let what = format!("nothing was ever written into slot `{name}`");
    Err(failed(ErrorCode::NotFound, what, next).into())
}

fn reply(slot: Slot) -> Result<Reply, Error> {
    let parsed = |text: &str| {
        serde_json::from_str(text).map_err(|error| Error::DamagedRow {
            what: format!("blackboard slot {}", slot.slot),
            why: error.to_string(),
        })
    };
    Ok(Reply {
        value: parsed(&slot.value)?,
        schema: slot.schema.as_deref().map(parsed).transpose()?,
        version: slot.version,
        at: slot.at.to_string(),
        author: slot.author,
        slot: slot.slot,
    })
}
