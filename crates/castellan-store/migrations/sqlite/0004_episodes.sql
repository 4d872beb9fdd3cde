-- Episodes by what they came to. What happened in them stands in their traces.

CREATE TABLE episodes (
    id       TEXT PRIMARY KEY NOT NULL,
    owner    TEXT NOT NULL,              -- the user who ran it
    goal     TEXT NOT NULL,
    plugin   TEXT NOT NULL,
    seed     TEXT NOT NULL,              -- decimal: it may be larger than any stored integer
    settings TEXT NOT NULL,              -- JSON
    version  TEXT NOT NULL,              -- of the program
    trace    TEXT NOT NULL,              -- a path
    began    INTEGER NOT NULL,           -- UTC milliseconds
    ended    INTEGER,                    -- this and all that follows: once it has ended
    how      TEXT CHECK (how IN ('reached', 'not_reached', 'plugin_failed', 'untraced')),
    steps    INTEGER,
    calls    INTEGER,
    failed   INTEGER,
    reason   TEXT
) STRICT;

CREATE INDEX episodes_by_began ON episodes (began, id);
