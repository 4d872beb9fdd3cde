//! `castellan trace replay`: does a record again, and says where it comes to something else.

use std::sync::Arc;

use castellan_core::CancelSource;
use castellan_runtime::replay::session::{Present, differs, replay, untold};
use castellan_runtime::replay::{Episode, Line, Record, Unreplayable, Verdict, read};
use castellan_store::{ErrorKind, events};
use serde_json::json;
use tokio::task::JoinSet;

use crate::cli::{TraceFile, Zones};
use crate::commands::exec::heed;
use crate::commands::trace::find;
use crate::error::CommandError;
use crate::output::{counted, line, note};
use crate::signals::Signals;
use crate::stage::{Folder, Ground};
use crate::wiring::World;

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) async fn run(world: &World, args: &TraceFile) -> Result<(), CommandError> {
    let file = find(world, &args.trace).await?;
    let record = read(&file).map_err(|error| match error {
        Unreplayable::Read { .. } => CommandError::failed(error),
        Unreplayable::Other(_) => CommandError::usage(error),
    })?;
    let verdict = match record {
        Record::Session(lines) => walked(world, &lines).await?,
        Record::Episode(episode) => again(world, &episode).await?,
    };
    conclude(&verdict, args.json)
}

/// Walks through a session, and holds its trace against the store where that has the session.
async fn walked(world: &World, lines: &[Line]) -> Result<Verdict, CommandError> {
    let present = Present {
        version: VERSION,
        catalog: &world.catalog,
    };
    let verdict = replay(lines, present);
    let session = lines
        .iter()
        .find_map(|line| Some(line.event.as_ref()?.session));
    let (Some(session), Some(store)) = (session, world.stored()?) else {
        return Ok(verdict);
    };
    let stored = match store.read(move |tx| events::load(tx, session, 0)).await {
        Ok(stored) => stored,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(verdict),
        Err(error) => return Err(error.into()),
    };
    let at = |verdict: &Verdict| match verdict {
        Verdict::Diverges { line, .. } => *line,
        Verdict::Agrees { .. } => usize::MAX,
    };
    // Whichever goes wrong first; where both do, what is there tells more than what follows from it.
    let differs = differs(lines, &stored).filter(|found| at(found) <= at(&verdict));
    Ok(match (differs, verdict) {
        (Some(differs), _) => differs,
        (None, Verdict::Agrees { lines: told, note }) => {
            let missing = match untold(lines, &stored) {
                0 => String::new(),
                missing => {
                    let events = counted(missing as u64, "event");
                    format!("the store goes on for {events}")
                }
            };
            let notes = [note, missing];
            let notes = notes.into_iter().filter(|note| !note.is_empty());
            Verdict::Agrees {
                lines: told,
                note: notes.collect::<Vec<_>>().join("; "),
            }
        }
        (None, diverges @ Verdict::Diverges { .. }) => diverges,
    })
}

/// Runs an episode again.
async fn again(world: &World, episode: &Episode) -> Result<Verdict, CommandError> {
    let plan = episode.plan();
    if plan.version != VERSION {
        let version = &plan.version;
        note(&format!(
            "recorded by castellan {version}, replayed by {VERSION}"
        ));
    }
    let folder = Folder::new(world)?;
    let trace = folder.0.join("again.jsonl");
    let workspace = world.working_folder(None)?;
    let zones = (plan.seed, Zones::Own);
    let ground = Ground::again(world, zones, &trace, &workspace)?;
    let stop = Arc::new(CancelSource::new());
    let mut signals = JoinSet::new();
    signals.spawn(heed(Signals::listen()?, Arc::clone(&stop)));
    let verdict = episode.replay(&ground.stage, &trace, stop.token()).await?;
    Ok(verdict)
}

fn conclude(verdict: &Verdict, as_json: bool) -> Result<(), CommandError> {
    match verdict {
        Verdict::Agrees { lines, note } => {
            if as_json {
                return line(
                    &json!({"verdict": "agrees", "lines": lines, "note": note}).to_string(),
                );
            }
            let note = if note.is_empty() {
                String::new()
            } else {
                format!(" ({note})")
            };
            line(&format!(
                "agrees in {}{note}",
                counted(*lines as u64, "line")
            ))
        }
        Verdict::Diverges { line: at, what } => {
            if as_json {
                line(&json!({"verdict": "diverges", "line": at, "what": what}).to_string())?;
            }
            Err(CommandError::failed(format!(
                "diverges at line {at}: {what}"
            )))
        }
    }
}
