"""`Client`: the service, from Python; needs nothing but the standard library."""

import json
import math
import random
import threading
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from itertools import islice
from typing import Any, Literal, NamedTuple, Self, TypeVar, overload
from urllib.parse import quote, urlencode, urlsplit

from swapcal._display import display

MANY = 500  # rows a request carries: far above where batches stop paying, far below the service's limit
BUSY = (429, 502, 503, 504)  # answers after which the same request may be sent again
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds

Json = dict[str, Any]
Answer = TypeVar("Answer")


class Issued(NamedTuple):
    """A forecast as the service has stored it."""

    id: str
    p: float
    mean: float
    low: float
    high: float
    weight: float
    seq: int


class ServiceError(Exception):
    """A request that the service rejected: `status`, and the `problem` details as sent."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        title, detail = problem.get("title", "refused"), problem.get("detail", "")
        super().__init__(f"{status} {title}: {detail}" if detail else f"{status} {title}")


class ServiceConflictError(ServiceError):
    """The id already has another record or outcome, the name other settings."""


class ServiceUnavailableError(ServiceError, ConnectionError):
    """The service is not ready; nothing was changed, or what was changed is kept under the same id."""


class Client:
    """Forecasts, outcomes and figures of a running `swapcal serve`.

    Every write may be sent twice without harm, because the service identifies events by ids: so a lost connection or
    a busy service is tried again, with growing pauses, until `patience` is over. Threads may share one client.

    Parameters
    ----------
    url : where the service listens, such as "http://127.0.0.1:8000"
    token : what `swapcal token create` printed; not needed on loopback
    timeout : seconds to wait for one answer
    patience : seconds to go on trying; 0 tries once

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000")
    >>> client.forecast("flights", {"carrier": "AA"}, id="a1")  # doctest: +SKIP
    Issued(id='a1', p=0.1875, mean=0.21, low=0.1875, high=0.25, weight=0.36, seq=2)
    >>> client.outcome("flights", "a1", 1)  # doctest: +SKIP
    'learned'
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 30.0, patience: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: given {url!r}, expected something like http://127.0.0.1:8000")
        if not timeout > 0:
            raise ValueError(f"timeout: given {timeout!r}, expected seconds above 0")
        if not patience >= 0:
            raise ValueError(f"patience: given {patience!r}, expected seconds, at least 0")
        self.url = url.rstrip("/")
        self._place, self._base = (parts.hostname, parts.port), parts.path.rstrip("/")
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._token, self._timeout, self._patience = token, float(timeout), float(patience)
        self._own = threading.local()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def _repr_html_(self) -> str:
        return display("Client", self.url, {"token": "none" if self._token is None else "given"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close this thread's connection; the next call opens another."""
        connection: HTTPConnection | None = self._own.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def create(self, name: str, **settings: Any) -> Json:
        """Make a forecaster with settings of `Live`; the same again changes nothing, other settings are a conflict."""
        made: Json = self._json("POST", "/v1/forecasters", {"name": name, **settings})
        return made

    def forecasters(self) -> list[Json]:
        """Return what the service runs."""
        running: list[Json] = self._json("GET", "/v1/forecasters")["forecasters"]
        return running

    def forecast(
        self, name: str, record: Mapping[str, Any], id: str | int, *, time: Any = None, matures: Any = None
    ) -> Issued:
        """Issue the forecast of one record, or return the one issued before under the same id.

        Parameters
        ----------
        name : of the forecaster
        record : values by column, None where one is missing
        id : name of the forecast, under which its outcome is reported
        time : when it is made, a number, a date or ISO text; default: none
        matures : when its outcome is known whatever it is, in the same unit
        """
        event = {"id": id, "record": record, "time": time, "matures": matures}
        return _issued(self._json("POST", _at(name, "forecasts"), event))

    @overload
    def forecasts(
        self, name: str, events: Iterable[Mapping[str, Any]], *, errors: Literal["raise"] = "raise"
    ) -> Iterator[Issued]: ...

    @overload
    def forecasts(
        self, name: str, events: Iterable[Mapping[str, Any]], *, errors: Literal["return"]
    ) -> Iterator[Issued | ServiceError]: ...

    def forecasts(
        self, name: str, events: Iterable[Mapping[str, Any]], *, errors: str = "raise"
    ) -> Iterator[Issued | ServiceError]:
        """Issue many forecasts of the forecaster `name`, in order.

        `events` are mappings with `id`, `record` and, if wanted, `time` and `matures`. They are sent lazily, some
        hundred at a time; the first that is refused raises, the others are kept. With `errors="return"` a refused one
        yields its error instead, and the others their forecasts.
        """
        for rows in _batches(events):
            for answer in self._json("POST", _at(name, "forecasts"), {"forecasts": rows})["forecasts"]:
                if "status" not in answer:
                    yield _issued(answer)
                elif errors == "return":
                    yield problem_error(answer["status"], answer)
                else:
                    raise problem_error(answer["status"], answer)

    def preview(self, name: str, records: Iterable[Mapping[str, Any]]) -> list[Json]:
        """Return what would be forecast now; nothing is stored."""
        shown: list[Json] = self._json("POST", _at(name, "preview"), {"records": list(records)})["forecasts"]
        return shown

    def outcome(self, name: str, id: str | int, y: float, *, time: Any = None, weight: float = 1.0) -> str:
        """Report what happened; returns learned, held (not mature yet), parked (no forecast yet) or repeated.

        Parameters
        ----------
        name : of the forecaster
        id : of the forecast
        y : the outcome, 0 or 1 or a number between them, or in the forecaster's range
        time : when it became known, in the unit of the forecasts' times
        weight : one over the probability with which the outcome was obtained, where outcomes are obtained for a part
            chosen with known probabilities; at most the forecaster's `watch["max_weight"]`
        """
        body = {"y": y, "time": time} | ({} if weight == 1.0 else {"weight": weight})
        state: str = self._json("PUT", _at(name, "outcomes", id), body)["state"]
        return state

    def outcomes(self, name: str, events: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
        """Report many: mappings with `id`, `y` and, if wanted, `time` and `weight`; an answer each.

        A refused one has a `status`.
        """
        for rows in _batches(events):
            yield from self._json("POST", _at(name, "outcomes"), {"outcomes": rows})["outcomes"]

    def correct(self, name: str, id: str | int, y: float, reason: str, *, weight: float | None = None) -> Json:
        """Put an outcome, and its weight if one is given, right for audits; what was learned is not unlearned.

        Parameters
        ----------
        name : of the forecaster
        id : of the forecast
        y : the outcome as it should be
        reason : kept in the log with it
        weight : as it should be; default: unchanged
        """
        body = {"y": y, "reason": reason} | ({} if weight is None else {"weight": weight})
        logged: Json = self._json("POST", _at(name, "corrections", id), body)
        return logged

    def about(self, name: str, id: str | int) -> Json:
        """Return everything stored about a forecast, its explanation and its outcome."""
        return self._figures(name, "forecasts", id)

    def decide(self, name: str, id: str | int, loss: str, *, at: str = "mean") -> Json:
        """Return the best action for a forecast, and its expected cost.

        Parameters
        ----------
        name : of the forecaster
        id : of the forecast
        loss : costs of errors, such as "pinball:0.9"
        at : "mean", the forecast's mean; or "p", its issued level: see `swapcal.decide`
        """
        return self._figures(name, "decide", id, loss=loss, at=at)

    def status(self, name: str) -> Json:
        """Return counts, coverage, delay and scores."""
        return self._figures(name, "status")

    def certificate(self, name: str) -> Json:
        """Return the exact errors so far with their bounds."""
        return self._figures(name, "certificate")

    def alarms(self, name: str) -> Json:
        """Return the groups that are off beyond chance, and since when."""
        return self._figures(name, "alarms")

    def fleet(self, q: float = 0.1) -> Json:
        """Return which of all forecasters are off; of those listed at most a share q is sound on average (e-BH)."""
        answer: Json = self._json("GET", "/v1/alarms" + _query(q=q))
        return answer

    def audit(self, name: str, *, since: Any = None, until: Any = None) -> Json:
        """Return the audit of the forecaster `name`, of forecasts accepted at `since` or later and before `until`."""
        return self._figures(name, "audit", since=since, until=until)

    def report(self, name: str, *, since: Any = None, until: Any = None) -> str:
        """Return what `audit` returns of `name`, `since` and `until` as a page of HTML."""
        return self._call("GET", _at(name, "report") + _query(since=since, until=until)).decode()

    def live(self, name: str) -> Iterator[Json]:
        """Iterate over the live figures as they change; goes on when the service has been restarted."""
        while True:
            connection, answer = self._patiently(lambda: self._listen(name))
            with closing(connection), suppress(OSError, HTTPException):
                yield from _sent_events(answer)
            clock.sleep(FIRST_PAUSE)

    def _figures(self, name: str, *path: str | int, **query: Any) -> Json:
        answer: Json = self._json("GET", _at(name, *path) + _query(**query))
        return answer

    def _json(self, method: str, path: str, body: Json | None = None) -> Any:
        return json.loads(self._call(method, path, body))

    def _call(self, method: str, path: str, body: Json | None = None) -> bytes:
        content = None if body is None else json.dumps(_as_json(body)).encode()
        return self._patiently(lambda: self._once(method, path, content))

    def _once(self, method: str, path: str, content: bytes | None) -> bytes:
        connection = self._own.__dict__.get("connection")
        if connection is None:
            connection = self._own.connection = self._kind(*self._place, timeout=self._timeout)
        kind = {} if content is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, self._base + path, content, self._headers() | kind)
            answer = connection.getresponse()
            body: bytes = answer.read()
        except BaseException:
            self.close()
            raise
        if answer.status >= 400:
            raise _refusal(answer, body)
        return body

    def _listen(self, name: str) -> tuple[HTTPConnection, HTTPResponse]:
        connection = self._kind(*self._place, timeout=self._timeout)
        path = f"{self._base}/forecasters/{quote(name, safe='')}/live"
        try:
            connection.request("GET", path, headers=self._headers() | {"Accept": "text/event-stream"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise _refusal(answer, answer.read())
        except BaseException:
            connection.close()
            raise
        return connection, answer

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        """Send a request until there is an answer, a permanent error, or no time left for retries."""
        end, pause = clock.monotonic() + self._patience, FIRST_PAUSE
        while True:
            try:
                return ask()
            except (OSError, HTTPException) as trouble:
                left = end - clock.monotonic()
                if left <= 0:
                    raise _given_up(trouble) from trouble
                wished = trouble.problem.get("retry_after", 0.0) if isinstance(trouble, ServiceError) else 0.0
            clock.sleep(min(left, max(wished, pause * random.uniform(0.5, 1.0))))
            pause = min(2.0 * pause, LONGEST_PAUSE)


def _at(name: str, *path: str | int) -> str:
    return "/".join(("/v1/forecasters", *(quote(_letters(part), safe="") for part in (name, *path))))


def _letters(part: Any) -> str:
    """Return text; of an Enum the text, as in JSON, not its name."""
    return str.__str__(part) if isinstance(part, str) else str(part)


def _query(**given: Any) -> str:
    known = {key: _as_json(value) for key, value in given.items() if value is not None}
    return f"?{urlencode(known)}" if known else ""


def _batches(events: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    remaining = iter(events)
    while rows := list(islice(remaining, MANY)):
        yield rows


def _as_json(value: Any) -> Any:
    """Return a value as data for JSON: numpy's scalars and dates too; NaN becomes null."""
    if isinstance(value, Mapping):
        return {_letters(key): _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    if hasattr(value, "isoformat"):
        return None if str(value) == "NaT" else value.isoformat()
    if hasattr(value, "item") and not isinstance(value, str | int | float):
        return _as_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return None
        raise ValueError(f"value: given {value}, expected a finite number")
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"value: given {type(value).__name__}, expected a number, text, a date or None")


def _issued(answer: Json) -> Issued:
    return Issued(**{field: answer[field] for field in Issued._fields})


def _refusal(answer: HTTPResponse, body: bytes) -> ServiceError:
    try:
        problem = json.loads(body)
    except ValueError:
        problem = {"title": answer.reason, "detail": body[:200].decode(errors="replace")}
    wished = answer.headers.get("Retry-After", "")
    return problem_error(answer.status, problem | ({"retry_after": float(wished)} if wished.isdigit() else {}))


def problem_error(status: int, problem: Mapping[str, Any]) -> ServiceError:
    """Return the error of a problem: one to try again, a conflict, or any other."""
    if status in BUSY:
        return ServiceUnavailableError(status, problem)
    return (ServiceConflictError if status == 409 else ServiceError)(status, problem)


def _given_up(trouble: Exception) -> ServiceUnavailableError:
    if isinstance(trouble, ServiceUnavailableError):
        return trouble
    return ServiceUnavailableError(503, {"title": "no answer", "detail": f"{type(trouble).__name__}: {trouble}"})


def _sent_events(answer: HTTPResponse) -> Iterator[Json]:
    """Read server-sent events: the data of each, as JSON."""
    lines: list[str] = []
    for raw in answer:
        line = raw.decode().rstrip("\r\n")
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            yield json.loads("\n".join(lines))
            lines = []
