"""Probability forecasts that stay calibrated for every subgroup and every decision.

The public nouns load on first use, so ``import swapcal`` costs almost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from swapcal.version import __version__

if TYPE_CHECKING:
    from swapcal.adapters.regression import SwapRegressor
    from swapcal.adapters.sklearn import SwapClassifier
    from swapcal.audit import Audit, Witness
    from swapcal.engine.forecast import Forecast
    from swapcal.engine.forecaster import Forecaster
    from swapcal.engine.oracle import Oracle, OracleForecaster
    from swapcal.features import Contexts
    from swapcal.live import Live
    from swapcal.losses import Loss, decide
    from swapcal.monitor import Monitor
    from swapcal.service.client import Client

__all__ = [
    "Audit",
    "Client",
    "Contexts",
    "Forecast",
    "Forecaster",
    "Live",
    "Loss",
    "Monitor",
    "Oracle",
    "OracleForecaster",
    "SwapClassifier",
    "SwapRegressor",
    "Witness",
    "__version__",
    "decide",
]

_HOME = {
    "Audit": "audit",
    "Client": "service.client",
    "Contexts": "features",
    "Forecast": "engine.forecast",
    "Forecaster": "engine.forecaster",
    "Live": "live",
    "Loss": "losses",
    "Monitor": "monitor",
    "Oracle": "engine.oracle",
    "OracleForecaster": "engine.oracle",
    "SwapClassifier": "adapters.sklearn",
    "SwapRegressor": "adapters.regression",
    "Witness": "audit",
    "decide": "losses",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'swapcal' has no attribute {name!r}")
    value = getattr(import_module(f"swapcal.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
