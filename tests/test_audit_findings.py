"""The findings: valid, plain, reproducible, and true to the audit they come from."""

import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from swapcal import Audit
from swapcal.audit.curves import _column_likenesses
from swapcal.audit.levels import KEPT_BINS, MOST_BINS, BinSpan, Timeline
from swapcal.audit.sums import hash_names
from swapcal.report import Findings, card, render
from swapcal.report.findings import as_dict


def columns(rows=3000, bias=0.12):
    rng = np.random.default_rng(1)
    p = rng.random(rows)
    features = {"age": rng.normal(40, 8, rows), "town": rng.choice(["Rome", "Bari"], rows)}
    shift = rng.choice(["day", "night"], rows, p=[0.8, 0.2])
    y = (rng.random(rows) < np.clip(p + bias * (shift == "night"), 0, 1)).astype(float)
    time = np.datetime64("2021-03-01") + np.arange(rows) // 30
    return p, y, features, shift, time


def make(rows=3000, bias=0.12, order=slice(None), like=None):
    p, y, features, shift, time = columns(rows, bias)
    chosen = {name: values[order] for name, values in features.items()}
    return Audit.from_features(p[order], y[order], chosen, groups={"shift": shift[order]}, time=time[order], like=like)


@pytest.fixture(scope="module")
def audit():
    return make()


@pytest.fixture(scope="module")
def findings(audit):
    return audit.to_dict(created_at="2021-07-01")


def test_findings_are_valid_plain_and_complete(findings):
    assert Findings.of(findings).to_dict() == findings
    assert json.loads(json.dumps(findings, allow_nan=False)) == findings
    assert {q["name"] for q in findings["quantities"]} >= {"SMCal_2", "SMCal_1", "SReg", "SOmni", "MCal_2", "Cal_1"}
    assert findings["identity"]["first_time"] == "2021-03-01"
    assert findings["identity"]["last_time"] == "2021-06-08"
    assert sum(level["n"] for level in findings["reliability"]) == 3000
    assert sum(findings["density"]["counts"]) == 3000
    assert sum(period["n"] for period in findings["timeline"]) == 3000
    assert {group["name"] for group in findings["groups"]} == {
        "shift = day",
        "shift = night",
        "town = Bari",
        "town = Rome",
    }


def test_pages_and_cards_are_the_same_from_records_and_from_plain_data(audit, findings):
    extreme = Audit([0.0] * 9 + [0.5] * 50, [1] * 9 + [0, 1] * 25, groups=["a"] * 30 + ["b"] * 29)  # -0.0 and no AUC
    for record in (audit.to_findings(created_at="2021-07-01"), extreme.to_findings(), Audit([0.3], [1]).to_findings()):
        plain = json.loads(record.to_json())
        assert plain == record.to_dict()
        assert render(record) == render(plain)
        assert card(record) == card(plain)
    assert audit.to_findings(created_at="2021-07-01").to_dict() == findings


def test_records_cannot_be_changed(audit):
    found = audit.to_findings()
    with pytest.raises(FrozenInstanceError):
        found.headline.verdict = "small"


def test_headline_names_the_planted_group(findings):
    assert findings["headline"]["verdict"] == "miscalibrated"
    assert "shift = night" in findings["headline"]["sentence"]
    first = findings["witnesses"][0]
    assert first["group"] == "shift = night"
    assert first["gap"] == pytest.approx(0.1, abs=0.04)
    assert sum(point["n"] for point in first["curve"]) == first["n"] or first["levels"]


def test_values_are_the_audits_own(audit, findings):
    by_name = {(q["name"], q["against"]): q for q in findings["quantities"]}
    assert by_name["SMCal_2", "F_1^lin"]["value"] == pytest.approx(audit.theory.smcal(2))
    assert by_name["SOmni", "F_[0,1]^aff"]["mean_value"] == pytest.approx(audit.theory.somni(mean=True))
    assert by_name["MCal_1", "F_1^lin"]["upper_value"] == pytest.approx(audit.theory.mcal(1)[1])
    assert findings["scores"]["auc"] == pytest.approx(audit.auc()[0])
    night = next(row for row in audit.group_table() if row.name == "shift = night")
    shown = next(row for row in findings["groups"] if row["name"] == "shift = night")
    assert (shown["gap"], shown["low"], shown["high"]) == (night.gap, night.low, night.high)


def test_twin_and_page_are_written(audit, tmp_path):
    text = audit.to_json(tmp_path / "audit.json", created_at="now")
    assert json.loads(text) == audit.to_dict(created_at="now")
    assert (tmp_path / "audit.json").read_text(encoding="utf-8") == text
    page = audit.to_html(tmp_path / "audit.html", created_at="now")
    assert (tmp_path / "audit.html").read_text(encoding="utf-8") == page
    assert len(page.encode()) < 1_000_000
    assert "shift = night" in page


def test_findings_do_not_depend_on_order_or_split(audit, findings):
    order = np.random.default_rng(5).permutation(3000)
    merged = make(order=order[:1200], like=audit) + make(order=order[1200:], like=audit)
    other = merged.to_dict(created_at="2021-07-01")
    assert other["headline"] == findings["headline"]
    assert other["identity"] == findings["identity"]
    assert [w["sentence"] for w in other["witnesses"]] == [w["sentence"] for w in findings["witnesses"]]
    for one, two in zip(other["quantities"], findings["quantities"], strict=True):
        assert one["value"] == pytest.approx(two["value"])
        assert one["p_value"] == two["p_value"]
    assert make().to_json() == audit.to_json()


def test_certificate_is_shown_beside_the_observed_error(audit):
    certificate = {
        "bound": 55.0, "theorem": 80.0, "theorem_psmcal": 70.0, "rounding": 10.0, "learning": 25.0, "prior": 20.0,
        "rounds": 3000, "levels": 12, "dim": 4, "psreg": 9.0,
    }  # fmt: skip
    findings = audit.to_dict(certificate=certificate)
    assert Findings.of(findings).to_dict() == findings
    assert findings["forecaster"]["certificate"] == 55.0
    assert findings["forecaster"]["observed"] == 9.0
    assert [piece["value"] for piece in findings["forecaster"]["pieces"]] == [10.0, 25.0, 20.0]
    regret = next(q for q in findings["quantities"] if q["name"] == "PSReg")
    assert (regret["bound"], regret["certificate"]) == (80.0, 55.0)
    assert regret["value"] == pytest.approx(audit.theory.psreg())


def test_true_predictions_and_tiny_data_read_differently():
    calm = make(bias=0.0).to_dict()
    assert calm["headline"]["verdict"] == "no error found"
    assert "percentage points" in calm["headline"]["detail"]
    tiny = Audit([0.3, 0.6], [0, 1]).to_dict()
    assert Findings.of(tiny).to_dict() == tiny
    assert tiny["headline"]["verdict"] == "undecided"
    assert tiny["witnesses"] == []


@pytest.mark.parametrize(("p", "y"), [([0.0, 1.0], [1, 0]), ([0.5], [1]), ([0.2] * 300, [0] * 300)])
def test_extreme_data_still_make_a_page(p, y):
    audit = Audit.from_features(p, y, {"flat": np.ones(len(p))}, groups=["g"] * len(p), time=np.zeros(len(p)))
    findings = audit.to_dict()
    assert Findings.of(findings).to_dict() == findings
    assert audit.to_html()


def test_numeric_witness_draws_its_curve_in_the_features_units():
    rng = np.random.default_rng(2)
    income = rng.normal(30_000, 8_000, 4000)
    p = np.full(4000, 0.5)
    y = rng.random(4000) < 0.5 + 1e-5 * (income - 30_000)
    findings = Audit.from_features(p, y, {"income": income}).to_dict()
    witness = findings["witnesses"][0]
    assert witness["group"] == "income"
    assert witness["axis"] == "income"
    scores = [point["score"] for point in witness["curve"]]
    assert scores == sorted(scores)
    assert 15_000 < scores[0] < 25_000 < 35_000 < scores[-1] < 50_000
    assert "more and more often than predicted as income rises" in witness["sentence"]


def test_many_groups_are_cut_in_the_table_but_all_are_tested():
    rng = np.random.default_rng(0)
    p = rng.random(4000)
    audit = Audit(p, rng.random(4000) < p, groups={"id": rng.integers(0, 150, 4000)})
    findings = audit.to_dict()
    assert len(findings["groups"]) == 100
    assert len(audit.group_table()) == 150
    assert any("100 most doubtful of 150" in note for note in findings["notes"])


def test_plain_turns_numpy_into_python():
    assert as_dict({"a": np.float64(1.5), "b": [np.int64(2), np.nan], "c": (np.bool_(True),)}) == {
        "a": 1.5,
        "b": [2, None],
        "c": [True],
    }


def test_time_bins_double_and_forget_the_order():
    rng = np.random.default_rng(0)
    time = np.sort(rng.random(500) * 10.0 ** rng.integers(0, 6, 500))
    p, y, w = rng.random(500), rng.random(500).round(), np.ones(500)
    whole, late, early = Timeline(), Timeline(), Timeline()
    whole.add(time, False, p, y, w)
    late.add(time[250:], False, p[250:], y[250:], w[250:])
    early.add(time[:250], False, p[:250], y[:250], w[:250])
    late.merge(early)
    assert late.span == whole.span
    np.testing.assert_allclose(late.table, whole.table)
    np.testing.assert_array_equal([late.first, late.last], [whole.first, whole.last])
    assert len(whole.table) <= KEPT_BINS
    drawn = whole.drawn()
    assert len(drawn.labels()) == len(drawn.table) <= MOST_BINS
    np.testing.assert_allclose(drawn.table.sum(axis=0), whole.table.sum(axis=0))
    assert BinSpan.of(3.0, 3.0).last == BinSpan.of(3.0, 3.0).first


def test_decisions_are_priced_under_each_loss() -> None:
    rng = np.random.default_rng(5)
    X = np.column_stack([np.full(3000, 0.5), rng.uniform(-0.8, 0.8, 3000)])
    truth = 0.5 + 0.5 * X[:, 1]
    y = (rng.random(3000) < truth).astype(float)
    audits = Audit(truth * 0 + 0.5, y, X), Audit(truth, y, X)
    blind, aware = (audit.to_dict(losses=["squared", "pinball:0.6"])["decisions"] for audit in audits)
    assert blind is not None
    assert aware is not None
    assert [row["loss"] for row in blind] == ["squared", "pinball:0.6"]
    assert blind[0]["cost"] == pytest.approx(0.25)
    assert aware[0]["cost"] == pytest.approx(np.mean((truth - y) ** 2), abs=2e-3)
    for worse, better in zip(blind, aware, strict=True):
        assert better["cost"] < worse["cost"]
        assert better["regret"] < worse["regret"]
        assert worse["regret"] <= worse["certificate"]
    assert "decisions" not in audits[1].to_dict()
    assert "Decisions" in audits[1].to_html(losses=["absolute"])


def test_a_trend_is_measured_per_standard_deviation() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-0.8, 0.8, 20_000)
    X = np.column_stack([np.full(20_000, 0.5), x])
    y = (rng.random(20_000) < 0.5 + 0.1 * x).astype(float)
    worst = Audit(np.full(20_000, 0.5), y, X, names=["1", "dose"]).findings(1)[0]
    assert worst.name == "dose"
    assert not worst.is_group
    assert worst.gap == pytest.approx(0.1 * np.std(x), abs=0.01)


def test_a_context_without_a_unit_is_drawn_by_percentile() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-0.8, 0.8, 4000)
    X = np.column_stack([np.full(4000, 0.5), x])
    y = (rng.random(4000) < 0.5 + 0.3 * x).astype(float)
    first = Audit(np.full(4000, 0.5), y, X, names=["1", "dose"]).to_dict()["witnesses"][0]
    scores = [point["score"] for point in first["curve"]]
    assert first["axis"] == "percentile of dose"
    assert 0 < scores[0] < 10 < 90 < scores[-1] < 100
    assert scores == sorted(scores)


def test_the_density_of_rare_events_is_drawn_where_they_are() -> None:
    rng = np.random.default_rng(0)
    p = rng.choice([0.005, 0.008, 0.011], 6000)
    density = Audit(p, rng.random(6000) < p).to_dict()["density"]
    assert sum(density["counts"]) == 6000
    assert sum(count > 0 for count in density["counts"]) == 3
    assert (density["edges"][0], density["edges"][-1]) == pytest.approx((0.005, 0.011))
    assert Audit(rng.random(300), rng.random(300) < 0.5).to_dict()["density"]["edges"][-1] == 1.0


def test_rare_events_are_drawn_on_their_own_scale():
    rng = np.random.default_rng(0)
    p = 0.004 * np.exp(0.5 * rng.normal(size=60_000))
    shop = rng.choice(["a", "b"], len(p))
    findings = Audit(p, rng.random(len(p)) < p * (1 + (shop == "b")), groups={"shop": shop}).to_dict()
    curve = findings["reliability"]
    assert len(curve) == 15
    assert sum(level["n"] for level in curve) == pytest.approx(len(p))
    assert sum(level["n"] * level["mean_p"] for level in curve) == pytest.approx(p.sum())
    assert max(level["n"] for level in curve) < 0.1 * len(p)
    assert curve[0]["mean_p"] < 0.002 < 0.008 < curve[-1]["mean_p"] < 0.03
    group = next(one for one in findings["witnesses"] if one.get("group") == "shop = b")
    assert len(group["curve"]) == 8
    assert any("Nearly all forecasts fall into one interval" in note for note in findings["notes"])


def test_undecided_does_not_say_that_the_predictions_are_surely_bad():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.2, 0.8, 20_000)
    headline = Audit(p, rng.random(len(p)) < p + 0.012).to_dict()["headline"]
    assert headline["verdict"] == "undecided"
    assert headline["sentence"].startswith("The predictions are off by more than chance, but these data leave open")


def test_a_group_that_holds_all_rows_resembles_nothing_even_if_shares_round_above_one():
    shares = np.full(6, 1 / 6) * (1 + 1e-15)
    labels = np.repeat(hash_names(["Rome"]), 6)
    assert shares.sum() > 1
    assert _column_likenesses("town", ("Rome",), labels, shares, np.ones(6)) == []
