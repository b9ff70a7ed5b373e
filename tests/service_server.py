"""A service on a loopback port, and the plainest client."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from swapcal.service import Limits, Server, Worker, open_store


class Reply(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class Caller:
    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self.host, self.port = urlsplit(url).hostname or "", urlsplit(url).port or 0
        self.token = token

    def send(self, method: str, path: str, content: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=600)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            given["authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, content, given)
            response = connection.getresponse()
            found, text = dict(response.getheaders()), response.read()
        finally:
            connection.close()
        kind = found.get("content-type", "")
        body: Any = text.decode()
        if kind.endswith("json") and not kind.endswith("ndjson"):
            body = json.loads(text)
        return Reply(response.status, body, found)

    def get(self, path: str) -> Reply:
        return self.send("GET", path)

    def post(self, path: str, body: Any, method: str = "POST") -> Reply:
        return self.send(method, path, json.dumps(body).encode(), content_type="application/json")

    def put(self, path: str, body: Any) -> Reply:
        return self.post(path, body, "PUT")

    def lines(self, path: str, *rows: Any) -> Reply:
        content = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()
        found = self.send("POST", path, content, content_type="application/x-ndjson")
        return found._replace(body=[json.loads(line) for line in found.body.splitlines()])


@contextmanager
def served(folder: Path, limits: Limits | None = None, **options: Any) -> Iterator[Caller]:
    store = open_store(str(folder / "forecasts.db"), learner=True, create=True)
    token = options.pop("token", None)
    patient = msgspec.structs.replace(limits or Limits(), answer=600.0)  # the first answers may wait for a compiler
    server = Server(Worker(store, limits=patient, log=options.get("log", _silent)), port=0, **options)
    with server.in_background() as url:
        yield Caller(url, token)


def _silent(event: str, **facts: Any) -> None:
    pass
