"""Raw records to contexts: what the user has, in the coordinates the engine needs."""

from swapcal.features.column import Encoded
from swapcal.features.contexts import Contexts

__all__ = ["Contexts", "Encoded"]
