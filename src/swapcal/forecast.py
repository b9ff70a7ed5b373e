"""Moved to `swapcal.engine.forecast`; imports from here keep working."""

from swapcal.engine.forecast import Forecast

__all__ = ["Forecast"]
