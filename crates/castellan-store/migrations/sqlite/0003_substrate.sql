-- What agents leave for each other (signals, blackboard), memories by key, and the versions of the
-- part of the harness that may evolve.

-- A signal as it was right after its last change; what it is now follows from that.
CREATE TABLE signals (
    zone      TEXT NOT NULL,
    signal    TEXT NOT NULL,
    strength  REAL NOT NULL,
    at        INTEGER NOT NULL,          -- UTC milliseconds, as every time below
    half_life REAL NOT NULL,             -- seconds, 0 for a signal that does not fade
    total     REAL NOT NULL,             -- all that was ever added
    changes   INTEGER NOT NULL,          -- how often it was changed; `seq` of the last one
    author    TEXT NOT NULL,             -- who changed it last
    fades     INTEGER,                   -- when it is as good as gone; NULL for never
    PRIMARY KEY (zone, signal)
) STRICT;

CREATE INDEX signals_by_fades ON signals (fades);

-- The changes themselves, for as long as retention keeps them.
CREATE TABLE deposits (
    id        INTEGER PRIMARY KEY NOT NULL,
    zone      TEXT NOT NULL,
    signal    TEXT NOT NULL,
    seq       INTEGER NOT NULL,          -- from 1 in each signal
    at        INTEGER NOT NULL,
    amount    REAL NOT NULL,             -- negative for what was taken away
    strength  REAL NOT NULL,             -- right after it
    half_life REAL NOT NULL,             -- from then on
    author    TEXT NOT NULL,
    UNIQUE (zone, signal, seq)
) STRICT;

CREATE TABLE blackboard (
    slot    TEXT PRIMARY KEY NOT NULL,
    value   TEXT NOT NULL,               -- JSON
    version INTEGER NOT NULL,            -- from 1, one more with each write
    author  TEXT NOT NULL,
    at      INTEGER NOT NULL,
    schema  TEXT                         -- the JSON schema its values follow
) STRICT;

CREATE TABLE memories (
    scope       TEXT NOT NULL CHECK (scope IN ('global', 'workstream', 'user')),
    owner       TEXT NOT NULL,           -- the session's id, the user's name, or empty
    name        TEXT NOT NULL,
    content     TEXT NOT NULL,
    description TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('user', 'project', 'feedback', 'reference')),
    tags        TEXT NOT NULL,           -- JSON, an array of text
    author      TEXT NOT NULL,
    created     INTEGER NOT NULL,
    updated     INTEGER NOT NULL,
    PRIMARY KEY (scope, owner, name)
) STRICT;

CREATE INDEX memories_by_updated ON memories (scope, owner, updated);

-- Append-only: the newest row holds.
CREATE TABLE genome (
    version  INTEGER PRIMARY KEY NOT NULL,
    hash     TEXT NOT NULL,              -- SHA-256 of `document`
    document TEXT NOT NULL,              -- JSON
    at       INTEGER NOT NULL,
    author   TEXT NOT NULL,
    drift    REAL NOT NULL,              -- from version 1, 0 to 1
    origin   TEXT NOT NULL CHECK (origin IN ('default', 'mutation', 'rollback')),
    proposal TEXT,                       -- for a mutation
    restored INTEGER,                    -- for a rollback: the version whose document it has again
    reason   TEXT NOT NULL
) STRICT;

CREATE TABLE proposals (
    id           TEXT PRIMARY KEY NOT NULL,
    at           INTEGER NOT NULL,
    author       TEXT NOT NULL,
    base_version INTEGER NOT NULL,
    base_hash    TEXT NOT NULL,
    target       TEXT NOT NULL,          -- a JSON pointer
    change       TEXT NOT NULL,          -- a JSON merge patch
    rationale    TEXT NOT NULL,
    document     TEXT NOT NULL,          -- what the genome would be
    hash         TEXT NOT NULL,          -- of `document`
    step_drift   REAL NOT NULL,          -- from its base
    drift        REAL NOT NULL,          -- from version 1
    state        TEXT NOT NULL CHECK (state IN ('open', 'accepted', 'rejected')),
    decided      INTEGER,
    decided_by   TEXT,
    reason       TEXT,
    version      INTEGER                 -- the version it became
) STRICT;

CREATE INDEX proposals_by_state ON proposals (state, at, id);
