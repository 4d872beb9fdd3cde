//! `castellan export`: a session written down, from its stored events.

mod markdown;
mod story;

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use castellan_store::{Store, events};

use crate::cli::{Export, ExportFormat};
use crate::commands::trace::{nothing_stored, resolve};
use crate::error::{CommandError, io};
use crate::output::{counted, note, out};

use story::Story;

/// Writes the session where it is wanted.
pub(crate) async fn run(store: Option<&Store>, args: &Export) -> Result<(), CommandError> {
    let store = store.ok_or_else(|| nothing_stored(&args.session))?;
    let id = resolve(store, &args.session).await?;
    let log = store.read(move |tx| events::load(tx, id, 0)).await?;
    let story = Story::of(id, &log);
    let text = match args.format {
        ExportFormat::Md => markdown::written(&story),
        ExportFormat::Json => {
            let text = serde_json::to_string_pretty(&story).map_err(CommandError::failed)?;
            format!("{text}\n")
        }
    };
    match &args.output {
        Some(file) if file.as_os_str() != "-" => save(file, &text),
        _ => out(&text),
    }
}

/// Writes the file anew, for its owner alone where it is new: a session may hold anything.
fn save(file: &Path, text: &str) -> Result<(), CommandError> {
    let failed = format!("write {}", file.display());
    let mut opened = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)
        .map_err(io(&failed))?;
    opened.write_all(text.as_bytes()).map_err(io(&failed))?;
    let size = counted(text.len(), "byte");
    note(&format!("wrote {} ({size})", file.display()));
    Ok(())
}
