"""The dashboard in a real browser: Chromium over Playwright, against `swapcal serve` in a process of its own."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("apsw")
pytest.importorskip("playwright")

from playwright import sync_api

from swapcal import Client
from tests.systems.served import Served

pytestmark = pytest.mark.systems

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
]
EVIL = "<img src=x onerror=alert(1)>"
MILLISECONDS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here; tests/systems/prepare.sh installs Debian's where it may")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    found = Served(str(tmp_path / "forecasts.db"), tmp_path / "log").wait()
    yield found
    found.stop()


@contextmanager
def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """Open a page; whatever it says on the console but of lost connections, or asks of others, fails the test."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(MILLISECONDS)
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: said.append(request.url) if not request.url.startswith(origin(url)) else None)
    page.goto(url)
    page.wait_for_selector("#link[data-state=live]")
    yield page
    context.close()
    assert [words for words in said if "ERR_CONNECTION" not in words and "ERR_INCOMPLETE" not in words] == []


def origin(url: str) -> str:
    return "/".join(url.split("/")[:3])


def fill(client: Client, first: int, rows: int, rate: Any) -> None:
    """Forecast and report, a hundred at a time; `rate` is how many of ten happen in a city."""
    for start in range(first, first + rows, 100):
        drafts = [
            {"id": str(k), "record": {"city": ("Rome", "Oslo")[k % 2], "x": k % 5}} for k in range(start, start + 100)
        ]
        list(client.forecasts("shop", drafts))
        outcomes = [
            {"id": one["id"], "y": int(int(one["id"]) // 2 % 10 < rate(one["record"]["city"]))} for one in drafts
        ]
        list(client.outcomes("shop", outcomes))


def test_pages_render_in_light_and_dark_on_phones_and_walls(browser: Any, service: Served) -> None:
    with Client(service.url) as client:
        client.create("shop", groups=["city"])
        client.create("empty")
        fill(client, 0, 400, lambda city: 3)
    for width, height, scheme in ((390, 844, "light"), (390, 844, "dark"), (1280, 800, "dark"), (3840, 2160, "light")):
        options = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
        for path in ("/", "/forecasters/shop", "/forecasters/shop?id=7", "/forecasters/empty"):
            with opened(browser, service.url + path, **options) as page:
                assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (path, width)
                if "shop" in path:
                    page.wait_for_selector("#chart-rates canvas")
                    page.get_by_text("Appears after some hundred outcomes.").wait_for()


def test_figures_move_while_events_arrive(browser: Any, service: Served) -> None:
    with Client(service.url) as client:
        client.create("shop", groups=["city"])
        with opened(browser, f"{service.url}/forecasters/shop") as page, opened(browser, f"{service.url}/") as overview:
            page.get_by_text("Waiting for the first forecast").wait_for()
            fill(client, 0, 200, lambda city: 3)
            page.get_by_text("200 in all").first.wait_for()
            overview.locator("#row-shop").get_by_text("200", exact=True).first.wait_for()
            page.locator("#time-table summary").click()
            page.locator('.ask input[name="id"]').fill("1")
            fill(client, 200, 100, lambda city: 3)
            page.get_by_text("300 in all").first.wait_for()
            assert page.locator("#time-table").get_attribute("open") is not None
            assert page.evaluate("document.activeElement.name") == "id"
            page.keyboard.press("Enter")
            page.get_by_text("What this forecast would decide").wait_for()


def test_an_alarm_appears_when_a_bias_is_planted(browser: Any, service: Served) -> None:
    with Client(service.url) as client:
        client.create("shop", groups=["city"], watch={"tolerance": 0.05})
        fill(client, 0, 1000, lambda city: 3)
        with opened(browser, f"{service.url}/forecasters/shop") as page:
            assert not page.locator(".alarm-list").get_by_text("city = Rome").count()
            fill(client, 1000, 600, lambda city: 10 if city == "Rome" else 3)
            row = page.locator(".alarm-list tr", has_text="city = Rome")
            row.wait_for()
            assert "too low" in row.inner_text()
            page.locator(".headline .is-alarm").wait_for()
            page.wait_for_selector("#chart-evidence canvas")


def test_the_page_reconnects_after_the_service_restarts(browser: Any, tmp_path: Path) -> None:
    store, log = str(tmp_path / "forecasts.db"), tmp_path / "log"
    service = Served(store, log).wait()
    port = service.url.rpartition(":")[2]
    with Client(service.url) as client:
        client.create("shop", groups=["city"])
        fill(client, 0, 100, lambda city: 3)
    with opened(browser, f"{service.url}/forecasters/shop") as page:
        service.kill()
        page.wait_for_selector("#link[data-state=lost]")
        assert "Connection lost" in page.locator("#link").inner_text()
        assert page.locator("#figures.stale").count() == 1
        service = Served(store, log, "--port", port).wait()
        with Client(service.url) as client:
            fill(client, 100, 100, lambda city: 3)
        page.wait_for_selector("#link[data-state=live]")
        page.get_by_text("200 in all").first.wait_for()
        assert page.locator("#figures.stale").count() == 0
    assert service.stop() == 0


def test_html_in_ids_columns_and_categories_stays_text(browser: Any, service: Served) -> None:
    with Client(service.url) as client:
        client.create("shop", groups=["city"])
        drafts = [{"id": f"{EVIL}{k}", "record": {"city": f"{EVIL}{k % 2}", EVIL: "x"}} for k in range(40)]
        list(client.forecasts("shop", drafts))
        list(client.outcomes("shop", [{"id": one["id"], "y": k % 2} for k, one in enumerate(drafts[:30])]))
        with opened(browser, f"{service.url}/forecasters/shop") as page:
            page.get_by_text(f"city = {EVIL}0").first.wait_for()
            page.wait_for_selector("#chart-rates canvas")
            page.locator('.ask input[name="id"]').fill(f"{EVIL}35")
            page.locator(".ask button").click()
            page.get_by_text("its outcome is not known yet").wait_for()
            page.wait_for_selector("#link[data-state=live]")
            assert page.locator("img").count() == 0
            assert page.get_by_text(EVIL, exact=True).count() >= 1


def test_signing_in_and_out(browser: Any, tmp_path: Path) -> None:
    from swapcal.service.auth import create_token
    from swapcal.service.store import open_store

    path = str(tmp_path / "forecasts.db")
    store = open_store(path, create=True)
    token = create_token(store, ["read", "admin"])[1]
    store.close()
    service = Served(path, tmp_path / "log", "--tokens").wait()
    with Client(service.url, token) as client:
        client.create("shop")
    page = browser.new_page()
    page.goto(f"{service.url}/forecasters/shop")
    page.get_by_label("Token with scope read").fill("guessed")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    page.get_by_label("Token with scope read").fill(token)
    page.keyboard.press("Enter")
    page.wait_for_selector("#link[data-state=live]")
    assert page.url == f"{service.url}/forecasters/shop"
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token with scope read").wait_for()
    page.goto(f"{service.url}/")
    assert "/sign-in" in page.url
    page.close()
    assert service.stop() == 0
