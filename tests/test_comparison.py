"""Two predictors of the same rows: the paired sums, the tests, their level and their power."""

import json

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from swapcal.audit import Comparison
from swapcal.audit.difference import EDGES, Pairs, _both, _Group, differences, group_differences
from swapcal.kernels.tally import log_losses
from swapcal.report import Findings, render
from swapcal.report.findings import as_dict
from swapcal.tables.values import from_array
from tests.chance import seeded


def rows(n, seed=0, weights=False):
    """Both predictors calibrated, each knowing another half of what there is to know; groups of no importance."""
    rng = np.random.default_rng(seeded(seed))
    x = rng.normal(size=(2, n))
    y = (rng.random(n) < ndtr(0.6 * x.sum(axis=0))).astype(float)
    a, b = ndtr(0.6 * x / np.sqrt(1.36))
    groups = {"shop": rng.integers(0, 6, n), "day": rng.integers(0, 4, n)}
    return a, b, y, rng.exponential(size=n) + 0.1 if weights else np.ones(n), groups


def pairs(a, b, y, weights, groups):
    found = Pairs()
    found.add(a, b, y, weights, {name: from_array(values) for name, values in groups.items()})
    return found


def obvious_loss(p, y, weights):
    """Calibration loss without bias: over pairs of different rows of each range."""
    total = 0.0
    for k in range(len(EDGES) + 1):
        here = np.searchsorted(EDGES, p, side="right") == k
        w, r = weights[here], (y - p)[here]
        if here.sum() > 1:
            products = np.outer(w * r, w * r)
            masses = np.outer(w, w)
            off = ~np.eye(len(r), dtype=bool)
            total += w.sum() * products[off].sum() / masses[off].sum()
    return total / weights.sum()


@pytest.mark.parametrize("weights", [False, True])
def test_scores_are_those_of_the_rows(weights):
    a, b, y, w, groups = rows(600, weights=weights)
    brier, log_loss, calibration, *_ = differences(pairs(a, b, y, w, groups))
    d = (y - b) ** 2 - (y - a) ** 2
    mean = np.average(d, weights=w)
    error = np.sqrt(np.sum(w**2 * (d - mean) ** 2) * 600 / 599) / w.sum()
    m = (a + b) / 2
    error = max(error, np.sqrt(np.sum(w**2 * 4 * (b - a) ** 2 * m * (1 - m))) / w.sum())
    assert brier.before == pytest.approx(np.average((y - a) ** 2, weights=w))
    assert brier.difference == pytest.approx(mean)
    assert (brier.high - brier.low) / 2 == pytest.approx(1.965 * error, rel=5e-3)
    assert log_loss.after == pytest.approx(np.average(log_losses(b, y), weights=w))
    assert calibration.before == pytest.approx(obvious_loss(a, y, w))
    assert calibration.after == pytest.approx(obvious_loss(b, y, w))


def test_groups_are_those_of_the_rows():
    a, b, y, w, groups = rows(3000, weights=True)
    found = {one.name: one for one in group_differences(pairs(a, b, y, w, groups))}
    assert len(found) == 10
    here = groups["shop"] == 3
    row = found["shop = 3"]
    assert row.n == pytest.approx(w[here].sum())
    assert row.gap_before == pytest.approx(np.average((y - a)[here], weights=w[here]))
    assert row.gap_change == pytest.approx(abs(row.gap_after) - abs(row.gap_before))
    assert row.gap_low <= row.gap_change <= row.gap_high
    assert row.loss_after == pytest.approx(obvious_loss(b[here], y[here], w[here]))
    level = np.searchsorted(EDGES, a[here], side="right")
    sums = np.bincount(level, weights=(w * (y - a))[here])
    assert row.ece_before == pytest.approx(np.abs(sums).sum() / w[here].sum())


def test_parts_add_up_and_order_leaves_no_trace():
    a, b, y, w, groups = rows(900, weights=True)
    frame = {"a": a, "b": b, "y": y, "w": w, **groups}
    named = {"probs": ["a", "b"], "target": "y", "groups": ["shop", "day"], "weights": "w"}
    whole = Comparison.from_frame(frame, **named)
    parts = [{name: column[part] for name, column in frame.items()} for part in (slice(300, None), slice(0, 300))]
    grown = Comparison.from_frame(parts[0], **named)
    grown.add(parts[1])
    summed = Comparison.from_frame(parts[0], **named) + Comparison.from_frame(parts[1], **named)
    arrays = Comparison(a, b, y, groups=groups, weights=w, names=("a", "b"))
    for other in (grown, summed, arrays):
        for mine, theirs in zip(
            whole.differences() + whole.groups(), other.differences() + other.groups(), strict=True
        ):
            one, two = as_dict(mine), as_dict(theirs)
            assert [x for x in one.values() if isinstance(x, str)] == [x for x in two.values() if isinstance(x, str)]
            numbers = [[x for x in values.values() if isinstance(x, float)] for values in (one, two)]
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-7, abs=1e-12)


def test_a_predictor_does_not_differ_from_itself():
    a, _, y, w, groups = rows(2000)
    found = pairs(a, a, y, w, groups)
    assert all(one.p_value == 1 and one.low == one.high == 0 for one in differences(found))
    assert all(one.gap_p == 1 and one.loss_p == 1 and one.gap_change == 0 for one in group_differences(found))


FILES = 150
MOST = binom.isf(1e-6, FILES, 0.05) / FILES


def false_findings(draw, count=FILES):
    """Return how often each kind of difference is found: any score, any group's gap, any group's loss."""
    scores, gaps, losses = [], [], []
    for seed in range(count):
        found = pairs(*draw(seed))
        scores.append([one.p_value <= 0.05 for one in differences(found, list(found.columns))])
        groups = [one for one in group_differences(found) if not one.small]
        gaps.append(any(one.gap_p <= 0.05 for one in groups))
        losses.append(any(one.loss_p <= 0.05 for one in groups))
    return np.mean(scores, axis=0), np.mean(gaps), np.mean(losses)


@pytest.mark.statistical
def test_equally_good_predictors_are_seldom_called_different():
    scores, gaps, losses = false_findings(lambda seed: rows(1000, seed, weights=seed % 2 == 1))
    assert scores.max() <= MOST
    assert gaps <= MOST
    assert losses <= MOST


@pytest.mark.statistical
def test_predictors_equally_wrong_to_either_side_are_seldom_called_different():
    def draw(seed):
        a, _, _, w, groups = rows(1000, seed)
        q = 0.1 + 0.8 * a
        coins = np.random.default_rng(seeded(seed + 1000)).random(1000)
        return q + 0.05, q - 0.05, (coins < q).astype(float), w, groups

    scores, gaps, losses = false_findings(draw)
    assert scores.max() <= MOST
    assert gaps <= MOST
    assert losses <= MOST


@pytest.mark.statistical
def test_a_real_difference_is_noticed_where_it_is():
    a, _, y, w, groups = rows(20000)
    biased = np.clip(a + 0.25 * (groups["shop"] == 2), 0, 1)
    found = pairs(biased, a, y, w, groups)
    assert all(one.word == "better" for one in differences(found)[:3])
    words = {one.name: one.word for one in group_differences(found) if one.name.startswith("shop")}
    assert words.pop("shop = 2") == "better"
    assert set(words.values()) == {"no difference found"}
    back = {one.name: one.word for one in group_differences(pairs(a, biased, y, w, groups))}
    assert back["shop = 2"] == "worse"


def test_groups_with_few_events_are_not_tested():
    rng = np.random.default_rng(0)
    groups = {"shop": np.array(["big"] * 5000 + ["small"] * 300)}
    a = np.full(5300, 0.02)
    found = {one.name: one for one in group_differences(pairs(a, a / 2, rng.random(5300) < a, np.ones(5300), groups))}
    assert found["shop = small"].small
    assert found["shop = small"].gap_p is None
    assert not found["shop = big"].small


def test_the_report_and_its_twin_hold_both(tmp_path):
    a, b, y, _, groups = rows(3000)
    found = Comparison(a**2, b, y, groups=groups, names=("old <b>", "new"))
    findings = found.to_dict()
    assert Findings.of(findings).to_dict() == findings
    assert json.loads(found.to_json()) == findings
    entry = findings["comparison"]
    assert [one["verdict"] for one in entry["predictors"]] == ["miscalibrated", found.after.verdict().word]
    assert entry["sentence"].startswith("new is better than old <b>:")
    assert len(entry["groups"]) == 10
    page = render(findings)
    assert "old &lt;b&gt;" in page
    assert "old <b>" not in page
    assert found.sentence() in page.replace("&lt;", "<").replace("&gt;", ">").replace("\u00a0", " ")
    assert "95\u00a0% interval" in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probs": ["a"]}, "probs: given a, expected two different names"),
        ({"probs": ["a", "a"]}, "probs: given a, a, expected two different names"),
        ({"groups": ["b"]}, "column 'b': given as a feature or group too"),
    ],
)
def test_refusals(change, message):
    frame = {"a": [0.1, 0.2], "b": [0.2, 0.3], "y": [0, 1]}
    with pytest.raises(ValueError, match=message):
        Comparison.from_frame(frame, **{"probs": ["a", "b"], "target": "y", **change})


def test_a_rejected_batch_changes_nothing():
    found = Comparison([0.1, 0.4], [0.2, 0.9], [0, 1])
    before = found.to_json()
    with pytest.raises(ValueError, match=r"p: given 1\.5 in row 1"):
        found.add(before=[0.2], after=[1.5], y=[1])
    assert found.to_json() == before


@pytest.mark.parametrize("n", [1, 3, 300])
def test_outcomes_that_never_vary_make_nothing_certain(n):
    for a, b in ((0.01, 0.001), (0.001, 0.01)):
        for one in differences(pairs(np.full(n, a), np.full(n, b), np.zeros(n), np.ones(n), {})):
            assert one.word == "no difference found"
            assert one.low < 0 < one.high


@pytest.mark.statistical
@pytest.mark.parametrize("weights", [False, True])
def test_few_events_keep_the_level(weights):
    """Wrong by half to either side, so that the Brier scores are equal; about one event."""
    rng, found = np.random.default_rng(seeded(5)), 0
    for _ in range(100):
        q = 0.002 * rng.exponential(size=500).clip(0.1, 8)
        y = (rng.random(500) < q).astype(float)
        w = rng.exponential(size=500) + 0.01 if weights else np.ones(500)
        found += any(one.word != "no difference found" for one in differences(pairs(q / 2, 1.5 * q, y, w, {})))
    assert found <= 10


def test_many_rows_of_one_outcome_still_decide():
    for one in differences(pairs(np.full(300, 0.3), np.full(300, 0.1), np.zeros(300), np.ones(300), {})):
        assert one.word == "better"


@pytest.mark.parametrize("probs", [("old", "y"), ("y", "old")])
def test_neither_predictor_may_be_the_outcome(probs):
    with pytest.raises(ValueError, match="'y': given as prediction and as outcome"):
        Comparison.from_frame({"old": [0.1, 0.4], "y": [0, 1]}, probs=probs, target="y")


def test_what_is_said_of_a_group_allows_for_three_estimates_of_each():
    rng = np.random.default_rng(5)
    truth = rng.uniform(0.3, 0.7, 3000)
    y = rng.random(3000) < truth
    found = Comparison(truth - 0.03, truth, y, groups={"shop": rng.choice(["a", "b"], 3000)})
    tested = [_Group(name, cell) for name, cell in found.pairs.columns["shop"].each()]
    for alone, said in zip(tested, found.groups(), strict=True):
        assert said.gap_p == pytest.approx(min(1.0, 6 * alone.p_values()[0]))
        assert said.loss_p == pytest.approx(min(1.0, 6 * alone.p_values()[1]))


def test_one_heavy_row_is_no_crowd():
    weights = np.r_[1000.0, np.ones(199)]
    y = np.tile([0.0, 1.0], 100)
    even, heavy = (
        Comparison(y * 0 + 0.5, y * 0 + 0.4, y, groups={"g": ["x"] * 200}, weights=w).groups()[0]
        for w in (np.ones(200), weights)
    )
    assert not even.small
    assert heavy.small


def test_a_group_whose_two_tests_contradict_each_other_is_not_judged():
    assert _both(0.01, -0.1, 0.01, -0.1) == "better"
    assert _both(0.01, -0.1, None, 0.1) == "better"
    assert _both(0.01, -0.1, 0.01, 0.1) == "no difference found"


def test_the_sentence_of_groups_counts_tested_ones_and_names_those_too_small() -> None:
    rng = np.random.default_rng(3)
    p = rng.uniform(0.1, 0.9, 3_000)
    town = np.where(np.arange(3_000) < 12, "tiny", np.where(rng.random(3_000) < 0.5, "a", "b"))
    found = Comparison(p, np.clip(p + 0.05, 0, 1), rng.random(3_000) < p, groups={"town": town}).to_findings()
    assert found.comparison is not None
    assert found.comparison.groups_sentence.startswith("Of 2 groups tested, ")
    assert "1 group is too small to be tested (fewer than 10 expected" in found.comparison.groups_sentence
    assert (found.comparison.groups_examined, found.comparison.groups_small) == (2, 1)
    assert (found.groups_examined, found.groups_small) == (2, 1)
