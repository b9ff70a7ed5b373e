"""Every forecaster there is, through one suite: all combinations of the engine, and the baselines."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from tests.checks import CHECKS, COMBINATIONS, NAMES, build

HORIZON = 400


def baselines() -> dict[str, Any]:
    """Return the online baselines by name: each value builds one for a given dimension."""
    if find_spec("swapcal.baselines") is None:
        return {}
    online = import_module("swapcal.baselines").ONLINE
    return {f"baseline/{name}": partial(kind, horizon=HORIZON) for name, kind in online.items()}


EVERY = {name: partial(build, combination) for name, combination in zip(NAMES, COMBINATIONS, strict=True)} | baselines()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", EVERY)
def test_check(name, check):
    CHECKS[check](EVERY[name])
