"""The one way this package compiles a function."""

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])

# Reductions vectorise only if the sum may be reordered. NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz", "arcp"}


def lean(function: F) -> F:
    """Compile a function that allocates nothing, without reference counting.

    Counting references to every array view costs more than the arithmetic at small dimensions. The interpreter's lock
    stays held, so that two threads cannot share a scratch array.
    """
    compiled: F = njit(cache=True, fastmath=REORDER, error_model="numpy", _nrt=False)(function)
    return compiled


def inlined(function: F) -> F:
    """Compile a lean function into each caller, never on its own: it takes the whole state, which is dear to pass."""
    compiled: F = njit(
        cache=True,
        fastmath=REORDER,
        error_model="numpy",
        _nrt=False,
        forceinline=True,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )(function)
    return compiled


def jit(function: F) -> F:
    """Compile `function` on first call and cache the machine code beside its source."""
    compiled: F = njit(cache=True, fastmath=REORDER, error_model="numpy", nogil=True)(function)
    return compiled
