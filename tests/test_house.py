"""The shape of the package: few files, one name for each class, no file that is a paragraph of another, few imports."""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import swapcal

ROOT = Path(swapcal.__file__).parent
SOURCES = {
    ".".join(("swapcal", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}
FEWEST_LINES = 60
COPIED = {"swapcal.batch.standalone"}
"""Files that are copied as they are, beside exported models."""


def test_the_package_has_at_most_200_files() -> None:
    assert len(SOURCES) <= 200


def test_no_class_name_stands_twice() -> None:
    names = Counter(
        node.name
        for path in SOURCES.values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def importers() -> dict[str, set[str]]:
    """Return the modules that import each module."""
    found = defaultdict(set)
    for name, path in SOURCES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    found[inner if inner in SOURCES else node.module].add(name)
    return found


def test_no_small_file_serves_one_file_of_its_own_room() -> None:
    small = []
    for name, using in importers().items():
        if name not in SOURCES or SOURCES[name].name == "__init__.py" or name in COPIED:
            continue
        room = name.rpartition(".")[0]
        lines = len(SOURCES[name].read_text(encoding="utf-8").splitlines())
        if lines < FEWEST_LINES and room != "swapcal" and len(using) == 1 and next(iter(using)).startswith(room):
            small.append(name)
    assert small == []


def test_live_loads_at_most_75_modules_and_no_pictures() -> None:
    code = "import sys; from swapcal import Live; print(*(m for m in sys.modules if m.split('.')[0] == 'swapcal'))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert len(loaded) <= 75
    assert not {name for name in loaded if name.startswith(("swapcal.report", "swapcal.plots", "swapcal.cli"))}
