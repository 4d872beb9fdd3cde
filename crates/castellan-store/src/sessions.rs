//! The list of sessions, drawn from their events in the transaction that appends them.

use std::path::PathBuf;

use castellan_core::event::{Purpose, State};
use castellan_core::text::{plain, shorten};
use castellan_core::{Event, Recorded, SessionId, Timestamp};

use crate::Page;
use crate::error::{Error, Result};
use crate::short::Kind;
use crate::tx::{Row, Tx, Value};

/// How many characters of an id, after its prefix, [`find`] needs.
pub const SHORTEST_PREFIX: usize = 6;

const KIND: Kind = Kind {
    table: "sessions",
    prefix: SessionId::PREFIX,
    shortest: SHORTEST_PREFIX,
    id: "a session id",
    name: "a session",
};

/// How many ids an [`Error::Ambiguous`] lists.
const CANDIDATES: u32 = 10;

/// How many characters a title has at most.
pub const TITLE: usize = 80;

/// How much of what was said is looked at to make a title.
const TITLE_SOURCE: usize = 2000;

/// A session as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The session.
    pub id: SessionId,
    /// When its first event happened.
    pub created: Timestamp,
    /// When its last event happened.
    pub updated: Timestamp,
    /// The beginning of what was said first, on one line; empty until then.
    pub title: String,
    /// The folder it began in.
    pub cwd: PathBuf,
    /// The model that was asked last.
    pub model: Option<String>,
    /// What it did when its last event was written: `thinking`, `waiting`, `running` or `idle`. Of a
    /// session that no process drives, anything but `idle` means that it was interrupted.
    pub state: String,
    /// The sequence number of its last event, which the next append must name.
    pub last_seq: u64,
}

const COLUMNS: &str = "id, created, updated, title, cwd, model, state, last_seq";

/// The sessions, the one with the newest event first.
///
/// # Errors
/// What [`Tx::query`] fails with.
pub fn list(tx: &Tx<'_>, limit: u32) -> Result<Page<SessionRow>> {
    let rows = tx.query(
        &format!("SELECT {COLUMNS} FROM sessions ORDER BY updated DESC, id DESC LIMIT $1"),
        &[limit.into()],
        session,
    )?;
    let total = tx.one("SELECT count(*) FROM sessions", &[], |row| row.get(0))?;
    Ok(Page {
        rows,
        total: total.unwrap_or(0),
    })
}

/// The session with this id.
///
/// # Errors
/// [`Error::NotFound`].
pub fn get(tx: &Tx<'_>, id: SessionId) -> Result<SessionRow> {
    tx.one(
        &format!("SELECT {COLUMNS} FROM sessions WHERE id = $1"),
        &[id.to_string().into()],
        session,
    )?
    .ok_or_else(|| missing(&id.to_string()))
}

/// How many sessions are in each state.
///
/// # Errors
/// What [`Tx::query`] fails with.
pub fn by_state(tx: &Tx<'_>) -> Result<Vec<(String, u64)>> {
    tx.query(
        "SELECT state, count(*) FROM sessions GROUP BY state ORDER BY state",
        &[],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// How many tokens models have read and written in all sessions, as far as servers counted them.
/// Reads every answer there is.
///
/// # Errors
/// What [`Tx::query`] fails with.
pub fn tokens(tx: &Tx<'_>) -> Result<(u64, u64)> {
    let (mut input, mut output) = (0, 0);
    tx.query(
        "SELECT body FROM events WHERE kind = 'model_response'",
        &[],
        |row| {
            let body: String = row.get(0)?;
            if let Ok(Event::ModelResponse {
                usage: Some(usage), ..
            }) = serde_json::from_str(&body)
            {
                input += usage.prompt_tokens;
                output += usage.completion_tokens;
            }
            Ok(())
        },
    )?;
    Ok((input, output))
}

/// The session that `text` means: an id, or the beginning of one with at least
/// [`SHORTEST_PREFIX`] characters after `ws_` (which may be left out).
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Ambiguous`] with the newest ids that fit; [`Error::Invalid`] for
/// text that can't be the beginning of an id, or too short a one.
pub fn find(tx: &Tx<'_>, text: &str) -> Result<SessionRow> {
    let short = KIND.read(text)?;
    let total = KIND.count(tx, &short)?;
    let mut rows = tx.query(
        &format!(
            "SELECT {COLUMNS} FROM sessions WHERE id >= $1 AND id < $2
             ORDER BY updated DESC, id DESC LIMIT {CANDIDATES}"
        ),
        &short.range(),
        session,
    )?;
    if total > 1 {
        return Err(Error::Ambiguous {
            prefix: short.prefix,
            candidates: rows.into_iter().map(|row| row.id).collect(),
            total,
        });
    }
    rows.pop().ok_or_else(|| missing(&short.text))
}

pub(crate) fn missing(id: &str) -> Error {
    Error::NotFound {
        what: format!("session {id}"),
    }
}

fn session(row: &Row<'_>) -> Result<SessionRow> {
    let id = row.text(0)?;
    Ok(SessionRow {
        id: id.parse().map_err(|_not_an_id| Error::DamagedRow {
            what: "a row of the list of sessions".to_owned(),
            why: format!("its id is `{id}`"),
        })?,
        created: row.get(1)?,
        updated: row.get(2)?,
        title: row.get(3)?,
        cwd: row.text(4)?.into(),
        model: row.get(5)?,
        state: row.get(6)?,
        last_seq: row.get(7)?,
    })
}

/// Makes the row that `start` begins; false where the session exists.
pub(crate) fn begin(tx: &Tx<'_>, session: SessionId, start: &Recorded) -> Result<bool> {
    let Event::SessionStart { cwd, .. } = &start.event else {
        return Err(Error::invalid(format!(
            "the log of a session begins with session_start, not with {}",
            start.event.kind()
        )));
    };
    let cwd = cwd.to_str().ok_or_else(|| {
        Error::invalid(format!(
            "the working folder {} has a name that is not valid UTF-8, which is never stored",
            cwd.display()
        ))
    })?;
    let made = tx.execute(
        "INSERT INTO sessions (id, created, updated, title, cwd, model, state, last_seq)
         VALUES ($1, $2, $2, '', $3, NULL, 'idle', 0) ON CONFLICT (id) DO NOTHING",
        &[session.to_string().into(), start.ts.into(), cwd.into()],
    )?;
    Ok(made == 1)
}

/// Moves the row from `expected` to `last` with what `events` say of it; false where the row is not
/// at `expected`.
pub(crate) fn advance(
    tx: &Tx<'_>,
    session: SessionId,
    expected: u64,
    last: u64,
    events: &[Recorded],
) -> Result<bool> {
    let title = events.iter().find_map(|recorded| {
        let Event::UserTurn { text, .. } = &recorded.event else {
            return None;
        };
        Some(title(text))
    });
    let model = events.iter().rev().find_map(|recorded| {
        let Event::ModelRequest { model, .. } = &recorded.event else {
            return None;
        };
        Some(model.as_str())
    });
    let state = events
        .iter()
        .rev()
        .find_map(|recorded| state_after(&recorded.event));
    let updated = events.last().map(|recorded| recorded.ts);
    let changed = tx.execute(
        "UPDATE sessions
         SET last_seq = $3,
             updated = coalesce($4, updated),
             title = CASE WHEN title = '' THEN coalesce($5, '') ELSE title END,
             model = coalesce($6, model),
             state = coalesce($7, state)
         WHERE id = $1 AND last_seq = $2",
        &[
            session.to_string().into(),
            Value::unsigned(expected)?,
            Value::unsigned(last)?,
            updated.into(),
            title.into(),
            model.into(),
            state.map(word).into(),
        ],
    )?;
    Ok(changed == 1)
}

fn title(text: &str) -> String {
    let beginning: String = text.chars().take(TITLE_SOURCE).collect();
    let words: Vec<String> = plain(&beginning)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    shorten(&words.join(" "), TITLE)
}

/// What a session does after this event; `None` where the event leaves that as it was.
fn state_after(event: &Event) -> Option<State> {
    match event {
        Event::SessionStart { .. } => Some(State::Idle),
        Event::StateChange { state, .. } => Some(*state),
        Event::UserTurn { .. }
        | Event::ModelRequest {
            purpose: Purpose::Turn,
            ..
        } => Some(State::Thinking),
        Event::ModelResponse { calls, .. } if calls.is_empty() => None,
        Event::ModelResponse { .. }
        | Event::ToolPrepared { .. }
        | Event::Policy { .. }
        | Event::ToolInfo { .. }
        | Event::ApprovalResolved { .. }
        | Event::ToolOutputChunk { .. }
        | Event::ToolResult { .. } => Some(State::Running),
        Event::ApproveRequest { .. } => Some(State::Waiting),
        Event::Reasoning { .. }
        | Event::ToolProgress { .. }
        | Event::ToolLog { .. }
        | Event::McpDiscovery { .. }
        | Event::McpTool { .. }
        | Event::Mutation { .. }
        | Event::EpisodeStart { .. }
        | Event::Observation { .. }
        | Event::EpisodeEnd { .. }
        | Event::Content { .. }
        | Event::StreamEnd { .. }
        | Event::Status { .. }
        | Event::Notice { .. }
        | Event::ModelRequest {
            purpose: Purpose::Summary,
            ..
        }
        | Event::Compaction { .. }
        | Event::Error { .. }
        | Event::SessionEnd { .. } => None,
    }
}

const fn word(state: State) -> &'static str {
    match state {
        State::Thinking => "thinking",
        State::Waiting => "waiting",
        State::Running => "running",
        State::Idle => "idle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        assert_eq!(title("  Fix\n\tthe \u{1b}[1mbug\u{1b}[0m "), "Fix the bug");
        let long = title(&"word ".repeat(1000));
        assert_eq!(long.chars().count(), TITLE);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn a_state_is_stored_as_it_is_spelled_on_the_wire() {
        for state in [State::Thinking, State::Waiting, State::Running, State::Idle] {
            assert_eq!(
                serde_json::to_string(&state).unwrap(),
                format!("\"{}\"", word(state))
            );
        }
    }
}
