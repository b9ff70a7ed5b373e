"""The systems the paper builds on or is compared with, all with the engine's interface.

`ONLINE` maps a short name to a class with ``predict``, ``update`` and ``run``, made by
``cls(dim, horizon=T, levels=None, seed=0)``.

Examples
--------
>>> from swapcal.baselines import ONLINE
>>> forecaster = ONLINE["garg-ito"](dim=2, horizon=1000)
>>> forecast = forecaster.predict([0.5, 0.2])
>>> forecaster.update(forecast, 1)
"""

from typing import Any

from swapcal.baselines.contextual import BlumMansourONS, GargIto, GroupMulticalibration, HuLuo, Okoroafor
from swapcal.baselines.online import Fishelson, FosterHart, FosterVohra, LuoKL

__all__ = [
    "ONLINE",
    "BlumMansourONS",
    "Fishelson",
    "FosterHart",
    "FosterVohra",
    "GargIto",
    "GroupMulticalibration",
    "HuLuo",
    "LuoKL",
    "Okoroafor",
]

ONLINE: dict[str, type[Any]] = {
    "foster-vohra": FosterVohra,
    "foster-hart": FosterHart,
    "fishelson": Fishelson,
    "luo-kl": LuoKL,
    "blum-mansour-ons": BlumMansourONS,
    "garg-ito": GargIto,
    "groups": GroupMulticalibration,
    "okoroafor": Okoroafor,
    "hu-luo": HuLuo,
}
"""Online baselines by name."""
