"""The tables, the same for SQLite and PostgreSQL but for the names of types."""

from collections.abc import Mapping

from swapcal.service.stored import Unreadable

SCHEMA_VERSION = 1
"""Of the tables; kept in `meta`."""

DEFINITIONS = (
    """CREATE TABLE meta (name {text} PRIMARY KEY, value {text} NOT NULL){strict}""",
    """CREATE TABLE events (
        forecaster {text} NOT NULL, seq {integer} NOT NULL, kind {text} NOT NULL, id {text} NOT NULL,
        time {real} NOT NULL, body {blob} NOT NULL, PRIMARY KEY (forecaster, seq)){strict}""",
    # One forecast and one outcome of an id, any number of the rest; also how `about` finds them.
    """CREATE UNIQUE INDEX events_about ON events
        (forecaster, id, kind, (CASE WHEN kind IN ('forecast', 'outcome') THEN 0 ELSE seq END))""",
    """CREATE INDEX events_made ON events (forecaster) WHERE kind = 'made'""",
    """CREATE TABLE snapshots (
        forecaster {text} NOT NULL, seq {integer} NOT NULL, digest {blob} NOT NULL, size {integer} NOT NULL,
        made_at {real} NOT NULL, PRIMARY KEY (forecaster, seq)){strict}""",
    # Pieces keep each transaction short: a learner never waits for a whole snapshot to be written.
    """CREATE TABLE snapshot_pieces (
        forecaster {text} NOT NULL, seq {integer} NOT NULL, piece {integer} NOT NULL, content {blob} NOT NULL,
        PRIMARY KEY (forecaster, seq, piece)){strict}""",
    """CREATE TABLE tokens (
        name {text} PRIMARY KEY, digest {blob} NOT NULL, scopes {text} NOT NULL, created {real} NOT NULL,
        revoked {real}){strict}""",
    """CREATE VIEW open_forecasts AS SELECT forecaster, seq, id, time FROM events AS made
        WHERE kind = 'forecast' AND NOT EXISTS (SELECT 1 FROM events AS known
        WHERE known.forecaster = made.forecaster AND known.id = made.id AND known.kind = 'outcome')""",
)


def definitions(types: Mapping[str, str]) -> list[str]:
    """Return the statements that make an empty store."""
    version = f"INSERT INTO meta (name, value) VALUES ('schema', '{SCHEMA_VERSION}')"
    return [statement.format_map(types) for statement in DEFINITIONS] + [version]


def check_version(where: str, found: str) -> None:
    """Raise `Unreadable` unless the tables are of a version that is known here.

    Examples
    --------
    >>> check_version("forecasts.db", "1")
    """
    if found.isdecimal() and int(found) > SCHEMA_VERSION:
        raise Unreadable(
            f"store: given {where} with tables of version {found}, expected version {SCHEMA_VERSION}: "
            "it was written by a newer swapcal, which is needed to open it"
        )
    if found != str(SCHEMA_VERSION):
        raise Unreadable(f"store: given {where} with tables of version {found!r}, expected {SCHEMA_VERSION}")
