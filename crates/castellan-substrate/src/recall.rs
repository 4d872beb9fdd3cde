//! `castellan_recall`: what was remembered under a key.

use std::sync::Arc;

use castellan_core::nearest::nearest;
use castellan_core::tool::{CallContext, Effect};
use castellan_core::{ErrorCode, Outcome, Tool, ToolSpec};
use castellan_store::memories::{self, Memory, Place};
use castellan_store::{LateStore, Tx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{Answer, Failure, MEMORY, Operation, failed, spec};
use crate::remember::{Scope, check_key};

const NAME: &str = "castellan_recall";

/// How many keys of each scope are looked at for the one that was meant.
const LOOKED_AT: u32 = 1000;

/// How many keys an error lists.
const LISTED: usize = 5;

/// The arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// The key it was remembered under.
    key: String,
    /// Only in this scope. Left out, the first of `workstream`, `user`, `global` that has the key.
    scope: Option<Scope>,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// The key.
    key: String,
    /// What was remembered.
    value: String,
    /// Words it was tagged with.
    tags: Vec<String>,
    /// Who it is for.
    scope: Scope,
    /// Who remembered it last.
    author: String,
    /// When it was first remembered, RFC 3339.
    created: String,
    /// When it was last replaced.
    updated: String,
    /// Other scopes that have this key too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also_in: Vec<Scope>,
}

struct Recall {
    spec: ToolSpec,
    store: LateStore,
    user: String,
}

/// The tool, for the memories of `user`.
pub(crate) fn tool(store: LateStore, user: String) -> Arc<dyn Tool> {
    let mut spec = spec::<Params, Reply>(
        NAME,
        MEMORY,
        "Recall what was remembered under a key",
        "Get back the text that castellan_remember kept under a key. An unknown key fails with the \
         nearest known ones.",
    );
    spec.primary_key = Some("key".to_owned());
    spec.preconditions = vec!["something was remembered under that key".to_owned()];
    spec.examples = vec![json!({"key": "deploy_target"})];
    spec.effects = vec![Effect::ReadOnly];
    crate::operation::tool(Recall { spec, store, user })
}

impl Operation for Recall {
    type Params = Params;
    type Reply = Reply;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        check_key(&params.key)
    }

    fn header(&self, params: &Params) -> String {
        format!("recall {}", params.key)
    }

    async fn run(&self, params: Params, context: &CallContext) -> Result<Answer<Reply>, Failure> {
        let places = match params.scope {
            Some(scope) => vec![scope.place(&context.view, &self.user)?],
            None => [Scope::Workstream, Scope::User, Scope::Global]
                .into_iter()
                .filter_map(|scope| scope.place(&context.view, &self.user).ok())
                .collect(),
        };
        let key = params.key;
        let work = move |tx: &Tx<'_>| search(tx, &places, &key);
        match self.store.glance(work).await? {
            Found::Memory { memory, also_in } => Ok(reply(*memory, also_in).into()),
            Found::Nothing { key, near, total } => {
                let next = if near.is_empty() {
                    "nothing is remembered yet; castellan_remember keeps something".to_owned()
                } else {
                    format!("of {total} keys the nearest are {}", near.join(", "))
                };
                let what = format!("nothing is remembered under `{key}`");
                Err(failed(ErrorCode::NotFound, what, next).into())
            }
        }
    }
}

enum Found {
    Memory {
        /// That of the first place that has the key.
        memory: Box<Memory>,
        also_in: Vec<Scope>,
    },
    Nothing {
        key: String,
        near: Vec<String>,
        total: u64,
    },
}

fn search(tx: &Tx<'_>, places: &[Place], key: &str) -> castellan_store::Result<Found> {
    let mut first = None;
    let mut also_in = Vec::new();
    for place in places {
        match memories::get(tx, place, key)? {
            Some(memory) if first.is_none() => first = Some(Box::new(memory)),
            Some(memory) => also_in.push(Scope::of(&memory.place)),
            None => {}
        }
    }
    if let Some(memory) = first {
        return Ok(Found::Memory { memory, also_in });
    }
    let (mut names, mut total) = (Vec::new(), 0);
    for place in places {
        let page = memories::names(tx, place, LOOKED_AT)?;
        names.extend(page.rows);
        total += page.total;
    }
    names.sort_unstable();
    names.dedup();
    let near = nearest(key, names.iter().map(String::as_str));
    Ok(Found::Nothing {
        key: key.to_owned(),
        near: near.into_iter().take(LISTED).map(str::to_owned).collect(),
        total,
    })
}

fn reply(memory: Memory, also_in: Vec<Scope>) -> Reply {
    Reply {
        key: memory.name,
        value: memory.content,
        tags: memory.tags,
        scope: Scope::of(&memory.place),
        author: memory.author,
        created: memory.created.to_string(),
        updated: memory.updated.to_string(),
        also_in,
    }
}
