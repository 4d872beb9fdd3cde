//! `castellan trace replay`: does a record again, and says where it comes to something else.

use castellan_core::CancelSource;
use castellan_runtime::replay::session::{Present, replay};
use castellan_runtime::replay::{Episode, Record, Unreplayable, Verdict, read};
use serde_json::json;

use crate::cli::{TraceFile, Zones};
use crate::commands::trace::find;
use crate::error::CommandError;
use crate::output::{counted, line, note};
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
        Record::Session(lines) => replay(
            &lines,
            Present {
                version: VERSION,
                catalog: &world.catalog,
            },
        ),
        Record::Episode(episode) => again(world, &episode).await?,
    };
    conclude(&verdict, args.json)
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
    let ground = Ground::new(world, zones, &trace, &workspace, Vec::new())?;
    let stop = CancelSource::new();
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
