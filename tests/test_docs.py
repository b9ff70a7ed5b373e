"""The documents name what exists: functions, tests, files, the release."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import swapcal
from swapcal import baselines, bounds, losses
from swapcal.engine.certificate import Certificate

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
CODE = set(re.findall(r"`([^`\n]+)`", GUARANTEES))
OWNERS = {
    "Certificate": Certificate,
    "Forecaster": swapcal.Forecaster,
    "baselines": baselines,
    "bounds": bounds,
    "losses": losses,
}


def theorems():
    """Return the names in the second column of the tables of theorems."""
    rows = (re.split(r"(?<!\\)\|", line) for line in GUARANTEES.splitlines())
    return {name for row in rows if len(row) == 5 and "`test_" in row[3] for name in re.findall(r"`(\w+)`", row[2])}


def test_every_function_and_test_of_the_guarantees_exists():
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    named = {name for name in CODE if re.fullmatch(r"test_\w+", name)}
    assert len(named) > 50
    assert not {name for name in named if f"def {name}(" not in tests}
    assert len(theorems()) > 50
    assert not {name for name in theorems() if not hasattr(bounds, name)}


def test_every_member_of_the_guarantees_exists():
    named = {name.removesuffix("()") for name in CODE if re.fullmatch(rf"({'|'.join(OWNERS)})\.\w+(\(\))?", name)}
    assert len(named) > 5
    for owner, member in (name.split(".") for name in named):
        assert hasattr(OWNERS[owner], member) or member in OWNERS[owner].__annotations__, member


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_the_pages_name_exists(page):
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:\s]+)\)", text):
        assert (page.parent / link).exists(), link
    for path in re.findall(r"`(?:python )?((?:tests|experiments|benchmarks|docs|examples|src)/[\w/.*-]+)`", text):
        assert list(ROOT.glob(path)), path


def test_the_newest_release_in_the_changelog_is_this_one():
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == swapcal.__version__


def count(pattern: str, *folders: str) -> int:
    """Return how many lines of the Python files and pages in some folders match."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    return sum(len(re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)) for path in files)


def test_the_figures_of_the_page_about_tests_are_those_of_the_tests():
    simulated = (ROOT / "tests" / "systems" / "test_simulate.py").read_text(encoding="utf-8").partition("FAULTS = {")[2]
    recorded = json.loads((ROOT / "tests" / "golden" / "digests.json").read_text(encoding="utf-8"))["cases"]
    exact = {
        "recorded behaviours": len(recorded),
        "saved files": len([*(ROOT / "tests" / "golden" / "saved").iterdir()]),
        "statistical tests": count(r"^@pytest.mark.statistical", "tests"),
        "faults planted to see a statistical": count(r"^@caught_by\(", "tests"),
        "faults planted to see the simulator": len(
            re.findall(r'^    "', simulated.partition("\n}\n")[0], re.MULTILINE)
        ),
    }
    least = {
        "test functions": count(r"^\s*def test_", "tests"),
        "examples in docstrings": count(r"^\s*>>> ", "src", "docs"),
        "tests of real systems": count(r"^def test_", "tests/systems"),
    }
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    stated = {
        name: int(re.search(rf"^\| {name}.*\| ([\d,]+) \|$", page, re.M)[1].replace(",", "")) for name in exact | least
    }
    assert {name: stated[name] for name in exact} == exact
    assert all(stated[name] <= found < 1.25 * stated[name] for name, found in least.items()), (stated, least)


NOUNS = ("Audit", "Client", "Contexts", "Forecaster", "Live", "Monitor", "SwapClassifier", "SwapRegressor")
OBVIOUS = 2
"""Parameters of a method, at most, which its sentence may name in words: `save(path)`, `explain(X)`."""


def undocumented(function: Any, text: str | None) -> list[str]:
    """Return the parameters that a docstring neither lists, as "a, b : …", nor names, as `a`."""
    rows = re.findall(r"^ *([\w, ]+) :", text or "", re.MULTILINE)
    known = {name.strip() for row in rows for name in row.split(",")} | set(re.findall(r"`(\w+)", text or ""))
    return [name for name in inspect.signature(function).parameters if name not in {"self", *known}]


@pytest.mark.parametrize("name", NOUNS)
def test_every_parameter_is_documented_where_it_is(name: str) -> None:
    noun = getattr(swapcal, name)
    assert not undocumented(noun.__init__, noun.__doc__)
    if name in ("Audit", "Contexts", "Forecaster"):
        return
    for called, method in inspect.getmembers(noun, inspect.isfunction):
        own = method.__module__.startswith("swapcal") and not called.startswith("_")
        if own and len(inspect.signature(method).parameters) > 1 + OBVIOUS:
            assert not undocumented(method, method.__doc__), called
