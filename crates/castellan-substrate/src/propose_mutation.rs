//! `castellan_propose_mutation`: what a change of the genome would come to, kept for a person to
//! decide about. Nothing is applied.

use std::sync::Arc;

use castellan_core::event::MutationAction;
use castellan_core::id::ProposalId;
use castellan_core::tool::{CallContext, Effect};
use castellan_core::{ErrorCode, Event, Ids, Outcome, Timestamp, Tool, ToolSpec};
use castellan_store::genome::{self as stored, Proposal, State};
use castellan_store::{LateStore, Tx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::genome::Genome;
use crate::genome::change::{self, Changed, Diff};
use crate::genome::history;
use crate::operation::{
    Answer, EVOLVE, Failure, Operation, author, check_text, failed, redacted, spec,
};

pub(crate) const NAME: &str = "castellan_propose_mutation";

/// The longest change, in bytes of JSON.
const CHANGE_LIMIT: usize = 64 * 1024;
/// The longest target, in characters.
const TARGET_LIMIT: usize = 512;
/// The longest rationale, in characters.
pub(crate) const WORDS_LIMIT: usize = 2000;

/// The arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// What to change: a JSON pointer into the genome, such as `/substrate/weights`. To add
    /// something, the object it goes into.
    target: String,
    /// A JSON merge patch for what stands there: members that are null go, others replace. A number
    /// or text replaces the target; null takes it away.
    change: Value,
    /// Why, for the person who decides.
    rationale: String,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// The id of the proposal, for castellan_resolve_mutation.
    proposal: String,
    /// The version it is made against.
    base_version: u64,
    /// The hash of that version.
    base_hash: String,
    /// The hash the genome would have.
    result_hash: String,
    /// Whether the result follows the genome's schema. What does not is never kept.
    valid: bool,
    /// How far it goes.
    drift: Drift,
    /// How the genome would differ, as a unified diff.
    diff: String,
}

/// How far a mutation goes, each from 0 (nothing) to 1 (everything).
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Drift {
    /// The share of the genome's leaves that this change changes.
    step: f64,
    /// The share that would differ from version 1.
    from_baseline: f64,
}

struct ProposeMutation {
    spec: ToolSpec,
    store: LateStore,
    ids: Arc<dyn Ids>,
}

/// The tool.
pub(crate) fn tool(store: LateStore, ids: Arc<dyn Ids>) -> Arc<dyn Tool> {
    let mut spec = spec::<Params, Reply>(
        NAME,
        EVOLVE,
        "Preview a mutation of the harness: diff and drift; does not apply",
        "Propose a change to the genome, the part of this harness that may evolve: prompt \
         fragments, tool visibility and summaries, policy thresholds, model roles, substrate \
         weights. Nothing is applied: the answer is the id of a kept proposal, a unified diff and \
         the drift. A person decides with castellan_resolve_mutation. genome://current shows what \
         can be changed.",
    );
    spec.preconditions = vec![
        "the target exists in the genome".to_owned(),
        "the result follows the genome's schema and weakens no `deny`".to_owned(),
    ];
    spec.side_effects = vec!["keeps an open proposal; the genome stays as it is".to_owned()];
    spec.examples = vec![
        json!({
            "target": "/substrate/weights",
            "change": {"food": 2.0},
            "rationale": "food trails matter twice as much as others",
        }),
        json!({
            "target": "/substrate/half_life",
            "change": 300,
            "rationale": "trails stay too long after the food is gone",
        }),
    ];
    spec.effects = vec![Effect::Writes];
    crate::operation::tool(ProposeMutation { spec, store, ids })
}

impl Operation for ProposeMutation {
    type Params = Params;
    type Reply = Reply;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        check_text("rationale", &params.rationale, WORDS_LIMIT)?;
        if !params.target.is_empty() {
            check_text("target", &params.target, TARGET_LIMIT)?;
        }
        let size = params.change.to_string().len();
        if size > CHANGE_LIMIT {
            return Err(Outcome::invalid(
                format!("the change has {size} bytes of JSON, at most {CHANGE_LIMIT} are taken"),
                "propose less at once",
            ));
        }
        Ok(())
    }

    fn header(&self, params: &Params) -> String {
        format!("propose a change of {}", place(&params.target))
    }

    async fn run(&self, params: Params, context: &CallContext) -> Result<Answer<Reply>, Failure> {
        let wish = Wish {
            id: ProposalId::mint(&*self.ids),
            target: params.target,
            change: redacted(params.change, &context.redaction),
            rationale: context.redaction.apply(params.rationale),
            author: author(context),
            at: context.clock.now(),
        };
        let kept = self.store.write(move |tx| keep(tx, &wish)).await?;
        let (proposal, diff) = kept?;
        let event = Event::Mutation {
            action: MutationAction::Proposed,
            proposal: Some(proposal.id.to_string()),
            version: proposal.base_version,
            drift: proposal.drift,
            reason: proposal.rationale.clone(),
        };
        let reply = Reply {
            proposal: proposal.id.to_string(),
            base_version: proposal.base_version,
            base_hash: proposal.base_hash,
            result_hash: proposal.document.hash,
            valid: true,
            drift: Drift {
                step: proposal.step_drift,
                from_baseline: proposal.drift,
            },
            diff: diff.unified,
        };
        Ok(Answer {
            reply,
            events: vec![event],
        })
    }
}

/// A target in words.
pub(crate) fn place(target: &str) -> &str {
    if target.is_empty() {
        "the whole genome"
    } else {
        target
    }
}

/// A proposal on its way to being one.
struct Wish {
    id: ProposalId,
    target: String,
    change: Value,
    rationale: String,
    author: String,
    at: Timestamp,
}

type Kept = Result<(Proposal, Diff), Outcome>;

fn keep(tx: &Tx<'_>, wish: &Wish) -> castellan_store::Result<Kept> {
    stored::begin(tx, &history::first()?, wish.at)?;
    let base = history::holding(tx)?;
    let (changed, diff) = match changed(tx, &base.genome, &wish.target, &wish.change)? {
        Ok(sound) => sound,
        Err(outcome) => return Ok(Err(outcome)),
    };
    let proposal = Proposal {
        id: wish.id,
        at: wish.at,
        author: wish.author.clone(),
        base_version: base.stored.version,
        base_hash: base.stored.document.hash,
        target: wish.target.clone(),
        change: wish.change.to_string(),
        rationale: wish.rationale.clone(),
        document: changed.document,
        step_drift: changed.step_drift,
        drift: changed.drift,
        state: State::Open,
        decided: None,
    };
    stored::propose(tx, &proposal)?;
    Ok(Ok((proposal, diff)))
}

/// What a change makes of `base`, with how that differs.
pub(crate) fn changed(
    tx: &Tx<'_>,
    base: &Genome,
    target: &str,
    change: &Value,
) -> castellan_store::Result<Result<(Changed, Diff), Outcome>> {
    let first = history::numbered(tx, 1)?.map_or_else(Genome::default, |first| first.genome);
    let sound = change::apply(base, &first, target, change).and_then(|changed| {
        let diff = change::diff(base, &changed.genome)
            .map_err(|error| failed(ErrorCode::Internal, error.to_string(), ""))?;
        Ok((changed, diff))
    });
    Ok(sound)
}
