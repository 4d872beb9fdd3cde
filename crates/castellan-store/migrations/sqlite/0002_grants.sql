-- Permissions given for good, each once per place it holds in.

CREATE TABLE grants (
    id        TEXT PRIMARY KEY NOT NULL,
    text      TEXT NOT NULL,             -- LABEL or bash:PREFIX
    scope     TEXT NOT NULL CHECK (scope IN ('session', 'project', 'everywhere')),
    place     TEXT NOT NULL,             -- the session's id, the resolved folder, or empty
    who       TEXT NOT NULL,
    surface   TEXT NOT NULL,
    session   TEXT,                      -- where it was given
    given     INTEGER NOT NULL,          -- UTC milliseconds
    uses      INTEGER NOT NULL,
    last_used INTEGER,
    UNIQUE (scope, place, text)
) STRICT;
