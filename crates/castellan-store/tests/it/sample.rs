//! Ids, events and audit entries to store, and a place to store them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use castellan_core::caller::{Caller, Principal, Surface};
use castellan_core::event::{Purpose, State, TurnEnd};
use castellan_core::id::{AuditId, GrantId};
use castellan_core::{CallId, Event, Ids, Recorded, SessionId, Timestamp};
use castellan_store::audit::AuditEntry;
use castellan_store::grants::{self, GrantRow};
use castellan_store::{Settings, Store};
use uuid::Uuid;

/// Ids that count up from a base, unlike in every process and test that takes another base.
#[derive(Debug)]
pub(crate) struct Counting {
    base: u128,
    next: AtomicU64,
}

impl Counting {
    pub(crate) fn from(base: u64) -> Self {
        Self {
            base: u128::from(base) << 64,
            next: AtomicU64::new(1),
        }
    }
}

impl Ids for Counting {
    fn next(&self) -> Uuid {
        Uuid::from_u128(self.base | u128::from(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

pub(crate) fn session(number: u64) -> SessionId {
    SessionId::mint(&Counting::from(number))
}

pub(crate) fn recorded(session: SessionId, ts: i64, event: Event) -> Recorded {
    Recorded {
        ts: Timestamp(ts),
        seq: None,
        session,
        event,
    }
}

pub(crate) fn start(session: SessionId, ts: i64) -> Recorded {
    let event = Event::SessionStart {
        version: "0.1.0".to_owned(),
        cwd: PathBuf::from("/home/me/project"),
        caller: Caller {
            principal: Principal::Person("anna".to_owned()),
            surface: Surface::Interactive,
            capabilities: Vec::new(),
        },
        prompts: Vec::new(),
    };
    recorded(session, ts, event)
}

pub(crate) fn user(session: SessionId, ts: i64, text: &str) -> Recorded {
    let text = text.to_owned();
    recorded(
        session,
        ts,
        Event::UserTurn {
            text,
            pictures: Vec::new(),
        },
    )
}

pub(crate) fn request(session: SessionId, ts: i64, model: &str) -> Recorded {
    let event = Event::ModelRequest {
        model: model.to_owned(),
        messages: 2,
        tools: 17,
        size: 0,
        fingerprint: String::new(),
        purpose: Purpose::Turn,
    };
    recorded(session, ts, event)
}

pub(crate) fn idle(session: SessionId, ts: i64) -> Recorded {
    let event = Event::StateChange {
        state: State::Idle,
        reason: Some(TurnEnd::Done),
    };
    recorded(session, ts, event)
}

pub(crate) fn entry(ids: &dyn Ids, ts: i64, caller: &str) -> AuditEntry {
    AuditEntry {
        id: AuditId::mint(ids),
        ts: Timestamp(ts),
        caller: caller.to_owned(),
        claimed: None,
        tool: "bash".to_owned(),
        source: "interactive".to_owned(),
        session: None,
        call_id: CallId::mint(ids),
        outcome: "failed".to_owned(),
        code: Some("TOOL_FAILED".to_owned()),
        duration_ms: 12,
        params: "cargo test".to_owned(),
    }
}

pub(crate) fn granted(ids: &dyn Ids, text: &str, place: grants::Place) -> GrantRow {
    GrantRow {
        id: GrantId::mint(ids),
        grant: text.parse().unwrap(),
        place,
        who: "anna".to_owned(),
        surface: "interactive".to_owned(),
        session: Some(session(1)),
        given: Timestamp(100),
        uses: 0,
        last_used: None,
    }
}

/// Where a database is, and how it is opened. What another database has to bring to be tested.
pub(crate) trait Place: Sync {
    fn open(&self) -> Store;
}

/// A SQLite database in a folder that goes with it.
#[derive(Debug)]
pub(crate) struct SqlitePlace {
    folder: tempfile::TempDir,
}

impl SqlitePlace {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("home").join("castellan.db")
    }
}

impl Place for SqlitePlace {
    fn open(&self) -> Store {
        Store::open(self.path(), Settings::default()).unwrap()
    }
}
