"""The measuring machinery: exact sums, exact mixtures, resumable runs, slopes, figures, commands."""

import csv
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

typer = pytest.importorskip("typer")
pytest.importorskip("pyarrow")
pytest.importorskip("rich")

from typer import testing as typer_testing  # noqa: E402

from rates import drawing, measure, page, plan, slopes, store, tables  # noqa: E402
from rates.__main__ import rates as command  # noqa: E402
from rates.figure import Panel, PlottedLine, figure  # noqa: E402
from rates.plan import BATCH, ONLINE, QUANTITIES, Task  # noqa: E402
from rates.results import certified, chosen  # noqa: E402
from rates.statistics import LevelSums  # noqa: E402
from swapcal import Forecaster, bounds, errors  # noqa: E402
from swapcal.cli.cite import USES, bibliography, cite  # noqa: E402
from swapcal.datasets import Stream, played  # noqa: E402


def app(command):
    shell = typer.Typer()
    shell.command()(command)
    return shell


@pytest.fixture(scope="module")
def rows():
    online = [
        Task(ONLINE, system, stream, dim, rounds, seed)
        for system in plan.STREAMING
        for stream in ("linear", "oppose")
        for dim in (2, 3, 5)
        for rounds in (300, 1000, 3000)
        for seed in (0, 1)
    ]
    batch = [Task(BATCH, system, "linear", 5, rounds, 0) for system in plan.FITTED for rounds in (300, 900)]
    return [measure.measure(task) for task in [*online, *batch]]


def test_level_sums_in_pieces_equal_sums_at_once():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(500, 0.5), rng.uniform(-0.5, 0.5, (500, 2))])
    p, y = rng.choice([0.1, 0.4, 0.9], 500), rng.integers(0, 2, 500).astype(float)
    whole, pieces = LevelSums(3), LevelSums(3)
    whole.add(p, X, y)
    for part in np.array_split(np.arange(500), 7):
        pieces.add(p[part], X[part], y[part])
    assert pieces.errors() == pytest.approx(whole.errors(), rel=1e-9)
    n = np.array([(p == v).sum() for v in (0.1, 0.4, 0.9)], float)
    g = np.array([(y - p)[p == v] @ X[p == v] for v in (0.1, 0.4, 0.9)])
    assert whole.errors()["SMCal_2"] == pytest.approx(errors.smcal_linear(n, g, 2))


def test_a_mixture_of_one_level_each_is_the_realised_sum():
    stream = Stream("linear", 3, 400)
    part = played(Forecaster(3, levels=4), stream)
    levels = np.arange(5) / 4
    realised, mixed = LevelSums(3), LevelSums(3)
    realised.add(part.forecast.p, part.X, part.y)
    mixed.add_mixture(levels, (part.forecast.p[:, None] == levels).astype(float), part.X, part.y)
    assert mixed.errors() == pytest.approx(realised.errors())


def test_online_runs_measure_what_the_theorems_bound(rows):
    for row in chosen(rows, kind=ONLINE):
        assert row["SMCal_2"] <= row["SReg"] * (1 + 1e-9)
        assert row["SMCal_1"] <= np.sqrt(row["rounds"] * row["SMCal_2"]) * (1 + 1e-9)
        assert row["PSMCal_2"] <= row["PSReg"] * (1 + 1e-9)
        if row["system"] not in ("garg-ito", "hu-luo"):
            assert row["certified"]
            assert row["PSReg"] <= row["certificate"] * (1 + 1e-9)
            assert row["certificate"] <= row["theorem"]
    total, holding = certified(rows)
    assert total == holding == 6 * 2 * 3 * 3 * 2


def test_batch_rows_meet_the_forecaster_of_their_round(monkeypatch):
    monkeypatch.setattr(measure, "HELD_OUT", 60)
    task = Task(BATCH, "engine", "linear", 3, 50, 0)
    stream = Stream("linear", 3, 110, 0)
    X, chance, _ = stream.rows(0, 110)
    y = stream.labels(0, 110)
    meets = np.random.default_rng([0, 50]).integers(0, 50, 60)
    forecaster, sums = Forecaster(3), LevelSums(3)
    for t in range(50):
        for k in np.flatnonzero(meets == t):
            forecast = forecaster.predict(X[50 + k])
            sums.add(np.array([forecast.p]), X[[50 + k]], chance[[50 + k]])
        forecaster.update(forecaster.predict(X[t]), y[t])
    found = measure.measure(task)
    assert found["DSMCal_2"] == pytest.approx(sums.errors()["SMCal_2"] / 60)
    assert found["SAErr"] == pytest.approx(sums.errors()["SReg"] / 60)


def test_slopes_recover_powers_and_judge_rates():
    T = np.array([1e3, 1e4, 1e5, 1e6])
    noisy = 3 * T ** (1 / 3) * np.array([1.05, 0.95, 1.05, 0.95])
    slope = slopes.fit(list(zip(T, noisy, strict=True)))
    assert np.isnan(slopes.fit([]).value)
    assert slope.low < 1 / 3 < slope.high
    assert slope.verdict(1 / 3) == "consistent"
    assert slope.verdict(0.9) == "at or below"
    assert slope.verdict(0.1) == "above"
    assert slopes.fit([(1e3, 1), (1e4, 0), (1e5, 2)]).verdict(1.0) == "too few points"


def test_interrupted_runs_resume_with_what_is_missing(tmp_path, monkeypatch):
    tasks = [Task(ONLINE, "engine", "linear", 2, rounds, 0) for rounds in (100, 200, 300)]
    path = tmp_path / "results.parquet"

    def interrupt(task):
        if task.rounds == 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.complete(tasks, path, 1, interrupt)
    assert [row["rounds"] for row in store.read(path)] == [100, 200]
    assert [task.rounds for task in store.missing(tasks, store.read(path))] == [300]
    assert [row["rounds"] for row in store.belonging(store.read(path), tasks[1:])] == [200]
    ran = []
    found = store.complete(tasks, path, 1, ran.append)
    assert [task.rounds for task in ran] == [300]
    assert len(found) == 3
    monkeypatch.setattr(store, "measure", None)
    assert store.complete(tasks, path, 1, ran.append) == store.read(path)


def test_two_processes_measure_the_same(tmp_path):
    tasks = [Task(ONLINE, "garg-ito", "oppose", 2, rounds, seed) for rounds in (200, 400) for seed in (0, 1)]
    found = store.complete(tasks, tmp_path / "results.parquet", 2, lambda task: None)
    by_task = {tuple(row[name] for name in store.KEY): row for row in found}
    for task in tasks:
        again = measure.measure(task)
        assert by_task[tuple(task.as_dict().values())]["SReg"] == pytest.approx(again["SReg"])


def test_plans_cover_what_the_page_promises():
    full = plan.full()
    assert len(full) == len(set(full))
    online = [task for task in full if task.kind == ONLINE]
    assert {task.dim for task in online} == {2, 5, 20}
    assert {task.system for task in online if task.rounds == 10**6} == set(plan.STREAMING)
    assert {task.stream for task in online if task.rounds == 10**7 and task.system == "engine"} == set(plan.STREAMS)
    assert {task.system for task in full if task.kind == BATCH} == set(plan.FITTED)
    assert sum(task.cost for task in plan.small()) < 120


def test_page_has_every_quantity_and_judges_slopes(rows, tmp_path):
    text = page.summary(rows, "make rates PLAN=--small")
    for quantity in (*QUANTITIES[ONLINE], *QUANTITIES[BATCH]):
        assert f"**{quantity}**" in text
    page.write_slopes(rows, tmp_path / "slopes.csv")
    with (tmp_path / "slopes.csv").open(encoding="utf-8") as file:
        body = list(csv.DictReader(file))
    assert {row["verdict"] for row in body} <= {"consistent", "at or below", "above", "too few points"}
    rate = {(row["quantity"], row["system"]): float(row["theory"]) for row in body}
    assert rate["SReg", "paper-sreg"] == pytest.approx(0.6)
    assert ("SMCal_2", "paper-sreg") not in rate
    assert rate["SMCal_2", "garg-ito"] == bounds.RATES["SMCal_2", "previous"]
    assert rate["SAErr", "lsboost"] == bounds.RATES["SAErr", "previous"]


def test_slopes_above_the_theory_are_marked():
    steep = [
        {"kind": ONLINE, "system": "engine", "stream": "linear", "dim": 2, "rounds": T, "SReg": T} for T in (1, 10, 99)
    ]
    table = tables.slope_table(steep, ONLINE, 2)
    marked = {row[0]: row[3] for row in table[1:]}
    assert marked["SReg"].endswith("↑")
    assert marked["SMCal_2"] == "–"


def test_the_power_of_the_dimension_is_fitted_at_the_longest_common_horizon(rows):
    table = tables.dimension_table(chosen(rows, kind=ONLINE))
    assert [row[0] for row in table[1:]] == ["PSReg", "SMCal_2", "SMCal_1"]
    assert table[0][2:] == [name for name in plan.STREAMING if name not in plan.VARIANTS]


def test_figures_are_well_formed_and_hold_every_curve(rows, tmp_path):
    names = drawing.write_figures(rows, tmp_path)
    assert len(names) == len(QUANTITIES[ONLINE]) + 2
    for name in names:
        svg = (tmp_path / name).read_text(encoding="utf-8")
        ElementTree.fromstring(svg)
        assert len(svg) < 100_000
        for x, y in re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', svg):
            assert 0 <= float(x) <= 1200
            assert 0 <= float(y) <= 1300
    psreg = (tmp_path / "rates-psreg.svg").read_text(encoding="utf-8")
    for label in ("certificate of the engine", "theorem, ours", "theorem, paper", "Garg et al. + Ito"):
        assert label in psreg


def test_a_figure_without_points_still_draws():
    svg = figure(
        [Panel("empty", [PlottedLine("a", "#000000", [])]), Panel("one", [PlottedLine("b", "#000000", [(1, 2)])])],
        2,
        "T",
    )
    ElementTree.fromstring(svg)
    assert svg.count("<circle") == 1


def test_the_command_writes_figures_tables_and_cache(tmp_path, monkeypatch):
    tasks = [Task(ONLINE, system, "linear", 2, T, 0) for system in plan.STREAMING for T in (100, 200, 400)]
    monkeypatch.setattr(plan, "small", lambda: tasks)
    found = typer_testing.CliRunner().invoke(app(command), ["--out", str(tmp_path / "out"), "--jobs", "1"])
    assert found.exit_code == 0, found.output
    assert "certificates hold on 18 of 18" in found.output
    assert (tmp_path / "out" / "rates.md").read_text(encoding="utf-8").startswith("`make rates PLAN=--small`")
    assert len(store.read(tmp_path / "out" / "results.parquet")) == len(tasks)


def test_a_certificate_that_fails_is_an_error(tmp_path, monkeypatch):
    tasks = [Task(ONLINE, "engine", "linear", 2, T, 0) for T in (100, 200, 400)]
    monkeypatch.setattr(plan, "small", lambda: tasks)
    broken = [measure.measure(task) | {"certified": False} for task in tasks]
    (tmp_path / "out").mkdir()
    store.write(tmp_path / "out" / "results.parquet", broken)
    found = typer_testing.CliRunner().invoke(app(command), ["--out", str(tmp_path / "out"), "--jobs", "1"])
    assert found.exit_code == 1


def test_cite_prints_each_entry_once():
    found = typer_testing.CliRunner().invoke(app(cite), ["all"])
    assert found.exit_code == 0
    keys = re.findall(r"^@\w+\{([\w]+),", found.output, flags=re.MULTILINE)
    assert sorted(keys) == sorted(bibliography())
    assert found.output.count("{") == found.output.count("}")


def test_cite_knows_every_baseline_and_refuses_the_rest():
    from swapcal.baselines import ONLINE as BASELINES

    assert set(BASELINES) <= set(USES)
    assert "luo2025improved" in typer_testing.CliRunner().invoke(app(cite), []).output
    assert typer_testing.CliRunner().invoke(app(cite), ["alchemy"]).exit_code == 2
