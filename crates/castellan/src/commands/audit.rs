//! `castellan audit`: who called what, and proof that the record is whole.

use std::time::Duration;

use castellan_core::Timestamp;
use castellan_store::audit::{self, Filter, hex};
use castellan_store::{Page, Store};
use serde_json::json;

use crate::cli::Audit;
use crate::error::CommandError;
use crate::output::{counted, line, note, out, table};
use crate::wiring::World;

pub(crate) async fn run(world: &World, args: &Audit) -> Result<(), CommandError> {
    let store = world.stored()?;
    if args.verify {
        return verify(store).await;
    }
    let since = match &args.since {
        Some(age) => Some(before(world.clock.now(), age)?),
        None => None,
    };
    let filter = Filter {
        since,
        caller: args.agent.clone(),
        limit: args.limit,
    };
    let page = match store {
        Some(store) => store.read(move |tx| audit::list(tx, &filter)).await?,
        None => Page {
            rows: Vec::new(),
            total: 0,
        },
    };
    if args.json {
        for row in page.rows {
            let entry = row.entry;
            line(
                &json!({
                    "seq": row.seq, "id": entry.id, "ts": entry.ts, "caller": entry.caller,
                    "claimed": entry.claimed, "tool": entry.tool, "source": entry.source,
                    "session": entry.session, "call_id": entry.call_id,
                    "outcome": entry.outcome, "code": entry.code,
                    "duration_ms": entry.duration_ms, "params": entry.params,
                    "hash": hex(&row.hash),
                })
                .to_string(),
            )?;
        }
        return Ok(());
    }
    let shown = page.rows.len() as u64;
    let head = [
        "SEQ",
        "TIME",
        "CALLER",
        "TOOL",
        "OUTCOME",
        "MS",
        "PARAMETERS",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(page.rows.into_iter().map(|row| {
        let entry = row.entry;
        let outcome = entry.code.map_or(entry.outcome, |code| code.to_lowercase());
        vec![
            row.seq.to_string(),
            entry.ts.to_string(),
            entry.caller,
            entry.tool,
            outcome,
            entry.duration_ms.to_string(),
            entry.params,
        ]
    }));
    out(&table(&rows))?;
    if shown < page.total {
        note(&format!(
            "{shown} of {}; --limit shows more",
            counted(page.total, "row")
        ));
    }
    Ok(())
}

/// Says whether the chain is whole; where nothing is stored, it is.
async fn verify(store: Option<Store>) -> Result<(), CommandError> {
    let (rows, first_bad) = match &store {
        Some(store) => {
            let verdict = store.read(audit::verify).await?;
            (verdict.rows, verdict.first_bad)
        }
        None => (0, None),
    };
    match first_bad {
        None => line(&format!(
            "the audit chain is whole: {}",
            counted(rows, "row")
        )),
        Some(bad) => Err(CommandError::failed(format!(
            "the audit chain is broken at row {}: {}",
            bad.seq, bad.what
        ))
        .hint("keep the database as it is: it is the evidence")),
    }
}

/// The time `age` before `now`: a number with s, m, h or d.
fn before(now: Timestamp, age: &str) -> Result<Timestamp, CommandError> {
    let wrong = || {
        CommandError::usage(format!("`{age}` is not an age"))
            .hint("write a number with s, m, h or d, such as 90m or 2d")
    };
    let (number, unit) = age
        .split_at_checked(age.len().saturating_sub(1))
        .ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_error| wrong())?;
    let seconds = match unit {
        "s" => number,
        "m" => number.saturating_mul(60),
        "h" => number.saturating_mul(3600),
        "d" => number.saturating_mul(86_400),
        _ => return Err(wrong()),
    };
    let milliseconds = Duration::from_secs(seconds).as_millis();
    Ok(Timestamp(now.0.saturating_sub(
        i64::try_from(milliseconds).unwrap_or(i64::MAX),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_number_with_a_unit() {
        assert_eq!(
            before(Timestamp(10_000_000), "90m").unwrap(),
            Timestamp(4_600_000)
        );
        for wrong in ["", "m", "90", "1w", "-1h", "é"] {
            assert!(before(Timestamp(0), wrong).is_err(), "{wrong}");
        }
    }
}
