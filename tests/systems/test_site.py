"""The site as `make docs` builds it: no warning, no broken link, nothing asked of others, nothing public left out."""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("myst_nb")
pytest.importorskip("furo")
pytest.importorskip("matplotlib")

import swapcal
from swapcal import cli

pytestmark = pytest.mark.systems

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ("flights", "credit", "audit", "costs", "service")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    command = ["-m", "sphinx", "-b", "html", "-j", "2", "-q", "-W", "--keep-going", "-d", str(folder / "doctrees")]
    built = folder / "site"
    told = subprocess.run(
        [sys.executable, *command, "docs", str(built)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    return built


def public_names() -> set[str]:
    """Everything that some `__all__` offers, under the name to import it by."""
    found = {f"swapcal.{name}" for name in swapcal.__all__ if name != "__version__"}
    for package in iter_modules(swapcal.__path__, "swapcal."):
        if not package.ispkg:  # an old path that keeps working
            continue
        module = import_module(package.name)
        offered = {name for name in getattr(module, "__all__", ()) if name not in swapcal.__all__}
        found |= {f"{package.name}.{name}" for name in offered}
    return found


def listed(site: Path) -> set[str]:
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory: Any = InventoryFile.load(file, "", lambda base, path: path)
    return {name for kind in inventory if kind.startswith("py:") for name in inventory[kind]}


def test_links_lead_somewhere_and_nothing_is_asked_of_others(site: Path) -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "docs" / "check.py", site], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_the_check_finds_what_is_broken(tmp_path: Path) -> None:
    page = '<h1 id="top"></h1><a href="gone.html">a</a><a href="#nowhere">b</a><img src="https://example.org/x.png">'
    (tmp_path / "index.html").write_text(page + '<a href="#top">c</a><a href="https://example.org">d</a>')
    checked = subprocess.run(
        [sys.executable, ROOT / "docs" / "check.py", tmp_path], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 1
    found = [line.split(": ")[1] for line in checked.stdout.splitlines()[:-1]]
    assert found == ["gone.html", "#nowhere", "https://example.org/x.png"]


def test_the_search_works_offline(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    assert "multicalibr" in index


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorials_ran_and_can_be_downloaded(site: Path, name: str) -> None:
    page = (site / "tutorials" / f"{name}.html").read_text(encoding="utf-8")
    assert "cell_output" in page
    assert "Traceback" not in page
    [download] = site.glob(f"_downloads/*/{name}.ipynb")
    assert str(download.relative_to(site)) in page
    cells = [cell for cell in json.loads(download.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    assert all(cell["execution_count"] for cell in cells)
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"])


def test_everything_public_is_in_the_reference(site: Path) -> None:
    assert sorted(public_names() - listed(site)) == []


def test_every_command_and_every_call_is_in_the_reference(site: Path) -> None:
    pytest.importorskip("msgspec")
    from swapcal.service.openapi import document

    commands = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    assert [name for name in cli.COMMANDS if f"<h2>swapcal {name}<" not in commands] == []
    calls = (site / "reference" / "http.html").read_text(encoding="utf-8")
    assert [path for path in document()["paths"] if f" {path}<" not in calls] == []


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_screen_in_a_browser(site: Path, width: int) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium here; tests/systems/prepare.sh installs Debian's where it may")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index", "tutorials/flights", "reference/live", "reference/http", "guarantees", "faq"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.goto((site / "search.html").as_uri() + "?q=certificate")
        page.wait_for_selector("#search-results li")
        browser.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
