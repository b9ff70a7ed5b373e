"""Test-wide settings: repeatable examples, and minute-long tests only on request."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("swapcal", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("swapcal")

LONG = ("soak", "cold", "systems")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what holds no tests, nor the long ones unless a marker expression was given: it takes seconds."""
    if collection_path.suffix == ".py":
        return None if collection_path.name.startswith("test_") else True
    return True if collection_path.name == "systems" and not config.getoption("-m") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long tests out unless a marker expression was given."""
    if config.getoption("-m"):
        return
    long = [item for item in items if any(item.get_closest_marker(name) for name in LONG)]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
