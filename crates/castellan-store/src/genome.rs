//! The versions of the part of the harness that may evolve, and the proposals to change it.
//!
//! The store keeps documents and compares hashes; what a document means, and which changes are
//! sound, is not its business. Versions are only ever added: the newest one holds.

use castellan_core::Timestamp;
use castellan_core::id::ProposalId;

use crate::Page;
use crate::error::{Error, Result};
use crate::tx::{Row, Tx, Value};

/// How many proposals are open at once.
pub const OPEN_LIMIT: u64 = 200;

/// A document and the hash it is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// JSON text.
    pub text: String,
    /// SHA-256 of `text` in hexadecimal.
    pub hash: String,
}

/// How a version came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is what the program began with.
    Default,
    /// This proposal was accepted.
    Mutation(ProposalId),
    /// The document of this version holds again.
    Rollback(u64),
}

/// One version.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// From 1.
    pub version: u64,
    /// What it says.
    pub document: Document,
    /// Since when.
    pub at: Timestamp,
    /// Who brought it about.
    pub author: String,
    /// How far it is from version 1, from 0 to 1.
    pub drift: f64,
    /// How it came to be.
    pub origin: Origin,
    /// Why.
    pub reason: String,
}

/// What was decided about a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing yet.
    Open,
    /// It became this version.
    Accepted(u64),
    /// It was rejected.
    Rejected,
}

/// Who decided about a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Its id.
    pub id: ProposalId,
    /// When it was made.
    pub at: Timestamp,
    /// Who made it.
    pub author: String,
    /// The version it is made against.
    pub base_version: u64,
    /// The hash of that version's document.
    pub base_hash: String,
    /// What it changes, a JSON pointer.
    pub target: String,
    /// How, a JSON merge patch as text.
    pub change: String,
    /// Why.
    pub rationale: String,
    /// What the document would be.
    pub document: Document,
    /// How far that is from its base, from 0 to 1.
    pub step_drift: f64,
    /// How far that is from version 1, from 0 to 1.
    pub drift: f64,
    /// What was decided.
    pub state: State,
    /// Who decided, unless it is open.
    pub decided: Option<Decided>,
}

/// What a decision came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The proposal is this version from now on.
    Accepted(Version),
    /// The proposal is rejected.
    Rejected(Proposal),
    /// Nothing was decided: another version holds than the one the proposal was made against.
    Stale(Version),
    /// Nothing was decided: it had been before.
    Before(Proposal),
}

const VERSION: &str =
    "version, hash, document, at, author, drift, origin, proposal, restored, reason";
const PROPOSAL: &str = "id, at, author, base_version, base_hash, target, change, rationale, \
     document, hash, step_drift, drift, state, decided, decided_by, reason, version";

/// The version that holds; `None` as long as it is the one the program began with and nothing was
/// ever proposed.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no version.
pub fn current(tx: &Tx<'_>) -> Result<Option<Version>> {
    tx.one(
        &format!("SELECT {VERSION} FROM genome ORDER BY version DESC LIMIT 1"),
        &[],
        version,
    )
}

/// One version.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no version.
pub fn get(tx: &Tx<'_>, number: u64) -> Result<Option<Version>> {
    tx.one(
        &format!("SELECT {VERSION} FROM genome WHERE version = $1"),
        &[Value::unsigned(number)?],
        version,
    )
}

/// The versions, newest first, with how many there are.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no version.
pub fn log(tx: &Tx<'_>, limit: u32) -> Result<Page<Version>> {
    let rows = tx.query(
        &format!("SELECT {VERSION} FROM genome ORDER BY version DESC LIMIT $1"),
        &[limit.into()],
        version,
    )?;
    let total = count(tx, "SELECT count(*) FROM genome")?;
    Ok(Page { rows, total })
}

/// The version that holds, stored now as version 1 with what `first` says where there is none.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no version.
pub fn begin(tx: &Tx<'_>, first: &Document, at: Timestamp) -> Result<Version> {
    if let Some(version) = current(tx)? {
        return Ok(version);
    }
    let version = Version {
        version: 1,
        document: first.clone(),
        at,
        author: String::new(),
        drift: 0.0,
        origin: Origin::Default,
        reason: String::new(),
    };
    add(tx, &version)?;
    Ok(version)
}

fn add(tx: &Tx<'_>, version: &Version) -> Result<()> {
    let (origin, proposal, restored) = match &version.origin {
        Origin::Default => ("default", None, None),
        Origin::Mutation(id) => ("mutation", Some(id.to_string()), None),
        Origin::Rollback(to) => ("rollback", None, Some(Value::unsigned(*to)?)),
    };
    tx.execute(
        "INSERT INTO genome
            (version, hash, document, at, author, drift, origin, proposal, restored, reason)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            Value::unsigned(version.version)?,
            (&version.document.hash).into(),
            (&version.document.text).into(),
            version.at.into(),
            (&version.author).into(),
            version.drift.into(),
            origin.into(),
            proposal.into(),
            restored.unwrap_or(Value::Null),
            (&version.reason).into(),
        ],
    )
    .map(drop)
}

/// Keeps an open proposal.
///
/// # Errors
/// [`Error::Limit`] for one too many.
pub fn propose(tx: &Tx<'_>, proposal: &Proposal) -> Result<()> {
    let open = count(tx, "SELECT count(*) FROM proposals WHERE state = 'open'")?;
    if open >= OPEN_LIMIT {
        return Err(Error::Limit {
            what: format!("{OPEN_LIMIT} proposals are open, and somebody has to decide about them"),
        });
    }
    tx.execute(
        "INSERT INTO proposals
            (id, at, author, base_version, base_hash, target, change, rationale, document, hash,
             step_drift, drift, state)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'open')",
        &[
            proposal.id.to_string().into(),
            proposal.at.into(),
            (&proposal.author).into(),
            Value::unsigned(proposal.base_version)?,
            (&proposal.base_hash).into(),
            (&proposal.target).into(),
            (&proposal.change).into(),
            (&proposal.rationale).into(),
            (&proposal.document.text).into(),
            (&proposal.document.hash).into(),
            proposal.step_drift.into(),
            proposal.drift.into(),
        ],
    )
    .map(drop)
}

/// One proposal.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no proposal.
pub fn proposal(tx: &Tx<'_>, id: ProposalId) -> Result<Option<Proposal>> {
    tx.one(
        &format!("SELECT {PROPOSAL} FROM proposals WHERE id = $1"),
        &[id.to_string().into()],
        read_proposal,
    )
}

/// The open proposals, newest first, with how many there are.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no proposal.
pub fn open(tx: &Tx<'_>, limit: u32) -> Result<Page<Proposal>> {
    let rows = tx.query(
        &format!(
            "SELECT {PROPOSAL} FROM proposals WHERE state = 'open'
             ORDER BY at DESC, id DESC LIMIT $1"
        ),
        &[limit.into()],
        read_proposal,
    )?;
    let total = count(tx, "SELECT count(*) FROM proposals WHERE state = 'open'")?;
    Ok(Page { rows, total })
}

/// Makes a proposal the newest version, if the document it was made against holds.
///
/// # Errors
/// [`Error::NotFound`].
pub fn accept(tx: &Tx<'_>, id: ProposalId, decided: &Decided) -> Result<Outcome> {
    let proposal = known(tx, id)?;
    if proposal.state != State::Open {
        return Ok(Outcome::Before(proposal));
    }
    let Some(current) = current(tx)? else {
        return Err(Error::NotFound {
            what: format!(
                "version {} that {id} was made against",
                proposal.base_version
            ),
        });
    };
    if current.document.hash != proposal.base_hash {
        return Ok(Outcome::Stale(current));
    }
    let version = Version {
        version: current.version + 1,
        document: proposal.document,
        at: decided.at,
        author: decided.by.clone(),
        drift: proposal.drift,
        origin: Origin::Mutation(id),
        reason: decided.reason.clone(),
    };
    add(tx, &version)?;
    settle(tx, id, Some(version.version), decided)?;
    Ok(Outcome::Accepted(version))
}

/// Keeps that a proposal was rejected.
///
/// # Errors
/// [`Error::NotFound`].
pub fn reject(tx: &Tx<'_>, id: ProposalId, decided: &Decided) -> Result<Outcome> {
    let mut proposal = known(tx, id)?;
    if proposal.state != State::Open {
        return Ok(Outcome::Before(proposal));
    }
    settle(tx, id, None, decided)?;
    proposal.state = State::Rejected;
    proposal.decided = Some(decided.clone());
    Ok(Outcome::Rejected(proposal))
}

/// Makes the document of an earlier version hold again, as a new version; `None` where it is what
/// holds already.
///
/// # Errors
/// [`Error::NotFound`].
pub fn roll_back(tx: &Tx<'_>, to: u64, decided: &Decided) -> Result<Option<Version>> {
    let earlier = get(tx, to)?.ok_or_else(|| Error::NotFound {
        what: format!("version {to} of the genome"),
    })?;
    let current = current(tx)?.map_or_else(|| earlier.clone(), |current| current);
    if current.document.hash == earlier.document.hash {
        return Ok(None);
    }
    let version = Version {
        version: current.version + 1,
        document: earlier.document,
        at: decided.at,
        author: decided.by.clone(),
        drift: earlier.drift,
        origin: Origin::Rollback(to),
        reason: decided.reason.clone(),
    };
    add(tx, &version)?;
    Ok(Some(version))
}

fn known(tx: &Tx<'_>, id: ProposalId) -> Result<Proposal> {
    proposal(tx, id)?.ok_or_else(|| Error::NotFound {
        what: format!("proposal {id}"),
    })
}

fn settle(tx: &Tx<'_>, id: ProposalId, version: Option<u64>, decided: &Decided) -> Result<()> {
    let state = if version.is_some() {
        "accepted"
    } else {
        "rejected"
    };
    tx.execute(
        "UPDATE proposals SET state = $2, decided = $3, decided_by = $4, reason = $5, version = $6
         WHERE id = $1",
        &[
            id.to_string().into(),
            state.into(),
            decided.at.into(),
            (&decided.by).into(),
            (&decided.reason).into(),
            version
                .map(Value::unsigned)
                .transpose()?
                .unwrap_or(Value::Null),
        ],
    )
    .map(drop)
}

fn count(tx: &Tx<'_>, sql: &str) -> Result<u64> {
    Ok(tx.one(sql, &[], |row| row.get(0))?.unwrap_or(0))
}

fn version(row: &Row<'_>) -> Result<Version> {
    let number: u64 = row.get(0)?;
    let damaged = |why: &str| Error::DamagedRow {
        what: format!("version {number} of the genome"),
        why: why.to_owned(),
    };
    let (proposal, restored): (Option<String>, Option<u64>) = (row.get(7)?, row.get(8)?);
    let origin = match (row.text(6)?, proposal, restored) {
        ("default", None, None) => Origin::Default,
        ("mutation", Some(id), None) => Origin::Mutation(
            id.parse()
                .map_err(|_error| damaged("its proposal has no proposal's id"))?,
        ),
        ("rollback", None, Some(to)) => Origin::Rollback(to),
        _ => return Err(damaged("it does not say how it came to be")),
    };
    Ok(Version {
        version: number,
        document: Document {
            hash: row.get(1)?,
            text: row.get(2)?,
        },
        at: row.get(3)?,
        author: row.get(4)?,
        drift: row.get(5)?,
        origin,
        reason: row.get(9)?,
    })
}

fn read_proposal(row: &Row<'_>) -> Result<Proposal> {
    let id: String = row.get(0)?;
    let damaged = |why: &str| Error::DamagedRow {
        what: format!("the proposal {id}"),
        why: why.to_owned(),
    };
    let accepted: Option<u64> = row.get(16)?;
    let state = match (row.text(12)?, accepted) {
        ("open", None) => State::Open,
        ("accepted", Some(version)) => State::Accepted(version),
        ("rejected", None) => State::Rejected,
        _ => return Err(damaged("its state is none")),
    };
    let decided: (Option<Timestamp>, Option<String>, Option<String>) =
        (row.get(13)?, row.get(14)?, row.get(15)?);
    let decided = match decided {
        (Some(at), Some(by), Some(reason)) => Some(Decided { at, by, reason }),
        _ => None,
    };
    Ok(Proposal {
        id: id.parse().map_err(|_error| damaged("its id is none"))?,
        at: row.get(1)?,
        author: row.get(2)?,
        base_version: row.get(3)?,
        base_hash: row.get(4)?,
        target: row.get(5)?,
        change: row.get(6)?,
        rationale: row.get(7)?,
        document: Document {
            text: row.get(8)?,
            hash: row.get(9)?,
        },
        step_drift: row.get(10)?,
        drift: row.get(11)?,
        state,
        decided,
    })
}
