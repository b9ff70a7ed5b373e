"""Every forecaster there is, through one suite: all combinations of the engine, and the baselines."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from swapcal import OracleForecaster
from swapcal.oracles import FiniteClass, Ridge
from tests.checks import CHECKS, COMBINATIONS, NAMES, build

HORIZON = 400


def baselines() -> dict[str, Any]:
    """Return the online baselines by name: each value builds one for a given dimension."""
    if find_spec("swapcal.baselines") is None:
        return {}
    online = import_module("swapcal.baselines").ONLINE
    return {f"baseline/{name}": partial(kind, horizon=HORIZON) for name, kind in online.items()}


def oracles() -> dict[str, Any]:
    """Return forecasters with oracles; each value builds one for a given dimension."""
    makes: dict[str, Any] = {
        "ridge": lambda dim: lambda level: Ridge(level, dim, ridge=0.3),
        "finite": lambda dim: lambda level: FiniteClass([lambda x: 0.25, lambda x: 0.2, lambda x: 0.6 + 0.1 * x.sum()]),
    }

    def build_one(name: str, options: dict[str, Any], dim: int) -> OracleForecaster:
        make = makes[name](dim)

        class Loadable(OracleForecaster):
            @classmethod
            def load(cls, path: Any) -> Any:
                return super().load(path, make)

        return Loadable(make, **options)

    shapes: list[dict[str, Any]] = [{"levels": "adaptive"}, {"levels": 6}, {"levels": 5, "mixing": "blum-mansour"}]
    return {
        f"oracle/{name}/{'/'.join(map(str, options.values()))}": partial(build_one, name, options)
        for name in makes
        for options in shapes
    }


EVERY = (
    {name: partial(build, combination) for name, combination in zip(NAMES, COMBINATIONS, strict=True)}
    | baselines()
    | oracles()
)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", EVERY)
def test_check(name, check):
    CHECKS[check](EVERY[name])
