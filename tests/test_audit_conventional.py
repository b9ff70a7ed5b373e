"""Measures that fields report: each against an independent computation, its interval by simulation."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from swapcal import Audit, Forecaster
from swapcal.audit import ClassAudits
from swapcal.audit.conventional import Spectrum


def sample(seed=0, rows=800, slope=0.7, shift=0.2):
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(2, 3, rows), 3).clip(0.001, 0.999)
    return p, (rng.random(rows) < expit(slope * logit(p) + shift)).astype(float)


def likelihood(p, y, weights, slope):
    """The logistic fit by a general optimiser: intercept alone, or intercept and slope."""
    x = logit(p)

    def loss(b):
        eta = b[0] + (b[1] if slope else 1.0) * x
        return float(np.sum(weights * (np.logaddexp(0, eta) - y * eta)))

    return minimize(loss, [0.0, 1.0] if slope else [0.0], tol=1e-12).x


def isotone(rate, mass):
    """Isotonic regression as its max-min formula reads."""
    sums, total = np.concatenate([[0], np.cumsum(rate * mass)]), np.concatenate([[0], np.cumsum(mass)])
    mean = lambda a, b: (sums[b + 1] - sums[a]) / (total[b + 1] - total[a])  # noqa: E731
    n = len(rate)
    return np.array([max(min(mean(a, b) for b in range(i, n)) for a in range(i + 1)) for i in range(n)])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_calibration_line_is_the_logistic_fit(weighted):
    p, y = sample()
    weights = np.random.default_rng(1).uniform(0.5, 3, len(p)) if weighted else np.ones(len(p))
    found = Audit(p, y, weights=weights).conventional
    assert found.slope().value == pytest.approx(likelihood(p, y, weights, True)[1], abs=1e-4)
    assert found.intercept().value == pytest.approx(likelihood(p, y, weights, False)[0], abs=1e-4)


def test_a_line_that_does_not_exist_is_none():
    p = np.linspace(0.1, 0.9, 50)
    separated = Audit(p, p > 0.5).conventional
    assert separated.slope() is None
    none = Audit(p, np.zeros(50)).conventional
    assert none.intercept() is None
    assert none.observed_expected() is None
    assert Audit(np.full(50, 0.3), p > 0.5).conventional.slope() is None
    assert none.entry().slope is None


def test_intervals_cover_at_their_level():
    missed, runs = np.zeros(4), 300
    for seed in range(runs):
        p, y = sample(seed, rows=600)
        truth = expit(0.7 * logit(p) + 0.2)
        found = Audit(p, y).conventional
        ratio, benefit = found.observed_expected(), found.net_benefit([0.4])[0]
        acted, odds = p >= 0.4, 0.4 / 0.6
        wanted = [
            (found.slope(), 0.7),
            (found.intercept(), None),
            (ratio, truth.sum() / p.sum()),
            (benefit, np.mean(acted * (truth - odds * (1 - truth)))),
        ]
        # The intercept at slope 1 that these rows have on average solves Σ expit(logit p + a) = Σ truth.
        low, high = -3.0, 3.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if expit(logit(p) + middle).sum() < truth.sum() else (low, middle)
        wanted[1] = (wanted[1][0], low)
        missed += [not one.low <= value <= one.high for one, value in wanted]
    assert (missed / runs <= 0.09).all(), missed / runs
    assert missed[[0, 1]].min() / runs >= 0.015, missed / runs  # neither is wider than needed


def test_a_common_weight_changes_no_interval():
    p, y = sample()
    one, two = (Audit(p, y, weights=np.full(len(p), weight)).conventional for weight in (1.0, 2.5))
    for name in ("slope", "intercept", "observed_expected"):
        assert getattr(one, name)() == pytest.approx(getattr(two, name)())
    assert one.net_benefit([0.3])[0].low == pytest.approx(two.net_benefit([0.3])[0].low)
    assert one.two_bin() == pytest.approx(two.two_bin())
    assert one.cutoff() == pytest.approx(two.cutoff())
    assert one.debiased_ece() == pytest.approx(two.debiased_ece())


def test_observed_over_expected_and_net_benefit_by_counting():
    p, y = sample()
    found = Audit(p, y).conventional
    ratio = found.observed_expected()
    assert ratio.value == pytest.approx(y.sum() / p.sum())
    assert np.log(ratio.high / ratio.value) == pytest.approx(1.96 * np.sqrt((1 - y.mean()) / y.sum()), rel=1e-3)
    assert ratio.low * ratio.high == pytest.approx(ratio.value**2)
    for point in found.net_benefit([0.2, 0.5]):
        acted = p >= point.threshold
        odds = point.threshold / (1 - point.threshold)
        gains = acted * (y - (1 - y) * odds)
        assert point.benefit == pytest.approx(gains.mean())
        assert point.high - point.benefit == pytest.approx(1.96 * gains.std() / np.sqrt(len(p)), rel=1e-3)
        assert point.everyone == pytest.approx(y.mean() - (1 - y.mean()) * odds)
    with pytest.raises(ValueError, match="thresholds: given 1"):
        found.net_benefit([1.0])


def test_the_isotonic_curve_and_its_parts_of_the_brier_score():
    p, y = sample(rows=150)
    audit = Audit(p, y)
    curve = audit.conventional.isotonic()
    values, place = np.unique(p, return_inverse=True)
    mass = np.bincount(place).astype(float)
    rate = isotone(np.bincount(place, weights=y) / mass, mass)
    np.testing.assert_allclose(curve.p, values)
    np.testing.assert_allclose(curve.rate, rate, atol=1e-12)
    recalibrated, base = rate[place], y.mean()
    assert curve.miscalibration == pytest.approx(np.mean((p - y) ** 2) - np.mean((recalibrated - y) ** 2))
    assert curve.discrimination == pytest.approx(np.mean((base - y) ** 2) - np.mean((recalibrated - y) ** 2))
    assert curve.uncertainty == pytest.approx(base * (1 - base))
    assert audit.brier() == pytest.approx(curve.miscalibration - curve.discrimination + curve.uncertainty)


def test_the_band_holds_right_forecasts_and_shows_wrong_ones():
    outside, cutoffs, wrong = [], [], []
    for seed in range(40):
        p, y = sample(seed, rows=400, slope=1.0, shift=0.0)
        found = Audit(p, y).conventional
        curve = found.isotonic()
        outside.append(
            np.average((curve.rate < curve.low) | (curve.rate > curve.high), weights=Spectrum.of(Audit(p, y).sums).mass)
        )
        cutoffs.append(np.greater(*found.cutoff()))
        wrong.append(np.greater(*Audit(p, sample(seed, rows=400, slope=0.3)[1]).conventional.cutoff()))
    assert 0.005 < np.mean(outside) < 0.09
    assert np.mean(cutoffs) <= 0.1
    assert np.mean(wrong) >= 0.9


def test_the_two_bin_error_by_numerical_integration_and_the_cutoff_error_by_trial():
    p, y = sample(rows=60)
    found = Audit(p, y).conventional
    grid = (np.arange(20_000) + 0.5) / 20_000
    below = np.array([np.sum((p - y)[p < t]) for t in grid]) / 60
    above = np.array([np.sum((p - y)[p >= t]) for t in grid]) / 60
    assert found.two_bin()[0] == pytest.approx(np.mean(below**2 + above**2), rel=1e-3)
    assert found.two_bin()[1] == pytest.approx(np.sum(p * (1 - p)) / 60**2)
    ends = np.unique(p)
    trials = [abs(np.sum((y - p)[(p >= a) & (p <= b)])) / 60 for a in ends for b in ends if a <= b]
    assert found.cutoff()[0] == pytest.approx(max(trials))


def test_the_two_bin_error_is_truthful_by_enumeration():
    """Every sample of five coins with its probability: no other predictions have a smaller mean error."""
    truth = np.array([0.2, 0.35, 0.5, 0.6, 0.9])
    outcomes = list(itertools.product((0.0, 1.0), repeat=5))
    chances = [float(np.prod(np.where(np.array(y) > 0, truth, 1 - truth))) for y in outcomes]

    def mean_error(p):
        return sum(c * Audit(p, y).conventional.two_bin()[0] for c, y in zip(chances, outcomes, strict=True))

    best = mean_error(truth)
    assert best == pytest.approx(Audit(truth, truth > 0.5).conventional.two_bin()[1])
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert mean_error(np.clip(truth + 0.1 * rng.standard_normal(5), 0.01, 0.99)) > best


def test_the_debiased_error_is_right_on_average_where_the_plain_one_is_not():
    rng = np.random.default_rng(3)
    p = np.repeat([0.2, 0.5, 0.8], 40)
    for gap in (0.0, 0.15):
        squares, plain = [], []
        for _ in range(400):
            y = rng.random(120) < p + gap * (p == 0.5)
            audit = Audit(p, y)
            table = [(p == v).sum() for v in (0.2, 0.5, 0.8)]
            rates = [y[p == v].mean() for v in (0.2, 0.5, 0.8)]
            gaps = [(r - v) ** 2 for r, v in zip(rates, (0.2, 0.5, 0.8), strict=True)]
            less = [r * (1 - r) / 39 for r in rates]
            squares.append(np.average(np.subtract(gaps, less), weights=table))
            plain.append(np.average(gaps, weights=table))
            assert audit.conventional.debiased_ece() == pytest.approx(np.sqrt(max(0.0, squares[-1])))
        assert np.mean(squares) == pytest.approx(gap**2 / 3, abs=3 * np.std(squares) / 20)
        assert np.mean(plain) > gap**2 / 3 + 0.003


def test_a_histogram_gives_what_the_rows_give(monkeypatch):
    p, y = sample(rows=3000)
    p = np.clip(p + 1e-7 * np.arange(3000), 0, 1)
    audit = Audit(p, y)
    exact = audit.conventional.entry()
    assert audit.sums.sample.complete
    monkeypatch.setattr(audit.sums.sample, "complete", False)
    rough = audit.conventional.entry()
    assert len(Spectrum.of(audit.sums).p) < 3000
    for name in ("slope", "intercept", "observed_expected"):
        np.testing.assert_allclose(getattr(rough, name), getattr(exact, name), atol=2e-3)
    for name in ("debiased_ece", "two_bin", "cutoff", "miscalibration"):
        assert getattr(rough, name) == pytest.approx(getattr(exact, name), abs=2e-3)


def test_shards_add_up_to_the_whole():
    p, y = sample(rows=600)
    whole = Audit(p, y).conventional.entry()
    parts = (Audit(p[:250], y[:250]) + Audit(p[250:], y[250:])).conventional.entry()
    assert parts.slope == pytest.approx(whole.slope)
    assert parts.two_bin == pytest.approx(whole.two_bin)


def test_weights_of_one_over_the_probability_of_an_outcome_keep_the_audits_level():
    """Outcomes obtained by a sign that the forecasts do not know: unweighted, right forecasts are condemned."""
    condemned, gaps = np.zeros(2), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p, sign = rng.choice([0.3, 0.4, 0.5, 0.6, 0.7], 2000), rng.choice([-1, 1], 2000)
        group = rng.choice(["a", "b"], 2000)
        y, chance = rng.random(2000) < p + 0.25 * sign, np.where(sign > 0, 0.8, 0.2)
        known = rng.random(2000) < chance
        weighted = Audit(p[known], y[known], groups={"g": group[known]}, weights=1 / chance[known])
        plain = Audit(p[known], y[known], groups={"g": group[known]})
        condemned += [weighted.test().p_value <= 0.05, plain.test().p_value <= 0.05]
        rows = weighted.group_table()
        gaps.append([row.gap for row in rows])
    assert condemned[0] <= 4
    assert condemned[1] == 20
    assert np.abs(np.mean(gaps, axis=0)).max() < 0.03


# ---------------------------------------------------------------- one forecast, tables out, several classes


def test_around_counts_the_rows_like_this_one():
    rng = np.random.default_rng(0)
    p, town = rng.choice([0.2, 0.5], 900), rng.choice(["Bari", "Rome", ""], 900).astype(object)
    town[town == ""] = None
    y = (rng.random(900) < p).astype(float)
    audit = Audit(p, y, groups={"town": town})
    level, both, group = audit.around(0.21, {"town": "Rome", "colour": "red"})
    for found, rows in ((level, p == 0.2), (both, (p == 0.2) & (town == "Rome")), (group, town == "Rome")):
        assert (found.rows, found.observed) == (rows.sum(), pytest.approx(y[rows].mean()))
        assert found.predicted == pytest.approx(p[rows].mean())
        z, n, r = 1.959964, rows.sum(), y[rows].mean()
        wilson = lambda bound, r=r, n=n, z=z: (r - bound) ** 2 - z**2 * bound * (1 - bound) / n  # noqa: E731
        assert [wilson(found.low), wilson(found.high)] == pytest.approx([0, 0], abs=1e-6)
        assert found.low < r < found.high
    assert both.where == "town = Rome, forecasts of 0.2"
    assert audit.around(0.2, {"town": None})[1].where == "town = (missing), forecasts of 0.2"
    assert len(audit.around(0.2, {"town": "Oslo"})) == 1
    assert Audit(rng.random(900), y).around(0.999)[0].where == "forecasts from 0.98 to 1"
    with pytest.raises(ValueError, match="p: given 2"):
        audit.around(2.0)


def test_intervals_around_a_prediction_cover_at_their_level():
    """95 % for independent rows, one at a time: of 400 audits each of three intervals misses 2 to 8 % of the time."""
    missed = np.zeros(3)
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p, town = rng.choice([0.2, 0.5], 300), rng.choice(["Bari", "Rome"], 300)
        truth = p + 0.1 * (town == "Rome")
        inside = (p == 0.2), (p == 0.2) & (town == "Rome"), town == "Rome"
        found = Audit(p, rng.random(300) < truth, groups={"town": town}).around(0.2, {"town": "Rome"})
        missed += [not one.low <= truth[rows].mean() <= one.high for one, rows in zip(found, inside, strict=True)]
    assert ((missed >= 8) & (missed <= 32)).all()


def test_tables_out_hold_what_the_methods_return():
    rng = np.random.default_rng(0)
    p, g = rng.choice([0.2, 0.5], 900), rng.choice(["a", "b"], 900)
    audit = Audit(p, rng.random(900) < p + 0.2 * (g == "a"), groups={"g": g})
    found = audit.to_frame(backend="dict")
    assert found["gap"] == [row.gap for row in audit.group_table()]
    findings = audit.to_frame("findings", backend="dict")
    assert findings["name"] == [one.name for one in audit.findings()]
    for module in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(module)
        frame = audit.to_frame("groups", backend=module)
        assert type(frame).__module__.startswith(module)
        columns = frame.column_names if module == "pyarrow" else list(frame.columns)
        assert columns == list(found)
        values = frame["gap"].to_pylist() if module == "pyarrow" else list(frame["gap"])
        assert values == found["gap"]
    assert len(audit.to_frame("reliability", backend="dict")["v"]) == 2
    assert audit.to_frame("net_benefit", backend="dict")["threshold"][0] == 0.02
    with pytest.raises(ValueError, match="kind: given 'rows'"):
        audit.to_frame("rows")
    with pytest.raises(ValueError, match="backend: given 'excel'"):
        audit.to_frame(backend="excel")


def test_forecasts_are_a_table():
    forecaster = Forecaster(2)
    one, many = forecaster.predict([0.5, 0.1]), forecaster.run([[0.5, 0.1], [0.5, -0.2]], [0, 1])
    assert one.to_frame("dict") == {name: [getattr(one, name)] for name in ("p", "mean", "low", "high", "weight")}
    assert many.to_frame("dict")["mean"] == many.mean.tolist()


def test_several_classes_are_judged_together():
    condemned, one_by_one = 0, 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        P = rng.dirichlet([1, 2, 3, 1, 1], 300)
        y = (rng.random(300)[:, None] > P.cumsum(axis=1)).sum(axis=1).clip(0, 4)
        found = ClassAudits(P, y, classes=range(5))
        raw = [audit.verdict().p_value for audit in found.audits.values()]
        assert min(found.p_values().values()) == pytest.approx(min(1.0, 5 * min(raw)))
        condemned += bool(found.condemned())
        one_by_one += min(raw) <= 0.05
    assert condemned <= one_by_one
    assert condemned <= 1
    broken = ClassAudits(P[:, [1, 0, 2, 3, 4]], y, classes=range(5))
    assert set(broken.condemned()) >= {"0", "1"}
    assert broken.sentence.startswith("Errors beyond chance for 0 and 1")
    assert broken.to_frame("dict")["class"] == ["0", "1", "2", "3", "4"]
    assert broken.to_frame("dict")["mean_p"] == pytest.approx(P.mean(axis=0)[[1, 0, 2, 3, 4]])
    steps = list(broken.p_values().values())
    ranked = sorted(audit.verdict().p_value for audit in broken.audits.values())
    assert sorted(steps) == pytest.approx(np.minimum(1, np.maximum.accumulate(np.array(ranked) * [5, 4, 3, 2, 1])))
    with pytest.raises(ValueError, match="P: given shape"):
        ClassAudits(P[:, :4], y, classes=range(5))
    with pytest.raises(ValueError, match="y: given 4"):
        ClassAudits(P[:, :4], y, classes=range(4))


def test_classes_are_the_columns_of_a_table_by_name():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    names = ["car", "bus", "walk"]
    P = rng.dirichlet([5, 2, 1], 2000)
    y = np.array(names)[(rng.random((2000, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(0, 2)]
    assert ClassAudits(pd.DataFrame(P, columns=names), y).condemned() == []
    assert ClassAudits(P, y).condemned() != []  # sorted labels are another order
    with pytest.raises(ValueError, match=r"y: given shape \(2000, 3\)"):
        ClassAudits(P, P, classes=names)


def test_too_many_classes_are_not_called_right():
    many = ClassAudits(np.full((600, 60), 1 / 60), np.zeros(600, int), classes=list(range(60)))
    assert "too many to test" in many.sentence
