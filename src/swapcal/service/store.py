"""The store: where the log, the snapshots and the tokens are kept."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from swapcal.service.events import Event
from swapcal.service.sql import Conflict, KeptSnapshot, Occupied, Removal, StoreError, TokenRow, Unavailable, Unreadable

__all__ = ["Conflict", "Occupied", "Store", "StoreError", "TokenRow", "Unavailable", "Unreadable", "open_store"]


class Store(Protocol):
    """What SQLite and PostgreSQL both do. All calls block; every call may raise `Unavailable`.

    Reads have connections of their own and never wait for the writer. Only a learner's store appends.
    """

    def forecasters(self) -> dict[str, bytes]:
        """Return the settings of each forecaster by name: the body of its first event."""

    def claim(self, forecaster: str) -> bool:
        """Become the only learner of a forecaster, which need not exist yet; False while another process is.

        After `Unavailable` from `append` claim again, and only then read: a claim is granted once whatever an earlier
        connection had begun is finished, one way or the other.
        """

    def holds(self, forecaster: str) -> bool:
        """Return whether a forecaster is claimed, as far as is known without asking: any failure loses claims."""

    def append(self, events: Sequence[Event]) -> None:
        """Write all events or none, durably; their forecasters must be claimed.

        Raises
        ------
        Unavailable
            Disk full, database gone, claim lost: nothing was written, or it is not known.
        Conflict
            A number or an id was taken: nothing was written.
        """

    def about(self, forecaster: str, ids: Sequence[str]) -> list[Event]:
        """Return everything stored under these ids, in order."""

    def events(self, forecaster: str, after: int = 0, until: int | None = None) -> Iterator[Event]:
        """Yield the events after one number, up to and with another, in order and without keeping them."""

    def last(self, forecaster: str) -> int:
        """Return the number of its last event; 0 without events."""

    def keep_snapshot(self, forecaster: str, seq: int, content: bytes) -> None:
        """Write a snapshot, read it again and compare; it is listed only when that went well."""

    def snapshots(self, forecaster: str) -> list[KeptSnapshot]:
        """Return the snapshots that are kept, newest first."""

    def snapshot(self, forecaster: str, seq: int) -> bytes:
        """Return a snapshot; raises `Unreadable` unless it is what was written."""

    def drop_snapshots(self, forecaster: str, keep: int) -> None:
        """Remove all snapshots but the newest few."""

    def keep_token(self, token: TokenRow) -> None:
        """Add a token; raises `Conflict` if there is one of that name."""

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, also the revoked ones, oldest first."""

    def revoke_token(self, name: str, at: float) -> bool:
        """Revoke a token; False if the name is unknown or already revoked."""

    def pruned(self, forecaster: str) -> int:
        """Return the number from which on no event was removed: 1 if none ever was."""

    def loss(self, forecaster: str, before: int, *, waiting: bool = False) -> Removal:
        """Return what `prune` would remove."""

    def prune(self, forecaster: str, before: int, *, waiting: bool = False) -> Iterator[int]:
        """Remove what happened before an event, a little at a time; yield how many events went each time.

        An id goes as a whole: when all its events are before the boundary, and its outcome is among them unless
        `waiting` is set. The first event stays. What removed events did to the state is in the snapshots: there must
        be one that can be read at the boundary or after it, and those before it go.

        Raises
        ------
        Conflict
            There is no such snapshot.
        """

    def shrink(self) -> None:
        """Give back the space that was pruned, as far as that goes without stopping a learner."""

    def backup(self, path: str) -> None:
        """Write a copy that is as the store was at one moment, to a new file, while everything goes on."""

    def ping(self) -> None:
        """Return if the store can be reached, by its writer too; raise `Unavailable` otherwise."""

    def close(self) -> None:
        """Give back the claims and all connections."""


def open_store(url: str, *, learner: bool = False, create: bool = False) -> Store:
    """Open the store at a path (SQLite) or at postgresql://... (PostgreSQL).

    Parameters
    ----------
    url : str
        Path of a SQLite file, or a PostgreSQL address as libpq reads it.
    learner : bool
        Whether events will be appended. Of one SQLite file only one process at a time may be the learner.
    create : bool
        Whether to make the store if it is not there.

    Raises
    ------
    Occupied
        Another process is the learner of this SQLite file.
    Unreadable
        There is no store, or one of another version.
    Unavailable
        The file or database cannot be reached.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/forecasts.db", learner=True, create=True)
    ...     claimed = store.claim("flights")
    ...     store.append([Event("flights", 1, "made", "", 0.0, b"{}")])
    ...     print(claimed, store.forecasters())
    ...     store.close()
    True {'flights': b'{}'}
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        from swapcal.service.sqlite import SQLiteStore

        return SQLiteStore(url, learner=learner, create=create)
    if scheme not in ("postgresql", "postgres"):
        raise ValueError(f"store: given {scheme}://…, expected the path of a file or postgresql://…")
    from swapcal.service.postgres import PostgresStore

    return PostgresStore(url, learner=learner, create=create)
