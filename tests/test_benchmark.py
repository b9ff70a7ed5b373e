"""What would I gain: equal footing, nothing known too early, and honest where there is nothing to gain."""

import csv
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from swapcal.baselines.recalibration import Isotonic, Sigmoid
from swapcal.benchmark import FIRST, Benchmark, _stretches, cross_validated, folds_of, in_time_order
from swapcal.report import Findings
from swapcal.report.findings import ContestMethod

RNG = np.random.default_rng(3)
N = 3000
X = RNG.normal(size=N)
TOWN = RNG.choice(["a", "b"], N)
TRUTH = expit(X + 1.2 * (TOWN == "a") - 0.6)
Y = (RNG.random(N) < TRUTH).astype(float)
BLIND = expit(X)
METHODS = ["mine", "isotonic", "sigmoid", "swapcal"]


def rows(n: int = N) -> dict:
    return {"town": TOWN[:n], "score": BLIND[:n]}


@pytest.fixture(scope="module")
def streamed() -> dict:
    pa = pytest.importorskip("pyarrow")
    return in_time_order(pa.table(rows()), Y, BLIND, score="score", groups=["town"])


def test_all_methods_forecast_all_rows(streamed):
    assert [*streamed] == METHODS
    assert all(p.shape == (N,) and ((p >= 0) & (p <= 1)).all() for p in streamed.values())
    np.testing.assert_array_equal(streamed["isotonic"][:FIRST], BLIND[:FIRST])


def test_what_comes_later_changes_no_forecast(streamed):
    pa = pytest.importorskip("pyarrow")
    other = np.r_[Y[:900], 1 - Y[900:]]
    again = in_time_order(pa.table(rows()), other, BLIND, score="score", groups=["town"])
    for name in METHODS:
        np.testing.assert_array_equal(again[name][:901], streamed[name][:901])
        assert name == "mine" or not np.array_equal(again[name][901:], streamed[name][901:])


def test_rows_of_one_moment_do_not_know_each_others_outcomes():
    pa = pytest.importorskip("pyarrow")
    time = np.repeat(np.arange(12.0), 50)
    other = Y[:600].copy()
    other[350:400] = 1 - other[350:400]
    table = pa.table(rows(600))
    first, second = (
        in_time_order(table, y, BLIND[:600], score="score", groups=["town"], time=time) for y in (Y[:600], other)
    )
    for name in METHODS:
        np.testing.assert_array_equal(first[name][:400], second[name][:400])
    assert not np.array_equal(first["swapcal"][400:], second["swapcal"][400:])


def test_outcomes_that_come_late_are_fitted_late():
    time = np.arange(1000.0)
    plain, late = _stretches(1000, time, time), _stretches(1000, time, time + 300)
    assert plain[0][:2] == (200, 240)
    assert late[0][0] == 500
    for start, _, known in late:
        assert (time[known] + 300 < time[start]).all()


def test_folds_are_shared_and_a_rows_own_outcome_is_unknown_to_its_forecast():
    pa = pytest.importorskip("pyarrow")
    n = 400
    table = pa.table({"town": TOWN[:n], "x": X[:n]})
    first = cross_validated(table, Y[:n], BLIND[:n], groups=["town"], folds=2, seed=1)
    other = Y[:n].copy()
    fold = folds_of(n, 2, 1)
    other[fold == 0] = 1 - other[fold == 0]
    second = cross_validated(table, other, BLIND[:n], groups=["town"], folds=2, seed=1)
    for name in METHODS[1:]:
        np.testing.assert_array_equal(first[name][fold == 0], second[name][fold == 0])
        assert not np.array_equal(first[name][fold == 1], second[name][fold == 1])
    with pytest.raises(ValueError, match="folds: given 1, expected from 2 to 400"):
        cross_validated(table, Y[:n], BLIND[:n], folds=1)


def test_a_gain_is_told_with_its_interval(streamed):
    contest = Benchmark(Y, streamed, groups={"town": TOWN})
    assert [entry.name for entry in contest.entries] == METHODS
    swap = contest["swapcal"]
    assert swap.better
    assert swap.squared.high < 0
    assert swap.squared.after == pytest.approx(np.mean((streamed["swapcal"] - Y) ** 2))
    assert contest["mine"].worst_group.startswith("town = ")
    assert contest["mine"].squared is None
    assert contest.sentence().startswith("You would gain: swapcal lowers the squared error from")
    verdicts = f"Verdict on yours: {contest['mine'].verdict}; on swapcal's: {swap.verdict}."
    assert contest.sentence().endswith(verdicts)  # also if they agree


def test_its_plain_data_are_those_of_its_findings():
    rng = np.random.default_rng(4)
    p = rng.uniform(0.2, 0.8, 500)
    contest = Benchmark(rng.random(500) < p, {"mine": p**2, "swapcal": p}, groups=["a", "b"] * 250)
    found = contest.to_dict()
    assert Findings.of(found).to_dict() == found == json.loads(contest.to_json())
    assert [set(one) for one in found["contest"]["methods"]] == [{each.name for each in fields(ContestMethod)}] * 2
    assert found["headline"]["sentence"].startswith("The forecasts of swapcal, audited: ")


def test_nothing_to_gain_is_told_so():
    right = dict.fromkeys(METHODS, TRUTH)
    said = Benchmark(Y, right, groups={"town": TOWN}).sentence()
    assert said.startswith("Nothing to gain: keep yours. No method lowers")
    worse = right | {"swapcal": 1 - TRUTH}
    assert "keep yours. swapcal would do worse" in Benchmark(Y, worse, groups={"town": TOWN}).sentence()


def test_a_simple_recalibration_that_does_as_well_is_preferred():
    steep = expit(2 * (X + 1.2 * (TOWN == "a") - 0.6))
    found = {"mine": steep, "isotonic": TRUTH, "sigmoid": TRUTH, "swapcal": TRUTH}
    said = Benchmark(Y, found).sentence()
    assert said.startswith("A simple recalibration is enough: isotonic lowers the squared error from")
    assert "swapcal does no better than that" in said
    assert "swapcal lowers it by nothing" in Benchmark(Y, found | {"swapcal": steep}).sentence()


def test_groups_that_are_put_right_count_where_scores_hardly_move():
    small = TOWN == "a"
    off = np.clip(0.5 + 0.05 * np.where(np.arange(N) % 2, 1, -1) * small, 0, 1)
    y = (np.random.default_rng(0).random(N) < 0.5).astype(float)
    contest = Benchmark(y, {"mine": off, "swapcal": np.full(N, 0.5)}, groups={"town": TOWN})
    assert contest.sentence()  # whichever it is, it is said
    with pytest.raises(ValueError, match='expected "mine" and "swapcal"'):
        Benchmark(y, {"swapcal": off})


def test_recalibrations_match_scikit_learn():
    isotonic = pytest.importorskip("sklearn.isotonic")
    theirs = isotonic.IsotonicRegression(out_of_bounds="clip").fit(BLIND, Y).predict(BLIND)
    np.testing.assert_allclose(Isotonic().fit(BLIND, Y).predict(BLIND), theirs, atol=1e-9)
    linear = pytest.importorskip("sklearn.linear_model")
    odds = np.log(BLIND / (1 - BLIND))[:, None]
    model = linear.LogisticRegression(C=1e6).fit(odds, Y)
    np.testing.assert_allclose(Sigmoid().fit(BLIND, Y).predict(BLIND), model.predict_proba(odds)[:, 1], atol=2e-3)


def test_scores_of_0_and_1_and_one_kind_of_outcome_are_survived():
    for rival in (Isotonic, Sigmoid):
        said = rival().fit([0.0, 1.0, 0.5], [1, 0, 1]).predict([0.0, 0.3, 1.0])
        assert np.isfinite(said).all()
        assert ((rival().fit([0.2, 0.4], [1, 1]).predict([0.3])) <= 1).all()


# The command


@pytest.fixture
def ask():
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")
    from swapcal.cli.compare import compare
    from tests.commands import runner

    return runner(compare)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["day", "town", "p_mine", "y"])
        for k in range(600):
            writer.writerow([f"2024-{1 + k // 60:02d}-01", TOWN[k], f"{BLIND[k]:.6f}", int(Y[k]) if k % 100 else ""])
    return path


def test_one_table_one_sentence_and_one_report(ask, table, tmp_path):
    out, twin = tmp_path / "gain.html", tmp_path / "gain.json"
    done = ask(
        table, "--target", "y", "--score", "p_mine", "--groups", "town", "--time", "day", "-o", out, "--json", twin
    )
    assert done.exit_code == 0, done.output
    found = json.loads(twin.read_text())["contest"]
    assert [one["name"] for one in found["methods"]] == METHODS
    assert "left out 6 of 600 rows" in done.output
    assert " ".join(found["sentence"].split()) in " ".join(done.output.split())
    assert "In order of time" in done.output
    page = out.read_text(encoding="utf-8")
    assert "What would I gain?" in page
    assert page.index("What would I gain?") < page.index("The forecasts of swapcal, audited")


def test_without_a_time_it_is_cross_validated_and_says_what_is_read(ask, table):
    done = ask(table, "--target", "y", "--score", "p_mine", "--drop", "day", "--folds", "2")
    assert done.exit_code == 0, done.output
    assert "Cross-validated in 2 folds" in done.output
    assert "swapcal reads p_mine and town" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--score", "p_other"], "p_other"),
        (["--score", "p_mine", "--label-time", "day"], "--label-time: given without --time"),
        (["--score", "town"], "town"),
        (["--score", "p_mine", "--positive", "yes"], "--positive: given 'yes', expected a value of column 'y'"),
    ],
)
def test_what_cannot_be_compared_is_refused(ask, table, arguments, message):
    done = ask(table, "--target", "y", *arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_a_missing_score_is_named_by_its_row(ask, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("p,y\n0.2,0\n,1\n0.4,1\n")
    done = ask(path, "--target", "y", "--score", "p")
    assert done.exit_code == 2
    assert "row 2: column 'p': given nothing, expected a probability" in done.output
