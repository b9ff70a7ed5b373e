"""Probability forecasts that stay calibrated for every subgroup and every decision.

The public nouns load on first use, so ``import swapcal`` costs almost nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Audit": "audit",
    "Witness": "audit",
    "Forecast": "forecast",
    "Forecaster": "forecaster",
    "Contexts": "contexts",
    "Loss": "losses",
    "decide": "losses",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'swapcal' has no attribute {name!r}")
    value = getattr(import_module(f"swapcal.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
