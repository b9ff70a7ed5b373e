"""The audit against literal sums over rows, its own witnesses, and itself split into parts."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal import Audit, Forecaster, errors
from swapcal.audit.rows import AuditRows
from swapcal.audit.sums import RowSample, _hash_batch
from swapcal.batch import SnapshotRun
from swapcal.losses import omniprediction, threshold_losses
from tests.chance import seeded


def data(rows=400, d=4, seed=0, values=None, bias=0.2):
    rng = np.random.default_rng(seed)
    tail = rng.standard_normal((rows, d - 1))
    tail *= np.sqrt(0.75) * rng.random((rows, 1)) / np.linalg.norm(tail, axis=1, keepdims=True)
    X = np.column_stack([np.full(rows, 0.5), tail])
    p = rng.random(rows) if values is None else rng.choice(values, rows)
    y = (rng.random(rows) < np.clip(p + bias * X[:, 1], 0, 1)).astype(float)
    groups = {"side": np.where(X[:, 1] > 0, "right", "left"), "kind": rng.choice(["a", "b", "c"], rows)}
    return p, y, X, groups, rng.random(rows) + 0.5


def literal(p, y, X, w, level):
    """Per-level statistics by the definition."""
    found = []
    for v in np.unique(level):
        m = level == v
        residual = w[m] * (y[m] - p[m])
        found.append((w[m].sum(), residual.sum(), residual @ X[m], (X[m] * w[m, None]).T @ X[m], p[m] @ w[m]))
    n, A, g, G, P = (np.array(part) for part in zip(*found, strict=True))
    return n, A, g, G, P / n


QUERIES = {
    "smcal1": lambda a: a.theory.smcal(1),
    "smcal2": lambda a: a.theory.smcal(2),
    "smcal affine": lambda a: a.theory.smcal(2, "affine"),
    "smcal groups": lambda a: a.theory.smcal(1, "groups"),
    "smcal linear4": lambda a: a.theory.smcal(2, "linear4"),
    "mcal2": lambda a: a.theory.mcal(2),
    "mcal1": lambda a: a.theory.mcal(1),
    "mcal affine": lambda a: a.theory.mcal(2, "affine"),
    "mcal1 affine": lambda a: a.theory.mcal(1, "affine"),
    "mcal groups": lambda a: a.theory.mcal(2, "groups"),
    "cal": lambda a: a.theory.cal(2),
    "sreg": lambda a: a.theory.sreg(),
    "somni": lambda a: a.theory.somni(),
    "psmcal": lambda a: a.theory.psmcal(2),
    "pmcal": lambda a: a.theory.pmcal(2),
    "pcal": lambda a: a.theory.pcal(1),
    "psreg": lambda a: a.theory.psreg(),
    "brier": lambda a: a.brier(),
    "log loss": lambda a: a.log_loss(),
    "auc": lambda a: a.auc()[0],
    "ece": lambda a: a.ece(),
    "smooth": lambda a: a.smooth_ece(),
}


@pytest.mark.parametrize("values", [None, [0.1, 0.35, 0.6, 0.9]])
def test_errors_equal_the_definitions(values):
    p, y, X, groups, w = data(values=values)
    audit = Audit(p, y, X, groups=groups, weights=w)
    if values is None:
        # 400 distinct predictions fall into 51 intervals
        level = np.minimum((p * 51).astype(int), 50)
        assert len(audit.levels) == 51
    else:
        level = np.searchsorted(values, p)
        assert audit.levels.values == tuple(values)
    n, A, g, G, v = literal(p, y, X, w, level)
    assert audit.theory.smcal(2) == pytest.approx(errors.smcal_linear(n, g, 2))
    assert audit.theory.smcal(1, "affine") == pytest.approx(errors.smcal_affine(n, A, g, 1))
    assert audit.theory.smcal(2, "linear4") == pytest.approx(4 * audit.theory.smcal(2))
    assert audit.theory.mcal(2) == pytest.approx(errors.mcal2_linear(n, g)[0])
    assert audit.theory.cal(1) == pytest.approx(errors.cal(n, A, 1))
    assert audit.theory.sreg() == pytest.approx(errors.swap_regret(v, g, G)[0].sum())
    assert audit.theory.somni(mean=True) == pytest.approx(errors.somni(v, A, g, "all").total / w.sum())
    assert audit.theory.somni(rules="restricted") == pytest.approx(errors.somni(v, A, g).total)
    indicators = [groups[c] == name for c, names in (("kind", "abc"), ("side", ("left", "right"))) for name in names]
    S = np.array([[np.sum((w * (y - p))[(level == k) & m]) for m in indicators] for k in np.unique(level)])
    assert audit.theory.smcal(2, "groups") == pytest.approx(errors.smcal_groups(n, S, 2))
    assert audit.theory.mcal(1, "groups") == pytest.approx(errors.mcal_groups(n, S, 1)[0])


def test_held_out_versions_are_means():
    p, y, X, groups, _ = data()
    audit = Audit(p, y, X, groups=groups)
    assert audit.theory.dsmcal(1) == audit.theory.smcal(1) / 400
    assert audit.theory.dmcal(2) == pytest.approx(audit.theory.mcal(2) / 400)
    assert audit.theory.dsomni() == audit.theory.somni() / 400
    assert audit.theory.saerr() == audit.theory.sreg() / 400


@given(st.integers(0, 10**6), st.integers(1, 399), st.sampled_from([None, "few", "many then few"]))
@settings(max_examples=5, deadline=None)
def test_parts_add_up_to_the_whole(seed, cut, kind):
    values = None if kind is None else [0.0, 0.2, 0.5, 1.0]
    p, y, X, groups, w = data(seed=seed, values=values)
    if kind == "many then few":
        p[cut:] = np.random.default_rng(seed).random(400 - cut)
    if kind is not None:
        y = np.where(p == 0, 0.0, np.where(p == 1, 1.0, y))
    extra = {"low": np.floor(p * 5) / 5, "high": np.ceil(p * 5) / 5, "weight": (p * 5) % 1, "time": np.arange(400.0)}

    def part(rows):
        picked = {name: value[rows] for name, value in extra.items()}
        chosen = {name: labels[rows] for name, labels in groups.items()}
        return {"p": p[rows], "y": y[rows], "X": X[rows], "weights": w[rows], "groups": chosen, **picked}

    whole = Audit(**part(slice(None)))
    first, second = Audit(**part(slice(cut))), Audit(**part(slice(cut, None)))
    grown = first.copy()
    grown.add(**part(slice(cut, None)))
    joined = first + second, second + first, grown
    for name, query in QUERIES.items():
        expected = pytest.approx(query(whole), rel=1e-9, abs=1e-9)
        for other in joined:
            assert query(other) == expected, name
    assert (second + first).sums.sample.digest == whole.sums.sample.digest == grown.sums.sample.digest
    np.testing.assert_allclose((second + first).sums.timeline.table, whole.sums.timeline.table)
    assert [r.name for r in (second + first).group_table()] == [r.name for r in whole.group_table()]
    assert first.n == pytest.approx(w[:cut].sum())


WITNESSES = [
    ("smcal", 1, "linear"),
    ("smcal", 2, "linear"),
    ("smcal", 2, "linear4"),
    ("smcal", 2, "affine"),
    ("smcal", 2, "groups"),
    ("mcal", 2, "linear"),
    ("mcal", 1, "linear"),
    ("mcal", 2, "affine"),
    ("mcal", 1, "affine"),
    ("mcal", 1, "groups"),
    ("sreg", 2, None),
    ("somni", 1, None),
]


@pytest.mark.parametrize(("quantity", "q", "against"), WITNESSES)
@pytest.mark.parametrize("values", [None, [0.0, 0.3, 0.7, 1.0]])
def test_recomputing_the_witness_on_the_data_gives_the_error(quantity, q, against, values):
    p, y, X, groups, w = data(values=values, bias=0.4)
    audit = Audit(p, y, X, groups=groups, weights=w)
    witness = audit.theory.witness(quantity, q, against)
    query = getattr(audit.theory, quantity)
    reported = query() if quantity in {"sreg", "somni"} else query(q, against)
    reported = reported[0] if isinstance(reported, tuple) else reported
    assert witness.value == pytest.approx(reported)
    assert witness.evaluate(p, y, X, groups, w) == pytest.approx(reported)
    rows = witness.rows(p, y, X, groups, w)
    carried = witness.carried(p, y, X, groups, w)
    assert len(np.unique(audit.levels.index(p[rows]))) == 1
    assert (np.diff(np.abs(carried[rows])) <= 1e-15).all()
    assert witness.contributions.sum() == pytest.approx(witness.value)


def test_witness_speaks_the_users_units():
    rng = np.random.default_rng(3)
    age, city = rng.normal(50, 10, 5000), rng.choice(["Rome", "Bari"], 5000)
    p = np.full(5000, 0.5)
    y = (rng.random(5000) < 0.5 + 0.02 * (age - 50).clip(-20, 20)).astype(float)
    audit = Audit.from_features(p, y, {"age": age, "city": city})
    top = audit.theory.witness("smcal").direction()[0]
    assert top.name == "age"
    assert top.unit == "per unit of age"
    slope = audit.coordinates[1].factor * audit.theory.witness("smcal").theta[0, 1]
    assert top.coefficient == pytest.approx(slope)
    assert top.coefficient > 0


def test_contexts_from_features_lie_in_the_context_set():
    rng = np.random.default_rng(0)
    features = {
        "wild": rng.standard_cauchy(500),
        "constant": np.ones(500),
        "gappy": np.where(rng.random(500) < 0.1, np.nan, rng.random(500)),
        "many": rng.integers(0, 80, 500).astype(str),
        "flag": rng.random(500) < 0.5,
    }
    audit = Audit.from_features(rng.random(500), rng.random(500) < 0.5, features)
    X = audit.sums.sample.rows.X
    assert (X[:, 0] == 0.5).all()
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
    names = [c.name for c in audit.coordinates]
    assert "gappy missing" in names
    assert "many = (other)" in names
    assert len([n for n in names if n.startswith("many")]) == 33
    assert audit.coordinates[names.index("constant", 1)].factor == 0
    # every category, also the rare ones, is examined as a group
    assert len([r for r in audit.group_table() if r.name.startswith("many")]) == 80


def test_shared_encoding_makes_shards_addable():
    rng = np.random.default_rng(0)
    p, y = rng.random(300), (rng.random(300) < 0.5).astype(float)
    f = {"a": rng.random(300), "b": rng.choice(["u", "v"], 300)}
    first = Audit.from_features(p[:200], y[:200], {k: v[:200] for k, v in f.items()})
    rest = {k: v[200:] for k, v in f.items()}
    alone = Audit.from_features(p[200:], y[200:], rest)
    with pytest.raises(ValueError, match="like="):
        first + alone
    both = first + Audit.from_features(p[200:], y[200:], rest, like=first)
    first.add(p=p[200:], y=y[200:], features=rest)
    assert both.theory.smcal(2) == pytest.approx(first.theory.smcal(2))
    assert both.sums.sample.digest == first.sums.sample.digest


def test_issued_distributions_give_the_pseudo_errors():
    p, y, X, _, w = data()
    low, high = np.floor(p * 10) / 10, np.ceil(p * 10) / 10
    share = p * 10 - low * 10
    audit = Audit(p, y, X, weights=w, low=low, high=high, weight=share)
    doubled = np.concatenate([low, high])
    weights = np.concatenate([(1 - share) * w, share * w])
    keep = weights > 0
    expanded = Audit(doubled[keep], np.tile(y, 2)[keep], np.tile(X, (2, 1))[keep], weights=weights[keep])
    assert audit.theory.psmcal(2) == pytest.approx(expanded.theory.smcal(2))
    assert audit.theory.psreg() == pytest.approx(expanded.theory.sreg())
    assert audit.theory.pmcal(2) == pytest.approx(expanded.theory.mcal(2))
    assert audit.theory.pcal(1) == pytest.approx(expanded.theory.cal(1))
    assert Audit(p, y, X).theory.psmcal(2) == Audit(p, y, X).theory.smcal(2)


def test_pseudo_errors_are_those_of_the_forecasters_certificate():
    """Two independent bookkeepings of the same stream: the learners' own statistics, and the audit's."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(3000, 0.5), rng.uniform(-0.4, 0.4, (3000, 3))])
    y = (rng.random(3000) < 0.5 + X[:, 1]).astype(float)
    forecaster = Forecaster(4)
    issued = forecaster.run(X, y)
    audit = Audit(issued.p, y, X, low=issued.low, high=issued.high, weight=issued.weight)
    certificate = forecaster.certificate()
    assert audit.theory.psreg() == pytest.approx(certificate.psreg)
    assert audit.theory.psmcal(2) == pytest.approx(certificate.psmcal_2)
    assert audit.theory.psmcal(1) == pytest.approx(certificate.psmcal_1)
    shown = audit.to_dict(certificate=certificate.as_dict())["forecaster"]
    assert shown["observed"] <= shown["certificate"] <= shown["bound"]
    drawn = certificate.issued
    means = {name: getattr(drawn, name) / drawn.weight for name in ("smcal_1", "smcal_2", "somni", "cal")}
    assert shown["issued"] == pytest.approx({"labels": drawn.labels, **means})
    heavy = certificate.as_dict()["issued"] | {"weight": 2 * drawn.weight}
    halved = audit.to_dict(certificate=certificate.as_dict() | {"issued": heavy})["forecaster"]["issued"]
    assert halved["cal"] == pytest.approx(means["cal"] / 2)
    page = audit.to_html(certificate=certificate.as_dict())
    assert "The levels themselves, as they were drawn, over" in page
    assert "not of the mean forecasts" in page
    assert "issued" not in audit.to_dict(certificate=certificate.as_dict() | {"issued": None})["forecaster"]


def test_theorem_inequalities_hold():
    for seed in range(5):
        p, y, X, groups, _ = data(seed=seed, bias=0.6)
        audit = Audit(p, y, X, groups=groups)
        assert audit.theory.smcal(2) <= audit.theory.sreg() + 1e-9
        assert audit.theory.smcal(1) <= np.sqrt(audit.n * audit.theory.smcal(2)) + 1e-9
        assert audit.theory.mcal(2) <= audit.theory.smcal(2) + 1e-9
        lower, upper = audit.theory.mcal(1)
        assert lower <= upper <= audit.theory.smcal(1) + 1e-9
        assert (
            audit.theory.smcal(1, "affine") - 1e-9 <= audit.theory.somni() <= 2 * audit.theory.smcal(1, "affine") + 1e-9
        )


def test_scores_match_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    p, y, X, _, w = data(rows=3000)
    audit = Audit(p, y, X, weights=w)
    assert audit.brier() == pytest.approx(np.average((p - y) ** 2, weights=w))
    assert audit.log_loss() == pytest.approx(metrics.log_loss(y, p, sample_weight=w))
    assert audit.auc() == (pytest.approx(metrics.roc_auc_score(y, p, sample_weight=w)), 0.0)
    calibration, refinement = audit.brier_split()
    assert calibration + refinement == pytest.approx(audit.brier())
    binned, doubt = audit.sums.histogram.auc()
    assert abs(binned - audit.auc()[0]) <= doubt
    assert audit.sums.histogram.smooth_ece() == pytest.approx(audit.smooth_ece(), abs=1e-3)


def test_smooth_ece_of_a_constant_shift_is_the_shift():
    p = np.linspace(0.1, 0.8, 2000)
    assert Audit(p, p + 0.07).smooth_ece() == pytest.approx(0.07, abs=2e-3)


def test_sketch_compresses_repeated_rows():
    p = np.tile([0.2, 0.7], 100_000)
    y = np.tile([0.0, 1.0, 1.0, 0.0], 50_000)
    audit = Audit(p, y)
    assert audit.sums.sample.complete
    assert sorted(audit.sums.sample.rows.copies) == [50_000] * 4
    rng = np.random.default_rng(0)
    many = rng.random(70_000)
    over = Audit(many, many > 0.5)
    assert not over.sums.sample.complete
    assert len(over.sums.sample.rows.p) == over.sums.sample.capacity


def test_kernel_agrees_with_plain_sums():
    from swapcal.kernels import tally as kernel

    p, y, X, _, w = data(rows=50)
    level = (p * 3).astype(np.int32)
    d = X.shape[1]
    sums = [np.zeros((3, kernel.SCALARS)), np.zeros((3, d)), np.zeros((3, d, d)), np.zeros((3, d, d))]
    kernel.tally(level, p, y, w, X, *sums)
    for v in range(3):
        m = level == v
        np.testing.assert_allclose(sums[1][v], (w * (y - p))[m] @ X[m])
        np.testing.assert_allclose(sums[2][v], np.tril((X[m] * w[m, None]).T @ X[m]), atol=1e-13)
        variance = (w**2 * p * (1 - p))[m, None]
        np.testing.assert_allclose(sums[3][v], np.tril((X[m] * variance).T @ X[m]), atol=1e-13)
        assert sums[0][v, kernel.ROWS] == m.sum()


def test_threads_change_nothing():
    p, y, X, _, w = data(rows=80_000, d=3)
    whole = Audit(p, y, X, weights=w)
    parts = Audit(p[:20_000], y[:20_000], X[:20_000], weights=w[:20_000])
    for start in range(20_000, 80_000, 20_000):
        rows = slice(start, start + 20_000)
        parts.add(p=p[rows], y=y[rows], X=X[rows], weights=w[rows])
    np.testing.assert_allclose(whole.sums.tally.G, parts.sums.tally.G, rtol=1e-12)
    np.testing.assert_allclose(whole.sums.tally.g, parts.sums.tally.g, rtol=1e-9, atol=1e-9)


def test_repeated_rows_are_counted_across_batches():
    """The row-by-row null must redraw every copy, whichever batch it came in."""
    p, y = np.tile([0.2, 0.7], 50), np.tile([0.0, 1.0], 50)
    parts = Audit(p, y)
    for _ in range(3):
        parts.add(p=p, y=y)
    merged = Audit(p, y) + Audit(p, y)
    assert sorted(parts.sums.sample.rows.copies) == [200, 200]
    assert sorted(merged.sums.sample.rows.copies) == [100, 100]
    whole = Audit(np.tile(p, 4), np.tile(y, 4)).theory.noise("cal", 2)
    assert tuple(parts.theory.noise("cal", 2)) == pytest.approx(
        tuple(whole)
    )  # sums of batches round in their own order


@pytest.mark.parametrize(("distinct", "kept"), [(255, True), (256, True), (257, False)])
def test_the_number_of_distinct_predictions_decides_the_levels(distinct, kept):
    p = np.linspace(0.1, 0.9, distinct)
    whole, parts = Audit(p, p > 0.5), Audit(p[:100], p[:100] > 0.5)
    parts.add(p=p[100:], y=p[100:] > 0.5)
    halves = Audit(p[::2], p[::2] > 0.5) + Audit(p[1::2], p[1::2] > 0.5)
    repeated = Audit(np.repeat(p, 8), np.repeat(p, 8) > 0.5)
    for audit in (whole, parts, halves, repeated):
        assert (audit.levels.values is not None) == kept
        assert len(audit.levels) == (distinct if kept else 51)


def test_an_edge_belongs_to_the_interval_above_it():
    for levels in (4, [0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.25, 0.5, 0.8, 1.0]):
        audit = Audit([0.0, 0.25, 0.5, 0.9, 1.0], [0, 1, 0, 1, 1], levels=levels)
        np.testing.assert_array_equal(audit.levels.index(np.array([0.0, 0.2, 0.25, 0.5, 0.9, 1.0])), [0, 0, 1, 2, 3, 3])


def test_smooth_ece_solves_its_equation():
    """Opposite residuals 0.2 apart: smoothed by σ = smooth ECE, with reflection at 0 and 1, their mass is σ."""
    p = np.repeat([0.4, 0.6], 500)
    y = np.concatenate([np.arange(500) < 350, np.arange(500) < 150]).astype(float)
    found = Audit(p, y).smooth_ece()
    grid = (np.arange(4000) + 0.5) / 4000
    images = [2 * k + sign * grid for k in range(-3, 4) for sign in (1, -1)]

    def density(centre):
        return sum(np.exp(-0.5 * ((image - centre) / found) ** 2) for image in images) / (found * np.sqrt(2 * np.pi))

    residual = 0.15 * density(0.4) - 0.15 * density(0.6)
    assert np.abs(residual).mean() == pytest.approx(found, rel=0.01)


def test_the_brier_score_splits_into_calibration_and_the_rest():
    p, y = np.repeat([0.2, 0.7], 10), np.concatenate([np.arange(10) < 4, np.arange(10) < 5]).astype(float)
    calibration, refinement = Audit(p, y).brier_split()
    assert calibration == pytest.approx(0.04)
    assert refinement == pytest.approx((0.4 * 0.6 + 0.5 * 0.5) / 2)


def blum_mansour(rows=300, levels=6):
    """A run of Blum–Mansour's mixing, one row at a time: what was issued, its distributions, the certificate."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(rows, 0.5), rng.uniform(-0.4, 0.4, (rows, 2))])
    y = (rng.random(rows) < 0.5 + X[:, 1]).astype(float)
    forecaster = Forecaster(3, levels=levels, mixing="blum-mansour", learner="ridge")
    issued, P = [], []
    for x, label in zip(X, y, strict=True):
        forecast = forecaster.predict(x)
        values, shares = forecaster.distribution(forecast)
        issued.append([forecast.p, forecast.mean, forecast.low, forecast.high, forecast.weight])
        P.append(shares[0])
        forecaster.update(forecast, label)
    return X, y, np.array(issued).T, (values, np.array(P)), forecaster


def test_whole_distributions_give_the_pseudo_errors_of_blum_mansour():
    X, y, (p, mean, low, high, weight), issued, forecaster = blum_mansour()
    certificate = forecaster.certificate()
    np.testing.assert_allclose(issued[1] @ issued[0], mean)
    for column in (p, mean):
        audit = Audit(column, y, X, issued=issued)
        assert audit.theory.psreg() == pytest.approx(certificate.psreg)
        assert audit.theory.psmcal(2) == pytest.approx(certificate.psmcal_2)
        assert audit.theory.psmcal(1) == pytest.approx(certificate.psmcal_1)
        with pytest.raises(ValueError, match=r"issued distribution: given p = .* expected one of its levels or its"):
            Audit(column, y, X, low=low, high=high, weight=weight)
    parts = [Audit(p[k::2], y[k::2], X[k::2], issued=(issued[0], issued[1][k::2])) for k in (0, 1)]
    assert (parts[0] + parts[1]).theory.psreg() == pytest.approx(certificate.psreg)
    parts[0].add(p=p[1::2], y=y[1::2], X=X[1::2], issued=(issued[0], issued[1][1::2]))
    assert parts[0].theory.psreg() == pytest.approx(certificate.psreg)


def test_the_two_level_form_is_the_whole_distribution_of_hedging():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.full(500, 0.5), rng.uniform(-0.4, 0.4, (500, 2))])
    y = (rng.random(500) < 0.5).astype(float)
    forecaster = Forecaster(3)
    issued = forecaster.run(X, y)
    two = Audit(issued.p, y, X, low=issued.low, high=issued.high, weight=issued.weight)
    whole = Audit(issued.mean, y, X, issued=forecaster.distribution(issued))
    assert whole.theory.psreg() == pytest.approx(two.theory.psreg())
    frame = {"p": issued.mean, "y": y, "a": issued.low, "b": issued.high, "w": issued.weight}
    Audit.from_frame(frame, prob="p", target="y", issued=("a", "b", "w"))
    with pytest.raises(ValueError, match="issued distribution: given p"):
        Audit.from_frame({**frame, "p": y}, prob="p", target="y", issued=("a", "b", "w"))
    mixing = Forecaster(3, levels=4, mixing="blum-mansour")
    ran = mixing.run(X, y)
    with pytest.raises(ValueError, match="forecast: given one of `run`"):
        mixing.distribution(ran)


def test_the_mixture_of_all_rounds_is_audited_pooled():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.full(400, 0.5), rng.choice([-0.4, 0.0, 0.4], 400)])
    y = (rng.random(400) < 0.5 + X[:, 1]).astype(float)
    run = SnapshotRun(2, log=True)
    run.run(X, y)
    history, fresh = run.history(), X[:40]
    levels, P = history.shares(fresh)
    audit = Audit(history.mean(fresh), y[:40], fresh, issued=(levels, P))
    rows, place = np.nonzero(P)
    literal = Audit(levels[place], y[rows], fresh[rows], weights=P[rows, place])
    assert audit.theory.psmcal(2) == pytest.approx(literal.theory.smcal(2))
    assert audit.theory.psreg() == pytest.approx(literal.theory.sreg())
    assert audit.theory.psmcal(2) < Audit(
        history.issue(fresh, np.arange(40, dtype=np.uint64)).p, y[:40], fresh
    ).theory.smcal(2)


@pytest.mark.parametrize(
    ("issued", "message"),
    [
        (3, "issued: given no pair"),
        (([0.2, 0.4], [[0.5, 0.5]]), r"issued: given P of shape \(1, 2\), expected \(2, 2\)"),
        (([0.2, 1.4], [[0.5, 0.5]] * 2), "issued levels: given 1.4 in row 2"),
        (([0.2, 0.4], [[0.5, 0.5], [0.5, 0.6]]), r"given P = \[0.5, 0.6\] in row 2, expected probabilities"),
        (([0.2, 0.4], [[1.5, -0.5], [0.5, 0.5]]), "in row 1, expected probabilities of sum 1"),
        (([0.2, 0.4], [[0.5, 0.5], [1.0, 0.0]]), r"issued distribution: given p = 0.4 in row 2"),
    ],
)
def test_refused_distributions(issued, message):
    with pytest.raises(ValueError, match=message):
        Audit([0.3, 0.4], [0, 1], issued=issued)
    with pytest.raises(ValueError, match="issued: given beside low"):
        Audit([0.3], [0], issued=([0.3], [[1.0]]), low=[0.3], high=[0.3], weight=[0.0])


def best_rule(v, y, X, rules, draws=4000):
    """Largest gain of one convex loss's slope pair over random affine rules, as the supremum is defined."""
    rng = np.random.default_rng(0)
    best = 0.0
    for _ in range(draws):
        direction = rng.normal(size=X.shape[1])
        direction /= (
            np.linalg.norm(direction)
            if rules == "restricted"
            else np.abs(direction[0]) / 2 + np.sqrt(0.75) * np.linalg.norm(direction[1:])
        )
        f = (1 + X @ direction) / 2
        for action in (0.0, 1.0):
            for sign in (-1.0, 1.0):
                best = max(best, sign * np.sum((y - v) * (f - action)) / max(v, 1 - v))
    return best


@pytest.mark.parametrize("rules", ["all", "restricted"])
def test_somni_is_the_supremum_over_its_class_of_rules(rules):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.full(60, 0.5), rng.uniform(-0.6, 0.6, 60)])
    y = (rng.random(60) < 0.7 + 0.3 * X[:, 1]).astype(float)
    audit = Audit(np.full(60, 0.3), y, X)
    found = best_rule(0.3, y, X, rules)
    assert 0.995 * audit.theory.somni(rules=rules) <= found <= audit.theory.somni(rules=rules) + 1e-9
    against = "affine" if rules == "restricted" else None
    witness = audit.theory.witness("somni", against=against)
    assert witness.evaluate(np.full(60, 0.3), y, X) == pytest.approx(audit.theory.somni(rules=rules))
    assert audit.theory.noise("somni", against=against).value == pytest.approx(audit.theory.somni(rules=rules))


def test_no_sentence_promises_less_than_the_absolute_loss_loses():
    audit = Audit(np.zeros(50), np.ones(50))
    assert audit.theory.somni(mean=True) == 1.0  # playing 0 loses 1 a row, the constant rule 1 loses nothing
    assert audit.theory.somni(mean=True, rules="restricted") == 0.75
    entry = next(one for one in audit.to_findings().quantities if one.name == "SOmni")
    assert (entry.mean_value, entry.against) == (1.0, "F_[0,1]^aff")
    assert audit.theory.witness("somni").against == "F_[0,1]^aff"
    assert audit.theory.omni() == (50.0, 50.0)
    assert audit.theory.omni(rules="restricted") == pytest.approx((37.5, 37.5), abs=1e-4)


def test_plain_omniprediction_lies_between_its_ends_and_needs_the_rows():
    p, y, X, _, w = data(rows=400, seed=2)
    y = (y > 0.5).astype(float)
    p = np.round(p, 1)
    audit = Audit(p, y, X, weights=w)
    low, high = audit.theory.omni()
    assert 0 <= low <= high
    assert high == pytest.approx(audit.theory.somni())
    assert audit.theory.omni(mean=True) == pytest.approx((low / audit.n, high / audit.n))
    rate = np.full(len(y), w @ y / w.sum())
    by_hand = [w @ (loss.induced(p, y) - loss.induced(rate, y)) for loss in threshold_losses()]
    assert low >= max(by_hand) - 1e-9  # the best constant is an affine rule
    interval = omniprediction(np.zeros(50), np.ones(50), np.full((50, 2), 0.5), rules="all")
    f = (1 + np.full((50, 2), 0.5) @ interval.theta) / 2
    attained = np.sum(interval.loss.induced(np.zeros(50), np.ones(50)) - interval.loss(f, np.ones(50)))
    assert attained == pytest.approx(interval.lower)
    audit.sums.sample.complete = False
    with pytest.raises(ValueError, match=r"omni: given .* rows kept, expected all"):
        audit.theory.omni()


@pytest.mark.statistical
def test_plug_in_errors_of_a_population_are_too_large_on_average():
    """One level, two contexts, known chances: by Jensen's inequality, and by no more than right predictions show."""
    rng = np.random.default_rng(seeded(0))
    X = np.column_stack([np.full(60, 0.5), np.tile([-0.4, 0.4], 30)])
    chance = 0.5 + 0.25 * X[:, 1] / 0.4
    true = (2 / np.sqrt(3) * 0.25 * 0.4) ** 2
    found = [Audit(np.full(60, 0.5), rng.random(60) < chance, X) for _ in range(300)]
    values = np.array([audit.theory.dsmcal() for audit in found])
    error = 4 * values.std() / np.sqrt(300)
    assert values.mean() - true > -error
    assert values.mean() - true < found[0].theory.noise("smcal").mean / 60 + error
    assert np.mean([audit.theory.saerr() for audit in found]) > 0.25**2 * 0.9


@pytest.mark.parametrize("values", [30, 700, 5000])
def test_the_smallest_hashes_are_kept_however_many_rows_come_at_once(values: int) -> None:
    rng = np.random.default_rng(0)
    p = rng.integers(0, values, 4000) / values
    batch = AuditRows.check(p, rng.random(4000) < p)
    found = RowSample(1)
    found.capacity = 300
    found.add(batch)
    assert found.rows is not None
    labels: dict[str, Any] = {}
    hashes, counts = np.unique(_hash_batch(batch, labels)[0], return_counts=True)
    np.testing.assert_array_equal(found.rows.hashes, hashes[:300])
    np.testing.assert_array_equal(found.rows.copies, counts[:300])
    assert found.complete == (len(hashes) <= 300)
