"""The service: live forecasts over HTTP that lose nothing.

`Worker` is one queue and one learning thread over a `Store`; `Server` puts it on a port. They load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swapcal.service.hosted import HostedForecaster
    from swapcal.service.server import Server
    from swapcal.service.settings import ApiError, Limits, Settings
    from swapcal.service.store import Store, open_store
    from swapcal.service.worker import Worker

__all__ = ["ApiError", "HostedForecaster", "Limits", "Server", "Settings", "Store", "Worker", "open_store"]

_HOME = {
    "Worker": "worker",
    "Limits": "settings",
    "ApiError": "settings",
    "Server": "server",
    "Settings": "settings",
    "Store": "store",
    "HostedForecaster": "hosted",
    "open_store": "store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'swapcal.service' has no attribute {name!r}")
    value = getattr(import_module(f"swapcal.service.{_HOME[name]}"), name)
    globals()[name] = value
    return value
