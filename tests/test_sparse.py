"""Forecasts with very many groups: against the theory written out, brute force over groups, and adversaries."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from swapcal import Forecaster, bounds
from swapcal.archive import ArchiveError
from swapcal.engine import groups
from swapcal.engine.sparse import SparseForecaster, group_keys
from swapcal.kernels import sparse as kernel
from tests.adversaries import RULES, rules
from tests.reference_sparse import SparseReference

COLUMNS = 2
FIELDS = ("p", "mean", "low", "high", "weight")


def table(rng: np.random.Generator, rows: int) -> list[list[Any]]:
    """Return rows with a column of integers, few and many, and one of texts; some values are missing."""
    many = [int(v) if v >= 0 else None for v in (rng.pareto(0.7, rows) * 3).astype(int) - 1]
    return [[a, [None, "north", "south", "west"][b]] for a, b in zip(many, rng.integers(0, 4, rows), strict=True)]


def scored(rng: np.random.Generator, rows: int, scores: int) -> np.ndarray:
    out = rng.random((rows, scores))
    out[rng.random((rows, scores)) < 0.1] = np.nan
    return out


def along_the_group(z: np.ndarray) -> Any:
    """Push the largest residual of any group of the row on the likelier level further away from 0."""
    residual: dict[Any, float] = {}

    def rule(values: list[Any], forecast: Any) -> float:
        level = forecast.high if forecast.weight > 0.5 else forecast.low
        cells = [(level, c, v) for c, v in enumerate([0, *values]) if v is not None]
        y = float(max((residual.get(cell, 0.0) for cell in cells), key=abs) >= 0)
        for cell in cells:
            residual[cell] = residual.get(cell, 0.0) + y - level
        return y

    return rule


def answers(name: str, rng: np.random.Generator, rows: int) -> Any:
    if name == "along the group":
        push = along_the_group(np.empty(0))
        return lambda t, values, forecast: push(values, forecast)
    rule = rules(rng, rows, 1)[name]
    return lambda t, values, forecast: rule(t, np.full(1, 0.5), forecast)


@pytest.mark.parametrize("scores", [0, 2])
@pytest.mark.parametrize("name", [*RULES, "along the group"])
def test_forecasts_and_errors_are_those_of_the_theory_against_every_opponent(name, scores):
    rng = np.random.default_rng(RULES.index(name) if name in RULES else 99)
    rows, z = 60, np.array([0.0, 0.1, 0.3, 0.5, 0.8, 1.0])
    forecaster = SparseForecaster(COLUMNS, scores=scores, levels=z, seed=3)
    reference = SparseReference(z, COLUMNS, scores)
    answer = answers(name, rng, rows)
    for t, (values, given) in enumerate(zip(table(rng, rows), scored(rng, rows, scores), strict=True)):
        forecast = forecaster.predict(values, scores=given if scores else None)
        issued = reference.check(forecast, values, list(given))
        y = answer(t, values, forecast)
        reference.learn(issued, values, list(given), y)
        forecaster.update(forecast, y)
    found = forecaster.certificate()
    for field, value in reference.errors().items():
        assert getattr(found, field) == pytest.approx(value, abs=1e-7), field
    assert found.holds()
    assert found.groups == len(reference.share)
    assert found.learning == pytest.approx(found.psreg - found.rounding, abs=1e-9)


def test_late_outcomes_and_weights_enter_as_they_were_issued():
    rng = np.random.default_rng(1)
    rows, z = 50, np.arange(6) / 5
    forecaster, reference = SparseForecaster(COLUMNS, scores=1, levels=5), SparseReference(z, COLUMNS, 1)
    given, scores = table(rng, rows), scored(rng, rows, 1)
    waiting: list[Any] = []
    for values, score in zip(given, scores, strict=True):
        forecast = forecaster.predict(values, scores=score)
        waiting.append((forecast, reference.check(forecast, values, list(score)), values, list(score)))
        while len(waiting) > rng.integers(0, 8):
            forecast, issued, late_values, late_score = waiting.pop(int(rng.integers(len(waiting))))
            y, weight = float(rng.random() < 0.3), float(rng.choice([0.5, 1.0, 3.0]))
            forecaster.update(forecast, y, weight=weight)
            reference.learn(issued, late_values, late_score, y, weight)
    found = forecaster.certificate()
    for field, value in reference.errors().items():
        assert getattr(found, field) == pytest.approx(value, abs=1e-7), field
    assert found.late > 0
    assert found.bound is found.theorem is None
    assert found.holds()
    assert found.weight == pytest.approx(sum(r["count"] for r in reference.rounds))


def test_a_copy_with_as_many_outcomes_is_recognised_as_late():
    left = SparseForecaster(1, levels=4)
    right = copy.deepcopy(left)
    for forecaster, y in ((left, 1), (right, 0)):
        forecaster.update(forecaster.predict([1]), y)
    open_here = left.predict([1])
    right.update(open_here, 1)
    assert right.certificate().late == 1
    left.update(left.predict([1]), 1)
    assert left.certificate().late == 0
    far = SparseForecaster(1, scores=1)
    waiting = far.predict([None], scores=[0.02])
    far.update(far.predict([None], scores=[0.98]), 1)  # at other levels, whose wishes alone it changes
    far.update(waiting, 0)
    assert far.certificate().late == 1


def stream(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 300, rows), rng.integers(-1, 7, rows)])
    chance = np.where(X[:, 1] < 3, 0.2, 0.5) + 0.3 * (X[:, 0] % 2)
    return X, (rng.random(rows) < chance).astype(float), rng.random((rows, 1))


def fields(forecast: Any) -> np.ndarray:
    return np.array([getattr(forecast, name) for name in FIELDS])


def test_run_is_the_loop_bit_for_bit_also_in_pieces_and_through_a_file(tmp_path):
    X, y, s = stream(700)
    counts = np.where(np.arange(700) % 3, 1.0, 2.5)
    whole, looped, pieces = (SparseForecaster(2, scores=1, seed=5) for _ in range(3))
    expected = fields(whole.run(X, y, scores=s, weights=counts))
    rows = []
    for x, label, score, count in zip(X, y, s, counts, strict=True):
        forecast = looped.predict(x.tolist(), scores=score)
        rows.append(fields(forecast))
        looped.update(forecast, label, weight=count)
    np.testing.assert_array_equal(np.array(rows).T, expected)
    assert looped.certificate() == whole.certificate()
    parts = []
    for a, b in ((0, 1), (1, 350), (350, 700)):
        parts.append(fields(pieces.run(X[a:b], y[a:b], scores=s[a:b], weights=counts[a:b])))
        pieces.save(tmp_path / "state")
        pieces = SparseForecaster.load(tmp_path / "state")
    np.testing.assert_array_equal(np.hstack(parts), expected)
    assert pieces.certificate() == whole.certificate()
    assert repr(pieces) == repr(whole)


def test_growing_memory_changes_nothing(monkeypatch):
    X, y, s = stream(900)
    small = SparseForecaster(2, scores=1)
    before, issued = small.nbytes, fields(small.run(X, y, scores=s))
    assert small.nbytes > before
    monkeypatch.setattr(groups, "FEWEST_GROUPS", 4096)
    monkeypatch.setattr(groups, "FEWEST_CELLS", 1 << 16)
    large = SparseForecaster(2, scores=1)
    np.testing.assert_array_equal(issued, fields(large.run(X, y, scores=s)))
    assert small.certificate() == large.certificate()
    # what a forecast needs is bounded by what was touched: at most four times the cells, and the groups
    room = 4 * 8 * kernel.CELL * small.certificate().cells + 4 * 8 * kernel.CELL * 3 * (4 + 2 * 17)
    assert small.nbytes < room + 400 * small.groups + 40_000


def test_predict_is_pure_and_seeds_change_only_draws():
    X, y, s = stream(300)
    asked, left_alone, other = (SparseForecaster(2, scores=1, seed=seed) for seed in (1, 1, 2))
    before = pickle.dumps(asked._memory)
    first = asked.predict([5, 10**12], scores=[0.4])
    asked.predict_many(X, scores=s)
    assert pickle.dumps(asked._memory) == before
    assert first == asked.predict([5, 10**12], scores=[0.4])
    one, two = asked.run(X, y, scores=s), other.run(X, y, scores=s)
    np.testing.assert_array_equal(fields(one), fields(left_alone.run(X, y, scores=s)))
    np.testing.assert_array_equal(fields(one)[1:], fields(two)[1:])
    assert not np.array_equal(one.p, two.p)
    named = [asked.predict([1, 1], event=event, scores=[0.37]).p for event in [*"abcdefgh", *"abcdefgh"]]
    assert named[:8] == named[8:]
    assert len({*named}) == 2


def test_weights_that_outgrow_their_units_are_rescaled():
    """A group that is right for long and then wrong for long, beside others that never come back."""
    z = np.arange(4) / 3
    forecaster, reference = SparseForecaster(COLUMNS, scores=1, levels=3), SparseReference(z, COLUMNS, 1)
    weights = [1.0, 40.0, 900.0, 2.0, 3000.0, 10.0]
    for t in range(60):
        values, score, y = [t % 2, ["a", None, "b"][t % 3]], [0.9 if t < 30 else np.nan], float(t < 30 or t % 2)
        forecast = forecaster.predict(values, scores=score)
        issued = reference.check(forecast, values, score)
        forecaster.update(forecast, y, weight=weights[t % 6])
        reference.learn(issued, values, score, y, weights[t % 6])
    assert forecaster._memory.reference.max() > 100
    assert forecaster.certificate().psreg == pytest.approx(reference.errors()["psreg"], rel=1e-9)


def test_weights_that_fall_below_their_units_are_rescaled():
    """A correction that was right beyond doubt on a level becomes wrong: its weight falls by more than units hold."""
    z = np.array([0.0, 0.5, 1.0])
    forecaster, reference = SparseForecaster(1, levels=2), SparseReference(z, 1)
    heaviest = 0.0
    for t in range(90):
        y, weight = (1.0, 8.0) if t < 30 else (0.0, 30.0) if t < 60 else (1.0, 100.0)
        forecast = forecaster.predict([t % 2])
        issued = reference.check(forecast, [t % 2], [])
        forecaster.update(forecast, y, weight=weight)
        reference.learn(issued, [t % 2], [], y, weight)
        heaviest = max(heaviest, *forecaster._memory.reference)
        totals = (forecaster._memory.whole + forecaster._memory.part / kernel.PART) / kernel.WHOLE
        assert np.all((totals >= kernel.LEAST_TOTAL) & (totals <= kernel.MOST_TOTAL))
    assert heaviest > 100 > forecaster._memory.reference.min()


def test_a_score_that_is_right_beyond_doubt_is_followed():
    """Its weight outgrows every group's, whose residuals cancel, by more than a double holds."""
    z = np.array([0.0, 0.25, 1.0])
    forecaster, reference = SparseForecaster(1, scores=1, levels=z), SparseReference(z, 1, 1)
    for t in range(12):
        y = 0.45 if t % 2 else 0.05
        forecast = forecaster.predict([None], scores=[y])
        issued = reference.check(forecast, [None], [y])
        forecaster.update(forecast, y, weight=2e5)
        reference.learn(issued, [None], [y], y, 2e5)
    assert forecast.mean == pytest.approx(0.45, abs=1e-6)
    ahead = -2 * forecaster._memory.score_loss[:, 0] - forecaster._memory.reference
    assert ahead.max() > 1000
    assert forecaster.certificate().psreg == pytest.approx(reference.errors()["psreg"], rel=1e-9)


def test_a_score_that_is_far_ahead_leaves_the_weights_of_the_groups_alone():
    """Computing them anew takes a pass over all cells; what groups weigh among themselves does not depend on it."""
    X, _, y = stream(3000)
    forecaster = SparseForecaster(2, scores=1, levels=2)
    forecaster.run(X, y[:, 0], scores=y)
    assert -2 * forecaster._memory.score_loss[1, 0] > 3 * kernel.MOST_PEAK
    assert forecaster._memory.reference[1] == 0.0
    assert forecaster.certificate().holds()


def test_total_weights_are_what_the_cells_and_the_unseen_weigh():
    X, y, s = stream(3000)
    forecaster = SparseForecaster(2, scores=1)
    forecaster.run(X, y, scores=s)
    state = forecaster._memory
    total = (state.whole + state.part / kernel.PART) / kernel.WHOLE
    arrays = groups.packed(state)
    level = arrays["cells"][:, kernel.C_LEVEL].astype(int)
    owner = np.repeat(np.arange(forecaster.groups), arrays["size"])
    touched = np.bincount(level, arrays["share"][owner], len(total))
    np.testing.assert_allclose(touched, state.touched, rtol=1e-12)
    steps = forecaster._scratch.steps[level]
    n, A = arrays["cells"][:, [kernel.C_MASS]], arrays["cells"][:, [kernel.C_RESIDUAL]]
    weight = np.mean(np.exp(steps * (4 * A - 2 * steps * n)), axis=1) * arrays["share"][owner]
    expected = (np.bincount(level, weight, len(total)) + 0.5 - touched) * np.exp(-state.reference)
    np.testing.assert_allclose(total, expected, rtol=1e-12)


def test_a_group_is_learned_and_a_score_is_used():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2000, (20_000, 3))
    chance = np.where(X[:, 0] == 7, 0.9, 0.3)
    X[::4, 0], chance[::4] = 7, 0.9
    y = (rng.random(20_000) < chance).astype(float)
    plain = SparseForecaster(3)
    found = plain.run(X, y)
    assert abs(found.mean[10_000:][X[10_000:, 0] == 7].mean() - 0.9) < 0.03
    assert abs(found.mean[10_000:][X[10_000:, 0] != 7].mean() - 0.3) < 0.03
    score = np.clip(chance + rng.normal(0, 0.02, 20_000), 0, 1)
    informed = SparseForecaster(3, scores=1)
    assert np.mean((informed.run(X, y, scores=score).mean - chance) ** 2) < np.mean((found.mean - chance) ** 2) / 2


def test_scores_that_mislead_are_left_alone():
    rng = np.random.default_rng(2)
    X, y = rng.integers(0, 50, (4000, 1)), (rng.random(4000) < 0.2).astype(float)
    found = SparseForecaster(1, scores=1).run(X, y, scores=rng.random((4000, 1)))
    assert np.mean((found.mean[1000:] - 0.2) ** 2) < 0.01


def test_values_are_groups_of_their_own_column():
    np.testing.assert_array_equal(group_keys(np.array([[0, -5], [3, 2**62]]), 2), [[1, 0], [4, 2**62 + 1]])
    texts = group_keys([["7", 7], [None, float("nan")]], 2)
    assert texts[0, 0] != texts[0, 1] == 8
    assert texts[1].tolist() == [0, 0]
    np.testing.assert_array_equal(group_keys(np.array([["a"], ["b"]]), 1), group_keys([["a"], ["b"]], 1))
    np.testing.assert_array_equal(group_keys(np.array([[True], [False]]), 1), [[2], [1]])
    np.testing.assert_array_equal(group_keys(np.array([[1.0], [np.nan]]), 1), [[2], [0]])
    forecaster = SparseForecaster(2)
    forecaster.run([[1, 2], [2, 1], [1, None], [-1, None]], [0, 1, 0, 1])
    assert forecaster.groups == 5
    for value in range(1000):  # some fall into one place of the table from both columns
        forecaster = SparseForecaster(2, levels=2)
        forecaster.run(np.full((1, 2), value), [1])
        assert forecaster.groups == 3


def test_frames_are_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"shop": ["a", "b", None], "day": [1, 2, 3]})
    np.testing.assert_array_equal(group_keys(frame, 2), group_keys([["a", 1], ["b", 2], [None, 3]], 2))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda f: f.predict([1]), r"groups: given shape \(1, 1\), expected \(rows, 2\)"),
        (lambda f: f.predict([1, 0.5]), "groups: given 0.5 in row 1, column 2"),
        (lambda f: f.predict([1, float("inf")]), "groups: given inf in row 1, column 2"),
        (lambda f: f.predict([1, 2**63]), "groups: given 9223372036854775808 in row 1"),
        (lambda f: f.predict([1, ["a"]]), r"groups: given \['a'\] in row 1, column 2"),
        (lambda f: f.run([[1, 2], [3]], [0, 1]), "groups: given rows of different lengths"),
        (lambda f: f.run(np.zeros((3, 2), int), [0, 1]), "labels: given shape"),
        (lambda f: f.run(np.zeros((2, 2), int), [0, 2]), "labels: given 2.0 in row 2"),
        (lambda f: f.run(np.zeros((2, 2), int), [0, 1], weights=[1, 0]), "weights: given 0.0 in row 2"),
        (lambda f: f.run(np.zeros((2, 2), int), [0, 1], weights=[1]), "weights: given shape"),
        (lambda f: f.predict([1, 1], scores=[0.5]), r"scores: given shape \(1, 1\), expected \(rows, 0\)"),
        (lambda f: f.update(f.predict([1, 1]), 1, weight=-1), "weight: given -1"),
        (lambda f: f.update(f.predict([1, 1]), np.nan), "label: given nan"),
        (lambda f: SparseForecaster(0), "columns: given 0"),
        (lambda f: SparseForecaster(1, scores=-1), "scores: given -1"),
        (lambda f: SparseForecaster(1, levels="adaptive"), 'levels: given "adaptive"'),
        (lambda f: SparseForecaster(1, scores=1).predict([1], scores=[1.5]), "scores: given 1.5 in row 1"),
        (lambda f: SparseForecaster(1, scores=1).predict([1]), "scores: given none"),
        (lambda f: SparseForecaster(1, scores=1).run([[1]], [1], scores=[0.1, 0.2]), "scores: given 2 rows"),
        (lambda f: f.update(SparseForecaster(2).predict([1, 1]), 1), "forecast: given one from another"),
    ],
)
def test_what_is_refused_changes_nothing(bad, message):
    forecaster = SparseForecaster(2)
    forecaster.run(np.arange(40).reshape(20, 2) % 7, np.arange(20) % 2)
    before = pickle.dumps(forecaster._memory)
    with pytest.raises((ValueError, TypeError), match=message):
        bad(forecaster)
    assert pickle.dumps(forecaster._memory) == before


def damaged(arrays: dict[str, Any], name: str, value: Any, at: Any) -> dict[str, Any]:
    spoiled = {key: array.copy() for key, array in arrays.items()}
    spoiled[name][at] = value
    return spoiled


@pytest.mark.parametrize(
    ("name", "value", "at"),
    [
        ("size", 5, 1),
        ("size", -1, 1),
        ("column", 9, 1),
        ("cells", 99.0, (0, kernel.C_LEVEL)),
        ("cells", np.nan, (0, kernel.C_MASS)),
        ("counts", 10**6, kernel.GROUPS),
        ("z", 0.9, 0),
        ("share", 7.0, 0),
    ],
)
def test_inconsistent_files_are_refused(tmp_path, name, value, at):
    forecaster = SparseForecaster(2, levels=4)
    forecaster.run(np.arange(40).reshape(20, 2) % 7, np.arange(20) % 2)
    arrays, settings = forecaster.to_state()
    with (tmp_path / "state").open("wb") as file:
        groups.archive.pack(file, groups.KIND, groups.VERSION, damaged(arrays, name, value, at), settings)
    with pytest.raises(ArchiveError):
        SparseForecaster.load(tmp_path / "state")


def test_the_theorem_is_what_its_parts_say():
    """Shares as the kernel gives them out; the step that is nearest to the best saves 8/9 of it, or next to nothing."""
    forecaster = SparseForecaster(3, scores=2)
    forecaster.run(np.arange(300).reshape(100, 3) % 23, np.zeros(100), scores=np.full((100, 2), 0.5))
    state = forecaster._memory
    for group in range(1, forecaster.groups):
        order = int(np.sum(state.column[: group + 1] == state.column[group]))
        assert state.share[group] == pytest.approx(bounds.group_share(order, 3, 2), rel=1e-12)
    for best in np.concatenate([np.linspace(1e-4, 1, 5000), [0.75 * 2**-8, 0.75, 1.5 * 2**-8]]):
        for top in (1.0, 0.6, best):
            if best > top:
                continue
            steps = np.minimum(2.0 ** -np.arange(9), top)
            saved = np.max(2 * steps * best - steps**2)
            assert best**2 <= 9 / 8 * saved + 9 / 8 * 4.0**-8 + 1e-15
            assert best**2 <= 9 / 8 * max(saved, 0.0) + 9 / 16 * 4.0**-8 + 1e-15


def test_the_mixture_never_loses_more_than_the_bound_whatever_the_weights():
    """Vovk's substitution at rate 2 with weights up to 1; the mean of the experts would need rate ½."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        forecasts, weights = rng.random(4), rng.dirichlet(np.full(4, 0.3))
        g = [-0.5 * np.log(np.sum(weights * np.exp(-2 * (forecasts - y) ** 2))) for y in (0, 1)]
        w = float(np.clip(0.5 + (g[0] - g[1]) / 2, 0, 1))
        for y in np.linspace(0, 1, 11):
            for alpha in (1.0, 0.4, 0.01):
                mixed = -0.5 * np.log(np.sum(weights * np.exp(-2 * alpha * (forecasts - y) ** 2)))
                assert alpha * (w - y) ** 2 <= mixed + 1e-12


def test_the_theorem_grows_at_its_rate_until_the_smallest_step_matters():
    values = [float(bounds.group_psreg(10.0**e, 1000)) - 9 / 8 * 4.0**-8 * 10.0**e for e in (6, 9)]
    assert 0.32 < np.log10(values[1] / values[0]) / 3 < 0.34
    uniform = float(bounds.group_psreg(6000, 2000, 12))
    assert uniform == float(bounds.group_psreg(6000, 2000, [i / 12 for i in range(13)]))
    assert uniform == pytest.approx(
        9 / 8 * (6000 / (4 * 144) + 13 / 2 * np.log(18 / bounds.group_share(2000)) + 6000 * 4.0**-8)
    )


def test_the_certificate_reads_as_it_is():
    empty = SparseForecaster(1).certificate()
    assert empty.holds()
    assert "nothing to certify" in str(empty)
    forecaster = Forecaster.sparse(columns=1, levels=8)
    forecaster.run(np.arange(500)[:, None] % 10, np.arange(500) % 3 == 0)
    found = forecaster.certificate()
    assert "11 groups seen and the 500 outcomes learned" in str(found)
    assert found.as_dict()["groups"] == 11
    assert "<" in forecaster._repr_html_()


def test_integers_of_a_table_stay_apart_beside_a_gap():
    pd = pytest.importorskip("pandas")
    first = 2**53
    frame = pd.DataFrame({"id": [first, first + 1, first + 2, first + 3], "b": [1, 2, np.nan, 3]})
    nullable = frame.astype({"b": "Int64"})
    for table in (frame, nullable):
        forecaster = Forecaster.sparse(columns=2)
        forecaster.run(table, np.zeros(4))
        assert forecaster.groups == 8


def test_an_integer_without_a_successor_is_refused():
    with pytest.raises(ValueError, match=r"groups: given .*9223372036854775807"):
        Forecaster.sparse(columns=1).predict(np.array([2**63 - 1]))
