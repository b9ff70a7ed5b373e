"""Raw records to contexts: the coordinates that the engine needs."""

from swapcal.features.column import Encoded
from swapcal.features.contexts import Contexts

__all__ = ["Contexts", "Encoded"]
