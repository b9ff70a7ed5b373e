"""Clients that write all the time and remember every word the service gave them."""

import random
import threading
import time
from typing import Any

from swapcal import Client
from swapcal.service.client import Issued, ServiceConflictError, ServiceUnavailableError

NAME = "flights"
PAUSE = 0.02


class Load:
    """Threads that forecast, tell outcomes early, late and twice, and contradict themselves, until told to stop.

    What was acknowledged is remembered; what was not is sent again, as a client would, with the same words.
    """

    def __init__(self, url: str, threads: int = 4, seed: int = 0) -> None:
        self.url = url
        self.issued: dict[str, Issued] = {}
        self.outcomes: dict[str, float] = {}
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._go, args=(k, random.Random(seed + k))) for k in range(threads)]

    def __enter__(self) -> "Load":
        with Client(self.url) as client:
            client.create(NAME, groups=["carrier"])
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _go(self, own: int, draw: random.Random) -> None:
        try:
            with Client(self.url, patience=0.0, timeout=20.0) as client:
                number = 0
                while not self._stop.is_set():
                    self._event(client, draw, f"{own}/{number}")
                    number += 1
        except BaseException as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
            raise

    def _event(self, client: Client, draw: random.Random, id: str) -> None:
        y = float(draw.random() < 0.3)
        event = {"id": id, "record": {"carrier": draw.choice("ABC"), "delay": draw.gauss(0.0, 1.0)}}
        if draw.random() < 0.1:
            self._outcome(client, id, y)
        if draw.random() < 0.2:
            many = [event, *({**event, "id": f"{id}+{k}"} for k in range(3))]
            answers = self._acknowledged(lambda: list(client.forecasts(NAME, many)))
        else:
            answers = self._acknowledged(lambda: [client.forecast(NAME, event["record"], id)])
        for answer in answers or ():
            before = self.issued.setdefault(answer.id, answer)
            if before != answer:
                self.wrong.append(f"{answer} after {before}")
        if draw.random() < 0.8:
            self._outcome(client, id, y)
        if draw.random() < 0.1 and self.issued:
            self._again(client, draw)

    def _outcome(self, client: Client, id: str, y: float) -> None:
        if self._acknowledged(lambda: client.outcome(NAME, id, y)):
            self.outcomes[id] = y

    def _again(self, client: Client, draw: random.Random) -> None:
        """Contradict an outcome that was acknowledged: the service must know better."""
        id = draw.choice(list(self.outcomes) or ["none"])
        if id not in self.outcomes:
            return
        try:
            client.outcome(NAME, id, 1.0 - self.outcomes[id])
            self.wrong.append(f"{id}: contradiction accepted")
        except (ServiceConflictError, ServiceUnavailableError):
            pass

    def _acknowledged(self, ask: Any) -> Any:
        """Ask until the service answers, or until it is time to stop."""
        while not self._stop.is_set():
            try:
                return ask()
            except ServiceUnavailableError:
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
