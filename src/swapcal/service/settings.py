"""Settings of one forecaster, limits of the service, its errors and its log lines."""

import sys
import threading
import time
from contextlib import suppress
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import msgspec
from msgspec import Meta

from swapcal._validate import LEAST_RIDGE, MOST_RIDGE
from swapcal.live import Live
from swapcal.live.validation import MOST_WEIGHT
from swapcal.monitor import Monitor


class ApiErrorKind(NamedTuple):
    """One kind of error: its HTTP status code and the standard title of that status."""

    status: int
    title: str


KINDS = {
    "malformed": ApiErrorKind(400, "Bad Request"),
    "unauthorized": ApiErrorKind(401, "Unauthorized"),
    "forbidden": ApiErrorKind(403, "Forbidden"),
    "unknown": ApiErrorKind(404, "Not Found"),
    "method": ApiErrorKind(405, "Method Not Allowed"),
    "slow": ApiErrorKind(408, "Request Timeout"),
    "conflict": ApiErrorKind(409, "Conflict"),
    "expired": ApiErrorKind(410, "Gone"),
    "large": ApiErrorKind(413, "Content Too Large"),
    "media": ApiErrorKind(415, "Unsupported Media Type"),
    "host": ApiErrorKind(421, "Misdirected Request"),
    "invalid": ApiErrorKind(422, "Unprocessable Content"),
    "many": ApiErrorKind(429, "Too Many Requests"),
    "internal": ApiErrorKind(500, "Internal Server Error"),
    "unavailable": ApiErrorKind(503, "Service Unavailable"),
}


class ApiError(Exception):
    """A request that was rejected; the state has not changed.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    detail : str
        The given and the expected value.
    retry : float, optional
        Seconds after which to retry, if a retry can succeed.
    more
        Further facts, such as both values of a conflict.

    Examples
    --------
    >>> error = ApiError("conflict", "y: given 0, expected 1 as before", given=0, known=1)
    >>> error.status, error.more
    (409, {'given': 0, 'known': 1})
    """

    def __init__(self, kind: str, detail: str, *, retry: float | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.retry = retry
        self.more = more

    @property
    def status(self) -> int:
        """The status code."""
        return KINDS[self.kind].status

    @property
    def title(self) -> str:
        """The standard title of the status."""
        return KINDS[self.kind].title

    def problem(self) -> dict[str, Any]:
        """Return the problem details of RFC 9457."""
        about = {"type": f"urn:swapcal:{self.kind}", "title": self.title, "status": self.status}
        return {**about, "detail": self.detail, **self.more}


def unavailable(why: str, retry: float = 1.0) -> ApiError:
    """Return the error of a request that may succeed later."""
    return ApiError("unavailable", why, retry=retry)


# `Limits`: bounds on queue, memory and disk.

Most = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Each limit with the status code of what exceeds it.

    Examples
    --------
    >>> Limits(rows=100).rows
    100
    """

    body: Most = 8 << 20
    """bytes of a request: 413"""
    rows: Most = 10_000
    """forecasts or outcomes of a request: 413"""
    id: Most = 256
    """characters of an id: 422"""
    columns: Most = 1_000
    """columns of a record: 422"""
    open: Most = 1_000_000
    """open forecasts of a forecaster whose `max_open` is larger: 429"""
    parked: Most = 100_000
    """outcomes of a forecaster that wait for their forecasts: 429"""
    forecasters: Most = 1_000
    """429"""
    queue: Most = 20_000
    """rows waiting to be learned: 503"""
    connections: Most = 1_000
    """at a time: 503"""
    arrival: Seconds = 10.0
    """seconds for a request to arrive: 408"""
    answer: Seconds = 30.0
    """seconds for an answer: 503"""
    gauges: Annotated[int, Meta(ge=0)] = 50
    """groups of a forecaster in the metrics, those with an alarm first, then the largest; others are left out"""


# Logs: one JSON object per line, with the numbers of events and without secrets.

QUIET = ("commit", "request")
"""Events logged at level "all" only."""
LEVELS = {"all": 0, "notable": 1, "none": 2}


class JsonLog:
    """Writes events to a stream, as JSON lines.

    Parameters
    ----------
    level : str
        "all" logs every request and commit, "notable" unusual events only, "none" nothing.
    stream : binary file, optional
        Standard error by default.

    Examples
    --------
    >>> import io
    >>> stream = io.BytesIO()
    >>> JsonLog("notable", stream)("ready", forecaster="flights", replayed=3)
    >>> msgspec.json.decode(stream.getvalue())["replayed"]
    3
    """

    def __init__(self, level: str = "notable", stream: BinaryIO | None = None) -> None:
        if level not in LEVELS:
            raise ValueError(f"log: given {level!r}, expected one of {', '.join(LEVELS)}")
        self._least = LEVELS[level]
        self._stream = sys.stderr.buffer if stream is None else stream
        self._turn = threading.Lock()

    def tells(self, event: str) -> bool:
        """Return whether such an event is written."""
        return self._least == 0 or (self._least == 1 and event not in QUIET)

    def __call__(self, event: str, **facts: Any) -> None:
        """Write one line."""
        if not self.tells(event):
            return
        moment = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03d}Z"
        line = msgspec.json.encode({"time": stamp, "event": event, **facts}) + b"\n"
        with self._turn, suppress(OSError, ValueError):  # a full disk or a closed pipe must not stop the service
            self._stream.write(line)
            self._stream.flush()


# `Settings`: of one forecaster in the service; fixed when it is made.

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="letters, digits and . _ -")]
Column = Annotated[str, Meta(min_length=1, max_length=256)]
Columns = Annotated[list[Column], Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=1, lt=2**53)]
Positive = Annotated[float, Meta(gt=0)]

WEEK = 7 * 86400.0


class Watch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the monitor: gaps up to `tolerance` raise no alarm; outcomes weigh at most `max_weight`.

    The larger that is, the smaller are the bets, and the later an alarm is raised. `clusters` is the column of the
    records whose rows belong together (patient, household, day): each cluster bets once, with its first outcome that is
    learned, and audits take clusters as a whole. `numbers` are columns of numbers that are watched in eight ranges,
    whose edges are learned from their first 1,000 numbers.
    """

    tolerance: Annotated[float, Meta(ge=0, lt=1)] = 0.01
    run_length: Annotated[float, Meta(ge=1)] = 1_000_000.0
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    max_weight: Annotated[float, Meta(ge=1, le=MOST_WEIGHT)] = 1.0
    clusters: Column | None = None
    numbers: Columns = []


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every setting of `Live` but outside models, how long an early outcome is kept, and the monitor's promises.

    Examples
    --------
    >>> Settings(name="flights", groups=["carrier"]).live().settings["groups"]
    ['carrier']
    """

    name: Name
    groups: Columns = []
    scores: Columns | dict[Column, str] = []
    products: Annotated[list[tuple[Column, Column]], Meta(max_length=1000)] = []
    numeric: Columns = []
    categorical: Columns = []
    drop: Columns = []
    categories: Annotated[int, Meta(ge=1, le=1000)] = 12
    max_dim: Annotated[int, Meta(ge=1, le=2000)] = 160
    fourier: Annotated[int, Meta(ge=0, le=1000)] = 0
    size: Literal["full", "small"] = "full"
    ridge: Annotated[float, Meta(ge=LEAST_RIDGE, le=MOST_RIDGE)] | None = None
    kappa: Positive = 0.05
    window: Annotated[float, Meta(ge=1)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=2**53)] = 0
    matures: float | str | None = None
    silence: Literal[0, 1] | None = None
    prior: float | str | None = None
    unseen: float | str = "auto"
    max_open: Count = 1_000_000
    expires: Count | None = None
    lifetime: Positive | None = None
    order: str = "arrival"
    patience: Count | None = None
    parked_for: Annotated[float, Meta(gt=0, description="seconds an outcome waits for its forecast")] = WEEK
    watch: Watch = Watch()

    def live(self) -> Live:
        """Return a fresh forecaster with its monitor; raises `ApiError` for settings that do not go together."""
        try:
            return Live(**{name: getattr(self, name) for name in LIVE}, monitor=self.monitor())
        except (ValueError, TypeError, MemoryError) as error:
            raise ApiError("invalid", str(error)) from None

    def monitor(self) -> Monitor:
        """Return a fresh monitor of the groups and of pairs of them."""
        pairs = [pair for pair in self.products if set(pair) <= set(self.groups)]
        return Monitor(self.groups, products=pairs, **msgspec.structs.asdict(self.watch))

    def checked(self) -> "Settings":
        """Return these settings if something can be made of them."""
        self.live()
        return self


OWN = ("name", "parked_for", "watch")
LIVE = tuple(name for name in Settings.__struct_fields__ if name not in OWN)
"""Settings that `Live` takes."""


def to_body(settings: Settings) -> bytes:
    """Return the body of the first event of a forecaster, defaults spelled out."""
    return msgspec.json.encode(settings)


def from_body(body: bytes) -> Settings:
    """Return the settings from the body of a first event; bodies of before `unseen` have it as none."""
    settings = msgspec.json.decode(body, type=Settings)
    return settings if b'"unseen"' in body else msgspec.structs.replace(settings, unseen="fair")


def from_table(table: Any, where: str) -> Settings:
    """Return the settings of one table of a TOML file."""
    try:
        return msgspec.convert(table, Settings).checked()
    except (msgspec.ValidationError, ApiError) as error:
        raise ValueError(f"{where}: {error}") from None
