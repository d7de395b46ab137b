"""Schema: the tables of a state file, and how an older file becomes a present one.

It knows SQL. It must never know how a row is made.

Tables are meant to be read by people, too: ``sqlite3 -readonly state.db`` works while the daemon runs. Instants are
nanoseconds of the monotonic clock of the machine's present boot, and mean something only beside ``meta.stamp``.
"""

from typing import Final

# In the header of each file of ours: "govr".
APPLICATION: Final = 0x676F7672

# Each makes the next version of the version that is its place here: the first makes version 1 of an empty file. None
# that was released is ever changed.
MIGRATIONS: Final[list[str]] = [
    """
    -- One row. reserved: no lease id above it was ever given out. stamp: the last sign of life, written the same by
    -- the wall clock, for people, and boot what the clock of stamp counts from.
    CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        reserved INTEGER NOT NULL,
        stamp INTEGER NOT NULL,
        written TEXT NOT NULL,
        boot TEXT NOT NULL
    ) STRICT;
    -- What is declared, or still lent. spec and memory are JSON; lengths in memory are relative to the instant at.
    CREATE TABLE resource (
        name TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        spec TEXT NOT NULL,
        memory TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    -- Every live lease. granted_for: how long it was to last then. orphaned: its holder is gone, and it ends with its
    -- grace. graced: a restart has made it longer, and it was not renewed since.
    CREATE TABLE lease (
        id INTEGER PRIMARY KEY,
        client TEXT NOT NULL,
        request_id TEXT NOT NULL,
        grants TEXT NOT NULL,
        labels TEXT NOT NULL,
        granted_for INTEGER NOT NULL,
        granted_at INTEGER NOT NULL,
        waited INTEGER NOT NULL,
        deadline INTEGER NOT NULL,
        orphaned INTEGER NOT NULL,
        graced INTEGER NOT NULL
    ) STRICT;
    -- Leases that have ended, while their request ids stand for them yet.
    CREATE TABLE past (
        id INTEGER PRIMARY KEY,
        client TEXT NOT NULL,
        request_id TEXT NOT NULL,
        claims TEXT NOT NULL,
        reason TEXT NOT NULL,
        ended_at INTEGER NOT NULL,
        waited INTEGER NOT NULL
    ) STRICT;
    INSERT INTO meta VALUES (1, 0, 0, '', '');
    """,
    """
    -- promised: how much longer than it had left each lease lives after a restart, as the clients were told.
    ALTER TABLE meta ADD COLUMN promised INTEGER NOT NULL DEFAULT 0;
    """,
    """
    -- What operators say of it. standing: open, paused or draining. override: another limit, as in spec, in force until
    -- the instant until, and memory is of that; empty while what is declared is in force.
    ALTER TABLE resource ADD COLUMN standing TEXT NOT NULL DEFAULT 'open';
    ALTER TABLE resource ADD COLUMN override TEXT NOT NULL DEFAULT '';
    ALTER TABLE resource ADD COLUMN until INTEGER NOT NULL DEFAULT 0;
    -- declared: by the config of then. What is not is lent yet.
    ALTER TABLE resource ADD COLUMN declared INTEGER NOT NULL DEFAULT 1;
    -- What is neither declared nor lent, but spent, as in resource; another kind may have the name there.
    CREATE TABLE fading (
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        spec TEXT NOT NULL,
        memory TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (name, kind)
    ) STRICT;
    """,
    """
    -- Who has ordered that standing and that override, and why, as he says: JSON with actor and reason, and with
    -- client if he is known as one; empty: nothing.
    ALTER TABLE resource ADD COLUMN said TEXT NOT NULL DEFAULT '';
    ALTER TABLE resource ADD COLUMN override_said TEXT NOT NULL DEFAULT '';
    """,
    """
    -- What on_disconnect was for older leases, where a reload has made it less: JSON, pairs of the last of these leases
    -- and a length, null is until their deadlines; ids rise and lengths fall. Empty: nothing.
    ALTER TABLE resource ADD COLUMN graces TEXT NOT NULL DEFAULT '';
    """,
]
