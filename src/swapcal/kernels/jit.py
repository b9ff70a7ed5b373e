"""The one way this package compiles a function."""

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])

# Reductions vectorise only if the sum may be reordered. NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz", "arcp"}


def jit(function: F) -> F:
    """Compile `function` on first call and cache the machine code beside its source."""
    compiled: F = njit(cache=True, fastmath=REORDER, error_model="numpy", nogil=True)(function)
    return compiled
