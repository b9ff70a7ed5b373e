"""`swapcal monitor` from the outside: files in, words, files and exit codes out."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pa = pytest.importorskip("pyarrow")
import pyarrow.csv as pacsv  # noqa: E402
import pyarrow.parquet as papq  # noqa: E402

from swapcal import Monitor  # noqa: E402
from swapcal.cli import BAD_INPUT  # noqa: E402
from swapcal.cli import monitor as command  # noqa: E402
from tests.commands import runner  # noqa: E402

ROWS = 9000
NAMED = ["--prob", "p", "--target", "y"]
run = runner(command.monitor)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.8, ROWS).round(3)
    shift = rng.choice(["day", "night"], ROWS)
    off = (shift == "night") & (np.arange(ROWS) >= 3000)
    y = (rng.random(ROWS) < p - 0.15 * off).astype(int)
    when = np.datetime64("2024-01-01") + np.arange(ROWS) // 40
    return pa.table({"p": p, "y": y, "shift": shift, "town": rng.choice(["Rome", "Bari"], ROWS), "when": when})


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitor")
    shuffled = table.take(np.random.default_rng(1).permutation(ROWS))
    in_order = shuffled.take(np.argsort(shuffled["when"].to_numpy(), kind="stable"))
    papq.write_table(shuffled, folder / "shuffled.parquet")
    pacsv.write_csv(in_order, folder / "sorted.csv")
    return folder


def said(*arguments):
    """What was printed, whatever the width of the screen."""
    return " ".join(run(*arguments).output.split())


@pytest.mark.parametrize("name", ["sorted.csv", "shuffled.parquet"])
def test_an_alarm_is_said_written_and_returned(files, name, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "BATCH_ROWS", 2500)
    result = run(
        files / name, *NAMED, "--groups", "shift,town", "--product", "shift,town", "--time", "when",
        "--json", tmp_path / "a.json", "--report", tmp_path / "a.html",
    )  # fmt: skip
    assert result.exit_code == command.ALARM, result.output
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["alarms"][0]["group"] == "shift = night"
    assert found["alarms"][0]["direction"] == "too high"
    assert found["alarms"][0]["since"].startswith("2024-0")
    assert "shift = night" in result.output
    page = (tmp_path / "a.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "Evidence over time" in page
    assert "<script" not in page
    whole = pacsv.read_csv(files / "sorted.csv")
    monitor = Monitor(["shift", "town"], products=[("shift", "town")])
    monitor.add(whole, whole["p"].to_numpy(), whole["y"].to_numpy(), whole["when"].to_numpy())
    assert [alarm.to_dict() for alarm in monitor.alarms()] == json.loads(json.dumps(found["alarms"]))


def test_no_alarm_is_exit_code_zero(files):
    result = run(files / "sorted.csv", *NAMED, "--groups", "town", "--tolerance", "0.3", "--no-level-ranges")
    assert result.exit_code == command.QUIET, result.output
    assert "No sign" in result.output


def test_state_goes_on_where_it_stopped(table, files, tmp_path):
    state, halves = tmp_path / "state", [tmp_path / "one.csv", tmp_path / "two.csv"]
    whole = pacsv.read_csv(files / "sorted.csv")
    for path, part in zip(halves, (whole.slice(0, 4000), whole.slice(4000)), strict=True):
        pacsv.write_csv(part, path)
        last = run(path, *NAMED, "--groups", "shift", "--time", "when", "--state", state, "--json", "-")
    once = run(files / "sorted.csv", *NAMED, "--groups", "shift", "--time", "when", "--json", "-")
    one, two = json.loads(last.stdout), json.loads(once.stdout)
    assert one["title"] != two["title"]
    assert one | {"title": ""} == two | {"title": ""}
    refused = run(halves[0], *NAMED, "--groups", "shift", "--time", "when", "--state", state)
    assert refused.exit_code == BAD_INPUT
    assert "in order of time" in " ".join(refused.output.split())
    other = run(halves[1], *NAMED, "--groups", "shift", "--time", "when", "--state", state, "--tolerance", "0.02")
    assert other.exit_code == BAD_INPUT
    assert "other settings" in " ".join(other.output.split())


def test_what_cannot_be_watched_is_named_by_its_row(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("p,y,t,word\n0.2,1,3,a\n0.4,2,1,b\n0.5,0,,c\n")
    assert "row 2: column 'y': given" in said(path, *NAMED)
    path.write_text("p,y,t,word\n0.2,1,3,a\n0.4,1,1,b\n0.5,0,,c\n")
    assert "row 3: column 't': given nothing, expected a time" in said(path, *NAMED, "--time", "t")
    assert "column 'word'" in said(path, *NAMED, "--time", "word")
    assert "no column 'towns'" in said(path, *NAMED, "--groups", "towns")
    assert "expected one role a column" in said(path, *NAMED, "--groups", "y")
    for options in (["--time", "t"], ["--groups", "towns"], ["--tolerance", "2"]):
        assert run(path, *NAMED, *options).exit_code == BAD_INPUT
    path.write_text("p,y\n")
    assert "given no rows" in said(path, *NAMED)


def test_the_page_escapes_names_and_draws_what_is_listed():
    rng = np.random.default_rng(0)
    p = np.full(4000, 0.5)
    page = Monitor(["g"]).add({"g": ["<script>alert(1)</script>"] * 4000}, p, rng.random(4000) < 0.8).to_html()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count('class="chart"') == 2
    quiet = Monitor().to_html(title="Empty")
    assert "No rows yet" in quiet


def test_bins_clusters_and_weights_are_those_of_the_monitor(tmp_path):
    rng = np.random.default_rng(0)
    age, patient, weight = rng.integers(18, 90, 1500), rng.integers(0, 500, 1500), rng.choice([1.0, 4.0], 1500)
    p = rng.uniform(0.2, 0.8, 1500).round(6)
    y = (rng.random(1500) < p).astype(int)
    path = tmp_path / "rows.csv"
    pacsv.write_csv(pa.table({"p": p, "y": y, "age": age, "patient": patient, "w": weight}), path)
    options = ["--bins", "age:30,60", "--clusters", "patient", "--weights", "w", "--max-weight", "4"]
    found = json.loads(run(path, "--prob", "p", "--target", "y", *options, "--json", "-").stdout)
    settings = {"bins": {"age": [30, 60]}, "clusters": "patient", "max_weight": 4.0}
    monitor = Monitor(**settings).add({"age": age, "patient": patient}, p, y, weights=weight)
    assert found["sizes"] == json.loads(json.dumps(monitor.sizes()))
    assert found["settings"] == json.loads(json.dumps(monitor.settings.to_dict()))
    learned = json.loads(run(path, "--prob", "p", "--target", "y", "--numbers", "age", "--json", "-").stdout)
    assert learned["sizes"] == json.loads(json.dumps(Monitor(numbers=["age"]).add({"age": age}, p, y).sizes()))
    assert "--bins: given 'age=3'" in said(path, "--prob", "p", "--target", "y", "--bins", "age=3")
    assert "max_weight = 1" in said(path, "--prob", "p", "--target", "y", "--weights", "w")


def test_an_alarm_that_ended_in_these_rows_is_shown_and_exits_with_one(tmp_path):
    p, y = np.full(3000, 0.5), np.arange(3000) % 2
    y[100:200] = 1
    path, state = tmp_path / "rows.csv", tmp_path / "state"
    pacsv.write_csv(pa.table({"p": p, "y": y}), path)
    options = ["--prob", "p", "--target", "y", "--no-level-ranges", "--state", state, "--alpha", "1e-30"]
    first = run(path, *options)
    assert first.exit_code == command.ALARM, first.output
    assert "No sign that" in first.output
    assert "ended at row" in " ".join(first.output.split())
    pacsv.write_csv(pa.table({"p": p[:1000], "y": y[1000:2000]}), path)
    assert run(path, *options).exit_code == command.QUIET
