"""Regions that were not declared: found where they are, tested on other rows than those that proposed them."""

import numpy as np
import pytest

from swapcal import Audit
from swapcal.audit import audit as audits
from swapcal.audit.rows import in_regions, searched
from swapcal.audit.search import (
    ELSEWHERE,
    LEAST_EVENTS,
    MOST_PROPOSING,
    MOST_REGIONS,
    Condition,
    Regions,
    propose,
    proposing,
    words,
)
from swapcal.audit.verdict import ALPHA
from swapcal.report import render
from swapcal.tables.frame import Table
from swapcal.tables.values import Categories


def made(rows=5000, seed=0, size=0.2):
    rng = np.random.default_rng(seed)
    features = {
        "age": rng.uniform(18, 80, rows),
        "income": np.where(rng.random(rows) < 0.1, np.nan, rng.lognormal(3, 0.5, rows)),
        "sex": rng.choice(["f", "m"], rows),
        "kind": rng.choice(["x", "y", "z"], rows),
    }
    p = rng.beta(2, 3, rows)
    inside = (features["age"] >= 50) & (features["sex"] == "f") & (features["kind"] == "x")
    y = (rng.random(rows) < np.clip(p + size * inside, 0, 1)).astype(float)
    return p, y, features


def found(seed=0, **settings):
    p, y, features = made(seed=seed)
    return Audit.from_features(p, y, features, search="trees", **settings)


def test_a_planted_interaction_of_three_columns_is_found_and_said():
    audit = found()
    first = audit.findings(1)[0]
    assert first.p_value <= 0.001
    region = audit.regions.rules[0]
    assert {(one.column, one.kind) for one in region} == {("age", "≥"), ("sex", "="), ("kind", "=")}
    age = next(one.value for one in region if one.column == "age")
    assert age == pytest.approx(50, abs=10)  # cut points are octiles
    assert first.name == f"searched region 1 = {words(region)}"
    findings = audit.to_findings()
    assert f"where {words(region)}, outcomes happen" in findings.headline.sentence
    assert any(note.startswith("Searched regions were proposed by half") for note in findings.notes)
    titles = {row.name: row.title for row in findings.groups}
    assert titles[first.name] == words(region)
    assert words(region).replace("≥", "&ge;").split()[0] in render(findings)
    assert not any(ELSEWHERE in name for name in titles)
    assert len(audit.regions.rules) <= MOST_REGIONS
    assert not any(ELSEWHERE in one.name for one in audit.findings(100))
    small = [row for row in audit.group_table() if row.n < 0.05 * audit.n and row.p_value > ALPHA]
    assert audit.verdict().unresolved == len(small)


def test_an_error_of_all_rows_does_not_hide_a_region():
    rng = np.random.default_rng(6)
    columns = {"age": rng.uniform(18, 80, 6000), "sex": coded(rng.choice(["f", "m"], 6000))}
    inside = (columns["age"] >= 50) & (columns["sex"].codes == 0)
    p = np.full(6000, 0.3)
    y = (rng.random(6000) < 0.5 + 0.2 * inside).astype(float)  # 20 points too low everywhere
    (first, *_) = propose(columns, p, y, np.ones(6000)).rules
    assert {(one.column, one.kind) for one in first} == {("age", "≥"), ("sex", "=")}


def test_of_two_regions_about_as_good_the_simpler_is_told():
    age, kind = np.arange(4000) % 62 + 18.0, np.array(["x"] * 4000)
    y = (np.arange(4000) % 10 < np.where(age >= 50, 7, 5)).astype(float)
    odd = (np.arange(4000) % 200 == 7) & (age >= 50)
    kind[odd], y[odd] = "z", 0.0  # without them the error is a trifle larger
    columns = {"age": age, "kind": coded(kind)}
    (first, *_) = propose(columns, np.full(4000, 0.5), y, np.ones(4000)).rules
    assert [one.column for one in first] == ["age"]


def test_a_regions_sums_are_those_of_the_rows_that_did_not_propose():
    p, y, features = made()
    audit = Audit.from_features(p, y, features, search="trees", seed=3)
    tested = ~proposing(len(p), 3)
    for name, region in zip(audit.regions.columns, audit.regions.rules, strict=True):
        member = tested.copy()
        for column, kind, value in region:
            values = features[column]
            member &= {
                "=": lambda v, to: v == to,
                "≥": lambda v, to: v >= to,
                "<": lambda v, to: v < to,
                "missing": lambda v, to: np.isnan(v),
            }[kind](values, value)
        row = next(row for row in audit.group_table() if row.name == f"{name} = {words(region)}")
        assert row.n == member.sum()
        assert row.gap == pytest.approx(np.mean((y - p)[member]))
        assert not row.small
        assert row.n * np.mean((p * (1 - p))[member]) > 0.5 * LEAST_EVENTS


def rejections(runs, rows=2000):
    """How many of some audits of right predictions reject; what was searched is the only thing tested."""
    count = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 7])
        p = rng.beta(2, 3, rows)
        numbers = {"age": rng.uniform(18, 80, rows), "hours": rng.normal(size=rows)}
        features = {**numbers, "kind": rng.choice(["a", "b", "c", "d"], rows)}
        audit = Audit.from_features(p, rng.random(rows) < p, features, search="trees", seed=seed, levels=1)
        count += audit.test().p_value <= ALPHA
    return count


def test_the_truth_is_rejected_at_its_level():
    assert rejections(25) <= 4  # 1.25 are expected


def test_testing_on_the_rows_that_proposed_would_be_noticed(monkeypatch):
    def careless(batch, numbers, seed):
        _, regions = searched(batch, numbers, seed)
        return in_regions(batch, regions, numbers, proposing(len(batch), seed)), regions

    monkeypatch.setattr(audits, "searched", careless)
    assert rejections(12) >= 4  # 0.6 are expected at the level


def test_who_proposes_does_not_depend_on_outcomes_and_is_at_most_half():
    chosen = proposing(1001, 5)
    assert chosen.sum() == 500
    assert not np.array_equal(chosen, proposing(1001, 6))
    assert proposing(5 * MOST_PROPOSING, 0).sum() == MOST_PROPOSING


def test_rows_that_come_later_are_all_tested_and_parts_share_regions(tmp_path):
    p, y, features = made()
    frame = {"p": p, "y": y, **features}
    cut = {name: column[:3000] for name, column in frame.items()}
    rest = {name: column[3000:] for name, column in frame.items()}
    named = {"prob": "p", "target": "y", "features": ["age", "income", "kind"], "groups": ["sex"]}
    audit = Audit.from_frame(cut, **named, search="trees")
    before = {row.name: row.n for row in audit.group_table()}
    other = Audit.from_frame(rest, **named, like=audit)
    assert other.regions == audit.regions
    both = audit + other
    audit.add(rest)
    after = {row.name: row.n for row in audit.group_table()}
    region = audit.regions.rules[0]
    inside = np.all([condition.holds({**rest, "sex": coded(rest["sex"]), "kind": coded(rest["kind"])})
                     for condition in region], axis=0)  # fmt: skip
    name = f"searched region 1 = {words(region)}"
    assert after[name] == before[name] + inside.sum()
    assert {row.name: row.n for row in both.group_table()} == after
    with pytest.raises(ValueError, match="regions: given others, expected audits that share them"):
        audit + Audit.from_frame(rest, **named, search="trees", seed=9, like=audit.encoder)
    with pytest.raises(ValueError, match="regions: given rows or an audit without those"):
        audit + Audit.from_frame(rest, **named, like=audit.encoder)
    audit.save(tmp_path / "state")
    again = Audit.load(tmp_path / "state")
    assert again.to_json() == audit.to_json()
    assert again.regions is None
    with pytest.raises(ValueError, match="a saved file does not keep them"):
        again.add(rest)


def coded(values):
    names = sorted(set(values))
    return Categories(np.array([names.index(value) for value in values], np.int32), names)


def test_features_added_by_name_are_tested_too():
    p, y, features = made()
    audit = found()
    name = audit.findings(1)[0].name
    before = next(row.n for row in audit.group_table() if row.name == name)
    audit.add(p=p, y=y, features=features)
    after = next(row.n for row in audit.group_table() if row.name == name)
    assert after > 2.5 * before  # all rows anew, beside half of them


def test_arrays_are_searched_by_coordinates_and_groups():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(4000, 0.5), rng.uniform(-0.5, 0.5, (4000, 2))])
    side = np.where(rng.random(4000) < 0.5, "left", "right")
    p = rng.uniform(0.2, 0.6, 4000)
    y = rng.random(4000) < p + 0.3 * ((X[:, 1] > 0) & (side == "left"))
    audit = Audit(p, y, X, groups={"side": side}, names=["first", "second"], search="trees")
    names = [one.name for one in audit.findings(3)]
    assert any("first ≥" in name and "side = left" in name for name in names), names
    with pytest.raises(ValueError, match="regions: given rows or an audit without those"):
        audit.add(p=p, y=y, X=X, groups={"side": side})
    with pytest.raises(ValueError, match="search: given 'forest'"):
        Audit(p, y, X, search="forest")


def test_nothing_to_search_is_an_audit_as_usual():
    p, y, _ = made()
    plain, alone = Audit(p, y), Audit(p, y, search="trees")
    assert alone.test() == plain.test()
    assert propose({}, p, y, np.ones(len(p))) == Regions(())


def test_words_of_every_kind_of_condition():
    region = [Condition("income", "missing", None), Condition("age", "<", 31.25)]
    assert words(region) == "income is missing and age < 31.25"
    assert words([Condition("town", "=", "Rome")]) == "town = Rome"
    columns = {"income": np.array([1.0, np.nan]), "town": coded(["Rome", "Bari"])}
    assert Condition("income", "missing", None).holds(columns).tolist() == [False, True]
    assert Condition("income", "<", 2.0).holds(columns).tolist() == [True, False]
    assert Condition("town", "=", "Rome").holds(columns).tolist() == [True, False]
    assert Condition("town", "=", "Pisa").holds(columns).tolist() == [False, False]


def test_missing_numbers_can_be_a_region():
    rng = np.random.default_rng(1)
    income = np.where(rng.random(3000) < 0.3, np.nan, rng.normal(size=3000))
    p = np.full(3000, 0.4)
    y = rng.random(3000) < p + 0.3 * np.isnan(income)
    audit = Audit.from_features(p, y, {"income": income}, search="trees")
    assert "searched region 1 = income is missing" in [one.name for one in audit.findings(3)]


def test_no_cluster_both_proposes_and_is_tested_in_any_piece():
    p, y, features = made()
    rng = np.random.default_rng(5)
    patient = rng.integers(0, 600, len(p))
    rows = {"p": p, "y": y, **features, "patient": patient}
    named = {
        "prob": "p",
        "target": "y",
        "features": ["age", "income"],
        "groups": ["sex", "kind"],
        "clusters": "patient",
    }
    whole = Audit.from_frame(rows, **named, search="trees")
    region = next(name for name in whole.sums.tally.groups if name.startswith("searched"))

    def tested(audit, part):
        batch = audit.sums.reader.read(Table(part))
        codes, names = batch.groups[region].codes, batch.groups[region].names
        return {*part["patient"][np.array([names[code] != ELSEWHERE for code in codes])].tolist()}

    later = {name: np.roll(column, 17) for name, column in rows.items()}
    seen, again = tested(whole, rows), tested(whole, later)
    assert seen == again
    assert 100 < len(seen) < 400
