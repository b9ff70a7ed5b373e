"""All measured pages of one version: run what a page measures again if that changed since, and stamp the page.

    python experiments/measured.py              # every page whose stamp is older than the code it measures
    python experiments/measured.py streams      # some pages
    python experiments/measured.py --list       # which pages are how old
    python experiments/measured.py --stamp scale    # after the printed figures were put into the page by hand

A page says with which version and commit it was measured. A page whose code has not changed since is left out, so a run
that was interrupted goes on where it ended; the experiments keep finished parts in build as well. The site adds to a
stamp that the code has changed since (docs/_ext/stamps.py). Docstrings, comments, texts of errors, imports, names of
local variables and the file in which a definition stands are not code here: no figure depends on them.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
STAMP = re.compile(r"^\*Measured with swapcal (\S+), commit ([0-9a-f]{7,40}), on (\d{4}-\d\d-\d\d)\.\*$", re.MULTILINE)
TITLE = re.compile(r"\A# .*\n")
ENGINE = (
    *(f"src/swapcal/kernels/{name}.py" for name in ("learners", "linalg", "log_loss", "loop", "mixing", "state")),
    "src/swapcal/engine",
    "src/swapcal/errors",
    "src/swapcal/bounds",
)
ONLINE = (*ENGINE, "src/swapcal/kernels", "src/swapcal/features", "src/swapcal/live")


class Page(NamedTuple):
    """The commands that measure a page of docs again, and the files whose change makes it outdated.

    `by_hand`: the commands print figures and leave the page alone, so that only the one who copied them can stamp it.
    """

    commands: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...]
    by_hand: bool = False


PAGES = {
    "rates": Page(
        (("make", "rates", "PLAN=--full --docs"),),
        (
            *ENGINE,
            "src/swapcal/kernels/baselines.py",
            "src/swapcal/baselines",
            "src/swapcal/datasets",
            "experiments/rates",
        ),
    ),
    "streams": Page((("make", "bench-streams"),), (*ONLINE, "experiments/streams.py")),
    "batch": Page(
        (("make", "bench-batch"),),
        (
            *ENGINE,
            *(f"src/swapcal/kernels/{name}.py" for name in ("batch", "encode", "trees")),
            "src/swapcal/features",
            "src/swapcal/batch",
            "src/swapcal/adapters/sklearn.py",
            "experiments/batch.py",
            "experiments/batch_tasks.py",
            "experiments/batch_methods.py",
        ),
    ),
    "decisions": Page((("make", "decisions"),), (*ONLINE, "src/swapcal/losses", "experiments/decisions.py")),
    "monitoring": Page(
        (("make", "monitoring"),),
        ("src/swapcal/monitor", "src/swapcal/kernels/wealth.py", "src/swapcal/bounds", "experiments/monitoring.py"),
    ),
    "scale": Page(
        (("make", "bench-files"), ("make", "bench"), ("make", "bench-service"), ("make", "bench-scale")),
        (*ONLINE, "src/swapcal/tables", "src/swapcal/audit", "src/swapcal/batch", "src/swapcal/service", "benchmarks"),
        by_hand=True,
    ),
}


class Stamp(NamedTuple):
    """With what a page was measured, and when."""

    version: str
    commit: str
    date: str

    def __str__(self) -> str:
        return f"*Measured with swapcal {self.version}, commit {self.commit}, on {self.date}.*"


def read(text: str) -> Stamp | None:
    """Return a page's stamp."""
    found = STAMP.search(text)
    return None if found is None else Stamp(*found.groups())


def stamped(text: str, stamp: Stamp) -> str:
    """Return a page with its stamp replaced, or put below its title."""
    if STAMP.search(text):
        return STAMP.sub(str(stamp), text, count=1)
    return TITLE.sub(lambda title: f"{title[0]}\n{stamp}\n", text, count=1)


def git(*arguments: str, root: Path = ROOT) -> str | None:
    """Return what git prints, None where there is no git, no repository or no such commit."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def changes(commit: str, sources: Sequence[str], root: Path = ROOT) -> int | None:
    """Return how many definitions of the sources differ between the commit and HEAD; None if that cannot be known."""
    before, now = (_definitions(revision, sources, root) for revision in (commit, "HEAD"))
    if before is None or now is None:
        return None
    return max((before - now).total(), (now - before).total())


def _definitions(revision: str, sources: Sequence[str], root: Path) -> Counter[str] | None:
    """Return the code of the sources at a revision, one entry for each statement of a module, wherever it stands."""
    listed = git("ls-tree", "-r", "--format=%(objectname) %(path)", revision, "--", *sources, root=root)
    if listed is None:
        return None
    files = [line.split(" ", 1) for line in listed.splitlines()]
    return Counter(code for blob, path in files for code in _statements(blob, path.endswith(".py"), root))


@cache
def _statements(blob: str, python: bool, root: Path) -> Sequence[str]:
    text = git("cat-file", "blob", blob, root=root) or ""
    if not python:
        return [text]
    body = _Code().visit(ast.parse(text)).body
    return [ast.dump(statement) for statement in body if not isinstance(statement, ast.Import | ast.ImportFrom)]


class _Code(ast.NodeTransformer):
    """Leaves out what no figure depends on: texts that stand alone, what an exception says, names of locals."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        inside = list(ast.walk(node))
        names = [part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
        number = {name: f"local {k}" for k, name in enumerate(dict.fromkeys(names))}
        for part in inside:
            if isinstance(part, ast.Name):
                part.id = number.get(part.id, part.id)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        words = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if words else node

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(exc=kind, cause=None)


def note(text: str, sources: Sequence[str], root: Path = ROOT) -> str:
    """Return the sentence that belongs after a page's stamp: empty if nothing it measures has changed."""
    stamp = read(text)
    count = None if stamp is None else changes(stamp.commit, sources, root)
    if not count:
        return ""
    definitions = "one definition" if count == 1 else f"{count:,} definitions"
    return f"The code that this page measures has changed since, in {definitions}; the figures may differ today."


def stale(name: str, root: Path = ROOT) -> bool:
    """Tell whether a page has no stamp, an unknown one, or one older than what it measures."""
    stamp = read((root / "docs" / f"{name}.md").read_text(encoding="utf-8"))
    return stamp is None or changes(stamp.commit, PAGES[name].sources, root) != 0


def today(root: Path = ROOT) -> Stamp:
    """Return the stamp of the present commit; refuse a tree whose code is no commit."""
    commit, dirt = git("rev-parse", "--short", "HEAD", root=root), git("status", "--porcelain", "--", "src", root=root)
    if commit is None or dirt:
        raise SystemExit("src: given changes that are not committed, or no repository; expected a commit to measure")
    version = re.search(r'^__version__ = "([^"]+)"', (root / "src/swapcal/version.py").read_text("utf-8"), re.MULTILINE)
    assert version is not None
    return Stamp(version[1], commit, datetime.now(UTC).date().isoformat())


def measure(names: Sequence[str], run: Callable[[Sequence[str]], None], root: Path = ROOT) -> list[str]:
    """Run the commands of the stale pages among `names`; stamp each page that they rewrote. Return which were run."""
    done = [name for name in names if stale(name, root)]
    for name in done:
        stamp = today(root)
        for command in PAGES[name].commands:
            run(command)
        if PAGES[name].by_hand:
            print(f"docs/{name}.md: put the figures above into the page, then measured.py --stamp {name}")
        else:
            put(name, stamp, root)
    return done


def put(name: str, stamp: Stamp, root: Path = ROOT) -> None:
    """Write the stamp into a page."""
    page = root / "docs" / f"{name}.md"
    page.write_text(stamped(page.read_text(encoding="utf-8"), stamp), encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """List the pages, stamp some, or measure those named, by default all."""
    if list(arguments) == ["--list"]:
        for name in PAGES:
            text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
            print(f"{name:12}{read(text) or 'no stamp'} {note(text, PAGES[name].sources)}")
        return
    names = [name for name in arguments if name != "--stamp"]
    unknown = [name for name in names if name not in PAGES]
    if unknown:
        raise SystemExit(f"page: given {unknown[0]!r}, expected one of {', '.join(PAGES)}")
    if "--stamp" in arguments:
        for name in names:
            put(name, today())
        return
    measure(names or list(PAGES), lambda command: subprocess.run(command, cwd=ROOT, check=True) and None)


if __name__ == "__main__":
    main(sys.argv[1:])
