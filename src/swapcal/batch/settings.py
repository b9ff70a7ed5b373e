"""Settings: how a model is fitted."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from swapcal import bounds, inputs
from swapcal.batch.trees import installed

TARGETS = {
    "adaptive": None,
    "multicalibration": ("smcal", "smcal-2"),
    "omniprediction": ("batch-omni", "omni"),
    "agnostic": ("batch-agnostic", "agnostic"),
}
"""Each target's rule for the number of levels, and its name in `bounds.sample_complexity`."""
CORRECTIONS = ("auto", "linear", "trees")
FEWEST_FOR_TREES = 500
"""Rows below which "auto" grows none: a fold would leave out too few to tell whether they help."""
RIDGES = (256.0, 16.0, 1.0)
"""Stay at the corrected score, close to it, or leave it soon: the one with the least squared error as it went is kept.

The first is for scores that need nothing: leaving them costs up to 0.3 % in log loss.
"""


@dataclass
class Settings:
    """How a model is fitted; see `SwapClassifier` for the meaning of each."""

    target: str = "adaptive"
    snapshots: int = 16
    passes: int = 1
    ridge: float | str = "auto"
    kappa: float = 0.2
    epsilon: float | None = None
    delta: float = 0.05
    seed: int = 0
    correction: str = "auto"

    def __post_init__(self) -> None:
        if self.correction not in CORRECTIONS:
            raise ValueError(f"correction: given {self.correction!r}, expected one of {', '.join(CORRECTIONS)}")
        if self.target not in TARGETS:
            raise ValueError(f"target: given {self.target!r}, expected one of {', '.join(TARGETS)}")
        for name in ("snapshots", "passes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name}: given {value!r}, expected an integer of at least 1")
        if isinstance(self.ridge, str) and self.ridge != "auto":
            raise ValueError(f'ridge: given {self.ridge!r}, expected a positive number or "auto"')
        if self.epsilon is not None and self.target == "adaptive":
            raise ValueError(
                'epsilon: given with target "adaptive", expected a target whose theorem counts samples: '
                "multicalibration, omniprediction or agnostic"
            )

    def grows(self, rows: int) -> bool:
        """Tell whether trees are to be tried on this many rows."""
        if self.correction == "trees" and not installed():
            raise ModuleNotFoundError(
                'correction "trees" needs LightGBM: pip install "swapcal[trees]"; "linear" does without',
                name="lightgbm",
            )
        return self.correction == "trees" or (self.correction == "auto" and rows >= FEWEST_FOR_TREES and installed())

    @property
    def ridges(self) -> tuple[float, ...]:
        """The ridge penalties to choose from."""
        return RIDGES if isinstance(self.ridge, str) else (inputs.positive("ridge", self.ridge),)

    def levels(self, rows: int, dim: int) -> Any:
        """Return the levels the target's theorem chooses for this many rows and coordinates."""
        rule = TARGETS[self.target]
        return "adaptive" if rule is None else bounds.default_levels(rows, dim, rule[0])

    def check_rows(self, rows: int, dim: int) -> None:
        """Refuse fewer rows than the theorem asks for, if an accuracy was asked for."""
        rule = TARGETS[self.target]
        if self.epsilon is None or rule is None:
            return
        needed = float(bounds.sample_complexity(self.epsilon, dim, rule[1], self.delta))
        if rows < needed:
            raise ValueError(
                f"rows: given {rows:,}, expected at least {needed:,.0f}, the number the theorem asks for to promise "
                f"an error of {self.epsilon} for target {self.target!r} with {dim} coordinates at confidence "
                f"{1 - self.delta:.3g}; leave epsilon out to fit without that promise"
            )
