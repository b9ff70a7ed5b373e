"""What to run: systems × streams × dimensions × horizons × seeds."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from swapcal import bounds
from swapcal.baselines import GargIto, HuLuo
from swapcal.baselines.batch import HKRR, LSBoost
from swapcal.engine.forecaster import Forecaster

ONLINE, BATCH = "online", "batch"
WINDOW = 2000.0  # as `Live` has it

QUANTITIES = {
    ONLINE: ("PSReg", "PSMCal_2", "SMCal_2", "SMCal_1", "SReg", "SOmni"),
    BATCH: ("SAErr", "DSMCal_2", "DSMCal_1", "DSOmni"),
}


@dataclass(frozen=True)
class System:
    """Ways to make a forecaster for (dim, horizon, seed), and whose rate in `bounds.RATES` it should show.

    `batch` makes a forecaster to be frozen round by round; `table` makes, for (dim, samples), a model with
    ``fit(p, X, y)`` and ``predict(p, X)``.
    """

    label: str
    family: str
    online: Callable[[int, int, int], Any] | None = None
    batch: Callable[[int, int, int], Any] | None = None
    table: Callable[[int, int], Any] | None = None


def _uniform(dim: int, horizon: int, seed: int) -> Forecaster:
    return Forecaster(dim, levels=bounds.default_levels(horizon, dim), seed=seed)


def _paper(target: str) -> Callable[[int, int, int], Forecaster]:
    def make(dim: int, horizon: int, seed: int) -> Forecaster:
        n = bounds.default_levels(horizon, dim, target)
        return Forecaster(dim, levels=n, learner="ons", mixing="blum-mansour", seed=seed)

    return make


def _ridge(dim: int, horizon: int, seed: int) -> Forecaster:
    n = bounds.default_levels(horizon, dim)
    return Forecaster(dim, levels=n, learner="ridge", mixing="blum-mansour", seed=seed)


def _adaptive(dim: int, horizon: int, seed: int) -> Forecaster:
    return Forecaster(dim, seed=seed)


def _recent(dim: int, horizon: int, seed: int) -> Forecaster:
    return Forecaster(dim, seed=seed, window=WINDOW)


def _garg(dim: int, horizon: int, seed: int) -> GargIto:
    return GargIto(dim, horizon=horizon, seed=seed)


def _hu(dim: int, horizon: int, seed: int) -> HuLuo:
    return HuLuo(dim, horizon=horizon, seed=seed)


def _lsboost(dim: int, samples: int) -> LSBoost:
    levels = bounds.default_levels(samples, dim, "batch-omni")
    return LSBoost("linear", levels=levels, tolerance=0.25 / levels**2, smallest=2 * dim)


def _hkrr(dim: int, samples: int) -> HKRR:
    buckets = bounds.default_levels(samples, dim, "batch-omni")
    return HKRR(alpha=0.5 / buckets, buckets=buckets, gamma=0.1 / buckets)


SYSTEMS: dict[str, System] = {
    "engine": System("engine, self-refining levels", "ours", _adaptive, _adaptive),
    "engine-recent": System("engine with a short memory", "ours", _recent),
    "engine-uniform": System("engine, uniform levels", "ours", _uniform, _uniform),
    "paper": System("paper (N for SMCal)", "paper", _paper("smcal"), _paper("batch-omni")),
    "paper-sreg": System("paper (N for SReg)", "paper", _paper("sreg"), _paper("batch-agnostic")),
    "paper-ridge": System("paper with ridge learners", "paper", _ridge),
    "garg-ito": System("Garg et al. + Ito", "previous", _garg, _garg),
    "hu-luo": System("Hu et al.", "paper", _hu),
    "lsboost": System("LSBoost, linear", "previous", table=_lsboost),
    "hkrr": System("HKRR over half-spaces", "previous", table=_hkrr),
}

STREAMING = [name for name, system in SYSTEMS.items() if system.online]
VARIANTS = ("engine-recent", "paper-sreg", "paper-ridge", "hu-luo")
FITTED = [name for name, system in SYSTEMS.items() if system.batch or system.table]

STREAMS = ("linear", "nonlinear", "drifting", "oppose", "adaptive", "leave-ahead")
BATCH_STREAMS = ("linear", "nonlinear")


@dataclass(frozen=True)
class Task:
    """One run."""

    kind: str
    system: str
    stream: str
    dim: int
    rounds: int
    seed: int

    @property
    def cost(self) -> float:
        """Rough seconds, for the order of work and the time left."""
        levels = bounds.default_levels(self.rounds, self.dim) if self.system.startswith("paper") else 2
        return (
            0.05 + (self.rounds + (200_000 if self.kind == BATCH else 0)) * (1 + 0.02 * self.dim + 0.1 * levels) / 1e6
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def decades(low: float, high: float) -> list[int]:
    """Return horizons evenly spaced in log T, two per decade.

    Examples
    --------
    >>> decades(3, 4)
    [1000, 3162, 10000]
    """
    return [round(10 ** (low + k / 2)) for k in range(round(2 * (high - low)) + 1)]


def small() -> list[Task]:
    """Return a plan of about a minute on two cores: T up to 10^4.5, two dimensions, three streams."""
    online = _online(STREAMING, ("linear", "drifting", "adaptive"), (2, 5), decades(3, 4.5), range(3))
    return [*online, *_batch(("linear",), (5,), decades(3, 4.5), range(2))]


def full() -> list[Task]:
    """Return the plan behind docs/rates.md: eight seeds up to T = 10^5, three up to 10^6, one at 10^7 for the engine.

    Variants run at d = 5 only; at 10^7, where its constants begin to end, on three streams.
    """
    every, few, dims = range(8), range(3), (2, 5, 20)
    main = [name for name in STREAMING if name not in VARIANTS]
    return [
        *_online(main, STREAMS, dims, decades(3, 5), every),
        *_online(main, STREAMS, dims, decades(5.5, 6), few),
        *_online(VARIANTS, STREAMS, (5,), decades(3, 5), every),
        *_online(VARIANTS, STREAMS, (5,), decades(5.5, 6), few),
        *_online(("engine", "engine-uniform"), STREAMS, dims, [10**7], range(1)),
        *_online(("paper", "paper-ridge"), ("linear", "oppose", "adaptive"), (5,), [10**7], range(1)),
        *_batch(BATCH_STREAMS, (5,), decades(3, 6), few),
    ]


def _online(systems: Any, streams: Any, dims: Any, horizons: Any, seeds: Any) -> Iterator[Task]:
    for system, stream, dim, rounds, seed in product(systems, streams, dims, horizons, seeds):
        yield Task(ONLINE, system, stream, dim, rounds, seed)


def _batch(streams: Any, dims: Any, horizons: Any, seeds: Any) -> Iterator[Task]:
    for system, stream, dim, rounds, seed in product(FITTED, streams, dims, horizons, seeds):
        yield Task(BATCH, system, stream, dim, rounds, seed)
