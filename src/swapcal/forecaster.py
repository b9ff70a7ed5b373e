"""Moved to `swapcal.engine.forecaster`; imports from here keep working."""

from swapcal.engine.forecaster import Forecaster

__all__ = ["Forecaster"]
