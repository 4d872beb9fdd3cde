//! `castellan grants`: permissions that were given for good.

use std::path::Path;

use castellan_core::id::AuditId;
use castellan_core::{CallId, Principal, SessionId};
use castellan_store::audit::{self, AuditEntry};
use castellan_store::grants::{self, Damaged, Filter, GrantRow, Grants as Kept, Place};
use castellan_store::{ErrorKind, Store};
use serde_json::{Value, json};

use crate::cli::{Grants, GrantsCommand, GrantsList, GrantsRevoke};
use crate::commands::trace::{nothing_stored, resolve};
use crate::error::CommandError;
use crate::output::{counted, line, note, out, table};
use crate::wiring::World;

pub(crate) async fn run(world: &World, args: &Grants) -> Result<(), CommandError> {
    let listing = match &args.command {
        None => &args.list,
        Some(GrantsCommand::List(args)) => args,
        Some(GrantsCommand::Revoke(args)) => return revoke(world, &world.store()?, args).await,
    };
    match world.stored()? {
        Some(store) => list(world, &store, listing).await,
        None => match &listing.session {
            Some(name) => Err(nothing_stored(name)),
            None if listing.json => line(&json!({"grants": [], "total": 0}).to_string()),
            None => {
                note(NONE_GIVEN);
                Ok(())
            }
        },
    }
}

/// The filter these arguments mean.
async fn filter(
    world: &World,
    store: &Store,
    project: Option<&Path>,
    session: Option<&str>,
) -> Result<Filter, CommandError> {
    let session = match session {
        Some(name) => Some(resolve(store, name).await?),
        None => None,
    };
    Ok(Filter {
        project: project.map(|folder| {
            let folder = world.environment.cwd().join(folder);
            // A project whose folder is gone may still have permissions to take back.
            folder.canonicalize().unwrap_or(folder)
        }),
        session,
    })
}

async fn list(world: &World, store: &Store, args: &GrantsList) -> Result<(), CommandError> {
    let filter = filter(
        world,
        store,
        args.project.as_deref(),
        args.session.as_deref(),
    )
    .await?;
    let limit = args.limit;
    let Kept {
        rows,
        damaged,
        total,
    } = store
        .read(move |tx| grants::list(tx, &filter, limit))
        .await?;
    let shown = (rows.len() + damaged.len()) as u64;
    if args.json {
        let rows: Vec<Value> = rows.iter().map(as_json).collect();
        let mut listed = json!({"grants": rows, "total": total});
        if !damaged.is_empty() {
            let damaged = damaged.iter();
            listed["damaged"] = damaged
                .map(|one| json!({"id": one.id, "why": one.why}))
                .collect();
        }
        return line(&listed.to_string());
    }
    for one in &damaged {
        note(&one.to_string());
    }
    if shown == 0 {
        note(NONE_GIVEN);
        return Ok(());
    }
    if !rows.is_empty() {
        out(&listed(&rows))?;
    }
    if shown < total {
        let total = counted(total, "grant");
        note(&format!("{shown} of {total}; --limit shows more"));
    }
    Ok(())
}

/// What to say where there are none.
pub(crate) const NONE_GIVEN: &str =
    "no permissions were given for good; they come with an answer to a question";

/// The grants as a table.
fn listed(rows: &[GrantRow]) -> String {
    let head = ["ID", "GRANT", "WHERE", "GIVEN", "USED", "LAST"];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| {
        vec![
            row.id.to_string(),
            row.grant.to_string(),
            place(row),
            row.given.to_string(),
            row.uses.to_string(),
            row.last_used
                .map_or_else(|| "never".to_owned(), |time| time.to_string()),
        ]
    }));
    table(&cells)
}

fn place(row: &GrantRow) -> String {
    match &row.place {
        Place::Session(id) => id.to_string(),
        Place::Project(folder) => folder.display().to_string(),
        Place::Everywhere => "everywhere".to_owned(),
    }
}

fn as_json(row: &GrantRow) -> Value {
    let (session, project) = match &row.place {
        Place::Session(id) => (Some(*id), None),
        Place::Project(folder) => (None, Some(folder)),
        Place::Everywhere => (None, None),
    };
    json!({
        "id": row.id, "grant": row.grant, "scope": row.place.scope(), "session": session,
        "project": project, "given_by": row.who, "surface": row.surface, "given_in": row.session,
        "given": row.given, "uses": row.uses, "last_used": row.last_used,
    })
}

async fn revoke(world: &World, store: &Store, args: &GrantsRevoke) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    let mut damaged = Vec::new();
    if args.ids.is_empty() {
        let filter = filter(
            world,
            store,
            args.all_project.as_deref(),
            args.all_session.as_deref(),
        )
        .await?;
        let found = store
            .read(move |tx| grants::list(tx, &filter, u32::MAX))
            .await?;
        rows.extend(found.rows);
        damaged.extend(found.damaged);
        if rows.is_empty() && damaged.is_empty() {
            note("there are none to take back");
            return Ok(());
        }
    }
    for found in found(store, &args.ids).await? {
        match found {
            Ok(row) => rows.push(row),
            Err(one) => damaged.push(one),
        }
    }
    for one in discard(world, store, damaged).await? {
        line(&format!("removed {}, which could not be read", one.id))?;
    }
    for row in take_back(world, store, rows).await? {
        line(&format!("revoked {} {}", row.id, row.described()))?;
    }
    Ok(())
}

/// The grants of these ids.
///
/// # Errors
/// As [`found`], and for one that can't be read.
pub(crate) async fn named(store: &Store, ids: &[String]) -> Result<Vec<GrantRow>, CommandError> {
    let rows = found(store, ids).await?.into_iter();
    rows.collect::<Result<_, Damaged>>()
        .map_err(CommandError::failed)
}

/// What these ids name. All are found before any is taken back: a mistyped id must not leave half of
/// it done.
async fn found(store: &Store, ids: &[String]) -> Result<Vec<grants::Read>, CommandError> {
    let mut rows = Vec::new();
    for id in ids {
        let wanted = id.clone();
        let found = store.read(move |tx| grants::find(tx, &wanted)).await;
        rows.push(found.map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::Ambiguous | ErrorKind::Invalid => {
                CommandError::usage(error).hint("castellan grants list shows them with their ids")
            }
            _ => error.into(),
        })?);
    }
    Ok(rows)
}

/// Takes these grants back, and returns those that were there still.
pub(crate) async fn take_back(
    world: &World,
    store: &Store,
    mut rows: Vec<GrantRow>,
) -> Result<Vec<GrantRow>, CommandError> {
    rows.sort_by_key(|row| row.id);
    rows.dedup_by_key(|row| row.id);
    let doomed: Vec<(GrantRow, AuditEntry)> = rows
        .into_iter()
        .map(|row| {
            let entry = entry(world, &row);
            (row, entry)
        })
        .collect();
    let gone = store
        .write(move |tx| {
            let mut gone = Vec::new();
            for (row, entry) in &doomed {
                // Someone else may have been faster, and their row in the audit is enough.
                if grants::revoke(tx, row.id)? {
                    audit::append(tx, std::slice::from_ref(entry))?;
                    gone.push(row.clone());
                }
            }
            Ok(gone)
        })
        .await?;
    Ok(gone)
}

/// Takes away rows that can't be read, and returns those that were there still.
async fn discard(
    world: &World,
    store: &Store,
    damaged: Vec<Damaged>,
) -> Result<Vec<Damaged>, CommandError> {
    let doomed: Vec<(Damaged, AuditEntry)> = damaged
        .into_iter()
        .map(|one| {
            let entry = noted(world, None, format!("removed: {one}"));
            (one, entry)
        })
        .collect();
    let gone = store
        .write(move |tx| {
            let mut gone = Vec::new();
            for (one, entry) in &doomed {
                if grants::discard(tx, one)? {
                    audit::append(tx, std::slice::from_ref(entry))?;
                    gone.push(one.clone());
                }
            }
            Ok(gone)
        })
        .await?;
    Ok(gone)
}

/// What the audit keeps of a revocation.
fn entry(world: &World, row: &GrantRow) -> AuditEntry {
    let session: Option<SessionId> = match &row.place {
        Place::Session(id) => Some(*id),
        Place::Project(_) | Place::Everywhere => None,
    };
    noted(world, session, format!("revoked: {}", row.described()))
}

fn noted(world: &World, session: Option<SessionId>, params: String) -> AuditEntry {
    AuditEntry {
        id: AuditId::mint(&*world.ids),
        ts: world.clock.now(),
        caller: Principal::Person(world.user()).to_string(),
        claimed: None,
        tool: "grant".to_owned(),
        source: "interactive".to_owned(),
        session,
        call_id: CallId::mint(&*world.ids),
        outcome: "done".to_owned(),
        code: None,
        duration_ms: 0,
        params,
    }
}
