from dataclasses import replace

import numpy as np
import pytest

from swapcal import Forecaster, bounds, errors
from swapcal.batch import History, Mixture, Snapshot, Stream, stratified
from swapcal.batch.mixture import widened
from tests.chance import seeded


def rows(n, dim, seed=0, noise=0.0):
    rng = np.random.default_rng(seeded(seed))
    X = rng.normal(size=(n, dim))
    X *= np.sqrt(0.75) / np.linalg.norm(X, axis=1)[:, None]
    X[:, 0] = 0.5
    slope = rng.normal(size=dim)
    slope[0] = 0.0
    truth = np.clip(0.5 + 0.8 * X @ slope / np.linalg.norm(slope), 0.02, 0.98)
    truth = np.where(rng.random(n) < noise, 1 - truth, truth)
    return X, (rng.random(n) < truth).astype(float), truth


@pytest.fixture(scope="module")
def logged():
    return log_a_stream()


def log_a_stream():
    X, y, _ = rows(1500, 5)
    stream = Stream(5, log=True)
    means, kept = stream.run(X, y, at=np.array([0, 7, 800, 1499]))
    return X, y, stream, means, kept


@pytest.mark.parametrize("levels", ["adaptive", 12])
def test_a_stream_is_the_forecaster(levels):
    X, y, _ = rows(3000, 6)
    stream, forecaster = Stream(6, levels=levels), Forecaster(6, levels=levels)
    means, _ = stream.run(X, y)
    assert np.array_equal(means, forecaster.run(X, y).mean)
    assert stream.certificate() == replace(forecaster.certificate(), issued=None), "a fit issues no levels"


def crossings(snapshot, X):
    gaps = np.clip(X @ snapshot.theta.T, 0, 1) - snapshot.z
    return ((gaps[:, :-1] >= 0) & (gaps[:, 1:] <= 0)).sum(axis=1)


def test_a_snapshot_is_the_frozen_forecaster_even_where_several_crossings_exist():
    X, y, _ = rows(4000, 24, noise=0.3)
    stream, forecaster = Stream(24, kappa=0.02), Forecaster(24, kappa=0.02)
    stream.run(X, y)
    forecaster.run(X, y)
    fresh, _, _ = rows(5000, 24, seed=9)
    snapshot = stream.snapshot()
    assert (crossings(snapshot, fresh) > 1).sum() > 100
    mixture, live = Mixture.of([snapshot]), forecaster.predict_many(fresh)
    assert np.abs(mixture.mean(fresh) - live.mean).max() < 1e-12
    issued = mixture.issue(fresh, np.arange(5000, dtype=np.uint64))
    assert np.array_equal(issued.low, live.low)
    assert np.array_equal(issued.high, live.high)


def test_history_holds_every_forecaster(logged):
    _, _, stream, _, kept = logged
    history = stream.history()
    for t, snapshot in zip([0, 7, 800, 1499], kept, strict=True):
        found = history.snapshot(t)
        assert np.array_equal(found.z, snapshot.z)
        assert np.array_equal(found.theta, snapshot.theta)
    assert len(history.theta) <= 3 * history.rounds + 2


def test_online_forecasts_are_those_of_the_logged_forecasters(logged):
    X, _, stream, means, _ = logged
    history = stream.history()
    for t in range(0, 1500, 97):
        assert abs(Mixture.of([history.snapshot(t)]).mean(X[t : t + 1])[0] - means[t]) < 1e-12


def test_history_in_pieces_is_the_history_at_once():
    X, y, _ = rows(700, 3)
    whole, pieces = Stream(3, log=True), Stream(3, log=True)
    whole.run(X, y)
    for part in (slice(0, 1), slice(1, 300), slice(300, 700)):
        pieces.run(X[part], y[part])
    for name in ("theta", "slot", "row", "z", "rounds"):
        assert np.array_equal(getattr(whole.history(), name), getattr(pieces.history(), name))


def test_exact_mean_and_draw_agree_with_all_snapshots_together(logged):
    X, _, stream, _, _ = logged
    history = stream.history()
    mixture = Mixture.of([history.snapshot(t) for t in range(history.rounds)])
    assert len(mixture.pool) <= len(history.theta)
    Q, keys = X[:40], np.random.default_rng(1).integers(0, 2**63, 40).astype(np.uint64)
    assert np.abs(mixture.mean(Q) - history.mean(Q)).max() < 1e-12
    for a, b in zip(mixture.issue(Q, keys, 5), history.issue(Q, keys, 5), strict=True):
        assert np.abs(a - b).max() < 1e-12


@pytest.mark.statistical
def test_snapshots_are_unbiased(logged):
    X, _, stream, _, _ = logged
    history = stream.history()
    Q = X[:20]
    found = np.array([history.snapshots(8, np.random.default_rng(seeded(seed))).mean(Q) for seed in range(60)])
    error = np.abs(found.mean(axis=0) - history.mean(Q)) / (found.std(axis=0) / np.sqrt(60) + 1e-12)
    assert error.max() < 5.5


@pytest.mark.statistical
def test_stratified_rounds_are_uniform():
    rng = np.random.default_rng(seeded(0))
    counts = np.bincount(np.concatenate([stratified(3, 10, rng) for _ in range(8000)]), minlength=10)
    assert np.abs(counts / 2400 - 1).max() < 0.1


@pytest.mark.statistical
def test_issued_levels_average_to_the_mean(logged):
    X, _, stream, _, _ = logged
    mixture = stream.history().snapshots(16, np.random.default_rng(seeded(0)))
    x = np.repeat(X[:1], 200_000, axis=0)
    issued = mixture.issue(x, np.arange(200_000, dtype=np.uint64), seed=3)
    assert abs(issued.p.mean() - mixture.mean(X[:1])[0]) < 0.004
    assert abs(np.mean((1 - issued.weight) * issued.low + issued.weight * issued.high) - issued.p.mean()) < 0.004


@pytest.mark.statistical
def test_the_issued_mixture_gets_swap_multicalibrated_as_rows_grow():
    """DSMCal_2 of the drawn levels, on fresh contexts and with true probabilities, falls at least like T^{-1/2}."""
    fresh, _, truth = rows(60_000, 4, seed=0)
    found = []
    for n in (500, 16_000):
        stream = Stream(4)
        X, y, _ = rows(60_000, 4, seed=0)
        order = np.random.default_rng(seeded(n)).permutation(60_000)[:n]
        _, kept = stream.run(X[order], y[order], at=stratified(48, n, np.random.default_rng(seeded(0))))
        p = Mixture.of(kept).issue(fresh, np.arange(60_000, dtype=np.uint64)).p
        _, code = np.unique(p, return_inverse=True)
        mass = np.bincount(code).astype(float)
        g = np.stack([np.bincount(code, (truth - p) * fresh[:, j]) for j in range(4)], axis=1)
        found.append(errors.smcal_linear(mass, g, 2) / 60_000)
    assert found[1] < found[0] / np.sqrt(16_000 / 500)


def test_weights_enter_every_sum_and_the_certificate_still_holds():
    X, y, _ = rows(3000, 4)
    weight = np.random.default_rng(1).exponential(size=3000) * 5
    stream = Stream(4)
    stream.run(X, y, weight)
    certificate = stream.certificate()
    assert certificate.holds()
    assert certificate.theorem is None
    assert abs(stream._forecaster._state.mass.sum() - weight.sum()) < 1e-6


def test_a_row_of_weight_zero_teaches_nothing():
    X, y, _ = rows(400, 3)
    weight = np.ones(400)
    weight[::2] = 0.0
    stream, without = Stream(3), Stream(3)
    stream.run(X, y, weight)
    without.run(X[1::2], y[1::2])
    assert np.array_equal(stream.snapshot().theta, without.snapshot().theta)


@pytest.mark.parametrize("stubborn", [False, True])
def test_certificates_hold_from_any_prior_against_any_labels(stubborn):
    X, y, _ = rows(4000, 6)
    if stubborn:
        y = (X[:, 1] < 0).astype(float)
    prior = np.array([1.0, 1.5, 0, 0, 0.3, 0])
    stream = Stream(6, prior=prior)
    stream.run(X, y)
    assert stream.certificate().holds()


def test_a_true_prior_is_forecast_from_the_first_row():
    X, y, _ = rows(50, 3)
    prior = np.array([1.0, 0.4, -0.3])
    means, _ = Stream(3, levels=40, prior=prior).run(X, y)
    assert abs(means[0] - X[0] @ prior) < 1 / 40


def test_equal_learners_are_kept_once():
    theta = np.arange(6.0).reshape(3, 2)
    other = theta.copy()
    other[1] += 1
    levels = np.array([0.0, 0.5, 1.0])
    mixture = Mixture.of([Snapshot(levels, theta), Snapshot(levels, theta), Snapshot(levels, other)])
    assert mixture.pool.shape == (4, 4)
    assert len(mixture) == 3


def test_widened_rows_keep_their_values():
    X = np.arange(10.0).reshape(2, 5)
    assert widened(X).shape == (2, 8)
    assert np.array_equal(widened(X)[:, :5], X)
    assert not widened(X)[:, 5:].any()


def test_refusals(logged):
    _, _, stream, _, _ = logged
    with pytest.raises(ValueError, match="expected a round from 0 to 1499"):
        stream.history().snapshot(1500)
    with pytest.raises(ValueError, match="expected True at construction"):
        Stream(2).history()
    with pytest.raises(ValueError, match="expected at least one"):
        Mixture.of([])
    assert isinstance(stream.history(), History)


# Populations of finitely many contexts, whose errors are computed, not estimated.


def population(count, dim, seed):
    """Equally likely contexts, and how often each one's outcome is 1: no function of them that a line could follow."""
    rng = np.random.default_rng(seeded(seed))
    atoms = rng.normal(size=(count, dim))
    atoms *= np.sqrt(0.75) / np.linalg.norm(atoms[:, 1:], axis=1, keepdims=True)
    atoms[:, 0] = 0.5
    return atoms, rng.random(count)


def drawn(atoms, truth, n, seed):
    rng = np.random.default_rng(seeded(seed))
    k = rng.integers(len(atoms), size=n)
    return atoms[k], (rng.random(n) < truth[k]).astype(float)


def error(levels, shares, atoms, truth, power=2):
    """DSMCal of a predictor that issues level v for context a with probability shares[a, v], pooled over contexts."""
    weights = shares / len(atoms)
    g = np.einsum("av,av,ad->vd", weights, truth[:, None] - levels, atoms)
    return errors.smcal_linear(weights.sum(axis=0), g, power)


def agnostic(levels, shares, atoms, truth):
    """SAErr against F_4^lin."""
    weights = shares / len(atoms)
    g = np.einsum("av,av,ad->vd", weights, truth[:, None] - levels, atoms)
    G = np.einsum("av,ad,ae->vde", weights, atoms, atoms)
    return float(errors.swap_regret(levels, g, G)[0].sum())


def as_shares(levels, p):
    return (p[:, None] == levels).astype(float)


def snapshot_shares(history, rounds, levels, atoms):
    found = np.zeros((len(atoms), len(levels)))
    for t in rounds:
        issued = Mixture.of([history.snapshot(int(t))]).issue(atoms, np.zeros(len(atoms), np.uint64))
        for level, weight in ((issued.low, 1 - issued.weight), (issued.high, issued.weight)):
            found[np.arange(len(atoms)), np.searchsorted(levels, level)] += weight / len(rounds)
    return found


@pytest.mark.statistical
def test_shares_are_those_of_all_snapshots_and_of_many_draws():
    atoms, truth = population(5, 3, 0)
    stream = Stream(3, kappa=1e-4, log=True)
    stream.run(*drawn(atoms, truth, 900, 1))
    history = stream.history()
    levels, shares = history.shares(atoms)
    assert len(levels) > 20  # more than the seventeen at the start
    assert np.abs(shares.sum(axis=1) - 1).max() < 1e-12
    assert np.abs(shares - snapshot_shares(history, range(900), levels, atoms)).max() < 1e-12
    assert np.abs(shares @ levels - history.mean(atoms)).max() < 1e-12
    issued = history.issue(np.repeat(atoms, 20_000, axis=0), np.arange(100_000, dtype=np.uint64)).p
    often = np.array([as_shares(levels, p).mean(axis=0) for p in issued.reshape(5, -1)])
    assert np.abs(often - shares).max() < 0.02


def test_only_the_mixture_of_all_rounds_has_the_errors_of_the_theorem():
    """T = 4,000, d = 3, twelve contexts: DSMCal_2 of all rounds, of 16 snapshots, of one draw for each context."""
    found = []
    for seed in range(10):
        atoms, truth = population(12, 3, seed)
        stream = Stream(3, log=True)
        stream.run(*drawn(atoms, truth, 4000, 100 + seed))
        history, rng = stream.history(), np.random.default_rng(seed)
        levels, shares = history.shares(atoms)
        some = [snapshot_shares(history, stratified(16, 4000, rng), levels, atoms) for _ in range(40)]
        keys = np.arange(12, dtype=np.uint64)
        one = [as_shares(levels, history.issue(atoms, keys, seed=draw).p) for draw in range(10)]
        keyed = history.issue(np.repeat(atoms, 2000, axis=0), np.arange(24_000, dtype=np.uint64)).p
        apart = np.array([as_shares(levels, p).mean(axis=0) for p in keyed.reshape(12, -1)])
        each = np.array([error(levels, one_of, atoms, truth) for one_of in (shares, *some, *one, apart)])
        found.append([each[0], each[1:41].mean(), each[41:51].mean(), each[51]])
    whole, some, one, apart = np.mean(found, axis=0)
    assert whole == pytest.approx(0.0029, abs=0.0001)
    assert some == pytest.approx(0.0034, abs=0.0002)
    assert one == pytest.approx(0.018, abs=0.001)
    assert apart < 1.1 * whole, "distinct keys give as many independent draws"


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("scene", ["any", "halfway", "sure"])
def test_populations_keep_the_theorem_on_self_refining_levels_and_a_forecaster_that_learns_nothing_breaks_it(
    scene, dim
):
    """At κ = 50 the bound is low enough, after 400,000 rows, to refute a forecaster that always issues one level."""
    rows, kappa, delta = 400_000, 50.0, 0.5
    atoms, truth = population(6, max(dim, 2), 7)
    atoms = atoms[:, :dim]
    if scene == "halfway":  # where rounding is dearest
        truth = (np.arange(6) + 4.5) / 16
    if scene == "sure":
        truth = np.array([0.0, 0, 1, 1, 1, 1])
    stream = Stream(dim, kappa=kappa, log=True)
    stream.run(*drawn(atoms, truth, rows, 8))
    history = stream.history()
    levels, shares = history.shares(atoms)
    square, first, regret, omni = (
        float(bound(rows, dim, delta, kappa))
        for bound in (bounds.adaptive_dsmcal2, bounds.adaptive_dsmcal1, bounds.adaptive_saerr, bounds.adaptive_dsomni)
    )
    assert len(levels) <= float(bounds.adaptive_levels(rows, dim, kappa))
    assert error(levels, shares, atoms, truth) <= square
    assert error(levels, shares, atoms, truth, 1) <= first
    assert 2 * error(levels, shares, atoms, truth, 1) <= omni
    assert agnostic(levels, shares, atoms, truth) <= regret
    stuck = as_shares(levels, np.zeros(6))
    assert error(levels, stuck, atoms, np.maximum(truth, 0.6)) > square
    assert agnostic(levels, stuck, atoms, np.maximum(truth, 0.6)) > regret
