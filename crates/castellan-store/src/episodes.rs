//! Episodes: a row for each, with what it was to do and what it came to. What happened in it stands
//! in its trace.

use castellan_core::Timestamp;
use castellan_core::id::EpisodeId;

use crate::Page;
use crate::error::{Error, Result};
use crate::tx::{Row, Tx, Value};

/// How many of the newest episodes are kept.
pub const KEPT: u64 = 1_000;

/// An episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Its id.
    pub id: EpisodeId,
    /// The user who ran it.
    pub owner: String,
    /// What was to be reached.
    pub goal: String,
    /// What acted.
    pub plugin: String,
    /// What ids and chances came from.
    pub seed: u64,
    /// What else it ran with, as JSON.
    pub settings: String,
    /// The version of the program that ran it.
    pub version: String,
    /// The file it is traced in.
    pub trace: String,
    /// When it began.
    pub began: Timestamp,
    /// What it came to; `None` while it runs, and where it was killed.
    pub end: Option<End>,
}

/// What an episode came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// When.
    pub at: Timestamp,
    /// How.
    pub how: How,
    /// How many steps it took.
    pub steps: u64,
    /// How many calls were made.
    pub calls: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Why, in a sentence.
    pub reason: String,
}

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The goal was reached.
    Reached,
    /// It was not.
    NotReached,
    /// The plugin failed.
    PluginFailed,
    /// What happened could no longer be recorded.
    Untraced,
}

impl How {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Reached,
        Self::NotReached,
        Self::PluginFailed,
        Self::Untraced,
    ];

    /// The word that is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::NotReached => "not_reached",
            Self::PluginFailed => "plugin_failed",
            Self::Untraced => "untraced",
        }
    }
}

const COLUMNS: &str = "id, owner, goal, plugin, seed, settings, version, trace, began, ended, how, \
     steps, calls, failed, reason";

/// Notes that an episode begins, and forgets the oldest beyond [`KEPT`].
///
/// # Errors
/// What [`Tx::execute`] fails with.
pub fn begin(tx: &Tx<'_>, episode: &Episode) -> Result<()> {
    tx.execute(
        "INSERT INTO episodes (id, owner, goal, plugin, seed, settings, version, trace, began)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            episode.id.to_string().into(),
            (&episode.owner).into(),
            (&episode.goal).into(),
            (&episode.plugin).into(),
            episode.seed.to_string().into(),
            (&episode.settings).into(),
            (&episode.version).into(),
            (&episode.trace).into(),
            episode.began.into(),
        ],
    )?;
    tx.execute(
        "DELETE FROM episodes WHERE id IN
         (SELECT id FROM episodes ORDER BY began DESC, id DESC LIMIT 100 OFFSET $1)",
        &[Value::unsigned(KEPT)?],
    )?;
    Ok(())
}

/// Notes what it came to; whether it was on record and had not ended.
///
/// # Errors
/// What [`Tx::execute`] fails with.
pub fn end(tx: &Tx<'_>, id: EpisodeId, end: &End) -> Result<bool> {
    let changed = tx.execute(
        "UPDATE episodes
         SET ended = $2, how = $3, steps = $4, calls = $5, failed = $6, reason = $7
         WHERE id = $1 AND ended IS NULL",
        &[
            id.to_string().into(),
            end.at.into(),
            end.how.as_str().into(),
            Value::unsigned(end.steps)?,
            Value::unsigned(end.calls)?,
            Value::unsigned(end.failed)?,
            (&end.reason).into(),
        ],
    )?;
    Ok(changed == 1)
}

/// The episode of this id.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no episode.
pub fn get(tx: &Tx<'_>, id: EpisodeId) -> Result<Option<Episode>> {
    tx.one(
        &format!("SELECT {COLUMNS} FROM episodes WHERE id = $1"),
        &[id.to_string().into()],
        episode,
    )
}

/// The newest episodes of this owner, with how many there are.
///
/// # Errors
/// As [`get`].
pub fn list(tx: &Tx<'_>, owner: &str, limit: u32) -> Result<Page<Episode>> {
    let rows = tx.query(
        &format!(
            "SELECT {COLUMNS} FROM episodes WHERE owner = $1 ORDER BY began DESC, id DESC LIMIT $2"
        ),
        &[owner.into(), limit.into()],
        episode,
    )?;
    let total = tx.one(
        "SELECT count(*) FROM episodes WHERE owner = $1",
        &[owner.into()],
        |row| row.get(0),
    )?;
    Ok(Page {
        rows,
        total: total.unwrap_or(0),
    })
}

fn episode(row: &Row<'_>) -> Result<Episode> {
    let name: String = row.get(0)?;
    let damaged = |why: String| Error::DamagedRow {
        what: format!("the row of episode {name}"),
        why,
    };
    let seed: String = row.get(4)?;
    let ended: Option<Timestamp> = row.get(9)?;
    let end = match ended {
        None => None,
        Some(at) => {
            let word: String = row.get(10)?;
            let how = How::ALL.into_iter().find(|how| how.as_str() == word);
            Some(End {
                at,
                how: how.ok_or_else(|| damaged(format!("`{word}` is no end")))?,
                steps: row.get(11)?,
                calls: row.get(12)?,
                failed: row.get(13)?,
                reason: row.get(14)?,
            })
        }
    };
    Ok(Episode {
        id: name
            .parse()
            .map_err(|_no_id| damaged("its id is none".to_owned()))?,
        owner: row.get(1)?,
        goal: row.get(2)?,
        plugin: row.get(3)?,
        seed: seed
            .parse()
            .map_err(|_no_number| damaged(format!("`{seed}` is no seed")))?,
        settings: row.get(5)?,
        version: row.get(6)?,
        trace: row.get(7)?,
        began: row.get(8)?,
        end,
    })
}
