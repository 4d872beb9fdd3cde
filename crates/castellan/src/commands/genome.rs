//! `castellan genome`: the part of the harness that may evolve, its versions, and the way back.

use castellan_core::id::AuditId;
use castellan_core::{CallId, Principal};
use castellan_store::audit::{self, AuditEntry};
use castellan_store::genome::{Origin, Proposal, Version as Stored};
use castellan_store::{Error as StoreError, LateStore, Store};
use castellan_substrate::genome::history::{self, Log, Version};
use serde_json::{Value, json};

use crate::cli::{Genome, GenomeRollback};
use crate::error::CommandError;
use crate::output::{counted, line, note, out, table};
use crate::wiring::World;

pub(crate) async fn run(world: &World, command: &Genome) -> Result<(), CommandError> {
    if let Genome::Rollback(args) = command {
        return roll_back(world, &world.store()?, args).await;
    }
    // Where nothing is stored the first version holds, and nothing is made to say so.
    let store = world.stored()?.map(LateStore::of);
    match command {
        Genome::Log(args) => {
            let log = log(store.as_ref(), args.limit).await?;
            if args.json {
                return line(&listed(&log).to_string());
            }
            tell(&log)
        }
        Genome::Show(args) => show(store.as_ref(), args.version, args.json).await,
        Genome::Diff(args) => {
            let to = match args.to {
                Some(to) => to,
                None => version(store.as_ref(), None).await?.stored.version,
            };
            let known = [args.from, to].map(|number| version(store.as_ref(), Some(number)));
            let [from, onto] = known;
            let diff = history::difference(&from.await?, &onto.await?)?;
            if diff.is_empty() {
                note(&format!(
                    "version {} and version {to} say the same",
                    args.from
                ));
            }
            out(&diff)
        }
        Genome::Rollback(_) => Ok(()),
    }
}

async fn log(store: Option<&LateStore>, limit: u32) -> Result<Log, CommandError> {
    match store {
        Some(store) => Ok(history::log(store, limit).await?),
        None => Ok(history::as_built()?),
    }
}

/// A version, by default the one that holds.
async fn version(store: Option<&LateStore>, number: Option<u64>) -> Result<Version, CommandError> {
    let found = match (store, number) {
        (Some(store), None) => Some(history::current(store).await?),
        (Some(store), Some(number)) => history::version(store, number).await?,
        (None, None | Some(1)) => Some(history::first_version()?),
        (None, Some(_)) => None,
    };
    found.ok_or_else(|| {
        unknown(StoreError::NotFound {
            what: format!("version {} of the genome", number.unwrap_or_default()),
        })
    })
}

/// Says which versions there are, where one is not.
fn unknown(error: StoreError) -> CommandError {
    match error {
        StoreError::NotFound { .. } => {
            CommandError::usage(error).hint("castellan genome log lists the versions there are")
        }
        error => error.into(),
    }
}

fn tell(log: &Log) -> Result<(), CommandError> {
    let versions = &log.versions;
    let rows: Vec<Vec<String>> = versions
        .rows
        .iter()
        .map(|version| {
            vec![
                format!("version {}", version.version),
                when(version),
                origin(version),
                format!("drift {:.3}", version.drift),
                version.author.clone(),
                version.reason.clone(),
            ]
        })
        .collect();
    out(&table(&rows))?;
    left_out(versions.rows.len(), versions.total, "version");
    if log.open.total > 0 {
        out(&format!(
            "\n{} to decide about:\n",
            counted(log.open.total, "proposal")
        ))?;
        let rows: Vec<Vec<String>> = log.open.rows.iter().map(proposed).collect();
        out(&table(&rows))?;
        left_out(log.open.rows.len(), log.open.total, "proposal");
    }
    Ok(())
}

fn left_out(shown: usize, total: u64, what: &str) {
    if (shown as u64) < total {
        note(&format!("{shown} of {} are shown", counted(total, what)));
    }
}

/// When a version came to hold; the first one held from the beginning.
fn when(version: &Stored) -> String {
    match version.origin {
        Origin::Default => "from the beginning".to_owned(),
        Origin::Mutation(_) | Origin::Rollback(_) => version.at.to_string(),
    }
}

fn origin(version: &Stored) -> String {
    match &version.origin {
        Origin::Default => "as built".to_owned(),
        Origin::Mutation(id) => id.to_string(),
        Origin::Rollback(to) => format!("back to version {to}"),
    }
}

fn proposed(proposal: &Proposal) -> Vec<String> {
    vec![
        proposal.id.to_string(),
        proposal.at.to_string(),
        format!("on version {}", proposal.base_version),
        format!("{} ← {}", proposal.target, proposal.change),
        proposal.author.clone(),
        proposal.rationale.clone(),
    ]
}

fn listed(log: &Log) -> Value {
    let versions = log.versions.rows.iter().map(|version| {
        json!({
            "version": version.version, "at": version.at, "origin": origin(version),
            "drift": version.drift, "author": version.author, "reason": version.reason,
            "hash": version.document.hash,
        })
    });
    let open = log.open.rows.iter().map(|proposal| {
        json!({
            "proposal": proposal.id, "at": proposal.at, "base_version": proposal.base_version,
            "target": proposal.target, "change": proposal.change, "author": proposal.author,
            "rationale": proposal.rationale,
            "drift": {"step": proposal.step_drift, "from_baseline": proposal.drift},
        })
    });
    json!({
        "versions": versions.collect::<Vec<_>>(), "total": log.versions.total,
        "open": open.collect::<Vec<_>>(), "open_total": log.open.total,
    })
}

async fn show(
    store: Option<&LateStore>,
    number: Option<u64>,
    as_json: bool,
) -> Result<(), CommandError> {
    let version = version(store, number).await?;
    let Version { genome, stored } = version;
    if as_json {
        return line(
            &json!({
                "version": stored.version, "hash": stored.document.hash, "drift": stored.drift,
                "genome": genome,
            })
            .to_string(),
        );
    }
    note(&format!(
        "version {}, {}, drift {:.3}, {}",
        stored.version,
        origin(&stored),
        stored.drift,
        stored.document.hash
    ));
    line(&serde_json::to_string_pretty(&genome).map_err(CommandError::failed)?)
}

async fn roll_back(
    world: &World,
    store: &Store,
    args: &GenomeRollback,
) -> Result<(), CommandError> {
    let by = Principal::Person(world.user()).to_string();
    let entry = AuditEntry {
        id: AuditId::mint(&*world.ids),
        ts: world.clock.now(),
        caller: by.clone(),
        claimed: None,
        tool: "genome".to_owned(),
        source: "interactive".to_owned(),
        session: None,
        call_id: CallId::mint(&*world.ids),
        outcome: "done".to_owned(),
        code: None,
        duration_ms: 0,
        params: format!("rolled back to version {}: {}", args.version, args.reason),
    };
    let decided = (by.as_str(), args.reason.as_str(), world.clock.now());
    let late = LateStore::of(store.clone());
    let rolled = history::roll_back(&late, args.version, decided, move |tx| {
        audit::append(tx, std::slice::from_ref(&entry))
    });
    match rolled.await.map_err(unknown)? {
        Some((version, _event)) => note(&format!(
            "version {} holds now; it says what version {} said",
            version.stored.version, args.version
        )),
        None => note(&format!("version {} holds already", args.version)),
    }
    Ok(())
}
