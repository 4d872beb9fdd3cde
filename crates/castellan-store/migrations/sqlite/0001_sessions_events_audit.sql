-- The first schema: the event log, the list of sessions drawn from it, and the audit chain.

-- One row per session. All but `id` and `created` follow from the session's events and are
-- written in the transaction that appends them; they stand here so that lists need not read logs.
CREATE TABLE sessions (
    id       TEXT PRIMARY KEY NOT NULL,
    created  INTEGER NOT NULL,           -- UTC milliseconds, as every time below
    updated  INTEGER NOT NULL,
    title    TEXT NOT NULL,              -- empty until someone has spoken
    cwd      TEXT NOT NULL,              -- the folder it began in
    model    TEXT,                       -- the model asked last
    state    TEXT NOT NULL,
    last_seq INTEGER NOT NULL            -- what an append must name to be the next one
) STRICT;

CREATE INDEX sessions_by_updated ON sessions (updated, id);

-- Append-only. `body` is the event as JSON, `kind` its `kind`, for queries.
CREATE TABLE events (
    session TEXT NOT NULL REFERENCES sessions (id),
    seq     INTEGER NOT NULL,            -- from 1 without gaps
    ts      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT;

-- The chain: `prev` is the hash of the row before, `hash` covers `prev` and every other column.
CREATE TABLE audit (
    seq         INTEGER PRIMARY KEY NOT NULL,
    id          TEXT NOT NULL UNIQUE,
    ts          INTEGER NOT NULL,
    caller      TEXT NOT NULL,
    claimed     TEXT,
    tool        TEXT NOT NULL,
    source      TEXT NOT NULL,
    session     TEXT,
    call_id     TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    code        TEXT,
    duration_ms INTEGER NOT NULL,
    params      TEXT NOT NULL,
    prev        BLOB NOT NULL,
    hash        BLOB NOT NULL
) STRICT;

-- The newest row, kept apart so that cutting off the end of the chain is seen.
CREATE TABLE audit_head (
    one  INTEGER PRIMARY KEY NOT NULL CHECK (one = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;

-- The last row that retention removed: the chain goes on from its hash.
CREATE TABLE audit_anchor (
    one  INTEGER PRIMARY KEY NOT NULL CHECK (one = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;

INSERT INTO audit_head VALUES (1, 0, zeroblob(32));
INSERT INTO audit_anchor VALUES (1, 0, zeroblob(32));

-- Calls that only read are counted, not listed.
CREATE TABLE audit_reads (
    caller TEXT NOT NULL,
    minute INTEGER NOT NULL,             -- minutes since the Unix epoch
    calls  INTEGER NOT NULL,
    PRIMARY KEY (caller, minute)
) STRICT;
