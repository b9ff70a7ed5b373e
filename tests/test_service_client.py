"""The client against a service that answers, stumbles and falls silent as scripted."""

import datetime
import enum
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

import swapcal
from swapcal.service.client import MANY, Issued, ServiceConflictError, ServiceError, ServiceUnavailableError

ISSUED = {"id": "a", "p": 0.25, "mean": 0.3, "low": 0.25, "high": 0.375, "weight": 0.4, "seq": 7}
BUSY = (503, {"title": "busy"}, {"Retry-After": "0"})
LOST = (0, {}, {})


@contextmanager
def scripted(*answers: tuple[int, Any, dict[str, str]]) -> Iterator[tuple[swapcal.Client, list[Any]]]:
    """Serve these answers in turn (the last again and again); a status of 0 hangs up without a word."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            read = json.loads if self.headers.get("Content-Type") == "application/json" else bytes
            asked.append((self.command, self.path, read(body) if body else None, dict(self.headers)))
            status, told, headers = answers[min(len(asked), len(answers)) - 1]
            if status == 0:
                self.close_connection = True
                return
            content = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(content))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    client = swapcal.Client(f"http://127.0.0.1:{server.server_port}", "secret", timeout=5.0, patience=5.0)
    try:
        yield client, asked
    finally:
        client.close()
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_forecast_is_asked_for_as_the_contract_says() -> None:
    with scripted((200, ISSUED, {})) as (client, asked):
        assert client.forecast("my flights", {"carrier": "AA", "delay": np.float64(3.5)}, id=1) == Issued(**ISSUED)
    method, path, body, headers = asked[0]
    assert (method, path) == ("POST", "/v1/forecasters/my%20flights/forecasts")
    assert body == {"id": 1, "record": {"carrier": "AA", "delay": 3.5}, "time": None, "matures": None}
    assert headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("trouble", [BUSY, LOST], ids=["busy", "lost"])
def test_trouble_is_tried_again_with_the_same_words(trouble: tuple[int, Any, dict[str, str]]) -> None:
    with scripted(trouble, trouble, (200, {"state": "learned"}, {})) as (client, asked):
        assert client.outcome("f", "a/b", 1) == "learned"
    assert len(asked) == 3
    assert asked[0][:3] == asked[1][:3] == asked[2][:3] == ("PUT", "/v1/forecasters/f/outcomes/a%2Fb", asked[0][2])


def test_settings_of_outcomes_go_to_the_service_as_given() -> None:
    given = {"matures": "24h", "silence": 0, "prior": 0.002, "unseen": "anything"}
    with scripted((201, {"name": "ads"}, {})) as (client, asked):
        client.create("ads", **given)
    assert asked[0][2] == {"name": "ads", **given}
    settings = pytest.importorskip("swapcal.service.settings")
    live = settings.from_table(asked[0][2], "ads").live()
    assert {name: live.settings[name] for name in given} == {**given, "matures": 86400.0}


def test_weights_go_to_the_service_where_they_are_not_one() -> None:
    answer = (200, {"state": "learned"}, {})
    with scripted(answer, answer, (200, {"y": 1.0}, {})) as (client, asked):
        client.outcome("f", "a", 1, weight=2.5)
        client.outcome("f", "b", 1)
        client.correct("f", "a", 1, "drawn with one half", weight=2.0)
    bodies = [one[2] for one in asked]
    assert bodies[:2] == [{"y": 1, "time": None, "weight": 2.5}, {"y": 1, "time": None}]
    assert bodies[2] == {"y": 1, "reason": "drawn with one half", "weight": 2.0}


def test_a_refusal_is_not_tried_again_and_says_why() -> None:
    with scripted((409, {"title": "other outcome", "detail": "given 1, expected 0"}, {})) as (client, asked):
        with pytest.raises(ServiceConflictError, match="given 1, expected 0") as refused:
            client.outcome("f", "a", 1)
        assert refused.value.status == 409
    assert len(asked) == 1


def test_patience_ends_with_the_last_trouble() -> None:
    with scripted(BUSY) as (client, _):
        client._patience = 0.0
        with pytest.raises(ServiceUnavailableError, match="busy"):
            client.status("f")
    with pytest.raises(ServiceUnavailableError, match="no answer"):
        swapcal.Client(client.url, patience=0.0).status("f")


def test_many_go_in_batches_and_a_refused_one_raises() -> None:
    rows = [{"id": k, "record": {}} for k in range(MANY + 1)]
    with scripted((200, {"forecasts": [ISSUED] * MANY}, {}), (200, {"forecasts": [ISSUED]}, {})) as (client, asked):
        assert len(list(client.forecasts("f", iter(rows)))) == MANY + 1
        assert [len(body["forecasts"]) for _, _, body, _ in asked] == [MANY, 1]
    refused = {"status": 422, "title": "refused", "detail": "no record"}
    with scripted((200, {"forecasts": [refused]}, {})) as (client, _), pytest.raises(ServiceError, match="422 refused"):
        list(client.forecasts("f", rows[:1]))


def test_values_are_written_as_json_knows_them() -> None:
    day = datetime.date(2026, 1, 2)
    record = {"nan": float("nan"), "int": np.int64(3), "day": day, "flag": np.bool_(True), "none": None}
    with scripted((200, ISSUED, {})) as (client, asked):
        client.forecast("f", record, id="a", time=np.datetime64("2026-01-02T03:04:05"))
        assert asked[0][2]["record"] == {"nan": None, "int": 3, "day": "2026-01-02", "flag": True, "none": None}
        assert asked[0][2]["time"] == "2026-01-02T03:04:05"
        with pytest.raises(ValueError, match="given inf, expected a finite number"):
            client.forecast("f", {"x": float("inf")}, id="b")
        with pytest.raises(TypeError, match="given object"):
            client.forecast("f", {"x": object()}, id="b")
        assert len(asked) == 1


def test_ids_of_a_type_of_their_own_are_the_same_text_in_bodies_and_addresses() -> None:
    Name = enum.Enum("Name", {"FIRST": "a1", "SHOP": "shop"}, type=str)
    with scripted((200, ISSUED | {"state": "learned"}, {})) as (client, asked):
        client.forecast("f", {Name["SHOP"]: 1}, id=Name["FIRST"])
        client.outcome("f", Name["FIRST"], 1.0)
    assert (asked[0][2]["id"], asked[0][2]["record"]) == ("a1", {"shop": 1})
    assert asked[1][1] == "/v1/forecasters/f/outcomes/a1"


def test_live_figures_go_on_after_the_stream_breaks() -> None:
    def stream(*numbers: int) -> bytes:
        return b"".join(b'id: %d\ndata: {"n": %d}\n\n' % (n, n) for n in numbers)

    with scripted((200, stream(1, 2), {}), BUSY, (200, stream(3), {})) as (client, asked):
        figures = client.live("f")
        assert [next(figures)["n"] for _ in range(3)] == [1, 2, 3]
        figures.close()
    assert {path for _, path, _, _ in asked} == {"/forecasters/f/live"}


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://here", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url: given"):
        swapcal.Client(url)
