//! The versions of the genome: which one holds, what they were, and the way back.

use castellan_core::event::MutationAction;
use castellan_core::{Event, Timestamp};
use castellan_store::genome::{self as stored, Decided, Document, Origin, Proposal};
use castellan_store::{Error, LateStore, Page, Result, Tx};

use super::Genome;
use super::change;

/// How many open proposals [`log`] lists.
const OPEN: u32 = 50;

/// One version of the genome.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// What it says.
    pub genome: Genome,
    /// How it came to be. Its document is the genome as text.
    pub stored: stored::Version,
}

/// The versions, and what is proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// The versions, newest first, with how many there are.
    pub versions: Page<stored::Version>,
    /// The proposals nobody decided about yet, newest first, with how many there are.
    pub open: Page<Proposal>,
}

/// The version that holds.
///
/// # Errors
/// What the store fails with; [`Error::DamagedRow`] for a document this program can't read.
pub async fn current(store: &LateStore) -> Result<Version> {
    store.glance(holding).await
}

/// The version `number`, `None` where there is none.
///
/// # Errors
/// As [`current`].
pub async fn version(store: &LateStore, number: u64) -> Result<Option<Version>> {
    store.read(move |tx| numbered(tx, number)).await
}

/// The newest `limit` versions, and the open proposals.
///
/// # Errors
/// As [`current`].
pub async fn log(store: &LateStore, limit: u32) -> Result<Log> {
    let work = move |tx: &Tx<'_>| {
        let mut versions = stored::log(tx, limit)?;
        if versions.total == 0 {
            versions.rows = vec![unstored()?];
            versions.total = 1;
        }
        let open = stored::open(tx, OPEN)?;
        Ok(Log { versions, open })
    };
    store.read(work).await
}

/// A unified diff from version `from` to version `to`, empty where they say the same.
///
/// # Errors
/// [`Error::NotFound`] where one of them does not exist; as [`current`].
pub async fn diff(store: &LateStore, from: u64, to: u64) -> Result<String> {
    let work = move |tx: &Tx<'_>| {
        let known = |number| {
            numbered(tx, number)?.ok_or_else(|| Error::NotFound {
                what: format!("version {number} of the genome"),
            })
        };
        difference(&known(from)?, &known(to)?)
    };
    store.read(work).await
}

/// The log where nothing was ever proposed.
///
/// # Errors
/// As [`current`].
pub fn as_built() -> Result<Log> {
    Ok(Log {
        versions: Page {
            rows: vec![unstored()?],
            total: 1,
        },
        open: Page {
            rows: Vec::new(),
            total: 0,
        },
    })
}

/// The version the program begins with.
///
/// # Errors
/// As [`current`].
pub fn first_version() -> Result<Version> {
    unstored().and_then(read)
}

/// A unified diff of two versions, empty where they say the same.
///
/// # Errors
/// As [`current`].
pub fn difference(from: &Version, to: &Version) -> Result<String> {
    let diff = change::diff(&from.genome, &to.genome);
    let diff = diff.map_err(|error| damaged(to.stored.version, &error))?;
    Ok(diff.unified)
}

/// Makes the genome of version `to` hold again, as a new version, by whom, why and when; `None` where
/// it does already. `also` is done in the same transaction. The event is for the records of whoever
/// asked.
///
/// # Errors
/// [`Error::NotFound`] where there is no such version; as [`current`].
pub async fn roll_back(
    store: &LateStore,
    to: u64,
    (by, reason, now): (&str, &str, Timestamp),
    also: impl Fn(&Tx<'_>) -> Result<()> + Send + 'static,
) -> Result<Option<(Version, Event)>> {
    let decided = Decided {
        at: now,
        by: by.to_owned(),
        reason: reason.to_owned(),
    };
    let work = move |tx: &Tx<'_>| {
        stored::begin(tx, &first()?, decided.at)?;
        // Refused before anything is written where this program could not read it.
        numbered(tx, to)?;
        let version = stored::roll_back(tx, to, &decided)?;
        if version.is_some() {
            also(tx)?;
        }
        version.map(read).transpose()
    };
    let version = store.write(work).await?;
    Ok(version.map(|version| {
        let event = Event::Mutation {
            action: MutationAction::RolledBack,
            proposal: None,
            version: version.stored.version,
            drift: version.stored.drift,
            reason: version.stored.reason.clone(),
        };
        (version, event)
    }))
}

/// See [`current`].
pub(crate) fn holding(tx: &Tx<'_>) -> Result<Version> {
    let found = stored::current(tx)?;
    found.map_or_else(unstored, Ok).and_then(read)
}

/// See [`version`].
pub(crate) fn numbered(tx: &Tx<'_>, number: u64) -> Result<Option<Version>> {
    let found = stored::get(tx, number)?;
    let nothing_yet = found.is_none() && number == 1 && stored::current(tx)?.is_none();
    let found = if nothing_yet {
        Some(unstored()?)
    } else {
        found
    };
    found.map(read).transpose()
}

/// The genome the program begins with, as it is stored.
pub(crate) fn first() -> Result<Document> {
    Genome::default()
        .document()
        .map_err(|error| damaged(1, &error))
}

/// Version 1 where nothing was ever proposed, so that none is stored.
fn unstored() -> Result<stored::Version> {
    Ok(stored::Version {
        version: 1,
        document: first()?,
        at: Timestamp::default(),
        author: String::new(),
        drift: 0.0,
        origin: Origin::Default,
        reason: String::new(),
    })
}

fn read(stored: stored::Version) -> Result<Version> {
    let genome = serde_json::from_str(&stored.document.text);
    Ok(Version {
        genome: genome.map_err(|error| damaged(stored.version, &error))?,
        stored,
    })
}

fn damaged(version: u64, error: &serde_json::Error) -> Error {
    Error::DamagedRow {
        what: format!("version {version} of the genome"),
        why: error.to_string(),
    }
}
