"""The dashboard without a browser: pages, live figures, who may see them; and the webhook."""

import asyncio
import html
import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("msgspec")
pytest.importorskip("httptools")
pytest.importorskip("apsw")
pytest.importorskip("jinja2")
pytest.importorskip("prometheus_client")

import swapcal
from swapcal.service import Server, Worker, open_store, webhook
from swapcal.service.auth import create_token
from swapcal.service.client import ServiceError
from swapcal.service.dashboard import feed, pages
from swapcal.service.dashboard.pages import dashboard
from swapcal.service.dashboard.render import FILES
from swapcal.service.hosted import HostedForecaster
from swapcal.service.messages import OutcomeRowIn
from swapcal.service.settings import unavailable
from swapcal.service.webhook import Webhook, alarms_of
from tests.service_server import Caller, Reply, served
from tests.service_worker import row

SHOP = "/v1/forecasters/shop"
EVIL = '<img src=x onerror="alert(1)">&{{7*7}}'


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with served(tmp_path_factory.mktemp("store"), pages=dashboard()) as caller:
        caller.post("/v1/forecasters", {"name": "empty"})
        caller.post("/v1/forecasters", {"name": "waiting"})
        caller.post("/v1/forecasters/waiting/forecasts", {"id": "a", "record": {"x": 1}})
        caller.post("/v1/forecasters", {"name": "shop", "groups": ["city"]})
        fill(caller)
        yield caller


def fill(caller: Caller, prefix: str = "", rows: int = 120) -> None:
    drafts = [
        {"id": f"{prefix}{k}", "record": {"city": EVIL if k % 3 else "Oslo", "price": k % 7, "paid": None}}
        for k in range(rows)
    ]
    drafts.append({"id": f"{prefix}{EVIL}", "record": {EVIL: EVIL, "city": "Oslo"}})
    assert caller.post(f"{SHOP}/forecasts", {"forecasts": drafts}).status == 200
    outcomes = [{"id": f"{prefix}{k}", "y": int(k % 4 == 0)} for k in range(rows - 20)]
    assert caller.post(f"{SHOP}/outcomes", {"outcomes": outcomes}).status == 200


def foreign(page: str) -> list[Any]:
    """Return what a strict policy would block: inline scripts, styles and handlers, and addresses elsewhere."""
    found: list[Any] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag in ("style", "img", "iframe") or (tag == "script" and "src" not in dict(attrs)):
                found.append(tag)
            for name, value in attrs:
                elsewhere = name in ("src", "href", "action") and not re.match(r"/(?!/)|#", value or "")
                if name == "style" or name.startswith("on") or elsewhere:
                    found.append((tag, name, value))

    Parser().feed(page)
    return found


def events(caller: Caller, path: str, number: int, headers: dict[str, str] | None = None) -> list[dict[str, str]]:
    """Read server-sent events as the standard says, fields by name."""
    connection = http.client.HTTPConnection(caller.host, caller.port, timeout=30)
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    assert answer.headers["content-type"].startswith("text/event-stream")
    found: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    for line in answer:
        text = line.decode().rstrip("\n")
        name, _, value = text.partition(": ")
        if text:
            fields[name or "comment"] = value
        elif fields:
            found.append(fields)
            fields = {}
        if len(found) == number:
            break
    connection.close()
    return found


def test_every_page_renders_under_a_strict_policy(service: Caller) -> None:
    for path in (
        "/",
        "/forecasters/shop",
        "/forecasters/empty",
        "/forecasters/waiting",
        "/forecasters/none",
        "/sign-in",
    ):
        page = service.get(path)
        assert page.status == {"/forecasters/none": 404, "/sign-in": 303}.get(path, 200), path
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["cache-control"] == "no-store"
        assert foreign(page.body) == [], path


def test_the_overview_says_how_each_forecaster_stands(service: Caller) -> None:
    body = service.get("/").body
    assert "Waiting for the first forecast" in body
    assert "Waiting for the first outcome" in body
    assert 'href="/forecasters/shop"' in body


def test_the_overview_shows_the_forecasters_that_are_looked_for(service: Caller) -> None:
    found = {words: service.get(f"/?find={quote(words)}").body for words in ("sho", "first waiting", "none such", EVIL)}
    named = {words: re.findall(r'id="row-(\w+)"', body) for words, body in found.items()}
    assert [*named.values()] == [["shop"], ["waiting", "empty"], [], []]
    assert 'value="sho"' in found["sho"]
    assert EVIL not in found[EVIL]


def test_those_to_look_at_first_come_first() -> None:
    def row(name: str, kind: str, evidence: float | None = None, *, off: bool = False) -> dict[str, Any]:
        known = {} if evidence is None else {"evidence": evidence}
        return {"name": name, "state": {"kind": kind}, "off": off, **known}

    rows = [
        row("a", "fine", 0.1), row("b", "alarm", 1.0), row("c", "alarm", 9.0, off=True), row("d", "unavailable"),
        row("e", "alarm", 2.0), row("f", "empty", 0.0), row("g", "early", 4.0, off=True),
    ]  # fmt: skip
    assert "".join(one["name"] for one in sorted(rows, key=feed.urgency)) == "cgebdfa"


def test_a_service_without_forecasters_says_how_to_make_one(tmp_path: Path) -> None:
    with served(tmp_path, pages=dashboard()) as caller:
        assert "There is no forecaster yet" in caller.get("/").body
        assert caller.get("/forecasters/shop").status == 404
        assert caller.get("/forecasters/shop/live").status == 404


def test_the_commands_on_a_page_that_waits_for_records_are_accepted(tmp_path: Path) -> None:
    with served(tmp_path, pages=dashboard()) as caller:
        caller.post("/v1/forecasters", {"name": "plain"})
        caller.post("/v1/forecasters", {"name": "ads", "groups": ["slot", EVIL], "scores": ["model's"]})
        for name, declared in (("plain", []), ("ads", ["slot", EVIL, "model's"])):
            page = caller.get(f"/forecasters/{name}").body
            (first,) = re.findall(r"curl --json '(.*)' …/v1/forecasters/.*/forecasts", page)
            draft = json.loads(html.unescape(first))
            assert sorted(draft["record"]) == sorted([*declared, "hour"])
            assert caller.post(f"/v1/forecasters/{name}/forecasts", draft).status == 200


def test_html_in_ids_columns_and_categories_stays_text(service: Caller) -> None:
    page = service.get(f"/forecasters/shop?id={quote(EVIL, safe='')}&loss={quote(EVIL, safe='')}").body
    card = service.get("/forecasters/shop/card").body
    for text in (page, card):
        assert "<img" not in text
        assert "&lt;img src=x" in text
        assert "{{7*7}}" in text
    assert "not one of" in page or "loss: " in page
    live = events(service, "/forecasters/shop/live?html=1", 2)[-1]
    assert "<img" not in json.loads(live["data"])["html"]


def test_a_forecast_by_id_has_its_reasons_outcome_and_decisions(service: Caller) -> None:
    opened = service.get("/forecasters/shop?id=119&loss=pinball:0.75").body
    for words in ("its outcome is not known yet", "Why: the mean forecast is", "pinball:0.75", "zero_one:1,10"):
        assert words in opened
    learned = service.get("/forecasters/shop?id=4").body
    assert "its outcome was 1" in learned
    assert "The same record would be forecast" in learned
    assert "expected one that was forecast" in service.get("/forecasters/shop?id=nobody").body
    assert "loss: " in service.get("/forecasters/shop?id=4&loss=nonsense").body


def test_a_forecaster_that_cannot_be_asked_and_a_fault_have_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(hosted: HostedForecaster, known: int | None = None) -> Any:
        raise unavailable("It is being rebuilt.")

    def broken(hosted: HostedForecaster, known: int | None = None) -> Any:
        raise KeyError(EVIL)

    monkeypatch.setattr(feed, "PAUSE", 0.0)
    with served(tmp_path, pages=dashboard()) as caller:
        caller.post("/v1/forecasters", {"name": "shop"})
        monkeypatch.setattr(feed, "see", away)
        page = caller.get("/forecasters/shop")
        assert (page.status, "It is being rebuilt." in page.body) == (200, True)
        monkeypatch.setattr(feed, "see", broken)
        page = caller.get("/forecasters/shop")
        assert (page.status, "Internal Server Error" in page.body, "KeyError" in page.body) == (500, True, False)


def test_downloads_are_files(service: Caller) -> None:
    for path, media, name in (
        ("report", "text/html", "html"),
        ("card", "text/markdown", "md"),
        ("figures", "application/json", "json"),
    ):
        found = service.get(f"/forecasters/shop/{path}")
        assert (found.status, found.headers["content-type"].partition(";")[0]) == (200, media)
        assert found.headers["content-disposition"] == f'attachment; filename="shop.{name}"'
    assert service.get("/forecasters/shop/figures").body["labels"] == 100
    refused = service.get("/forecasters/waiting/report")
    assert refused.status == 404
    assert "without a known outcome" in refused.body


def test_static_files_are_kept_for_ever_under_their_digest(service: Caller) -> None:
    page = service.get("/forecasters/shop").body
    for path in re.findall(r"\"(/static/[^\"]+)\"", page):
        found = service.get(path)
        assert (found.status, "immutable" in found.headers["cache-control"]) == (200, True), path
    for name in FILES:
        assert service.get(f"/static/{name}").headers["cache-control"] == "no-store"
    for name in ("..%2fview.py", "view.py", "uPlot.LICENSE.txt"):
        assert service.get(f"/static/{name}").status == 404


def test_live_figures_are_events_with_ids_and_json(service: Caller) -> None:
    first, told = events(service, "/forecasters/shop/live", 2)
    assert first == {"retry": "2000"}
    figures = json.loads(told["data"])
    assert int(told["id"]) == figures["seq"] == service.get(f"{SHOP}/status").body["seq"]
    assert {
        "state",
        "rate",
        "open",
        "held",
        "coverage",
        "delay",
        "brier",
        "reliability",
        "groups",
        "alarm_list",
    } <= set(figures)
    assert "html" not in figures
    assert {"change", "lifetime", "gap", "low", "high"} <= set(figures["groups"][0])
    assert all(row["low"] <= row["high"] for row in figures["reliability"])
    assert service.send("HEAD", "/forecasters/shop/live").status == 200
    overview = json.loads(events(service, "/live", 2)[-1]["data"])
    assert [one["name"] for one in overview["forecasters"]] == ["shop", "waiting", "empty"]  # what to look at first
    assert overview["off"] == 1
    assert overview["sentence"].startswith("1 of 3 forecasters is off beyond chance: at most 10 % of such a list")


def test_the_client_iterates_over_live_figures(service: Caller) -> None:
    with swapcal.Client(service.url) as client:
        live = client.live("shop")
        before = next(live)
        fill(service, "more-", 30)
        assert next(one for one in live if one["seq"] > before["seq"])["forecasts"] > before["forecasts"]
        live.close()
        nobody = client.live("nobody")
        with pytest.raises(ServiceError, match="404"):
            next(nobody)


def test_silence_is_filled_with_heartbeats(service: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "HEARTBEAT", 0.05)
    told = events(service, "/forecasters/empty/live", 6)
    assert {"comment": "still here"} in told or {"": "still here"} in told


class Still:
    """A reporter with the same figures at each look, but for the first."""

    def __init__(self) -> None:
        self.looks = 0

    async def look(self) -> feed.Seen:
        self.looks += 1
        return feed.Seen({"seq": min(self.looks, 2)}, 0.0)


def test_heartbeats_come_between_looks_without_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PAUSE", 0.01)
    monkeypatch.setattr(feed, "HEARTBEAT", 0.2)

    async def heard() -> list[Any]:
        broadcast = feed.Broadcast(SimpleNamespace(leaving=False), Still(), str)
        return [edition and edition.figures["seq"] async for edition, _ in _zip(broadcast.listen(), range(4))]

    assert asyncio.run(asyncio.wait_for(heard(), 20.0)) == [1, 2, None, None]


def test_news_reach_many_listeners_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PAUSE", 0.05)
    among: list[int] = []  # how many got the news between two turns of the loop

    async def heard() -> None:
        broadcast, count = feed.Broadcast(SimpleNamespace(leaving=False), Still(), str), [0]

        async def listen() -> None:
            async for edition in broadcast.listen():
                if edition is not None and edition.figures["seq"] == 2:
                    count[0] += 1
                    return

        listeners = [asyncio.create_task(listen()) for _ in range(100)]
        while not all(listener.done() for listener in listeners):
            before = count[0]
            await asyncio.sleep(0)
            among.append(count[0] - before)

    asyncio.run(heard())
    assert sum(among) == 100
    assert max(among) <= feed.SOME


async def _zip(editions: Any, numbers: range) -> Any:
    for number in numbers:
        yield await anext(editions), number
    await editions.aclose()


def test_many_listeners_are_one_question_to_the_learner(service: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    see = feed.see

    def counted(hosted: HostedForecaster, known: int | None = None) -> Any:
        asked.append(hosted.name)
        return see(hosted, known)

    monkeypatch.setattr(feed, "see", counted)
    monkeypatch.setattr(feed, "PAUSE", 30.0)
    service.post("/v1/forecasters", {"name": "crowd"})  # nobody has looked at it, however fast the tests before were
    service.post("/v1/forecasters/crowd/forecasts", {"id": "a", "record": {"x": 1}})
    listeners = [threading.Thread(target=events, args=(service, "/forecasters/crowd/live", 2)) for _ in range(20)]
    for listener in listeners:
        listener.start()
    for listener in listeners:
        listener.join()
    assert 1 <= asked.count("crowd") <= 2


def test_listeners_have_a_limit(service: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LISTENERS", 0)
    refused = service.get("/forecasters/shop/live")
    assert (refused.status, refused.headers["retry-after"]) == (503, "10")


def test_a_service_that_stops_sends_listeners_away(tmp_path: Path) -> None:
    ended = threading.Event()
    with served(tmp_path, pages=dashboard()) as caller:
        caller.post("/v1/forecasters", {"name": "shop"})
        connection = http.client.HTTPConnection(caller.host, caller.port, timeout=60)
        connection.request("GET", "/forecasters/shop/live")
        answer = connection.getresponse()
        threading.Thread(target=lambda: (answer.read(), ended.set())).start()
    assert ended.wait(30)
    connection.close()


@contextmanager
def guarded(folder: Path) -> Iterator[tuple[Caller, str, str]]:
    """A service that asks for tokens: a caller without one, a token that may read, and one that may not."""
    store = open_store(str(folder / "forecasts.db"), learner=True, create=True)
    reads, writes = create_token(store, ["read"])[1], create_token(store, ["forecast"])[1]
    with Server(Worker(store), port=0, tokens=True, pages=dashboard()).in_background() as url:
        yield Caller(url), reads, writes


def sign_in(caller: Caller, token: str, following: str = "/", **headers: str) -> Reply:
    content = urlencode({"token": token, "next": following}).encode()
    return caller.send("POST", "/sign-in", content, content_type="application/x-www-form-urlencoded", **headers)


def test_pages_need_a_token_that_may_read(tmp_path: Path) -> None:
    with guarded(tmp_path) as (caller, reads, writes):
        page = caller.get("/forecasters/shop?id=a%20b")
        assert (page.status, page.headers["location"]) == (303, "/sign-in?next=%2Fforecasters%2Fshop%3Fid%3Da%2520b")
        assert caller.get("/").status == 303
        assert caller.get("/live").status == 401
        assert caller.get("/forecasters/shop/live").status == 401
        assert caller.get("/forecasters/shop/report").status == 303
        assert caller.get("/static/dashboard.css").status == 200
        assert 'type="password"' in caller.get("/sign-in?next=/x").body
        for token, status in (("guessed", 401), ("bad;token", 401), ("", 401), (writes, 403)):
            refused = sign_in(caller, token)
            assert (refused.status, "set-cookie" in refused.headers) == (status, False)
            assert not token or token not in refused.body
        entered = sign_in(caller, reads, "/forecasters/shop")
        assert (entered.status, entered.headers["location"]) == (303, "/forecasters/shop")
        cookie = entered.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
        pair = cookie.partition(";")[0]
        assert caller.send("GET", "/", cookie=pair).status == 200
        assert "Sign out" in caller.send("GET", "/", cookie=pair).body
        assert len(events(caller, "/live", 2, {"cookie": pair})) == 2
        assert len(events(caller, "/live", 2, {"authorization": f"Bearer {reads}"})) == 2
        left = caller.send("POST", "/sign-out", b"", cookie=pair)
        assert (left.status, "Max-Age=0" in left.headers["set-cookie"]) == (303, True)


def test_the_cookie_opens_pages_only(tmp_path: Path) -> None:
    with guarded(tmp_path) as (caller, reads, _):
        pair = sign_in(caller, reads).headers["set-cookie"].partition(";")[0]
        assert caller.send("GET", "/v1/forecasters", cookie=pair).status == 401
        body = b'{"name": "shop"}'
        assert caller.send("POST", "/v1/forecasters", body, cookie=pair, content_type="application/json").status == 401


def test_other_sites_can_neither_sign_in_nor_lead_away(tmp_path: Path) -> None:
    with guarded(tmp_path) as (caller, reads, _):
        assert sign_in(caller, reads, sec_fetch_site="cross-site").status == 403
        assert sign_in(caller, reads, origin="https://evil.example").status == 403
        assert sign_in(caller, reads, origin=caller.url).status == 303
        for away in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/\r\nx: y"):
            assert sign_in(caller, reads, away).headers["location"] == "/"


ODD = ("http://[", "http://[::1", "//\u2100", "http://a\u00bf]b", "http://\u2488", "", "null", "http://a:b", "[")
"""Texts that are no address; some of them make `urlsplit` raise."""
PAGES = ("/", "/live", "/sign-in", "/forecasters/shop", "/forecasters/shop/card", "/static/dashboard.css", "/nowhere")
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Caller, str]]:
    """A service that asks for tokens, and one that may read."""
    with guarded(tmp_path_factory.mktemp("store")) as (caller, reads, _):
        yield caller, reads


def latin(text: str) -> str:
    """Return text that a header can hold: the bytes of its UTF-8 as characters."""
    return text.encode().decode("latin-1")


@pytest.mark.parametrize("odd", ODD)
def test_addresses_that_cannot_be_read_are_refused(closed: tuple[Caller, str], odd: str) -> None:
    caller, reads = closed
    for header in (latin(odd), odd.encode("latin-1", "replace").decode("latin-1")):
        assert sign_in(caller, reads, origin=header).status == 403
        assert caller.send("POST", "/sign-out", b"", origin=header).status == 403
        assert sign_in(caller, reads, referer=header).status == 303
        for path in PAGES:
            assert caller.send("GET", path, origin=header, referer=header).status == caller.get(path).status
            assert caller.send("GET", path, host=header).status < 500
        assert caller.send("DELETE", "/sign-in", host=header).status == 405
    for path in (odd, f"/{odd}", f"//{odd}"):
        assert sign_in(caller, reads, path).status == 303
        assert caller.get(f"/sign-in?next={quote(path)}").status == 200
        assert caller.get(f"/{quote(path, safe='/[]')}").status in (200, 303, 404)


def test_an_id_on_a_page_is_utf8(service: Caller) -> None:
    assert service.get("/forecasters/shop?id=%FF").status == 400
    assert service.get("/forecasters/shop?id=%C3%A9").status == 200


def test_a_form_of_too_many_fields_is_refused(closed: tuple[Caller, str]) -> None:
    caller, reads = closed
    for fields, statuses in ((10, (303, 303)), (11, (422, 422)), (5000, (422, 422))):
        content = urlencode({"token": reads, **{f"f{k}": k for k in range(fields - 1)}}).encode()
        found = [caller.send("POST", path, content, content_type=FORM).status for path in ("/sign-in", "/sign-out")]
        assert found == [*statuses], fields
    assert caller.send("POST", "/sign-in", b"token=%ff&\xff=&;;", content_type=FORM).status == 401


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_header_and_no_form_is_a_fault(closed: tuple[Caller, str], data: st.DataObject) -> None:
    caller, _ = closed
    letters = st.characters(min_codepoint=32, max_codepoint=255)
    text = st.sampled_from([*map(latin, ODD)]) | st.text(letters, max_size=40)
    others = dict.fromkeys(("referer", "host", "cookie", "authorization", "sec_fetch_site", "accept"), text)
    headers = data.draw(st.fixed_dictionaries({"origin": text}, optional=others))
    content = data.draw(st.binary(max_size=60))
    for path in PAGES:
        assert caller.send("GET", path, **headers).status < 500
    for path in ("/sign-in", "/sign-out"):
        assert caller.send("POST", path, content, content_type=FORM, **headers).status < 500


class Receiver:
    """A loopback address that answers with given statuses in turn, then with 204."""

    def __init__(self, *statuses: int) -> None:
        self.messages: list[Any] = []
        self.path = ""
        self.got = threading.Semaphore(0)
        answers = iter(statuses)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.path = self.path
                outer.messages.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(next(answers, 204))
                self.send_header("content-length", "0")
                self.end_headers()
                outer.got.release()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook?key=secret"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait(self, messages: int) -> None:
        for _ in range(messages):
            assert self.got.acquire(timeout=30)


def renewed(hosted: HostedForecaster) -> None:
    hosted.live._scheduler.monitor_feed = hosted.settings.live()._scheduler.monitor_feed


def test_an_alarm_is_posted_until_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "FIRST_PAUSE", 0.01)
    logged: list[str] = []
    worker = Worker(open_store(str(tmp_path / "forecasts.db"), learner=True, create=True))
    with Receiver(503, 500) as receiver:
        hook = Webhook(worker, receiver.url, lambda event, **facts: logged.append(f"{event} {facts}"), every=0.02)
        with hook.at_work(), Server(worker, port=0).in_background() as url, swapcal.Client(url) as client:
            client.create("shop", groups=["city"])
            list(client.forecasts("shop", [{"id": str(k), "record": {"city": "Rome"}} for k in range(400)]))
            list(client.outcomes("shop", [{"id": str(k), "y": 1} for k in range(400)]))
            receiver.wait(4)
            worker.call(lambda promise: webhook.Ask(promise, "shop", renewed))
            client.forecast("shop", {"city": "Rome"}, id="next")
            receiver.wait(2)
    told = [(one["event"], one["alarm"]["group"]) for one in receiver.messages]
    assert told[0] == told[1] == told[2]
    assert receiver.messages[0]["id"] == receiver.messages[2]["id"]
    assert {event for event, _ in told[:4]} == {"alarm"}
    assert {group for _, group in told[2:4]} == {"all rows", "city = Rome"}
    assert receiver.messages[0]["alarm"]["direction"] == "too low"
    assert {event for event, _ in told[4:]} == {"alarm ended"}
    assert all("secret" not in line for line in logged)


def test_a_refused_message_is_not_repeated_and_nobody_home_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(webhook, "TRIES", 3)
    logged: list[tuple[str, Any]] = []
    worker = Worker(open_store(str(tmp_path / "forecasts.db"), learner=True, create=True))
    message = {"forecaster": "shop", "id": "a"}
    with Receiver(400) as receiver:
        hook = Webhook(worker, receiver.url, lambda event, **facts: logged.append((event, facts.get("why"))))
        hook._deliver(message)
        assert len(receiver.messages) == 1
    hook._deliver(message)
    assert [event for event, _ in logged] == ["webhook given up", "webhook given up"]
    assert logged[0][1] == "status 400"
    worker.store.close()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "localhost:80", "", "http://", "http://host:x/"])
def test_a_webhook_is_http_or_https(url: str) -> None:
    with pytest.raises(ValueError, match="webhook: given"):
        webhook.check_url(url)


def test_alarms_are_looked_at_only_after_something_came() -> None:
    from swapcal.service.settings import Settings

    hosted = HostedForecaster(Settings(name="shop", groups=["city"]))
    assert alarms_of(hosted, 0) is None
    hosted.forecast([row(str(k), {"city": "Rome"}) for k in range(400)], 0.0)
    hosted.outcome([OutcomeRowIn(str(k), 1.0) for k in range(400)], 1.0)
    hosted.seq = 801
    assert set((alarms_of(hosted, 0) or (0, {}))[1]) == {"all rows", "city = Rome"}


def test_pages_metrics_and_report_say_what_cannot_have_been_seen(tmp_path: Path) -> None:
    with served(tmp_path, pages=dashboard()) as caller:
        caller.post("/v1/forecasters", {"name": "ads", "unseen": "anything", "prior": 0.1})
        rows = [{"id": f"{k}", "record": {"v": k % 5}} for k in range(300)]
        assert caller.post("/v1/forecasters/ads/forecasts", {"forecasts": rows}).status == 200
        outcomes = [{"id": f"{k}", "y": 1} for k in range(0, 300, 10)]
        assert caller.post("/v1/forecasters/ads/outcomes", {"outcomes": outcomes}).status == 200
        status = caller.get("/v1/forecasters/ads/status").body
        assert 0.2 < status["unseen_share"] < 1.0
        first = status["outcome_warnings"][0]
        assert first.startswith("All 30 outcomes known so far are 1 and 270 forecasts are still open")
        page = caller.get("/forecasters/ads").body
        for text in ("Not seen yet", first):
            assert text in page
        assert f'swapcal_unseen_share{{forecaster="ads"}} {status["unseen_share"]}' in caller.get("/metrics").body
        report = caller.get("/v1/forecasters/ads/report")
        assert report.status == 200
        assert first in report.body
        assert first in caller.get("/forecasters/ads/card").body


def test_a_page_shows_given_scores_and_missing_values_and_does_not_call_one_kind_of_outcome_fine(
    tmp_path: Path,
) -> None:
    with served(tmp_path, pages=dashboard()) as caller:
        caller.post("/v1/forecasters", {"name": "rare", "scores": ["yours"]})
        rows = [{"id": f"{k}", "record": {"yours": None if k == 7 else 0.01, "v": k % 5}} for k in range(300)]
        assert caller.post("/v1/forecasters/rare/forecasts", {"forecasts": rows}).status == 200
        outcomes = [{"id": f"{k}", "y": 0} for k in range(300)]
        assert caller.post("/v1/forecasters/rare/outcomes", {"outcomes": outcomes}).status == 200
        page = caller.get("/forecasters/rare").body
        assert "Too early to tell" in page
        assert "Nothing to do" not in page
        assert "yours: too early to tell" in page
        assert "Without yours" in page
        assert "yours, as given" in caller.get("/forecasters/rare/card").body


def test_an_alarm_that_goes_on_ends_as_it_was_raised() -> None:
    looks = iter(
        [(1, {"g": {"group": "g", "raised": "row 1"}}), (2, {"g": {"group": "g", "raised": "row 5"}}), (3, {})]
    )
    hook = Webhook(SimpleNamespace(call=lambda *_: next(looks)), "http://127.0.0.1/", lambda *_, **__: None)
    for _ in range(3):
        hook._look("shop")
    ids = [hook._messages.get_nowait()["id"] for _ in range(hook._messages.qsize())]
    assert ids == ["shop, g, row 1: alarm", "shop, g, row 1: alarm ended"]


def test_a_message_that_is_redirected_is_not_delivered() -> None:
    logged: list[Any] = []
    with Receiver(302, 429) as receiver:
        hook = Webhook(SimpleNamespace(), receiver.url, lambda event, **facts: logged.append((event, facts.get("why"))))
        hook._stopping.wait = lambda _: False  # type: ignore[method-assign]
        hook._deliver({"forecaster": "shop", "id": "first"})
        hook._deliver({"forecaster": "shop", "id": "second"})
    assert logged == [("webhook given up", "status 302"), ("webhook", None)]
    assert [message["id"] for message in receiver.messages] == ["first", "second", "second"]
    assert receiver.path == "/hook?key=secret"


def test_quantiles_are_those_of_scipy() -> None:
    from scipy.stats import binom

    rng = np.random.default_rng(0)
    n = np.concatenate([[0.0, 1.0, 7.0, 7.0], rng.integers(1, 10**5, 2000).astype(float)])
    p = np.concatenate([[0.5, 0.5, 0.0, 1.0], rng.random(2000) ** 3])
    for q in (0.025, 0.975):
        np.testing.assert_array_equal(feed.binomial_quantile(np.array(q), n, p), binom.ppf(q, n, p))
    assert np.isfinite(feed.binomial_quantile(np.array(0.025), np.array(10.5), np.array(0.3)))
