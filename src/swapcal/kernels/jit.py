"""The ways this package compiles a function."""

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])

# Reductions vectorise only if the sum may be reordered. NaN and infinity keep their meaning.
COMMON: dict[str, Any] = {
    "cache": True,
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "error_model": "numpy",
}
LEAN: dict[str, Any] = COMMON | {"_nrt": False}
INLINED: dict[str, Any] = LEAN | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _compile(options: dict[str, Any], function: F) -> F:
    compiled: Any = njit(**options)(function)
    return compiled  # type: ignore[no-any-return]


def jit(function: F) -> F:
    """Compile `function` on first call and cache the machine code beside its source."""
    return _compile(COMMON | {"nogil": True}, function)


def lean(function: F) -> F:
    """Compile a function that allocates nothing, without reference counting.

    Counting references to every array view costs more than the arithmetic at small dimensions. The interpreter's lock
    stays held, so that two threads cannot share a scratch array.
    """
    return _compile(LEAN, function)


def inlined(function: F) -> F:
    """Compile a lean function into each caller, never on its own: it takes the whole state, which is dear to pass."""
    return _compile(INLINED, function)
