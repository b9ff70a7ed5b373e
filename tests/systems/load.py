"""Clients that write all the time and remember every word the service gave them."""

import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from swapcal import Client
from swapcal.service.client import Issued, ServiceConflictError, ServiceError, ServiceUnavailableError
from swapcal.service.store import open_store

NAME = "shop"
PAUSE = 0.02


class Load:
    """Threads that forecast, tell outcomes early, late and twice, and contradict themselves, until told to stop.

    What was acknowledged is remembered; what was not is sent again, as a client would, with the same words, to the
    service that is at `url` by then. `statuses` are those of all answers, 0 where there was none.
    """

    def __init__(self, url: str, threads: int = 4, **settings: Any) -> None:
        self.url, self.settings = url, settings
        self.issued: dict[str, Issued] = {}
        self.outcomes: dict[str, float] = {}
        self.statuses: list[int] = []
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self._own = threading.local()
        self._threads = [threading.Thread(target=self._go, args=(k, random.Random(k))) for k in range(threads)]

    def __enter__(self) -> "Load":
        with Client(self.url) as client:
            client.create(NAME, groups=["shop"], **self.settings)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _go(self, own: int, draw: random.Random) -> None:
        try:
            number = 0
            while not self._stop.is_set():
                self._event(draw, f"{own}-{number}")
                number += 1
        except BaseException as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
            raise
        finally:
            self._client().close()

    def _client(self) -> Client:
        """Return this thread's own, of the service that is to be asked now."""
        known: Client | None = getattr(self._own, "client", None)
        if known is None or known.url != self.url:
            if known is not None:
                known.close()
            known = self._own.client = Client(self.url, patience=0.0, timeout=20.0)
        return known

    def _event(self, draw: random.Random, id: str) -> None:
        y = float(draw.random() < 0.3)
        event = {"id": id, "record": {"shop": draw.choice("abc"), "price": draw.gauss(0.0, 1.0)}}
        if draw.random() < 0.1:
            self._outcome(id, y)
        if draw.random() < 0.2:
            many = [event, *({**event, "id": f"{id}+{k}"} for k in range(3))]
            answers = self._acknowledged(lambda client: list(client.forecasts(NAME, many)))
        else:
            answers = self._acknowledged(lambda client: [client.forecast(NAME, event["record"], id)])
        for answer in answers or ():
            before = self.issued.setdefault(answer.id, answer)
            if before != answer:
                self.wrong.append(f"{answer} after {before}")
        if draw.random() < 0.8:
            self._outcome(id, y)
        if draw.random() < 0.1 and self.outcomes:
            self._contradict(draw.choice(list(self.outcomes)))

    def _outcome(self, id: str, y: float) -> None:
        if self._acknowledged(lambda client: client.outcome(NAME, id, y)):
            self.outcomes[id] = y

    def _contradict(self, id: str) -> None:
        """Contradict an outcome that was acknowledged: the service must know better."""
        try:
            self._client().outcome(NAME, id, 1.0 - self.outcomes[id])
            self.wrong.append(f"{id}: contradiction accepted")
        except (ServiceConflictError, ServiceUnavailableError):
            pass

    def _acknowledged(self, ask: Callable[[Client], Any]) -> Any:
        """Ask until the service answers, or until it is time to stop."""
        while not self._stop.is_set():
            try:
                answer = ask(self._client())
                self.statuses.append(200)
                return answer
            except ServiceError as error:
                self.statuses.append(0 if error.problem["title"] == "no answer" else error.status)
                if not isinstance(error, ServiceUnavailableError):
                    raise
                time.sleep(PAUSE)
        return None

    def check(self) -> None:
        """Compare everything that was acknowledged with what the service knows now."""
        assert not self.wrong, self.wrong[:3]
        with Client(self.url) as client:
            for id, answer in self.issued.items():
                known = client.about(NAME, id)
                assert {field: known[field] for field in Issued._fields} == answer._asdict(), (known, answer)
                if id in self.outcomes:
                    assert known["outcome"]["y"] == self.outcomes[id], known

    def check_log(self, store: str) -> int:
        """Assert that the log has all that was acknowledged, once; returns how many outcomes were learned."""
        assert not self.wrong, self.wrong[:3]
        with closing(open_store(store)) as opened:
            events = [*opened.events(NAME)]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        about = [event for event in events if event.kind != "settled"]
        kept = {(event.kind, event.id): event for event in about}
        assert len(kept) == len(about)
        for id, answer in self.issued.items():
            event = kept["forecast", id]
            body = json.loads(event.body)
            assert (answer.p, answer.mean, answer.seq) == (body["p"], body["mean"], event.seq)
        for id, y in self.outcomes.items():
            event = kept.get(("outcome", id)) or kept["parked", id]
            assert json.loads(event.body)["y"] == y
        return sum(("forecast", id) in kept for kind, id in kept if kind == "outcome")
