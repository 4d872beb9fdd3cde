//! Memories: text kept under a name until somebody removes it.
//!
//! The key is scope, owner and name; saving under a key that exists replaces what was there.

use castellan_core::{SessionId, Timestamp};

use crate::Page;
use crate::error::{Error, Result};
use crate::tx::{Row, Tx, Value};

/// How many memories one owner has in one scope.
pub const OWNER_LIMIT: u64 = 10_000;

/// Whose a memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Everybody's.
    Global,
    /// This session's.
    Workstream(SessionId),
    /// This user's, in every session.
    User(String),
}

impl Place {
    /// The word for how far that reaches.
    #[must_use]
    pub const fn scope(&self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Workstream(_) => "workstream",
            Self::User(_) => "user",
        }
    }

    fn owner(&self) -> String {
        match self {
            Self::Global => String::new(),
            Self::Workstream(id) => id.to_string(),
            Self::User(name) => name.clone(),
        }
    }

    fn params(&self) -> [Value<'static>; 2] {
        [self.scope().into(), self.owner().into()]
    }
}

/// What a memory is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// What a person prefers.
    User,
    /// What is known of the work.
    #[default]
    Project,
    /// What was said about how things were done.
    Feedback,
    /// Where to look something up.
    Reference,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::User, Self::Project, Self::Feedback, Self::Reference];

    /// The word it is stored as.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Feedback => "feedback",
            Self::Reference => "reference",
        }
    }
}

/// Something that is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Whose it is.
    pub place: Place,
    /// What it is found by.
    pub name: String,
    /// What is remembered.
    pub content: String,
    /// One line on what it is good for; may be empty.
    pub description: String,
    /// What it is about.
    pub kind: Kind,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Who saved it last.
    pub author: String,
    /// When it was saved first.
    pub created: Timestamp,
    /// When it was saved last.
    pub updated: Timestamp,
}

/// What saving came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// There was nothing under this key.
    New,
    /// It took the place of what was there.
    Replaced,
}

const COLUMNS: &str =
    "scope, owner, name, content, description, kind, tags, author, created, updated";

/// Saves a memory under its key. `created` counts only for a new one.
///
/// # Errors
/// [`Error::Limit`] for one too many.
pub fn save(tx: &Tx<'_>, memory: &Memory) -> Result<Saved> {
    let known = get(tx, &memory.place, &memory.name)?;
    if known.is_none() && count(tx, &memory.place)? >= OWNER_LIMIT {
        return Err(Error::Limit {
            what: format!("there are at most {OWNER_LIMIT} memories of one owner in one scope"),
        });
    }
    let tags = serde_json::Value::from(memory.tags.clone()).to_string();
    let [scope, owner] = memory.place.params();
    tx.execute(
        "INSERT INTO memories
            (scope, owner, name, content, description, kind, tags, author, created, updated)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (scope, owner, name) DO UPDATE
         SET content = $4, description = $5, kind = $6, tags = $7, author = $8, updated = $10",
        &[
            scope,
            owner,
            (&memory.name).into(),
            (&memory.content).into(),
            (&memory.description).into(),
            memory.kind.as_str().into(),
            tags.into(),
            (&memory.author).into(),
            memory.created.into(),
            memory.updated.into(),
        ],
    )?;
    Ok(if known.is_some() {
        Saved::Replaced
    } else {
        Saved::New
    })
}

/// What is remembered under a key.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no memory.
pub fn get(tx: &Tx<'_>, place: &Place, name: &str) -> Result<Option<Memory>> {
    let [scope, owner] = place.params();
    tx.one(
        &format!("SELECT {COLUMNS} FROM memories WHERE scope = $1 AND owner = $2 AND name = $3"),
        &[scope, owner, name.into()],
        memory,
    )
}

/// Removes what is remembered under a key; false where there was nothing.
///
/// # Errors
/// What [`Tx::execute`] fails with.
pub fn remove(tx: &Tx<'_>, place: &Place, name: &str) -> Result<bool> {
    let [scope, owner] = place.params();
    let gone = tx.execute(
        "DELETE FROM memories WHERE scope = $1 AND owner = $2 AND name = $3",
        &[scope, owner, name.into()],
    )?;
    Ok(gone == 1)
}

/// The memories of a place, most recently saved first, with how many there are.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no memory.
pub fn list(tx: &Tx<'_>, place: &Place, limit: u32) -> Result<Page<Memory>> {
    let [scope, owner] = place.params();
    let rows = tx.query(
        &format!(
            "SELECT {COLUMNS} FROM memories WHERE scope = $1 AND owner = $2
             ORDER BY updated DESC, name LIMIT $3"
        ),
        &[scope, owner, limit.into()],
        memory,
    )?;
    let total = count(tx, place)?;
    Ok(Page { rows, total })
}

/// The names of a place's memories, most recently saved first, with how many there are.
///
/// # Errors
/// What [`Tx::query`] fails with.
pub fn names(tx: &Tx<'_>, place: &Place, limit: u32) -> Result<Page<String>> {
    let [scope, owner] = place.params();
    let rows = tx.query(
        "SELECT name FROM memories WHERE scope = $1 AND owner = $2
         ORDER BY updated DESC, name LIMIT $3",
        &[scope, owner, limit.into()],
        |row| row.get(0),
    )?;
    let total = count(tx, place)?;
    Ok(Page { rows, total })
}

fn count(tx: &Tx<'_>, place: &Place) -> Result<u64> {
    let total = tx.one(
        "SELECT count(*) FROM memories WHERE scope = $1 AND owner = $2",
        &place.params(),
        |row| row.get(0),
    )?;
    Ok(total.unwrap_or(0))
}

fn memory(row: &Row<'_>) -> Result<Memory> {
    let name: String = row.get(2)?;
    let damaged = |why: &str| Error::DamagedRow {
        what: format!("the memory `{name}`"),
        why: why.to_owned(),
    };
    let place = match (row.text(0)?, row.text(1)?) {
        ("global", _) => Place::Global,
        ("user", user) => Place::User(user.to_owned()),
        ("workstream", id) => Place::Workstream(
            id.parse()
                .map_err(|_error| damaged("its owner is no session"))?,
        ),
        _ => return Err(damaged("its scope is none")),
    };
    let kind = row.text(5)?;
    let kind = Kind::ALL.into_iter().find(|known| known.as_str() == kind);
    let tags = serde_json::from_str(row.text(6)?);
    Ok(Memory {
        place,
        content: row.get(3)?,
        description: row.get(4)?,
        kind: kind.ok_or_else(|| damaged("its kind is none"))?,
        tags: tags.map_err(|_error| damaged("its tags are no list of text"))?,
        author: row.get(7)?,
        created: row.get(8)?,
        updated: row.get(9)?,
        name,
    })
}
