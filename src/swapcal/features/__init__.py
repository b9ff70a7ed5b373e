"""Raw records to contexts: what the user has, in the coordinates the engine needs."""

from swapcal.features.contexts import Contexts, Encoded

__all__ = ["Contexts", "Encoded"]
