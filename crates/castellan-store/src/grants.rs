//! Permissions that were given for good, where they hold, and how often they were used.
//!
//! A grant is stored once per place: giving it again changes nothing. Revoking removes the row; that
//! it was given and revoked stays in the audit chain, where the caller writes both.
//!
//! A row that can't be read permits nothing, and hides no other: it is listed as damaged, and can
//! be taken away like any other.

use std::path::{Path, PathBuf};

use castellan_core::event::Scope;
use castellan_core::id::GrantId;
use castellan_core::{Grant, SessionId, Timestamp};

use crate::error::{Error, Result};
use crate::short::Kind;
use crate::tx::{Row, Tx, Value};

/// How many grants of one place are looked at when a call is judged. Nobody has as many; where
/// someone has, the newest count, and a call that only an older one covers asks.
pub const CONSIDERED: u32 = 1000;

/// How many characters of an id, after its prefix, [`find`] needs.
pub const SHORTEST_PREFIX: usize = 4;

const KIND: Kind = Kind {
    table: "grants",
    prefix: GrantId::PREFIX,
    shortest: SHORTEST_PREFIX,
    id: "a grant's id",
    name: "a grant",
};

/// Where a grant holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this session.
    Session(SessionId),
    /// In every session that works in this folder, which must be resolved: two spellings of one
    /// folder are one project, and a folder inside it is another.
    Project(PathBuf),
    /// In every session.
    Everywhere,
}

impl Place {
    /// How far that reaches.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        match self {
            Self::Session(_) => Scope::Session,
            Self::Project(_) => Scope::Project,
            Self::Everywhere => Scope::Everywhere,
        }
    }

    fn text(&self) -> Result<String> {
        match self {
            Self::Session(id) => Ok(id.to_string()),
            Self::Project(folder) => project(folder),
            Self::Everywhere => Ok(String::new()),
        }
    }

    fn read(scope: &str, place: String) -> Option<Self> {
        match scope {
            "session" => place.parse().ok().map(Self::Session),
            "project" => Some(Self::Project(place.into())),
            "everywhere" => Some(Self::Everywhere),
            _ => None,
        }
    }
}

/// The text a folder is stored as.
fn project(folder: &Path) -> Result<String> {
    let text = folder.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Error::invalid(format!(
            "the folder {} has a name that is not valid UTF-8, so no permission is kept for it",
            folder.display()
        ))
    })
}

/// A permission that was given for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRow {
    /// Its id.
    pub id: GrantId,
    /// What it permits.
    pub grant: Grant,
    /// Where it holds.
    pub place: Place,
    /// Who gave it.
    pub who: String,
    /// The surface the call came from that it was given for.
    pub surface: String,
    /// The session it was given in.
    pub session: Option<SessionId>,
    /// When it was given.
    pub given: Timestamp,
    /// How many calls it has let through.
    pub uses: u64,
    /// When the last of them was.
    pub last_used: Option<Timestamp>,
}

impl GrantRow {
    /// What it permits and where, in words: `bash:cargo test` in every session.
    #[must_use]
    pub fn described(&self) -> String {
        let place = match &self.place {
            Place::Session(id) => format!("in session {id}"),
            Place::Project(folder) => format!("in {}", folder.display()),
            Place::Everywhere => "everywhere".to_owned(),
        };
        format!("`{}` {place}", self.grant)
    }
}

/// A row that is no grant: no version of this program writes such a one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the grant {id} can't be read and permits nothing: {why}")]
pub struct Damaged {
    /// Its id, as it stands there.
    pub id: String,
    /// What was found in it.
    pub why: String,
}

/// What a row turned out to be.
pub type Read = std::result::Result<GrantRow, Damaged>;

/// Grants, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Those that can be read.
    pub rows: Vec<GrantRow>,
    /// The others.
    pub damaged: Vec<Damaged>,
    /// How many there are of both without a limit.
    pub total: u64,
}

/// Calls that a grant let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The grant.
    pub id: GrantId,
    /// How many calls.
    pub calls: u64,
    /// When the last of them was.
    pub last: Timestamp,
}

/// Which grants [`list`] shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those that hold in this folder's sessions and not elsewhere.
    pub project: Option<PathBuf>,
    /// Only those that hold in this session and not elsewhere.
    pub session: Option<SessionId>,
}

const COLUMNS: &str = "id, text, scope, place, who, surface, session, given, uses, last_used";

/// Keeps a grant; false where the same one is kept for the same place already, and stays as it is.
///
/// # Errors
/// [`Error::Invalid`] for a folder whose name is not UTF-8.
pub fn give(tx: &Tx<'_>, row: &GrantRow) -> Result<bool> {
    let made = tx.execute(
        "INSERT INTO grants (id, text, scope, place, who, surface, session, given, uses, last_used)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, NULL)
         ON CONFLICT (scope, place, text) DO NOTHING",
        &[
            row.id.to_string().into(),
            row.grant.to_string().into(),
            row.place.scope().as_str().into(),
            row.place.text()?.into(),
            (&row.who).into(),
            (&row.surface).into(),
            row.session.map(|id| id.to_string()).into(),
            row.given.into(),
        ],
    )?;
    Ok(made == 1)
}

/// The grants that hold for a call of `session` in the resolved folder `project`, newest first, at
/// most [`CONSIDERED`] of each place. `total` is how many these are.
///
/// # Errors
/// What [`Tx::query`] fails with.
pub fn in_force(tx: &Tx<'_>, session: Option<SessionId>, folder: Option<&Path>) -> Result<Grants> {
    let mut places = vec![(Scope::Everywhere, String::new())];
    if let Some(folder) = folder.and_then(Path::to_str) {
        places.push((Scope::Project, folder.to_owned()));
    }
    if let Some(session) = session {
        places.push((Scope::Session, session.to_string()));
    }
    let mut rows = Vec::new();
    for (scope, place) in places {
        rows.extend(tx.query(
            &format!(
                "SELECT {COLUMNS} FROM grants WHERE scope = $1 AND place = $2
                 ORDER BY given DESC, id DESC LIMIT $3"
            ),
            &[scope.as_str().into(), place.into(), CONSIDERED.into()],
            read,
        )?);
    }
    let total = rows.len() as u64;
    Ok(Grants::of(rows, total))
}

/// The grants that pass `filter`, newest first, with how many there are in all.
///
/// # Errors
/// [`Error::Invalid`] for a filter that nothing can pass.
pub fn list(tx: &Tx<'_>, filter: &Filter, limit: u32) -> Result<Grants> {
    let [scope, place] = condition(filter)?;
    let rows = tx.query(
        &format!(
            "SELECT {COLUMNS} FROM grants
             WHERE CAST($1 AS TEXT) IS NULL OR (scope = $1 AND place = $2)
             ORDER BY given DESC, id DESC LIMIT $3"
        ),
        &[scope.clone(), place.clone(), limit.into()],
        read,
    )?;
    let total = tx.one(
        "SELECT count(*) FROM grants WHERE CAST($1 AS TEXT) IS NULL OR (scope = $1 AND place = $2)",
        &[scope, place],
        |row| row.get(0),
    )?;
    Ok(Grants::of(rows, total.unwrap_or(0)))
}

impl Grants {
    fn of(read: Vec<Read>, total: u64) -> Self {
        let mut grants = Self {
            total,
            ..Self::default()
        };
        for row in read {
            match row {
                Ok(row) => grants.rows.push(row),
                Err(damaged) => grants.damaged.push(damaged),
            }
        }
        grants
    }
}

/// The scope and place a filter means, or nothing for all.
fn condition(filter: &Filter) -> Result<[Value<'static>; 2]> {
    let place = match (&filter.project, filter.session) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid(
                "a grant holds in a session or in a project, so none is in both",
            ));
        }
        (Some(folder), None) => Place::Project(folder.clone()),
        (None, Some(session)) => Place::Session(session),
        (None, None) => return Ok([Value::Null, Value::Null]),
    };
    Ok([place.scope().as_str().into(), place.text()?.into()])
}

/// The grant that `text` means: an id, or the beginning of one with at least [`SHORTEST_PREFIX`]
/// characters after `grant_` (which may be left out).
///
/// # Errors
/// [`Error::NotFound`]; [`Error::AmbiguousGrant`]; [`Error::Invalid`] for text that can't be the
/// beginning of an id, or too short a one.
pub fn find(tx: &Tx<'_>, text: &str) -> Result<Read> {
    let short = KIND.read(text)?;
    match KIND.count(tx, &short)? {
        0 | 1 => {}
        total => {
            return Err(Error::AmbiguousGrant {
                prefix: short.prefix,
                total,
            });
        }
    }
    let row = tx.one(
        &format!("SELECT {COLUMNS} FROM grants WHERE id >= $1 AND id < $2"),
        &short.range(),
        read,
    )?;
    row.ok_or_else(|| Error::NotFound {
        what: format!("grant {}", short.text),
    })
}

/// Takes a grant back; false where it was gone already.
///
/// # Errors
/// What [`Tx::execute`] fails with.
pub fn revoke(tx: &Tx<'_>, id: GrantId) -> Result<bool> {
    let gone = tx.execute("DELETE FROM grants WHERE id = $1", &[id.to_string().into()])?;
    Ok(gone == 1)
}

/// Takes away a row that can't be read; false where it was gone already.
///
/// # Errors
/// What [`Tx::execute`] fails with.
pub fn discard(tx: &Tx<'_>, damaged: &Damaged) -> Result<bool> {
    let gone = tx.execute("DELETE FROM grants WHERE id = $1", &[(&damaged.id).into()])?;
    Ok(gone == 1)
}

/// Adds to how often grants were used. One that was revoked meanwhile is passed over.
///
/// # Errors
/// What [`Tx::execute`] fails with.
pub fn count_uses(tx: &Tx<'_>, uses: &[Use]) -> Result<()> {
    for one in uses {
        tx.execute(
            "UPDATE grants
             SET uses = uses + $2,
                 last_used = CASE WHEN last_used > $3 THEN last_used ELSE $3 END
             WHERE id = $1",
            &[
                one.id.to_string().into(),
                Value::unsigned(one.calls)?,
                one.last.into(),
            ],
        )?;
    }
    Ok(())
}

/// A row as it is, or what is wrong with it.
fn read(row: &Row<'_>) -> Result<Read> {
    Ok(grant(row).map_err(|error| Damaged {
        id: row.get(0).unwrap_or_default(),
        why: match error {
            Error::DamagedRow { what, why } => format!("{what}: {why}"),
            other => other.to_string(),
        },
    }))
}

fn grant(row: &Row<'_>) -> Result<GrantRow> {
    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(what: &str, text: &str) -> Result<T> {
        text.parse().map_err(|error: T::Err| Error::DamagedRow {
            what: what.to_owned(),
            why: error.to_string(),
        })
    }
    let scope = row.text(2)?;
    let place = Place::read(scope, row.get(3)?).ok_or_else(|| Error::DamagedRow {
        what: "its place".to_owned(),
        why: format!("it is no {scope}"),
    })?;
    let session: Option<String> = row.get(6)?;
    Ok(GrantRow {
        id: parsed("its id", row.text(0)?)?,
        grant: parsed("its text", row.text(1)?)?,
        place,
        who: row.get(4)?,
        surface: row.get(5)?,
        session: session.map(|id| parsed("its session", &id)).transpose()?,
        given: row.get(7)?,
        uses: row.get(8)?,
        last_used: row.get(9)?,
    })
}
