"""Errors along numbers: bins that depend on values alone, their sums however rows are split, level and power."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from swapcal import Audit
from swapcal.audit.curves import _members
from swapcal.audit.levels import Bins, ranges_of
from swapcal.audit.text import TitleIndex, Titles
from swapcal.features.sources import MOST_COUNTED, Quantiles, shortest
from swapcal.kernels.tally import BINS, MASS, OBSERVED, RESIDUAL, ROWS, VARIANCE
from swapcal.tables.frame import Table


def drawn(seed, rows, bend=0.0):
    """Return a table whose outcomes are off by ±`bend` in a U along age."""
    rng = np.random.default_rng(seed)
    age, p = rng.uniform(18, 90, rows), rng.uniform(0.15, 0.85, rows)
    y = rng.random(rows) < p + bend * (2 * np.abs(age - 54) / 36 - 1)
    return {
        "p": p,
        "y": y.astype(float),
        "age": age,
        "visits": np.where(rng.random(rows) < 0.6, 0.0, rng.exponential(3, rows).round(1)),
        "score": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
        "constant": np.ones(rows),
        "town": rng.choice(["a", "b", "c"], rows),
    }


COLUMNS = {"prob": "p", "target": "y", "features": ["age", "visits", "score", "constant", "town"]}


def rows_of(frame, index):
    return {name: column[index] for name, column in frame.items()}


# Quantiles: cuts by the values alone.


@pytest.mark.parametrize("scale", [1.0, -1e-9, 1e12])
def test_quantiles_of_parts_are_those_of_the_whole(scale):
    rng = np.random.default_rng(1)
    values = scale * rng.normal(size=50_000)
    values[:20_000] = np.round(values[:20_000] / scale) * scale
    values[::17] = np.nan
    whole = Quantiles.of(values)
    assert len(whole.keys) <= MOST_COUNTED
    assert whole.counts.sum() == np.sum(~np.isnan(values))
    for ends in ([0, 1, 40_000, 50_000], [0, 25_000, 50_000]):
        mixed = rng.permutation(values)
        joined = Quantiles()
        for a, b in pairwise(ends):
            joined.merge(Quantiles.of(mixed[a:b]))
        np.testing.assert_array_equal(joined.keys, whole.keys)
        np.testing.assert_array_equal(joined.counts, whole.counts)
        assert joined.cuts(8) == whole.cuts(8)


def test_cuts_make_parts_of_about_an_eighth_where_values_do_not_tie():
    rng = np.random.default_rng(2)
    for values in (rng.normal(size=9_000), rng.lognormal(10, 2, 9_000), 1.7e9 + 1e5 * rng.random(9_000)):
        cuts = Quantiles.of(values).cuts(8)
        assert list(cuts) == sorted(set(cuts))
        share = np.bincount(np.searchsorted(cuts, values, side="right"), minlength=8) / len(values)
        assert (np.abs(share - 0.125) <= 0.035).all()
    zeros = np.where(rng.random(9_000) < 0.6, 0.0, rng.exponential(3, 9_000))
    assert Quantiles.of(zeros).cuts(8)[:4] == (0.0,) * 4
    assert Quantiles.of(np.full(10, 3.7)).cuts(8) == (3.7,) * 7


@pytest.mark.parametrize(("low", "high"), [(1e300, 2e300), (-1e308, 1e308), (1e-310, 2e-310), (1.0, 1.0 + 2e-16)])
def test_the_shortest_number_lies_between(low, high):
    assert low < shortest(low, high) <= high


# Sums of bins.


def test_sums_of_bins_are_those_of_the_rows_in_them():
    frame = drawn(3, 4_000)
    audit = Audit.from_frame(frame, levels=5, **COLUMNS)
    assert list(audit.encoder.cuts) == ["age", "visits", "score", "constant"]
    level = audit.levels.index(frame["p"])
    for j, (name, cuts) in enumerate(audit.encoder.cuts.items()):
        code = np.where(np.isnan(frame[name]), BINS - 1, np.searchsorted(cuts, frame[name], side="right"))
        for v in range(5):
            for k in range(BINS):
                inside = (level == v) & (code == k)
                p, y = frame["p"][inside], frame["y"][inside]
                found = audit.sums.tally.bins[v, j, k][[MASS, OBSERVED, RESIDUAL, VARIANCE, ROWS]]
                expected = [len(p), y.sum(), (y - p).sum(), (p * (1 - p)).sum(), len(p)]
                np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("few", [False, True], ids=["intervals", "values"])
def test_parts_saved_and_added_give_the_whole(few, tmp_path):
    frame = drawn(4, 3_000, 0.1)
    if few:
        frame["p"] = frame["p"].round(1)
    whole = Audit.from_frame(frame, **COLUMNS)
    order = np.random.default_rng(5).permutation(3_000)
    first, second = (Audit.from_frame(rows_of(frame, order[a:b]), like=whole, **COLUMNS) for a, b in ((0, 7), (7, 900)))
    second.add(rows_of(frame, order[900:]))
    second.save(tmp_path / "second.audit")
    joined = first + Audit.load(tmp_path / "second.audit")
    np.testing.assert_allclose(joined.sums.tally.bins, whole.sums.tally.bins, atol=1e-9)
    assert joined.test().p_value == whole.test().p_value
    assert joined.to_findings().numbers[0].name == "age"
    moved = replace(whole.encoder, cuts={name: tuple(c + 1 for c in cuts) for name, cuts in whole.encoder.cuts.items()})
    with pytest.raises(ValueError, match="bins of numbers: given different"):
        whole + Audit.from_frame(frame, like=moved, **COLUMNS)


def test_ranges_are_nested_and_each_set_of_rows_comes_once():
    bins = Bins("x", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), slice(10, 19))
    full = ranges_of(bins, np.array([*[5.0] * 8, 0.0]))
    assert [part.name for part in full[:6]] == ["x < 4", "x ≥ 4", "x < 2", "2 ≤ x < 4", "4 ≤ x < 6", "x ≥ 6"]
    assert [part.where.stop - part.where.start for part in full] == [4, 4, 2, 2, 2, 2, *[1] * 8]
    assert [part.eighth for part in full] == [False] * 6 + [True] * 8
    assert full[0].where == slice(10, 14)
    two = ranges_of(bins, np.array([0, 5.0, 0, 0, 0, 5.0, 0, 0, 2.0]))
    assert [part.name for part in two] == ["x < 5", "x ≥ 5", "x missing"]
    assert ranges_of(bins, np.array([0, 5.0, 0, 0, 0, 0, 0, 0, 0.0])) == []


# What is found.


def test_a_u_is_found_and_the_truth_is_condemned_at_its_level():
    """A small run of experiments/audit_level.py."""
    found = [Audit.from_frame(drawn([6, k], 20_000, 0.08), **COLUMNS) for k in range(2)]
    assert all(audit.test().p_value <= 0.01 for audit in found)
    assert all("age" in audit.findings(1)[0].name for audit in found)
    true = (Audit.from_frame(drawn([7, k], 1_500), levels=10, **COLUMNS) for k in range(60))
    condemned = sum(audit.test().p_value <= 0.05 for audit in true)
    assert condemned <= 8  # of 60; probability 0.002 at a level of 5 %


def test_findings_name_a_number_once_and_the_sentence_says_what_was_looked_at():
    audit = Audit.from_frame(drawn(8, 6_000, 0.1), **COLUMNS)
    names = [one.name for one in audit.findings(20)]
    assert sum("age" in name for name in names) == 1
    assert sum("visits" in name for name in names) <= 1
    numbers = audit.to_findings().numbers
    curve = numbers[0]
    assert (curve.name, len(curve.ranges), len(curve.edges)) == ("age", 8, 7)
    gaps = [row.gap for row in curve.ranges]
    assert gaps[0] > 0.05 > -0.05 > gaps[3]
    assert curve.p_value == audit.test().p_value
    score = next(one for one in numbers if one.name == "score")
    assert score.ranges[-1].name == "score missing"
    cuts = audit.encoder.cuts | {"age": (20.0, 30.0, 40.0, *[50.0] * 4)}
    tied = Audit.from_frame(drawn(8, 400), like=replace(audit.encoder, cuts=cuts), **COLUMNS).to_findings().numbers
    names = ["age < 20", "20 ≤ age < 30", "30 ≤ age < 40", "40 ≤ age < 50", "age ≥ 50"]
    assert [row.name for one in tied if one.name == "age" for row in one.ranges] == names
    true = Audit.from_frame(drawn(9, 3_000), **COLUMNS).to_findings().headline.sentence
    assert "any of 3 groups" in true
    assert "along any of 4 numbers (trends, halves, quarters and eighths)" in true
    plain = Audit([0.5] * 400, [0, 1] * 200, np.column_stack([np.full(400, 0.5), np.linspace(-0.8, 0.8, 400)]))
    assert "along 1 other feature (trend only)" in plain.to_findings().headline.sentence


def test_titles_reach_ranges():
    audit = Audit.from_frame(drawn(10, 2_000), **COLUMNS)
    index = TitleIndex(audit.sums, Titles.of({"columns": {"age": "Age"}}))
    ranges = [part.name for part in audit.evidence.design.ranges if part.number == "age"]
    assert [index(name) for name in ranges] == [name.replace("age", "Age") for name in ranges]


def test_encoders_without_cuts_still_read_rows():
    frame = drawn(11, 500)
    encoder = Audit.from_frame(frame, **COLUMNS).encoder
    old = type(encoder)(encoder.columns)
    audit = Audit.from_frame(frame, like=old, **COLUMNS)
    assert audit.to_findings().numbers is None
    assert old.bins(Table(frame)).shape == (500, 0)


def test_a_range_of_a_number_after_many_groups_is_found_among_the_rows():
    """Codes of bins are bytes: after 256 groups their places are beyond a byte."""
    rng = np.random.default_rng(5)
    rows, age = 6000, rng.uniform(0, 80, 6000)
    p = np.full(rows, 0.4)
    y = rng.random(rows) < p + 0.3 * (age >= 60)
    for towns in (252, 300):
        town = np.array([f"t{k}" for k in np.arange(rows) % towns])
        audit = Audit.from_features(p, y, {"town": town, "age": age})
        assert audit.findings()[0].name == "age ≥ 60"
        assert _members(audit.evidence, "age ≥ 60").sum() == (age >= 60).sum()
        assert "age ≥ 60" in audit.to_html()
