"""Rows that belong together: sums with signs for clusters, however rows are split, and honest p-values from them."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import rankdata

from swapcal import Audit
from swapcal.archive import ArchiveError
from swapcal.audit import Comparison
from swapcal.audit import clusters as room
from swapcal.audit.clusters import (
    LEAST_CLUSTERS,
    NONE,
    ClusterSums,
    SignedTerms,
    cluster_keys,
    distinct,
    in_windows,
    looks_clustered,
)
from swapcal.audit.curves import intervals
from swapcal.audit.difference import (
    MASS,
    MASS2,
    ROWS,
    Pairs,
    SignedRanges,
    _cluster_parts,
    _contrasts,
    differences,
    group_differences,
)
from swapcal.audit.intervals import _windows, gap_intervals
from swapcal.audit.state import file_fields, state_of
from swapcal.kernels.tally import SCALARS, add_groups, fill_signs
from swapcal.tables.frame import Table, categories


def together(rng, clusters, size, rate=0.3, shared=0.5):
    """Return forecasts that are right, and outcomes of clusters that share a Gaussian factor."""
    cluster = np.repeat(np.arange(clusters), size)
    p = 1 / (1 + np.exp(-rng.normal(np.log(rate / (1 - rate)), 0.8, len(cluster))))
    factor = np.sqrt(shared) * rng.normal(size=clusters)[cluster] + np.sqrt(1 - shared) * rng.normal(size=len(cluster))
    frame = {
        "p": p,
        "y": (ndtr(factor) < p).astype(float),
        "patient": cluster,
        "ward": rng.choice(list("abcdefgh"), clusters)[cluster],
        "age": rng.uniform(18, 90, clusters)[cluster],
        "value": np.where(rng.random(len(cluster)) < 0.1, np.nan, rng.normal(size=len(cluster))),
    }
    order = rng.permutation(len(cluster))
    return {name: column[order] for name, column in frame.items()}


COLUMNS = {"prob": "p", "target": "y", "features": ["age", "value"], "groups": ["ward"], "clusters": "patient"}


def rows_of(frame, index):
    return {name: column[index] for name, column in frame.items()}


def signs_of(keys, draws):
    signs = np.empty((len(keys), draws), np.int8)
    fill_signs(keys, signs)
    return signs.astype(float)


def test_signed_sums_are_those_of_the_definition():
    frame = together(np.random.default_rng(0), 60, 5)
    audit = Audit.from_frame(frame, levels=5, **COLUMNS)
    g, S = audit.sums.tally.signed()
    keys = cluster_keys("patient", frame["patient"])
    signs = signs_of(keys, len(g))
    one = dict(zip(keys.tolist(), signs, strict=True))
    assert all((one[key] == sign).all() for key, sign in zip(keys.tolist(), signs, strict=True))
    assert abs(signs.mean()) < 0.02
    level, X = audit.levels.index(frame["p"]), audit.encoder.encode(_table(frame))
    residual = frame["y"] - frame["p"]
    for v in range(5):
        inside = level == v
        expected = np.einsum("tb,t,td->bd", signs[inside], residual[inside], X[inside])
        np.testing.assert_allclose(g[:, v], expected, atol=1e-12)
        wards = [(inside & (frame["ward"] == ward)) for ward in "abcdefgh"]
        sums = np.array([signs[member].T @ residual[member] for member in wards]).T
        np.testing.assert_allclose(S[:, v, :8], sums, atol=1e-12)
    np.testing.assert_allclose(S[:, :, 8:17].sum(axis=2), 2 * g[:, :, 0], atol=1e-12)  # bins of age split all rows


def _table(frame):
    return Table({name: frame[name] for name in ("age", "value")})


def test_the_mean_square_over_signs_is_the_variance_between_clusters():
    rng = np.random.default_rng(1)
    frame = together(rng, 300, 10)
    audit = Audit.from_frame(frame, **COLUMNS)
    residual = frame["y"] - frame["p"]
    between = float((np.bincount(frame["patient"], weights=residual) ** 2).sum())
    coins = float((frame["p"] * (1 - frame["p"])).sum())
    assert audit.evidence.inflation == pytest.approx(between / coins, rel=0.25)
    assert between / coins > 3
    drawn = 2 * audit.sums.tally.signed()[0][:, :, 0].sum(axis=1)
    literal = (residual.sum() ** 2 + (drawn**2).sum()) / (1 + len(drawn))
    assert audit.evidence.inflation == pytest.approx(literal / coins, rel=1e-9)
    alone = Audit.from_frame({**frame, "patient": np.arange(3000)}, **COLUMNS)
    assert alone.evidence.inflation == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("values", [None, [0.1, 0.25, 0.4]], ids=["intervals", "values"])
def test_parts_in_any_split_and_order_give_the_same_sums(values):
    rng = np.random.default_rng(2)
    frame = together(rng, 100, 12)
    if values is not None:
        frame["p"] = rng.choice(values, len(frame["p"]))
    whole = Audit.from_frame(frame, **COLUMNS)
    added = Audit.from_frame(rows_of(frame, slice(0, 7)), like=whole, **COLUMNS)
    added.add(rows_of(frame, slice(7, 500)))
    added.add(rows_of(frame, slice(500, None)))
    cuts = [0, 400, 401, 1200]
    shuffled = rows_of(frame, rng.permutation(1200))
    parts = [Audit.from_frame(rows_of(shuffled, slice(a, b)), like=whole, **COLUMNS) for a, b in pairwise(cuts)]
    for other in (added, parts[2] + (parts[0] + parts[1])):
        for mine, theirs in zip(whole.sums.tally.signed(), other.sums.tally.signed(), strict=True):
            np.testing.assert_allclose(theirs, mine, atol=1e-10)
        for mine, theirs in zip(whole.sums.tally.least(), other.sums.tally.least(), strict=True):
            np.testing.assert_array_equal(theirs, mine)
        assert other.sums.tally.clusters.clusters == 100
        assert other.test().p_value == whole.test().p_value


def test_saved_and_loaded_it_goes_on(tmp_path):
    rng = np.random.default_rng(3)
    frame = together(rng, 80, 5)
    whole = Audit.from_frame(frame, **COLUMNS)
    first = Audit.from_frame(rows_of(frame, slice(0, 100)), like=whole, **COLUMNS)
    first.save(tmp_path / "a.audit")
    loaded = Audit.load(tmp_path / "a.audit")
    loaded.add(rows_of(frame, slice(100, None)))
    np.testing.assert_allclose(loaded.sums.tally.signed()[1], whole.sums.tally.signed()[1], atol=1e-10)
    assert loaded.to_findings().headline == whole.to_findings().headline
    arrays, settings = state_of(whole.sums, "", 0)
    shapes = {name: array.shape for name, array in arrays.items()}
    assert set(file_fields(settings, shapes)) == set(arrays)
    settings["clusters"]["tables"] = settings["clusters"]["tables"][1:]
    with pytest.raises(ArchiveError, match="clusters: given tables"):
        file_fields(settings, shapes)


def test_true_forecasts_of_clusters_are_condemned_at_the_level():
    """A small run of experiments/audit_level.py: 5 % of 60 files are 3; without clusters four in five are condemned."""
    named, alone = 0, 0
    for seed in range(60):
        frame = together(np.random.default_rng([5, seed]), 150, 20)
        named += Audit.from_frame(frame, levels=10, **COLUMNS).test().p_value <= 0.05
        if seed < 15:
            alone += Audit.from_frame(frame, levels=10, **COLUMNS | {"clusters": None}).test().p_value <= 0.05
    assert named <= 8  # probability 0.002 at a level of 5 %
    assert alone >= 10


def test_an_error_of_a_group_is_found_despite_clusters():
    found = 0
    for seed in range(10):
        frame = together(np.random.default_rng([6, seed]), 1000, 4)
        frame["y"] = np.where(frame["ward"] == "c", np.maximum(frame["y"], np.arange(4000) % 4 == 0), frame["y"])
        audit = Audit.from_frame(frame, levels=10, **COLUMNS)
        found += audit.findings(1)[0].name == "ward = c" and audit.test().p_value <= 0.05
    assert found >= 9


def test_intervals_of_gaps_and_scores_cover_under_clusters():
    covered = {"gap": 0, "brier": 0, "auc": 0}
    truth = _truth()
    for seed in range(60):
        frame = together(np.random.default_rng([7, seed]), 150, 20)
        audit = Audit.from_frame(frame, prob="p", target="y", clusters="patient", levels=20)
        found = intervals(audit.sums)
        gap = audit.evidence.sizes.window(-1)
        covered["gap"] += gap.low[0] <= 0 <= gap.high[0]
        covered["brier"] += found["brier_low"] <= truth[0] <= found["brier_high"]
        covered["auc"] += found["auc_low"] <= truth[1] <= found["auc_high"]
    assert min(covered.values()) >= 51  # of 60; 57 expected; rows taken to be independent cover some 30 gaps


def test_errors_of_scores_are_those_of_leaving_out_one_cluster_at_a_time():
    rng = np.random.default_rng(20)
    frame = rows_of(together(rng, 150, 12), slice(0, 1200))  # clusters of different sizes
    audit = Audit.from_frame(frame, prob="p", target="y", clusters="patient")
    found = intervals(audit.sums)
    left = [frame["patient"] != k for k in np.unique(frame["patient"])]
    squares = (frame["y"] - frame["p"]) ** 2
    for name, each in (
        ("brier", [squares[kept].mean() for kept in left]),
        ("auc", [_area(frame["p"][kept], frame["y"][kept]) for kept in left]),
    ):
        error = np.sqrt((len(left) - 1) * np.var(each))
        assert (found[f"{name}_high"] - found[f"{name}_low"]) / 2 / 1.96 == pytest.approx(error, rel=0.15)


def _area(p, y):
    ranks, ones = rankdata(p), y.sum()
    return float((ranks[y > 0].sum() - ones * (ones + 1) / 2) / (ones * (len(y) - ones)))


def _truth():
    frame = together(np.random.default_rng(8), 400_000, 1)
    return float(np.mean((frame["y"] - frame["p"]) ** 2)), _area(frame["p"], frame["y"])


def test_groups_of_few_clusters_are_not_tested_and_named():
    rng = np.random.default_rng(9)
    frame = together(rng, 200, 20)
    frame["ward"] = np.where(frame["patient"] < 12, "few", "many")
    frame["y"] = np.where(frame["ward"] == "few", 1.0, frame["y"])
    audit = Audit.from_frame(frame, **COLUMNS)
    rows = {row.name: row for row in audit.group_table()}
    assert rows["ward = few"].small
    assert rows["ward = few"].clusters == 12
    assert rows["ward = few"].p_value is None
    assert rows["ward = many"].clusters is None
    assert not rows["ward = many"].small
    notes = " ".join(audit.to_findings().notes)
    assert "200 clusters" in notes
    assert f"fewer than {LEAST_CLUSTERS}" in notes
    apart = together(rng, 200, 50, shared=0.0)  # enough events, and no variance between clusters
    apart["ward"] = np.where(apart["patient"] < 29, "few", "many")
    rows = {row.name: row for row in Audit.from_frame(apart, **COLUMNS).group_table()}
    assert (rows["ward = few"].small, rows["ward = few"].clusters) == (True, 29)
    tiny = Audit.from_frame(together(rng, 20, 100), **COLUMNS)
    assert tiny.verdict().word == "undecided"
    assert "20 clusters only" in tiny.verdict().warnings[0]


def test_clusters_widen_intervals_of_residuals_that_spread_beyond_a_shift():
    sums = np.zeros((1, SCALARS))
    p, y = np.tile([0.02, 0.98], 500), np.tile([0.6, 0.4], 500)  # every row far off, to either side
    add_groups(np.zeros(1000, np.int32), np.zeros(1000, np.int32), p, y, np.ones(1000), sums[None])
    once, four = (gap_intervals(sums, np.array([2.0]), coins) for coins in (1.0, 4.0))
    assert once[2] - once[1] == pytest.approx(2 * 2 * 0.58 / np.sqrt(1000), rel=1e-6)
    assert four[2] - four[1] == pytest.approx(2 * (once[2] - once[1]))
    assert four[4] == pytest.approx(once[4] / 2)


def test_counts_of_windows_are_those_of_sets():
    rng = np.random.default_rng(10)
    for levels in (1, 2, 3, 7, 8):
        sums = ClusterSums(levels, 1)
        level, keys = rng.integers(0, levels, 300).astype(np.int32), rng.integers(0, 50, 300).astype(np.uint64)
        code = rng.integers(0, 3, 300)
        sums.add(level, keys, {"a": SignedTerms.coded(3, code[:, None], np.ones(300))})
        counts, windows = in_windows(sums.least["a"]), _windows(levels)
        assert counts.shape == (len(windows), 3)
        for w, (first, last) in enumerate(windows):
            for k in range(3):
                inside = (level >= first) & (level <= last) & (code == k)
                assert counts[w, k] == min(len(np.unique(keys[inside])), LEAST_CLUSTERS)
    assert sums.clusters == len(np.unique(keys))
    both = distinct(np.array([1, 5, NONE], np.uint64), np.array([1, 2, 3], np.uint64))
    assert both.tolist() == [1, 2, 3]


def test_many_clusters_are_counted_approximately():
    sums = ClusterSums(1, 1)
    keys = cluster_keys("id", np.arange(20_000))
    sums.add(np.zeros(len(keys), np.int32), keys, {})
    assert sums.clusters == pytest.approx(20_000, rel=0.12)


def test_memory_is_bounded_by_dropping_draws_then_refused(monkeypatch):
    rng = np.random.default_rng(11)
    frame = together(rng, 100, 6)
    whole = Audit.from_frame(frame, levels=10, **COLUMNS)
    cells = 10 * sum(table.shape[1] for table in whole.sums.tally.clusters.signed.values())
    monkeypatch.setattr(room, "MOST_ENTRIES", 250 * cells)
    less = Audit.from_frame(frame, levels=10, like=whole, **COLUMNS)
    assert less.sums.tally.clusters.draws == 250
    np.testing.assert_allclose(less.sums.tally.signed()[0], whole.sums.tally.signed()[0][:250], atol=1e-12)
    joined = whole + less
    assert joined.sums.tally.clusters.draws == 250
    monkeypatch.setattr(room, "MOST_ENTRIES", 199 * cells)
    least = Audit.from_frame(frame, levels=10, like=whole, **COLUMNS)
    before = least.sums.tally.signed()[1].copy()
    more = {**frame, "ward": np.char.add(frame["ward"].astype(str), "x")}
    with pytest.raises(ValueError, match="clusters: given 10 levels times"):
        least.add(more)
    assert least.rows == 600
    np.testing.assert_array_equal(least.sums.tally.signed()[1], before)


def test_ids_are_the_same_as_text_and_number_and_must_be_there():
    np.testing.assert_array_equal(cluster_keys("c", [1, 2, 1.0]), cluster_keys("c", ["1", "2", "1"]))
    with pytest.raises(ValueError, match="clusters: given no id in row 2"):
        Audit([0.5, 0.5], [0, 1], clusters=["a", None])
    with pytest.raises(ValueError, match="clusters: given 1 rows, expected 2"):
        Audit([0.5, 0.5], [0, 1], clusters=["a"])
    audit = Audit([0.5, 0.5], [0, 1], clusters=["a", "b"])
    with pytest.raises(ValueError, match="clusters: given none, expected some"):
        audit.add(p=[0.5], y=[1])
    with pytest.raises(ValueError, match="clusters: given none, expected some"):
        audit + Audit([0.5], [1])


def test_only_columns_by_which_rows_go_together_look_like_ids():
    rng = np.random.default_rng(21)
    apart, joined = together(rng, 300, 6, shared=0.0), together(rng, 300, 6)
    names = ["patient", "ward", "age", "value"]
    assert looks_clustered(Table(apart), names, apart["p"], apart["y"]) is None
    assert looks_clustered(Table(joined), names, joined["p"], joined["y"]) == "patient"
    assert Audit.from_frame(joined, **COLUMNS | {"clusters": None}).verdict().warnings[0].startswith("Outcomes of rows")
    assert not Audit.from_frame(joined, **COLUMNS).verdict().warnings
    shifted = np.clip(apart["p"] - 0.15, 0.01, 1)  # wrong everywhere, and not by patient
    assert looks_clustered(Table(apart), names, shifted, apart["y"]) is None


def test_a_column_of_few_frequent_values_is_no_id() -> None:
    """Diagnoses of different risk go together like patients, but most rows have one of a few."""
    rng = np.random.default_rng(0)
    diagnosis = np.minimum(
        rng.geometric(0.02, 20_000) // 2 + rng.integers(0, 2, 20_000) * rng.integers(0, 400, 20_000), 450
    )
    diagnosis[rng.random(20_000) < 0.4] = 7
    y = (rng.random(20_000) < rng.random(451)[diagnosis]).astype(float)
    patient = np.repeat(np.arange(10_000), 2)
    together = (rng.random(10_000) < 0.5).astype(float)[patient]
    p = np.full(20_000, 0.5)
    table = Table({"diagnosis": diagnosis, "patient": patient})
    assert looks_clustered(table, ["diagnosis"], p, y) is None
    assert looks_clustered(table, ["diagnosis", "patient"], p, together) == "patient"


# The batch predictor: folds keep clusters whole.


@pytest.fixture(scope="module")
def repeated():
    """Rows of 200 customers, six each, with the customer's own rate visible in a feature that is noise to others."""
    rng = np.random.default_rng(12)
    customer = np.repeat(np.arange(200), 6)
    X = np.column_stack([rng.normal(size=200)[customer], 1e-3 * rng.normal(size=1200)])
    y = (rng.random(1200) < 1 / (1 + np.exp(-rng.normal(0, 2, 200)[customer]))).astype(int)
    return X, y, customer


def test_folds_of_the_model_keep_clusters_whole(repeated, monkeypatch):
    pytest.importorskip("sklearn")
    from swapcal import SwapClassifier
    from swapcal.batch import model as room

    X, y, customer = repeated
    seen = []
    fit = room.Correction.fit.__func__
    monkeypatch.setattr(
        room.Correction, "fit", classmethod(lambda cls, *a, **k: seen.append(a[6]) or fit(cls, *a, **k))
    )
    SwapClassifier(random_state=0, correction="linear").fit(X, y, clusters=customer)
    assert seen
    for folds in seen:
        assert all(len(set(folds[customer == k])) == 1 for k in range(200))
        assert len(set(folds)) > 1


@pytest.mark.parametrize("name", ["GroupKFold", 4])
def test_the_estimator_is_cross_fitted_by_clusters(repeated, name):
    selection = pytest.importorskip("sklearn.model_selection")
    from sklearn.neighbors import KNeighborsClassifier

    from swapcal import SwapClassifier

    X, y, customer = repeated
    cv = getattr(selection, name)(4) if isinstance(name, str) else name
    folds = SwapClassifier(KNeighborsClassifier(1), cv=cv)._splits(X, y, customer)
    assert all(not set(customer[train]) & set(customer[test]) for train, test in folds)
    model = SwapClassifier(KNeighborsClassifier(5), cv=cv, random_state=0, correction="linear")
    model.fit(X, y, groups=customer.astype(str))
    honest, leaky = (
        np.corrcoef(model._cross_fit(X, y, None, ids)[:, 0], y)[0, 1] for ids in (customer, np.arange(1200))
    )
    assert honest < 0.15  # other customers tell nothing
    assert leaky > 0.3


def test_scikit_learn_routes_groups_to_fit(repeated):
    sklearn = pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_validate

    from swapcal import SwapClassifier

    X, y, customer = repeated
    with sklearn.config_context(enable_metadata_routing=True):
        model = SwapClassifier(LogisticRegression(), cv=GroupKFold(3), random_state=0, correction="linear")
        model.set_fit_request(groups=True)
        found = cross_validate(model, X, y, cv=GroupKFold(2), params={"groups": customer}, error_score="raise")
    assert len(found["test_score"]) == 2
    with pytest.raises(ValueError, match="clusters: given with groups"):
        SwapClassifier().fit(X, y, clusters=customer, groups=customer)
    with pytest.raises(ValueError, match="clusters: given 3 rows"):
        SwapClassifier().fit(X, y, clusters=[1, 2, 3])
    with pytest.raises(ValueError, match="clusters: given one only"):
        SwapClassifier().fit(X, y, clusters=np.zeros(1200))
    weight = (customer > 50).astype(float)
    SwapClassifier(random_state=0, correction="linear").fit(X, y, sample_weight=weight, clusters=customer)


# Two predictors of the same clusters.


def compared(frame, **given):
    q = np.clip(frame["p"] + 0.05 * np.sin(7 * frame["age"]), 0.01, 0.99)
    r = np.clip(frame["p"] - 0.05 * np.sin(7 * frame["age"]), 0.01, 0.99)
    table = {**frame, "q": q, "r": r}
    names = {"probs": ["q", "r"], "target": "y", "groups": ["ward"], "clusters": "patient"}
    return table, Comparison.from_frame(table, **names | given)


def pairs_of(frame, clusters):
    table = {"ward": categories(frame["ward"])}
    q, r = (np.clip(frame["p"] + way * np.sin(7 * frame["age"]), 0.01, 0.99) for way in (0.05, -0.05))
    pairs = Pairs()
    pairs.add(q, r, frame["y"], np.ones(len(q)), table, cluster_keys("c", clusters))
    return pairs, (frame["y"] - r) ** 2 - (frame["y"] - q) ** 2, frame["y"] - q, frame["y"] - r


def test_equally_good_predictors_of_clusters_are_not_told_apart():
    """Both err by as much, in other clusters: at 5 %, 3 of 60 files differ; taken row by row, a third do."""
    named, alone = np.zeros(4), np.zeros(4)
    for seed in range(60):
        frame = together(np.random.default_rng([13, seed]), 200, 15)
        for found, ids in ((named, frame["patient"]), (alone, None)):
            pairs = pairs_of(frame, ids)[0]
            found[:3] += [one.p_value <= 0.05 for one in differences(pairs)]
            found[3] += any(row.gap_p is not None and row.gap_p <= 0.05 for row in group_differences(pairs))
    assert (named <= 8).all()  # probability 0.002
    assert (alone[:2] >= 14).all()


def test_errors_of_differences_are_those_between_clusters():
    frame = together(np.random.default_rng(14), 300, 10)
    patient = frame["patient"]
    pairs, d, r, s = pairs_of(frame, patient)
    found = differences(pairs)[0]
    error = np.sqrt(np.sum(np.bincount(patient, weights=d - d.mean()) ** 2)) / len(d)
    assert (found.high - found.low) / 2 / 1.97 == pytest.approx(error, rel=0.2)
    cell = next(cell for name, cell in pairs.columns["ward"].each() if name == "b")
    total, inside = cell.sums.sum(axis=0), frame["ward"] == "b"
    signed = pairs.signed("ward", cell, pairs.columns["ward"].names.index("b")).signed
    apart, middle = _contrasts(total, total[MASS], total[MASS2], total[ROWS], signed)
    for one, part in ((apart, s - r), (middle, s + r)):
        centred = (part - part[inside].mean()) * inside
        error = np.sqrt(np.sum(np.bincount(patient, weights=centred) ** 2)) / inside.sum()
        assert one.error == pytest.approx(error, rel=0.25)
    assert signed.freedom < 199


def test_what_unrelated_ranges_share_is_nothing():
    rng = np.random.default_rng(19)
    signed = SignedRanges(rng.normal(size=(20, 2, 199)), rng.normal(size=(20, 2, 199)), 500)
    zeros, ones = np.zeros(20), np.ones(20)
    linear, own, shared = _cluster_parts(signed, zeros, zeros, ones, ones, 0.0)
    assert linear == 0.0
    assert own == pytest.approx([40.0, 40.0], rel=0.2)
    assert abs(shared) < 3.0  # five standard deviations; the squares of noise alone add up to 8
    slope = _cluster_parts(signed, ones, zeros, ones, ones, 0.0)[0]
    weight, r = signed.before[:, 0].sum(axis=0), signed.before[:, 1].sum(axis=0)
    assert slope == pytest.approx(np.mean((2 * r - weight) ** 2))


def test_calibration_losses_of_clusters_are_without_the_bias_of_noise():
    """True forecasts have no calibration loss; rows that go together would else seem to show some."""
    named, alone = [], []
    for seed in range(40):
        frame = together(np.random.default_rng([18, seed]), 150, 20)
        for found, ids in ((named, frame["patient"]), (alone, None)):
            pairs = Pairs()
            keys = cluster_keys("c", ids)
            pairs.add(frame["p"], frame["p"], frame["y"], np.ones(3000), {}, keys)
            found.append(differences(pairs)[2].before)
    assert abs(np.mean(named)) < 3 * np.std(named) / np.sqrt(40)
    assert np.mean(alone) > 2.5 * np.std(alone) / np.sqrt(40)


def test_comparisons_of_parts_add_up_with_their_clusters():
    frame, whole = compared(together(np.random.default_rng(16), 60, 8))
    order = np.random.default_rng(17).permutation(480)
    parts = [compared(rows_of(frame, order[a:b]))[1] for a, b in ((0, 100), (100, 480))]
    joined = parts[0] + parts[1]
    for mine, theirs in zip(whole.differences(), joined.differences(), strict=True):
        assert theirs.p_value == pytest.approx(mine.p_value, rel=1e-6)
    for mine, theirs in zip(whole.groups(), joined.groups(), strict=True):
        assert theirs.clusters == mine.clusters
        assert theirs.small
        assert mine.clusters < LEAST_CLUSTERS


def shared_fates(seed, clusters=120, size=12):
    """True forecasts of rare events that all rows of a cluster share."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 4, clusters)
    y = (rng.random(clusters) < p).astype(float)
    group = np.repeat(rng.choice(list("xyz"), clusters), size)
    ids = np.repeat(np.arange(clusters), size)
    return Audit(np.repeat(p, size), np.repeat(y, size), groups={"c": group}, clusters=ids)


def test_clusters_with_hardly_any_event_are_no_evidence():
    verdicts = [shared_fates(1000 + seed).verdict() for seed in range(20)]
    assert sum(verdict.p_value <= 0.05 for verdict in verdicts) <= 5
    assert all(verdict.low <= verdict.high for verdict in verdicts)


def test_intervals_around_one_forecast_need_independent_rows():
    with pytest.raises(ValueError, match="around: given an audit with clusters"):
        shared_fates(0).around(0.1)


def test_clusters_whose_residuals_cancel_make_no_variance_smaller_than_coins():
    n = 400
    frame = {"p": np.full(n, 0.5), "y": np.arange(n) % 2, "patient": np.arange(n) // 2}
    scan = Audit.from_frame(frame, prob="p", target="y", clusters="patient").evidence.scan
    assert (scan.inflation >= 1.0).all()


def test_a_group_needs_as_many_events_as_if_clusters_shared_their_outcomes():
    rng = np.random.default_rng(0)
    n, size = 4000, 50
    frame = {"p": np.full(n, 0.5), "y": rng.integers(0, 2, n), "patient": np.arange(n) // size}
    frame["group"] = np.where(np.arange(n) % size < 1, "few", "many")  # 20 events of its own, in 80 clusters
    audit = Audit.from_frame(frame, prob="p", target="y", groups=["group"], clusters="patient")
    assert {row.name: row.small for row in audit.evidence.group_table(0.02)} == {
        "group = few": True,
        "group = many": False,
    }
