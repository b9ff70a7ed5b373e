"""The service over HTTP: every address of the contract, its answers and its refusals."""

import contextlib
import http.client
import io
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("msgspec")
pytest.importorskip("httptools")
pytest.importorskip("apsw")
pytest.importorskip("prometheus_client")

from swapcal import Client
from swapcal.service import Limits, Server, Worker, auth, open_store, server
from swapcal.service.auth import create_token, revoke_token
from swapcal.service.settings import JsonLog
from tests.service_server import Caller, served

SHOP = "/v1/forecasters/shop"
PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with served(tmp_path_factory.mktemp("store")) as caller:
        assert caller.post("/v1/forecasters", {"name": "shop", "groups": ["city"]}).status == 201
        yield caller


def forecast(service: Caller, id: Any, **record: Any) -> Any:
    return service.post(f"{SHOP}/forecasts", {"id": id, "record": {"city": "Rome", "price": 3.0, **record}})


def test_a_forecaster_is_made_once(service: Caller) -> None:
    again = service.post("/v1/forecasters", {"name": "shop", "groups": ["city"]})
    assert (again.status, again.body["settings"]["groups"]) == (200, ["city"])
    other = service.post("/v1/forecasters", {"name": "shop", "groups": ["city", "day"]})
    assert (other.status, other.headers["content-type"]) == (409, PROBLEM)
    assert (other.body["given"], other.body["known"]) == ({"groups": ["city", "day"]}, {"groups": ["city"]})
    assert "shop" in [one["name"] for one in service.get("/v1/forecasters").body["forecasters"]]
    assert service.get(SHOP).body["settings"]["order"] == "arrival"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "a b"}, "name"),
        ({"groups": []}, "name: given none, expected one"),
        ({"name": "x", "speed": 3}, "speed"),
        ({"name": "x", "max_open": 0}, "max_open"),
        ({"name": "x", "ridge": 1e9}, "ridge"),
        ({"name": "x", "order": "random"}, "order: given 'random', expected one of arrival, issue"),
        ({"name": "x", "patience": 3}, "patience"),
        ({"name": "x", "groups": ["a", "a"]}, "a"),
        ({"name": "x", "watch": {"tolerance": 0.5}}, "stakes"),
    ],
)
def test_settings_that_make_no_sense_are_refused(service: Caller, body: Any, words: str) -> None:
    found = service.post("/v1/forecasters", body)
    assert found.status == 422
    assert words in found.body["detail"]


def test_the_same_forecast_again_and_another_of_the_same_id(service: Caller) -> None:
    first = forecast(service, "twice")
    assert (first.status, set(first.body)) == (200, {"id", "p", "mean", "low", "high", "weight", "seq"})
    assert forecast(service, "twice").body == first.body
    other = forecast(service, "twice", price=4.0)
    assert (other.status, other.body["known"]["price"], other.body["given"]["price"]) == (409, 3.0, 4.0)


def test_the_first_outcome_wins(service: Caller) -> None:
    forecast(service, "won")
    first = service.put(f"{SHOP}/outcomes/won", {"y": 1})
    assert (first.status, first.body["y"], first.body["state"]) == (200, 1.0, "learned")
    assert service.put(f"{SHOP}/outcomes/won", {"y": True}).body["state"] == "repeated"
    other = service.put(f"{SHOP}/outcomes/won", {"y": 0})
    assert (other.status, other.body["given"], other.body["known"]) == (409, 0.0, 1.0)
    shown = service.get(f"{SHOP}/forecasts/won").body
    assert (shown["state"], shown["outcome"]["y"], shown["record"]["city"]) == ("learned", 1.0, "Rome")


def test_an_outcome_has_a_weight_and_the_first_wins(service: Caller) -> None:
    path = "/v1/forecasters/sampled"
    service.post("/v1/forecasters", {"name": "sampled", "groups": ["city"], "watch": {"max_weight": 8}})
    rows = [{"id": k, "record": {"city": "ab"[k % 2]}} for k in range(40)]
    assert service.put(f"{path}/outcomes/0", {"y": 1, "weight": 4}).body["state"] == "parked"
    service.post(f"{path}/forecasts", {"forecasts": rows})
    many = [{"id": k, "y": k % 4 // 2, "weight": 1 + 3 * (k % 4 > 1)} for k in range(1, 40)]
    many[-1]["weight"] = 9
    answers = service.post(f"{path}/outcomes", {"outcomes": many}).body["outcomes"]
    assert [answer.get("state") for answer in answers] == 38 * ["learned"] + [None]
    assert "weight: given 9 for id '39', expected" in answers[-1]["detail"]
    assert service.put(f"{path}/outcomes/0", {"y": 1, "weight": 4.0}).body["state"] == "repeated"
    other = service.put(f"{path}/outcomes/0", {"y": 1})
    assert (other.status, other.body["given"], other.body["known"]) == (409, 1.0, 4.0)
    assert "weight: given 1 for id '0', expected 4 as before" in other.body["detail"]
    assert service.get(f"{path}/forecasts/0").body["outcome"]["weight"] == 4.0
    weight = [4.0, *(one["weight"] for one in many[:-1])]
    y = [1.0, *(float(one["y"]) for one in many[:-1])]
    status = service.get(f"{path}/status").body
    assert (status["labels"], status["weighted"]) == (39, sum(w != 1 for w in weight))
    assert status["base_rate"] == pytest.approx(np.average(y, weights=weight))
    groups = {one["name"]: one for one in service.get(f"{path}/audit").body["groups"]}
    assert groups["city = a"]["mean_y"] == pytest.approx(np.average(y[::2], weights=weight[::2]))
    service.post(f"{path}/corrections/0", {"y": 1, "reason": "drawn with one half", "weight": 2})
    groups = {one["name"]: one for one in service.get(f"{path}/audit").body["groups"]}
    assert groups["city = a"]["mean_y"] == pytest.approx(np.average(y[::2], weights=[2.0, *weight[2::2]]))
    assert service.get(f"{path}/forecasts/0").body["corrections"][0]["weight"] == 2.0


def test_an_outcome_may_come_first(service: Caller) -> None:
    assert service.put(f"{SHOP}/outcomes/early", {"y": 0}).body["state"] == "parked"
    assert service.get(f"{SHOP}/forecasts/early").body["state"] == "parked"
    forecast(service, "early")
    shown = service.get(f"{SHOP}/forecasts/early").body
    assert (shown["state"], shown["outcome"]["parked"]) == ("learned", True)


def test_an_outcome_before_its_maturity_is_held(service: Caller) -> None:
    path = "/v1/forecasters/stays"
    service.post("/v1/forecasters", {"name": "stays"})
    row = {"id": 7, "record": {"x": 1}, "time": "2026-01-01T00:00:00", "matures": "2026-01-09"}
    assert service.post(f"{path}/forecasts", row).body["id"] == "7"
    assert service.put(f"{path}/outcomes/7", {"y": 1, "time": "2026-01-02"}).body["state"] == "held"
    assert service.get(f"{path}/forecasts/7").body["state"] == "held"
    assert service.get(f"{path}/status").body["held"] == 1
    service.post(f"{path}/forecasts", {"id": 8, "record": {"x": 1}, "time": "2026-01-10"})
    assert service.get(f"{path}/forecasts/7").body["state"] == "learned"


def test_many_forecasts_each_with_its_own_answer(service: Caller) -> None:
    rows = [
        {"id": "m1", "record": {"city": "Bari", "price": 1}},
        {"id": "m2", "record": {"city": "Bari", "price": "cheap"}},
        {"id": "m3"},
        {"id": "", "record": {}},
        {"id": "m1", "record": {"city": "Bari", "price": 1}},
        {"id": "m4", "record": {"city": ["a", "b"]}},
        {"id": "m5", "record": {"city": "Bari"}, "time": "yesterday"},
    ]
    found = service.post(f"{SHOP}/forecasts", {"forecasts": rows})
    assert found.status == 200
    assert [one.get("status", 200) for one in found.body["forecasts"]] == [200, 422, 422, 422, 200, 422, 422]
    assert found.body["forecasts"][0] == found.body["forecasts"][4]
    words = [one.get("detail", "") for one in found.body["forecasts"]]
    assert "row 3: record: given none, expected one" in words
    lines = service.lines(f"{SHOP}/forecasts", rows[0], "nope", {"id": "m6", "record": {"city": "Rome"}})
    assert [one.get("status", 200) for one in lines.body] == [200, 400, 200]
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert lines.body[0] == found.body["forecasts"][0]


def test_many_outcomes_each_with_its_own_answer(service: Caller) -> None:
    for id in ("o1", "o2"):
        forecast(service, id)
    rows = [{"id": "o1", "y": 1}, {"id": "o2", "y": 2}, {"id": "o1", "y": 0}, {"id": "o3", "y": 1}, {"y": 1}]
    found = service.post(f"{SHOP}/outcomes", {"outcomes": rows}).body["outcomes"]
    assert [one.get("state", one.get("status")) for one in found] == ["learned", 422, 409, "parked", 422]
    assert service.lines(f"{SHOP}/outcomes", {"id": "o2", "y": 0}).body[0]["state"] == "learned"


def test_a_preview_stores_nothing(service: Caller) -> None:
    before = service.get(f"{SHOP}/status").body
    one = service.post(f"{SHOP}/preview", {"record": {"city": "Rome", "price": 3.0}})
    many = service.post(f"{SHOP}/preview", {"records": [{"city": "Rome", "price": 3.0}, {"city": "Oslo"}]})
    assert (one.status, many.status) == (200, 200)
    assert set(one.body) == {"p", "mean", "low", "high", "weight"}
    assert many.body["forecasts"][0]["mean"] == one.body["mean"]
    assert service.get(f"{SHOP}/status").body == before
    assert service.post(f"{SHOP}/preview", {"record": {"price": "dear"}}).status == 422
    assert service.post(f"{SHOP}/preview", {}).status == 422


def test_a_correction_counts_in_audits(service: Caller) -> None:
    path = "/v1/forecasters/corrected"
    service.post("/v1/forecasters", {"name": "corrected", "groups": ["city"]})
    rows = [{"id": k, "record": {"city": "ab"[k % 2]}, "time": k} for k in range(40)]
    service.post(f"{path}/forecasts", {"forecasts": rows})
    service.post(f"{path}/outcomes", {"outcomes": [{"id": k, "y": 1} for k in range(40)]})
    assert service.post(f"{path}/corrections/3", {"y": 0, "reason": "mistyped"}).body["before"] == 1.0
    assert service.get(f"{path}/forecasts/3").body["corrections"][0]["reason"] == "mistyped"
    whole = service.get(f"{path}/audit").body
    assert whole["identity"]["n"] == 40
    assert next(one for one in whole["groups"] if one["name"] == "city = b")["mean_y"] == pytest.approx(0.95)
    part = service.get(f"{path}/audit?since=10&until=30").body
    assert part["identity"]["n"] == 20
    page = service.get(f"{path}/report?since=10")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "corrected" in page.body
    assert service.get(f"{path}/audit?since=1000").status == 404
    assert service.get(f"{path}/audit?since=soon").status == 422


def test_everything_about_an_open_forecast_with_its_explanation(service: Caller) -> None:
    forecast(service, "why/so?")
    shown = service.get(f"{SHOP}/forecasts/why%2Fso%3F").body
    assert (shown["id"], shown["state"]) == ("why/so?", "open")
    told = shown["explanation"]
    assert told["base"] + sum(term["amount"] for term in told["terms"]) == pytest.approx(shown["mean"], abs=1e-9)
    assert service.get(f"{SHOP}/forecasts/never").status == 404


def test_a_forecast_decides(service: Caller) -> None:
    made = forecast(service, "act").body
    for at in ("mean", "p"):
        found = service.get(f"{SHOP}/decide/act?loss=squared{'' if at == 'mean' else '&at=p'}")
        assert (found.body["action"], found.body["p"], found.body["mean"]) == (made[at], made["p"], made["mean"])
        assert found.body["expected_cost"] == pytest.approx(made[at] * (1 - made[at]))
        assert found.body["at"] == at
    assert service.get(f"{SHOP}/decide/act?loss=squared&at=level").status == 422
    assert service.get(f"{SHOP}/decide/act?loss=newsvendor:3,over=@price").status == 200
    assert service.get(f"{SHOP}/decide/act?loss=wishes").status == 422
    assert service.get(f"{SHOP}/decide/act").status == 422
    assert service.get(f"{SHOP}/decide/never?loss=squared").status == 404


def test_certificate_and_alarms_have_words(service: Caller) -> None:
    told = service.get(f"{SHOP}/certificate").body
    assert told["psreg"] <= told["bound"]
    assert "outcomes" in told["sentence"]
    assert service.get(f"{SHOP}/status").body["issued"] == told["issued"]
    assert told["issued"]["labels"] == told["rounds"] > 0
    assert service.get(f"{SHOP}/alarms").body["sentence"]


@pytest.mark.parametrize(
    ("method", "path", "content", "media", "status"),
    [
        ("POST", f"{SHOP}/forecasts", b"{", "application/json", 400),
        ("POST", f"{SHOP}/forecasts", b"\xff", "application/json", 400),
        ("POST", f"{SHOP}/forecasts", b'{"id": "d", "record": {"g": "\xff"}}', "application/json", 400),
        ("POST", f"{SHOP}/preview", b'{"record": {"g": "\xff"}}', "application/json", 400),
        ("POST", f"{SHOP}/forecasts", b'{"forecasts":' + b"[" * 100_000, "application/json", 400),
        ("POST", f"{SHOP}/forecasts", b"[]", "application/json", 422),
        ("POST", f"{SHOP}/forecasts", b'{"id": 1, "record": {"a": 1e999}}', "application/json", 422),
        ("POST", f"{SHOP}/forecasts", b'{"id": "a", "record": {"a": NaN}}', "application/json", 400),
        ("POST", f"{SHOP}/forecasts", b'{"id": "\\u0000", "record": {}}', "application/json", 422),
        ("POST", f"{SHOP}/forecasts", b'{"id": true, "record": {}}', "application/json", 422),
        ("POST", f"{SHOP}/forecasts", b"id=1", "application/x-www-form-urlencoded", 415),
        ("POST", f"{SHOP}/preview", b"{}", "application/x-ndjson", 415),
        ("PUT", f"{SHOP}/outcomes/a", b'{"y": "yes"}', "application/json", 422),
        ("PUT", f"{SHOP}/outcomes/a", b'{"y": null}', "application/json", 422),
        ("PUT", f"{SHOP}/outcomes/a", b'{"y": -0.1}', "application/json", 422),
        ("PUT", f"{SHOP}/outcomes/a", b'{"y": 1, "weight": 2}', "application/json", 422),
        ("PUT", f"{SHOP}/outcomes/a", b'{"y": 1, "weight": 0.5}', "application/json", 422),
        ("PUT", f"{SHOP}/outcomes/a", b'{"y": 1, "weight": 0}', "application/json", 422),
        ("PUT", f"{SHOP}/outcomes/a", b'{"y": 1, "weight": null}', "application/json", 422),
        ("PUT", f"{SHOP}/outcomes/a", b'{"y": 1, "weight": 1e999}', "application/json", 422),
        ("POST", f"{SHOP}/corrections/a", b'{"y": 1, "reason": "a", "weight": -1}', "application/json", 422),
        ("PUT", f"{SHOP}/outcomes/" + 300 * "a", b'{"y": 1}', "application/json", 422),
        ("PUT", "/v1/forecasters/none/outcomes/a", b'{"y": 1}', "application/json", 404),
        ("POST", f"{SHOP}/corrections/a", b'{"y": 1}', "application/json", 422),
        ("GET", "/v1/forecasters/none/status", None, "application/json", 404),
        ("GET", "/v1/forecasters/none/forecasts/a", None, "application/json", 404),
        ("GET", "/v1/forecasters/none", None, "application/json", 404),
        ("POST", "/v1/forecasters/none/forecasts", b'{"forecasts": []}', "application/json", 404),
        ("POST", "/v1/forecasters/none/outcomes", b'{"outcomes": []}', "application/json", 404),
        ("POST", "/v1/forecasters/none/preview", b'{"records": []}', "application/json", 404),
        ("GET", "/nowhere", None, "application/json", 404),
        ("PUT", f"{SHOP}/outcomes/a%FF", b'{"y": 1}', "application/json", 400),
        ("POST", f"{SHOP}/corrections/a%FE", b'{"y": 1, "reason": "typo"}', "application/json", 400),
        ("GET", f"{SHOP}/forecasts/%ED%A0%80", None, "application/json", 400),
        ("GET", f"{SHOP}/decide/a%C3?loss=squared", None, "application/json", 400),
        ("GET", f"{SHOP}/decide/a?loss=%FF", None, "application/json", 400),
        ("GET", "/v1/forecasters/%FF/status", None, "application/json", 400),
        ("DELETE", SHOP, None, "application/json", 405),
    ],
)
def test_refusals_are_problems(
    service: Caller, method: str, path: str, content: bytes | None, media: str, status: int
) -> None:
    found = service.send(method, path, content, content_type=media)
    assert (found.status, found.headers["content-type"]) == (status, PROBLEM)
    assert found.body["status"] == status
    assert found.body["detail"]
    assert found.body["type"].startswith("urn:swapcal:")


def test_ids_are_any_text_in_utf8(service: Caller) -> None:
    for id in ("\ufffd", "\u00e9 \U0001f600/?#%FF", "%FF"):
        assert forecast(service, id).status == 200
        path = quote(id, safe="")
        assert service.get(f"{SHOP}/forecasts/{path}").body["id"] == id
        told = service.put(f"{SHOP}/outcomes/{path}", {"y": 1}).body
        assert told == {"id": id, "y": 1.0, "state": "learned", "seq": ANY}


def test_another_method_is_told_which_there_are(service: Caller) -> None:
    assert service.send("DELETE", "/v1/forecasters").headers["allow"] == "GET, HEAD, POST"


def test_figures_are_null_before_there_are_any(service: Caller) -> None:
    service.post("/v1/forecasters", {"name": "fresh"})
    found = service.get("/v1/forecasters/fresh/status").body
    assert (found["coverage"], found["brier"]["forecast"], found["delay"]["mean"]) == (None, None, None)
    assert 'swapcal_coverage{forecaster="fresh"} NaN' in service.get("/metrics").body


def test_health_readiness_metrics_and_the_document(service: Caller) -> None:
    assert service.get("/healthz").body == {"status": "ok"}
    assert service.get("/readyz").body == {"status": "ready"}
    metrics = service.get("/metrics").body
    for name in ("queue_depth", "commit_seconds_bucket", "open", "held", "parked", "expired", "coverage", "brier"):
        assert f"swapcal_{name}" in metrics
    for name in ("alarms", "delay_seconds_count"):
        assert f'swapcal_{name}{{forecaster="shop"' in metrics
    document = service.get("/openapi.json").body
    assert document["openapi"] == "3.1.0"
    assert {f"{SHOP}/forecasts".replace("shop", "{name}"), "/v1/forecasters"} <= set(document["paths"])
    references = {part.split('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}
    assert references <= set(document["components"]["schemas"])


def test_limits_have_status_codes(tmp_path: Path) -> None:
    with served(tmp_path, Limits(body=2000, rows=2, columns=3, id=5, arrival=0.4)) as service:
        service.post("/v1/forecasters", {"name": "shop"})
        row = {"id": "a", "record": {}}
        assert service.post(f"{SHOP}/forecasts", {"forecasts": [row] * 3}).status == 413
        assert service.post(f"{SHOP}/forecasts", {**row, "id": "abcdef"}).status == 422
        assert service.post(f"{SHOP}/forecasts", {**row, "record": dict.fromkeys("abcd", 1)}).status == 422
        large = service.send("POST", f"{SHOP}/forecasts", b" " * 3000, content_type="application/json")
        assert (large.status, large.headers["connection"]) == (413, "close")
        head = b"POST %s/forecasts HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % SHOP.encode()
        piece = b"3e8\r\n" + b" " * 1000 + b"\r\n"
        chunked = _said(service, head + b"transfer-encoding: chunked\r\n\r\n" + 4 * piece)
        assert b" 413 " in chunked.splitlines()[0]
        slow = _said(service, head + b"content-length: 100\r\n\r\n{")
        assert b" 408 " in slow.splitlines()[0]
        assert _said(service, b"GET /healthz HTTP/1.1\r\nhost:") == b""
        assert _said(service, b"") == b""
        assert service.post(f"{SHOP}/forecasts", row).status == 200


def _said(service: Caller, content: bytes) -> bytes:
    """Return what the service says to a client that sends this and no more, until it hangs up."""
    with socket.create_connection((service.host, service.port), timeout=10) as connection:
        connection.sendall(content)
        found = b""
        while part := connection.recv(4096):
            found += part
        return found


def test_one_connection_too_many_is_told_to_come_back(tmp_path: Path) -> None:
    with served(tmp_path, Limits(connections=2)) as service:
        crowd = [socket.create_connection((service.host, service.port)) for _ in range(2)]
        time.sleep(0.1)
        found = service.get("/healthz")
        assert (found.status, found.headers["retry-after"]) == (503, "5")
        for connection in crowd:
            connection.close()


def test_idle_connections_make_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LEAST_IDLE", 0.2)
    with served(tmp_path, Limits(connections=3)) as service, contextlib.ExitStack() as stack:
        host = service.url.removeprefix("http://")
        kept = [stack.enter_context(contextlib.closing(http.client.HTTPConnection(host, timeout=30))) for _ in range(3)]
        for one in kept:
            one.request("GET", "/healthz")
            one.getresponse().read()
        assert service.get("/healthz").status == 503  # all of them were at work just now
        time.sleep(0.25)
        kept[0].request("GET", "/healthz")
        assert kept[0].getresponse().read()
        assert service.get("/healthz").status == 200
        kept[0].request("GET", "/healthz")  # the idlest went, not this one
        assert kept[0].getresponse().read()
        assert kept[1].sock.recv(1) == b""


def test_tokens_open_what_they_are_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    with served(tmp_path, tokens=True, log=JsonLog("all", out)) as service:
        store = open_store(str(tmp_path / "forecasts.db"))
        made = {scope: create_token(store, [scope], scope)[1] for scope in ("forecast", "outcome", "read", "admin")}
        callers = {scope: Caller(service.url, token) for scope, token in made.items()}
        assert service.get("/healthz").status == 200
        refused = service.get("/v1/forecasters")
        assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer realm="swapcal"')
        assert Caller(service.url, "swapcal_guessed").get("/v1/forecasters").status == 401
        assert callers["admin"].post("/v1/forecasters", {"name": "shop"}).status == 201
        row = {"id": "a", "record": {"x": 1}}
        assert callers["forecast"].post(f"{SHOP}/forecasts", row).status == 200
        assert callers["outcome"].post(f"{SHOP}/forecasts", row).status == 403
        assert callers["forecast"].put(f"{SHOP}/outcomes/a", {"y": 1}).status == 403
        assert callers["outcome"].put(f"{SHOP}/outcomes/a", {"y": 1}).status == 200
        assert callers["outcome"].post(f"{SHOP}/corrections/a", {"y": 0, "reason": "x"}).status == 403
        assert callers["read"].get("/metrics").status == 200
        assert callers["forecast"].get("/metrics").status == 403
        revoke_token(store, "read")
        monkeypatch.setattr(auth, "FRESH", 0.0)
        assert callers["read"].get("/metrics").status == 401
        store.close()
    told = out.getvalue().decode()
    assert not [token for token in made.values() if token in told]
    events = [json.loads(line) for line in told.splitlines()]
    assert {"commit", "request", "refused", "snapshot", "stopped"} <= {event["event"] for event in events}
    assert next(event for event in events if event["event"] == "commit")["last"] >= 1


def test_tokens_are_off_only_on_loopback(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "forecasts.db"), learner=True, create=True)
    worker = Worker(store)
    with pytest.raises(ValueError, match="expected them unless"):
        Server(worker, "0.0.0.0", 0, tokens=False)
    worker.close()


def test_a_page_of_another_site_is_kept_out(service: Caller) -> None:
    assert service.send("GET", "/v1/forecasters", host="evil.example").status == 421
    assert service.send("GET", "/v1/forecasters", host="localhost:1234").status == 200
    assert service.send("POST", "/v1/forecasters", b'{"name": "x"}', content_type="text/plain").status == 415


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as service:
        service.post("/v1/forecasters", {"name": "shop", "groups": ["city"]})
        first = forecast(service, "a").body
        service.put(f"{SHOP}/outcomes/a", {"y": 1})
        status = service.get(f"{SHOP}/status").body
        upcoming = service.post(f"{SHOP}/preview", {"record": {"city": "Rome", "price": 5}}).body
    with served(tmp_path) as service:
        assert forecast(service, "a").body == first
        assert service.put(f"{SHOP}/outcomes/a", {"y": 1}).body["state"] == "repeated"
        assert service.get(f"{SHOP}/status").body == status
        assert service.post(f"{SHOP}/preview", {"record": {"city": "Rome", "price": 5}}).body == upcoming


def test_which_of_all_forecasters_are_off(tmp_path: Path) -> None:
    with served(tmp_path) as service:
        rng = np.random.default_rng(4)
        for name in ("right", "wrong"):
            path = f"/v1/forecasters/{name}"
            watch = {"tolerance": 0.0}
            service.post("/v1/forecasters", {"name": name, "scores": ["s"], "watch": watch, "ridge": 1e6})
            for start in range(0, 400, 100):  # outcomes turn round before the forecaster can follow
                rows = [{"id": k, "record": {"s": 0.1}} for k in range(start, start + 100)]
                service.post(f"{path}/forecasts", {"forecasts": rows})
                rate = 0.9 if name == "wrong" and start < 200 else 0.1
                y = (rng.random(100) < rate).astype(int).tolist()
                outcomes = [{"id": one["id"], "y": y[k]} for k, one in enumerate(rows)]
                service.post(f"{path}/outcomes", {"outcomes": outcomes})
        found = service.get("/v1/alarms").body
        assert (found["q"], found["off"]) == (0.1, 1)
        first = found["forecasters"][0]
        assert (first["name"], first["off"], first["labels"]) == ("wrong", True, 400)
        count = len(service.get("/v1/forecasters").body["forecasters"])
        assert len(found["forecasters"]) == count
        assert f"1 of {count} forecasters is off beyond chance: at most 10 % of such a list" in found["sentence"]
        limit = count / 10 ** first["evidence"]
        assert service.get(f"/v1/alarms?q={1.01 * limit!r}").body["off"] == 1
        assert service.get(f"/v1/alarms?q={0.99 * limit!r}").body["off"] == 0
        for q in ("0", "1", "-1", "nan", "all"):
            refused = service.get(f"/v1/alarms?q={q}")
            assert (refused.status, refused.body["detail"]) == (
                422,
                f"q: given {q!r}, expected a number between 0 and 1",
            )
        with Client(service.url) as client:
            assert client.fleet(0.2)["q"] == 0.2


def test_an_absent_column_is_refused_and_a_missing_value_is_counted(service: Caller) -> None:
    assert service.post("/v1/forecasters", {"name": "scored", "scores": ["s"], "groups": ["city"]}).status == 201
    path = "/v1/forecasters/scored"

    def posted(id: str, record: Any, kind: str = "forecasts") -> Any:
        return service.post(f"{path}/{kind}", {"record": record} if kind == "preview" else {"id": id, "record": record})

    assert posted("a", {"s": 0.9, "city": "Rome", "price": 1.0}).status == 200
    for record in ({"S": 0.9, "city": "Rome"}, {}, {"s": 0.9}):
        for kind in ("forecasts", "preview"):
            refused = posted("b", record, kind)
            assert (refused.status, refused.body["title"]) == (422, "Unprocessable Content")
            assert "declared but absent" in refused.body["detail"]
    assert posted("c", {"s": None, "city": None, "price": 2.0}).status == 200
    found = service.get(f"{path}/status").body
    assert found["missing"] == [
        {"column": "s", "forecasts": 1, "jumped": False},
        {"column": "city", "forecasts": 1, "jumped": False},
    ]
    for k in range(3):
        rows = [{"id": f"{k} {j}", "record": {"s": None if k == 2 else 0.5, "city": "Rome"}} for j in range(130)]
        assert service.post(f"{path}/forecasts", {"forecasts": rows}).status == 200
    found = service.get(f"{path}/status").body
    assert (found["missing"][0]["jumped"], found["missing"][1]["jumped"]) == (True, False)
    assert found["warnings"][0].startswith("'s' is missing in ")
    text = service.get("/metrics").body
    assert 'swapcal_missing_values_total{column="s",forecaster="scored"} 131.0' in text
    assert 'swapcal_missing_jumped{column="s",forecaster="scored"} 1.0' in text


def test_given_scores_stand_beside_the_forecasts_and_one_kind_of_outcome_is_too_early(service: Caller) -> None:
    assert service.post("/v1/forecasters", {"name": "beside", "scores": ["good", "bad"]}).status == 201
    path, rng = "/v1/forecasters/beside", np.random.default_rng(4)
    truth = rng.uniform(0.02, 0.98, 1500)
    y = (rng.random(1500) < truth).astype(float)
    y[:250] = 0.0

    def reported(a: int, b: int) -> Any:
        rows = [{"id": f"{k}", "record": {"good": float(truth[k]), "bad": float(1 - truth[k])}} for k in range(a, b)]
        made = service.post(f"{path}/forecasts", {"forecasts": rows}).body["forecasts"]
        outcomes = [{"id": f"{k}", "y": float(y[k])} for k in range(a, b)]
        assert service.post(f"{path}/outcomes", {"outcomes": outcomes}).status == 200
        return [row["mean"] for row in made]

    mean = reported(0, 250)
    found = service.get(f"{path}/status").body
    assert (found["early"], found["scores"][0]["low"]) == (True, None)
    assert "too early to tell" in found["scores"][0]["sentence"]
    for a in range(250, 1500, 50):
        mean += reported(a, a + 50)
    found = service.get(f"{path}/status").body
    assert not found["early"]
    for score, given in zip(found["scores"], (truth, 1 - truth), strict=True):
        d = (np.array(mean) - y) ** 2 - (given - y) ** 2
        assert score["brier"] == pytest.approx(np.mean((given - y) ** 2), rel=1e-6)
        assert score["difference"] == pytest.approx(d.mean(), rel=1e-6)
        reach = 1.96 * d.std() / len(d) ** 0.5
        assert (score["low"], score["high"]) == pytest.approx((d.mean() - reach, d.mean() + reach), rel=1e-6)
    assert "better than bad" in found["scores"][1]["sentence"]
    assert "All outcomes so far: " in (page := service.get("/v1/forecasters/beside/report").body)
    assert "The forecasts are better than bad by the Brier score" in page
    assert 'swapcal_score_brier{forecaster="beside",score="bad"}' in service.get("/metrics").body
