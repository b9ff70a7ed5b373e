"""Compiled and interpreted, the engine computes the same: the same source, without the compiler."""

from __future__ import annotations

import numpy as np
import pytest

from swapcal import Forecaster
from tests.checks import COMBINATIONS, NAMES, build, stream
from tests.fresh import python

ROWS, DIM = 24, 5
FIELDS = ("p", "mean", "low", "high", "weight")


def outcome(combination: tuple[str, str, str]) -> np.ndarray:
    """Return all that a short run shows: forecasts, then the certificate's numbers, then the learners."""
    X, y = stream(ROWS, DIM, seed=3)
    forecaster = build(combination, DIM, kappa=0.02, seed=8)
    late = forecaster.predict(X[0])
    forecasts = forecaster.run(X, y)
    forecaster.update(late, y[0])
    certificate, used = forecaster.certificate(), len(forecaster.levels)
    shown = [getattr(forecasts, name) for name in FIELDS]
    proved = [certificate.psmcal_1, certificate.psmcal_2, certificate.psreg, certificate.rounding]
    assert certificate.issued is not None
    proved += [certificate.issued.smcal_1, certificate.issued.smcal_2, certificate.issued.somni, certificate.issued.cal]
    names = ("theta", "factor", "scale", "drawn_mass", "drawn_residual")
    learned = [getattr(forecaster._state, name)[:used].ravel() for name in names]
    return np.concatenate([*shown, proved, *learned])


def many_groups() -> np.ndarray:
    """Return what a run with groups and scores shows, one of whose levels is rescaled on the way."""
    rng = np.random.default_rng(4)
    X, y, s = rng.integers(-1, 9, (ROWS, 2)), rng.random(ROWS) < 0.4, rng.random((ROWS, 1))
    forecaster = Forecaster.sparse(2, scores=1, levels=4)
    forecasts = forecaster.run(X, y, scores=s, weights=np.where(np.arange(ROWS) % 5, 1.0, 60.0))
    proved = [value for value in forecaster.certificate().as_dict().values() if value is not None]
    return np.concatenate([*(getattr(forecasts, name) for name in FIELDS), proved])


def log_loss() -> np.ndarray:
    """Return what a run for log loss shows."""
    rng = np.random.default_rng(5)
    forecaster = Forecaster.log_loss(3, levels=6)
    forecasts = forecaster.run(rng.random((ROWS, 3)), rng.random(ROWS) < 0.1)
    return np.concatenate(
        [*(getattr(forecasts, name) for name in FIELDS), [*forecaster.certificate().as_dict().values()]]
    )


OTHERS = {"sparse": many_groups, "log loss": log_loss}


def write(path: str) -> None:
    """Save the outcome of every combination; what the interpreted process runs."""
    found = {name: outcome(c) for name, c in zip(NAMES, COMBINATIONS, strict=True)}
    np.savez(path, **found, **{name: run() for name, run in OTHERS.items()})


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    path = tmp_path_factory.mktemp("jit") / "outcomes.npz"
    python(f"from tests.test_forecaster_jit import write; write({str(path)!r})", NUMBA_DISABLE_JIT="1")
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


@pytest.mark.parametrize("name", NAMES)
def test_compiled_and_interpreted_agree(interpreted, name):
    compiled = outcome(COMBINATIONS[NAMES.index(name)])
    assert compiled.shape == interpreted[name].shape
    np.testing.assert_allclose(compiled, interpreted[name], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_engines_agree_too(interpreted, name):
    np.testing.assert_allclose(OTHERS[name](), interpreted[name], rtol=1e-9, atol=1e-9)
