import numpy as np
import pytest

from swapcal.baselines.batch import BATCH, HKRR, Linear, LSBoost, SwapAgnostic


@pytest.fixture(scope="module")
def overlapping():
    """Two overlapping groups whose bias adds; the cells' true means are known."""
    rng = np.random.default_rng(0)
    G = (rng.random((20_000, 2)) < 0.5).astype(float)
    p = rng.choice([0.35, 0.65], 20_000)
    truth = p + 0.2 * G[:, 0] - 0.15 * G[:, 1]
    return p, G, (rng.random(20_000) < truth).astype(float), truth


def cell_gaps(p, G, y, buckets):
    bucket = np.minimum((p * buckets).astype(int), buckets - 1)
    found = []
    for group in G.T:
        for b in range(buckets):
            rows = (group == 1) & (bucket == b)
            if rows.sum() >= 0.002 * len(p):
                found.append(abs(np.mean(y[rows] - p[rows])))
    return np.array(found)


def test_hkrr_leaves_no_violated_cell_and_recovers_the_truth(overlapping):
    p, G, y, truth = overlapping
    G = np.column_stack([np.ones(len(G)), G, G[:, 0] * G[:, 1]])
    assert cell_gaps(p, G, y, 10).max() > 0.1
    model = HKRR(alpha=0.01).fit(p, G, y)
    fixed = model.predict(p, G)
    assert cell_gaps(fixed, G, y, 10).max() <= 0.01
    assert np.mean((fixed - truth) ** 2) < 0.15 * np.mean((p - truth) ** 2)


def test_hkrr_patches_within_its_potential_bound(overlapping):
    p, G, y, _ = overlapping
    model = HKRR(alpha=0.05, gamma=0.01).fit(p, G, y)
    assert 0 < len(model.patches) <= 1 / (0.01 * 0.05**2)
    drop = np.mean((p - y) ** 2) - np.mean((model.predict(p, G) - y) ** 2)
    assert drop >= len(model.patches) * 0.01 * 0.05**2


def test_hkrr_leaves_the_truth_alone():
    p = np.full(1000, 0.5)
    y = np.tile([0.0, 1.0], 500)
    assert HKRR(alpha=0.01).fit(p, np.ones((1000, 1)), y).patches == []


def test_swap_agnostic_stops_with_every_level_below_alpha(overlapping):
    p, G, y, truth = overlapping
    model = SwapAgnostic(alpha=0.02).fit(p, G, y)
    fixed = model.predict(p, G)
    direction, share = model.correlations(fixed, model._contexts(G), y)
    assert np.linalg.norm(direction[share >= model.gamma], axis=1).max() <= 0.02
    assert np.mean((fixed - truth) ** 2) < 0.1 * np.mean((p - truth) ** 2)


def test_each_swap_agnostic_step_lowers_the_squared_error(overlapping):
    p, G, y, _ = overlapping
    model = SwapAgnostic(alpha=0.02).fit(p, G, y)
    q, C = p.copy(), model._contexts(G)
    for step in model.steps:
        before = np.mean((q - y) ** 2)
        share = np.mean(model._level(q) == step.level)
        model._apply(step, q, C)
        assert before - np.mean((q - y) ** 2) >= share * 0.02**2 * (1 - 1e-9)


def test_lsboost_with_linear_learner_is_exact_on_a_linear_truth():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (5000, 2))
    truth = 0.5 + 0.3 * X[:, 0] - 0.15 * X[:, 1]
    model = LSBoost("linear", levels=50).fit(np.full(5000, 0.5), X, truth)
    assert len(model.rounds) == 1
    assert np.abs(model.predict(np.full(5000, 0.5), X) - truth).max() <= 0.5 / 50 + 1e-6


def test_lsboost_with_trees_finds_a_step():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (8000, 2))
    truth = np.where(X[:, 0] > 0.2, 0.8, 0.2)
    y = (rng.random(8000) < truth).astype(float)
    model = LSBoost("tree").fit(np.full(8000, 0.5), X, y)
    assert np.mean(np.abs(model.predict(np.full(8000, 0.5), X) - truth)) < 0.05


def test_lsboost_keeps_no_round_that_does_not_help():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(4000, 5)), (rng.random(4000) < 0.5).astype(float)
    assert LSBoost("linear", tolerance=1e-3).fit(np.full(4000, 0.5), X, y).rounds == []


def test_a_linear_learner_predicts_a_row_the_same_alone_and_among_others():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1000, 23))
    model = Linear().fit(X, X @ rng.normal(size=23))
    together = model.predict(X)
    for size in (1, 2, 3, 7, 100):
        assert np.array_equal(np.concatenate([model.predict(X[k : k + size]) for k in range(0, 1000, size)]), together)


@pytest.mark.parametrize("name", sorted(BATCH))
def test_all_predict_what_they_fitted_and_refuse_bad_rows(name, overlapping):
    if name == "lsboost-tree":
        pytest.importorskip("sklearn")
    p, G, y, _ = overlapping
    model = BATCH[name]().fit(p, G, y)
    assert np.mean((model.predict(p, G) - y) ** 2) < np.mean((p - y) ** 2)
    assert np.array_equal(model.predict(p[:7], G[:7]), model.predict(p, G)[:7])
    for rows in ([0], [3], list(range(100, 111)), list(range(19, -1, -1))):
        assert np.array_equal(model.predict(p[rows], G[rows]), model.predict(p, G)[rows])
    with pytest.raises(ValueError, match="in row 1, expected numbers in"):
        model.fit(p + 1, G, y)
    with pytest.raises(ValueError, match="expected"):
        model.predict(p[:5], G)
