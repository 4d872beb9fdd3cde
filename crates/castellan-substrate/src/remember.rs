//! `castellan_remember`: keeps text under a key.

use std::sync::Arc;

use castellan_core::tool::{CallContext, Effect, SessionView};
use castellan_core::{Outcome, Tool, ToolSpec};
use castellan_store::LateStore;
use castellan_store::memories::{self, Kind, Memory, Place, Saved};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{Answer, Failure, MEMORY, Operation, author, check_text, spec};

const NAME: &str = "castellan_remember";

/// The longest key, in characters.
const KEY_LIMIT: usize = 128;
/// The longest value, in characters.
const VALUE_LIMIT: usize = 32 * 1024;
/// How many tags a memory has.
const TAGS: usize = 16;
/// The longest tag, in characters.
const TAG_LIMIT: usize = 64;

/// Who a memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Everybody.
    #[default]
    Global,
    /// This session.
    Workstream,
    /// This user, in every session.
    User,
}

impl Scope {
    /// Whose memories that are for a call of `view`.
    pub(crate) fn place(self, view: &SessionView, user: &str) -> Result<Place, Outcome> {
        match self {
            Self::Global => Ok(Place::Global),
            Self::User => Ok(Place::User(user.to_owned())),
            Self::Workstream => view.session.map(Place::Workstream).ok_or_else(|| {
                Outcome::invalid(
                    "scope `workstream` is for calls of a session, and this one comes from none",
                    "use scope `user` or `global`",
                )
            }),
        }
    }

    pub(crate) const fn of(place: &Place) -> Self {
        match place {
            Place::Global => Self::Global,
            Place::Workstream(_) => Self::Workstream,
            Place::User(_) => Self::User,
        }
    }
}

/// Refuses what is no key.
pub(crate) fn check_key(key: &str) -> Result<(), Outcome> {
    check_text("key", key, KEY_LIMIT)?;
    if key.chars().any(char::is_control) || key.trim() != key {
        return Err(Outcome::invalid(
            "`key` contains control characters, or begins or ends with a blank",
            "use a short name such as `deploy_target`",
        ));
    }
    Ok(())
}

/// The arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// What it is found by, such as `deploy_target`.
    key: String,
    /// What to remember.
    value: String,
    /// Words to find it by, at most 16.
    #[serde(default)]
    tags: Vec<String>,
    /// Who it is for: `global` (everybody, the default), `workstream` (this session), `user`.
    #[serde(default)]
    scope: Scope,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// The key.
    key: String,
    /// Who it is for.
    scope: Scope,
    /// Whether something else was remembered under that key, which is gone now.
    replaced: bool,
    /// When, RFC 3339.
    at: String,
}

struct Remember {
    spec: ToolSpec,
    store: LateStore,
    user: String,
}

/// The tool, for the memories of `user`.
pub(crate) fn tool(store: LateStore, user: String) -> Arc<dyn Tool> {
    let mut spec = spec::<Params, Reply>(
        NAME,
        MEMORY,
        "Remember text under a key, across sessions",
        "Keep text under a key until it is replaced, across sessions and agents. A key that exists \
         in the same scope is replaced. castellan_recall finds it by its key.",
    );
    spec.side_effects =
        vec!["keeps the text, or replaces what was under that key in that scope".to_owned()];
    spec.examples = vec![
        json!({"key": "deploy_target", "value": "staging, never production"}),
        json!({"key": "style", "value": "short answers", "tags": ["tone"], "scope": "user"}),
    ];
    spec.effects = vec![Effect::Writes];
    crate::operation::tool(Remember { spec, store, user })
}

impl Operation for Remember {
    type Params = Params;
    type Reply = Reply;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        check_key(&params.key)?;
        check_text("value", &params.value, VALUE_LIMIT)?;
        if params.tags.len() > TAGS {
            let what = format!(
                "there are {} tags, at most {TAGS} are kept",
                params.tags.len()
            );
            return Err(Outcome::invalid(what, ""));
        }
        params
            .tags
            .iter()
            .try_for_each(|tag| check_text("tags", tag, TAG_LIMIT))
    }

    fn header(&self, params: &Params) -> String {
        format!("remember {}", params.key)
    }

    async fn run(&self, params: Params, context: &CallContext) -> Result<Answer<Reply>, Failure> {
        let now = context.clock.now();
        let clean = |text: String| context.redaction.apply(text);
        let memory = Memory {
            place: params.scope.place(&context.view, &self.user)?,
            name: params.key.clone(),
            content: clean(params.value),
            description: String::new(),
            kind: Kind::default(),
            tags: params.tags.into_iter().map(clean).collect(),
            author: author(context),
            created: now,
            updated: now,
        };
        let work = move |tx: &castellan_store::Tx<'_>| memories::save(tx, &memory);
        let saved = self.store.write(work).await?;
        Ok(Reply {
            key: params.key,
            scope: params.scope,
            replaced: saved == Saved::Replaced,
            at: now.to_string(),
        }
        .into())
    }
}
