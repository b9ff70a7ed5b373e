"""The README: short, its snippets run on a file as it describes, its figures are those of the measured page."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

typer = pytest.importorskip("typer")

from swapcal.cli.audit import audit  # noqa: E402
from swapcal.cli.forecast import forecast  # noqa: E402
from tests.commands import runner  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COLUMNS = {"swapcal": "swapcal, mean", "best single expert inside it": "best single expert"}


@pytest.fixture
def orders(tmp_path, monkeypatch):
    """A shop's model, 15 points too low in the north, and what happened."""
    rng = np.random.default_rng(1)
    lines = ["shop,model,bought"]
    for _ in range(3000):
        shop, model = rng.choice(["north", "south"]), rng.uniform(0.1, 0.6)
        bought = rng.random() < model + 0.15 * (shop == "north")
        lines.append(f"{shop},{model:.3f},{int(bought)}")
    (tmp_path / "orders.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_the_readme_can_be_read_in_five_minutes():
    assert len(README.split()) <= 1200


def test_its_python_runs(orders, capsys):
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    assert 0.0 < float(capsys.readouterr().out) < 1.0


def test_its_commands_run(orders):
    run = runner(audit, forecast)
    commands = [shlex.split(line) for line in README.splitlines() if re.match(r"    swapcal (audit|forecast) ", line)]
    assert len(commands) == 2
    for command in commands:
        assert run(*command[1:]).exit_code in (0, 1), command
    assert Path("audit.html").exists()
    assert Path("report.html").exists()
    assert len(Path("forecasts.csv").read_text(encoding="utf-8").splitlines()) == 3001


def measured():
    """Return the Brier scores of docs/streams.md by stream and method."""
    page = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")
    found = {}
    for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        for cells in (line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")):
            if len(cells) == 6:
                found.setdefault((section.split(",")[0], cells[0].split(" (")[0]), cells[2])
    return found


def test_its_results_are_those_of_the_measured_page():
    page = measured()
    table = README[README.index("| stream |") :].split("\n\n")[0].splitlines()
    methods = [COLUMNS.get(name, name) for name in table[0].strip("| ").split(" | ")[1:]]
    assert len(table) == 9
    for row in table[2:]:
        stream, *figures = (cell.strip("* ¹") for cell in row.strip("| ").split(" | "))
        for method, figure in zip(methods, figures, strict=True):
            assert page[stream.split(",")[0], method] == f"0{figure}", (stream, method)
