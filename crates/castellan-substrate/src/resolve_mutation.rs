//! `castellan_resolve_mutation`: a person's decision about a proposal.

use std::sync::Arc;

use castellan_core::event::MutationAction;
use castellan_core::id::ProposalId;
use castellan_core::tool::{CallContext, Effect, Inspection, Preview};
use castellan_core::{ErrorCode, Event, Outcome, Tool, ToolSpec};
use castellan_store::genome::{self as stored, Decided, Proposal, State};
use castellan_store::{LateStore, Tx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::genome::{Genome, change, history};
use crate::operation::{Answer, EVOLVE, Failure, Operation, author, check_text, failed, spec};
use crate::propose_mutation::{self, WORDS_LIMIT, changed, place};

const NAME: &str = "castellan_resolve_mutation";

/// How many open proposals an error lists.
const LISTED: u32 = 5;

/// What to do with a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Decision {
    /// It becomes the genome's newest version.
    Accept,
    /// It is kept as rejected, with the reason.
    Reject,
}

/// The arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// The id that castellan_propose_mutation answered.
    #[schemars(with = "String")]
    proposal: String,
    /// `accept` or `reject`.
    decision: Decision,
    /// Why.
    reason: String,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// The proposal.
    proposal: String,
    /// What was done.
    decision: Decision,
    /// The version that holds now.
    version: u64,
    /// The hash of that version.
    hash: String,
    /// The share of the genome that differs from version 1, from 0 to 1.
    drift: f64,
    /// When, RFC 3339.
    at: String,
}

struct ResolveMutation {
    spec: ToolSpec,
    store: LateStore,
}

/// The tool.
pub(crate) fn tool(store: LateStore) -> Arc<dyn Tool> {
    let mut spec = spec::<Params, Reply>(
        NAME,
        EVOLVE,
        "Accept or reject a persisted mutation proposal; always needs a person",
        "Decide about a proposal of castellan_propose_mutation. `accept` makes it the genome's \
         newest version, if the version it was made against still holds; otherwise nothing \
         changes and the failure says how to propose it anew. `reject` keeps it with the reason. \
         A person, or a caller with admin, confirms every call.",
    );
    spec.preconditions = vec![
        "the proposal is open".to_owned(),
        "to accept: the version it was made against still holds".to_owned(),
        "a person or a caller with admin confirms it".to_owned(),
    ];
    spec.side_effects = vec![
        "accept: a new version of the genome holds; `castellan genome rollback` goes back"
            .to_owned(),
        "reject: the proposal is closed".to_owned(),
    ];
    spec.examples = vec![
        json!({
            "proposal": "mut_019b0000000070008000000000000001",
            "decision": "accept",
            "reason": "the field looks right with it",
        }),
        json!({
            "proposal": "mut_019b0000000070008000000000000002",
            "decision": "reject",
            "reason": "trails are short enough",
        }),
    ];
    spec.effects = vec![Effect::Writes, Effect::HighImpact];
    crate::operation::tool(ResolveMutation { spec, store })
}

impl Operation for ResolveMutation {
    type Params = Params;
    type Reply = Reply;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        id(&params.proposal)?;
        check_text("reason", &params.reason, WORDS_LIMIT)
    }

    fn header(&self, params: &Params) -> String {
        match params.decision {
            Decision::Accept => format!("accept mutation {}", params.proposal),
            Decision::Reject => format!("reject mutation {}", params.proposal),
        }
    }

    /// Shows who decides what they decide about.
    async fn inspect(&self, params: &Params) -> Result<Inspection, Failure> {
        let id = id(&params.proposal)?;
        let seen = self.store.read(move |tx| look(tx, id)).await?;
        let (proposal, base) = seen?;
        let mut header = format!(
            "{} of {} (drift {:.2}, {:.2} from version 1)",
            self.header(params),
            place(&proposal.target),
            proposal.step_drift,
            proposal.drift
        );
        let after: Genome = parsed(&proposal.document.text)?;
        let diff = change::diff(&base, &after).map_err(|error| internal(&error))?;
        if params.decision == Decision::Reject {
            header.push_str(": nothing changes");
        }
        let mut inspection = Inspection::new(NAME, header);
        inspection.preview = Preview::Diff {
            path: format!("genome/{}", proposal.base_version + 1).into(),
            unified: diff.unified,
            added: diff.added,
            removed: diff.removed,
            note: format!("{} proposes: {}", proposal.author, proposal.rationale),
            before: None,
        };
        Ok(inspection)
    }

    async fn run(&self, params: Params, context: &CallContext) -> Result<Answer<Reply>, Failure> {
        let id = id(&params.proposal)?;
        let decided = Decided {
            at: context.clock.now(),
            by: author(context),
            reason: context.redaction.apply(params.reason),
        };
        let decision = params.decision;
        let work = move |tx: &Tx<'_>| decide(tx, id, decision, &decided);
        let (version, proposal) = self.store.write(work).await??;
        let (action, drift) = match decision {
            Decision::Accept => (MutationAction::Accepted, version.drift),
            Decision::Reject => (MutationAction::Rejected, proposal.drift),
        };
        let decided = proposal.decided;
        let event = Event::Mutation {
            action,
            proposal: Some(id.to_string()),
            version: version.version,
            drift,
            reason: decided
                .as_ref()
                .map_or_else(String::new, |one| one.reason.clone()),
        };
        let reply = Reply {
            proposal: id.to_string(),
            decision,
            version: version.version,
            hash: version.document.hash,
            drift: version.drift,
            at: decided.map_or_else(String::new, |one| one.at.to_string()),
        };
        Ok(Answer {
            reply,
            events: vec![event],
        })
    }
}

fn id(text: &str) -> Result<ProposalId, Outcome> {
    text.trim().parse().map_err(|error| {
        let next = format!("send the id that {} answered", propose_mutation::NAME);
        Outcome::invalid(format!("`proposal`: {error}"), next)
    })
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Outcome> {
    serde_json::from_str(text).map_err(|error| internal(&error))
}

fn internal(error: &serde_json::Error) -> Outcome {
    failed(
        ErrorCode::Internal,
        format!("a stored document: {error}"),
        "",
    )
}

/// An open proposal with the genome it is made against.
fn look(
    tx: &Tx<'_>,
    id: ProposalId,
) -> castellan_store::Result<Result<(Proposal, Genome), Outcome>> {
    let Some(proposal) = stored::proposal(tx, id)? else {
        return Ok(Err(unknown(tx, id)?));
    };
    if proposal.state != State::Open {
        return Ok(Err(before(&proposal)));
    }
    let base = history::numbered(tx, proposal.base_version)?;
    let base = base.map_or_else(Genome::default, |base| base.genome);
    Ok(Ok((proposal, base)))
}

fn decide(
    tx: &Tx<'_>,
    id: ProposalId,
    decision: Decision,
    decided: &Decided,
) -> castellan_store::Result<Result<(stored::Version, Proposal), Outcome>> {
    let Some(mut proposal) = stored::proposal(tx, id)? else {
        return Ok(Err(unknown(tx, id)?));
    };
    let outcome = match decision {
        Decision::Accept => stored::accept(tx, id, decided)?,
        Decision::Reject => stored::reject(tx, id, decided)?,
    };
    match outcome {
        stored::Outcome::Accepted(version) => {
            proposal.state = State::Accepted(version.version);
            proposal.decided = Some(decided.clone());
            Ok(Ok((version, proposal)))
        }
        stored::Outcome::Rejected(proposal) => {
            let holding = history::holding(tx)?;
            Ok(Ok((holding.stored, proposal)))
        }
        stored::Outcome::Before(proposal) => Ok(Err(before(&proposal))),
        stored::Outcome::Stale(current) => Ok(Err(stale(tx, &proposal, &current)?)),
    }
}

fn unknown(tx: &Tx<'_>, id: ProposalId) -> castellan_store::Result<Outcome> {
    let open = stored::open(tx, LISTED)?;
    let ids: Vec<String> = open.rows.iter().map(|one| one.id.to_string()).collect();
    let next = if ids.is_empty() {
        "no proposal is open".to_owned()
    } else {
        format!(
            "of {} open proposals the newest are {}",
            open.total,
            ids.join(", ")
        )
    };
    let what = format!("there is no proposal {id}");
    Ok(failed(ErrorCode::NotFound, what, next))
}

fn before(proposal: &Proposal) -> Outcome {
    let how = match proposal.state {
        State::Accepted(version) => format!("accepted as version {version}"),
        State::Rejected | State::Open => "rejected".to_owned(),
    };
    let by = proposal.decided.as_ref().map_or_else(String::new, |one| {
        format!(" by {} at {}: {}", one.by, one.at, one.reason)
    });
    failed(
        ErrorCode::AlreadyDecided,
        format!("proposal {} was {how}{by}", proposal.id),
        "propose it again where it should be decided anew",
    )
}

fn why(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed { what, .. } => what,
        other => other.into_text(),
    }
}

/// Another version holds. What the same change would come to there is said.
fn stale(
    tx: &Tx<'_>,
    proposal: &Proposal,
    current: &stored::Version,
) -> castellan_store::Result<Outcome> {
    let what = format!(
        "proposal {} was made against version {}, and version {} holds now; nothing was changed",
        proposal.id, proposal.base_version, current.version
    );
    let holding = history::holding(tx)?;
    let change: Value = serde_json::from_str(&proposal.change).unwrap_or(Value::Null);
    let next = match changed(tx, &holding.genome, &proposal.target, &change)? {
        Ok((changed, _diff)) => format!(
            "rebase it: call {} again with the same target, change and rationale, which now comes \
             to drift {:.2}: {}",
            propose_mutation::NAME,
            changed.step_drift,
            json!({
                "target": proposal.target,
                "change": change,
                "rationale": proposal.rationale,
            })
        ),
        Err(outcome) => format!(
            "it can't be rebased as it is: on version {} {}",
            current.version,
            why(outcome)
        ),
    };
    Ok(failed(ErrorCode::ConcurrentUpdate, what, next))
}
