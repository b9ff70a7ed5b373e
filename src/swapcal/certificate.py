"""Moved to `swapcal.engine.certificate`; imports from here keep working."""

from swapcal.engine.certificate import Certificate

__all__ = ["Certificate"]
