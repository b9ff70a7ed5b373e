"""Measured pages: each has a stamp, its age is known from the history, and only what is outdated is measured again."""

import shutil
import subprocess

import pytest

import measured
from measured import PAGES, ROOT, Page, Stamp, changes, measure, note, read, stamped

GIT = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.mark.parametrize("name", PAGES)
def test_every_measured_page_has_a_stamp_and_its_sources_exist(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    stamp = read(text)
    assert stamp is not None
    assert text.count("*Measured with swapcal ") == 1
    assert stamped(text, stamp) == text
    assert all((ROOT / source).exists() for source in PAGES[name].sources)
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"\n{command[1]}:" in targets for command in PAGES[name].commands)


def test_a_stamp_goes_below_the_title_and_is_replaced():
    first, second = Stamp("0.3.0", "abcdef0", "2026-11-18"), Stamp("0.4.0", "1234567", "2027-01-02")
    once = stamped("# Title\n\nText.\n", first)
    assert once == f"# Title\n\n{first}\n\nText.\n"
    assert read(once) == first
    assert stamped(once, second) == once.replace(str(first), str(second))
    assert read("# Title\n") is None


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Make a repository with two pages, and return a function that commits a change of a file."""

    def run(*arguments):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    def commit(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        run("add", "-A")
        run("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", path)
        return measured.git("rev-parse", "--short", "HEAD", root=tmp_path)

    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    run("init", "-q")
    pages = {
        "one": Page((("make", "one"),), ("src/one",)),
        "two": Page((("make", "two"), ("make", "more")), ("src/two",)),
        "hand": Page((("make", "hand"),), ("src/one",), by_hand=True),
    }
    monkeypatch.setattr(measured, "PAGES", pages)
    commit("src/swapcal/version.py", '"""The release."""\n\n__version__ = "9.1"\n')
    commit("src/one/a.py", "1")
    commit("src/two/b.py", "1")
    for name in pages:
        commit(f"docs/{name}.md", f"# {name}\n\nText.\n")
    return tmp_path, commit


@GIT
def test_a_page_says_how_often_its_code_has_changed_since(repository):
    root, commit = repository
    now = commit("docs/other.md", "x")
    text = stamped("# one\n", Stamp("9.1", now, "2026-11-18"))
    assert changes(now, ["src/one"], root) == 0
    assert note(text, ["src/one"], root) == ""
    commit("src/two/b.py", "2")
    assert note(text, ["src/one"], root) == ""
    commit("src/one/a.py", "2")
    assert "has changed since, in one definition;" in note(text, ["src/one"], root)
    commit("src/one/c.py", "def f():\n    return 1")
    assert "in 2 definitions;" in note(text, ["src/one"], root)
    assert changes("0123456", ["src/one"], root) is None
    assert note(stamped("# one\n", Stamp("9.1", "0123456", "2026-11-18")), ["src/one"], root) == ""
    assert note("# one\n", ["src/one"], root) == ""


@GIT
def test_words_imports_and_moves_are_no_change_of_code(repository):
    root, commit = repository
    code = (
        '"""Words."""\nimport os\n\n\ndef f(x):\n    """Say it."""\n    # why\n'
        '    if x:\n        raise ValueError("no")\n    return {}\n'
    )
    then = commit("src/one/a.py", code.format(1))
    commit(
        "src/one/a.py", code.format(1).replace("Say it", "Return 1").replace('"no"', '"x: given 1"').replace("why", "")
    )
    commit("src/one/a.py", "LIMIT = 2\n")
    now = commit("src/one/moved.py", code.format(1).replace("import os", "from os import path"))
    assert changes(then, ["src/one"], root) == 1
    commit("src/one/moved.py", code.format(2))
    assert changes(now, ["src/one"], root) == 1
    commit("src/one/moved.py", code.format(2).replace("ValueError", "TypeError"))
    assert changes(now, ["src/one"], root) == 1
    assert changes(then, ["src/one"], root) == 2
    named = commit("src/one/b.py", "def g(x):\n    y = x\n    return y\n")
    commit("src/one/b.py", "def g(x):\n    z = x\n    return z\n")
    assert changes(named, ["src/one/b.py"], root) == 0
    commit("src/one/b.py", "def g(x):\n    z = x\n    return x\n")
    assert changes(named, ["src/one/b.py"], root) == 1


@GIT
def test_only_outdated_pages_are_measured_and_a_failure_leaves_what_was_done(repository, capsys):
    root, commit = repository
    ran = []
    assert measure(["one"], ran.append, root) == ["one"]
    stamp = read((root / "docs/one.md").read_text())
    assert (stamp.version, stamp.commit) == ("9.1", measured.git("rev-parse", "--short", "HEAD", root=root))

    def failing(command):
        ran.append(command)
        if command[1] == "more":
            raise RuntimeError

    with pytest.raises(RuntimeError):
        measure(["one", "two"], failing, root)
    assert read((root / "docs/two.md").read_text()) is None
    assert measure(["one", "two"], ran.append, root) == ["two"]
    assert [command[1] for command in ran] == ["one", "two", "more", "two", "more"]
    assert measure(["one", "two"], ran.append, root) == []
    commit("src/one/a.py", "3")
    assert measure(["one", "two"], ran.append, root) == ["one"]
    assert measure(["hand"], ran.append, root) == ["hand"]
    assert read((root / "docs/hand.md").read_text()) is None
    assert "--stamp hand" in capsys.readouterr().out


@GIT
def test_uncommitted_code_is_not_measured(repository):
    root, _ = repository
    (root / "src/one/a.py").write_text("4")
    with pytest.raises(SystemExit, match="src: given changes that are not committed"):
        measure(["one"], lambda _: None, root)
