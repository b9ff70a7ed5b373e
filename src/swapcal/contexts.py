"""Moved to `swapcal.features`; imports from here keep working."""

from swapcal.features import Contexts, Encoded

__all__ = ["Contexts", "Encoded"]
