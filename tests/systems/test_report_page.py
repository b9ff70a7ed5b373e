"""The report in a real browser: what a phone shows without scrolling sideways, and what a printer gets."""

import shutil

import numpy as np
import pytest

playwright = pytest.importorskip("playwright.sync_api")

from swapcal.audit import Comparison  # noqa: E402

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.systems,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 4000
    p = rng.random(n)
    groups = {"neighbourhood of the branch": rng.choice(["north of the river", "old town", "harbour"], n)}
    y = rng.random(n) < p + 0.15 * (groups["neighbourhood of the branch"] == "old town") * (1 - p)
    path = tmp_path_factory.mktemp("report") / "report.html"
    found = Comparison(p**1.3, p, y, features={"age": rng.normal(size=n)}, groups=groups)
    found.to_html(path, losses=["pinball:0.9"])
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown = browser.new_page()
        shown.goto(path.as_uri())
        yield shown
        browser.close()


def test_a_phone_shows_every_verdict_without_scrolling_sideways(page):
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    ends = page.evaluate(
        "[...document.querySelectorAll('td.verdicts > *, td.change > *')].map(e => e.getBoundingClientRect().right)"
    )
    assert len(ends) >= 10
    assert max(ends) <= 390


def test_print_opens_every_fold_and_cuts_nothing(page):
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 962})
    heights = page.evaluate(
        "[...document.querySelectorAll('details > :not(summary)')].map(e => e.getBoundingClientRect().height)"
    )
    assert heights
    assert min(heights) > 0
    frames = page.evaluate("[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth)")
    assert max(frames) <= 1
    tall = page.evaluate("[...document.querySelectorAll('.scroll')].map(e => e.scrollHeight - e.clientHeight)")
    assert max(tall) <= 1
