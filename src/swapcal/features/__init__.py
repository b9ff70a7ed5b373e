"""Raw records to contexts: what the user has, in the coordinates the engine needs."""

from swapcal.features.contexts import Contexts
from swapcal.features.encoded import Encoded

__all__ = ["Contexts", "Encoded"]
