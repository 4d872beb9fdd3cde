//! `castellan sessions`: what is stored.

use castellan_store::{Page, Store, sessions};
use serde_json::json;

use crate::cli::Sessions;
use crate::error::CommandError;
use crate::output::{counted, line, note, out, table};

pub(crate) async fn run(store: Option<&Store>, args: &Sessions) -> Result<(), CommandError> {
    let limit = args.limit;
    let Page { rows, total } = match store {
        Some(store) => store.read(move |tx| sessions::list(tx, limit)).await?,
        None => Page {
            rows: Vec::new(),
            total: 0,
        },
    };
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "id": row.id, "created": row.created, "updated": row.updated,
                    "state": row.state, "title": row.title, "cwd": row.cwd, "model": row.model,
                    "events": row.last_seq,
                })
            })
            .collect();
        return line(&json!({"sessions": rows, "total": total}).to_string());
    }
    if rows.is_empty() {
        note("no sessions yet; castellan exec \"…\" begins one");
        return Ok(());
    }
    let shown = rows.len() as u64;
    let mut cells = vec![
        ["ID", "UPDATED", "STATE", "TITLE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    cells.extend(rows.into_iter().map(|row| {
        vec![
            row.id.to_string(),
            row.updated.to_string(),
            row.state,
            row.title,
        ]
    }));
    out(&table(&cells))?;
    if shown < total {
        let total = counted(total, "session");
        note(&format!("{shown} of {total}; --limit shows more"));
    }
    Ok(())
}
