"""What is in a store besides events, and what a store refuses to do."""

from typing import NamedTuple


class StoreError(OSError):
    """The store could not do what was asked."""


class Unavailable(StoreError):  # noqa: N818
    """Nothing was written, or it is not known: read again what the store holds before going on."""


class Conflict(StoreError):  # noqa: N818
    """Nothing was written: another learner was there first, or what is unique was given twice."""


class Occupied(StoreError):  # noqa: N818
    """Another process is the learner of this store."""


class Unreadable(StoreError):  # noqa: N818
    """What is there is not a store of this version, or a snapshot is not what was written."""


class KeptSnapshot(NamedTuple):
    """A snapshot that is kept: the state after the event `seq`."""

    seq: int
    digest: bytes
    size: int
    made_at: float


class TokenRow(NamedTuple):
    """A token that was created; `digest` is all that is known of its secret."""

    name: str
    digest: bytes
    scopes: str
    created: float
    revoked: float | None


class Removal(NamedTuple):
    """What pruning would remove, and what it would leave before the boundary because no outcome has come."""

    events: int
    forecasts: int
    oldest: float | None
    newest: float | None
    waiting: int
