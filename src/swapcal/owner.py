"""`Owner`: what keeps arrays for kernels to write to, also after it was copied or unpickled."""

from typing import Any

import numpy as np


class Owner:
    """Has arrays of its own that are C-ordered and writeable, as an `Entry` takes for granted.

    Who unpickles may bring the memory: joblib maps a file read-only, others hand on what is shared by many. A kernel
    would write there all the same, or fall on it.

    Examples
    --------
    >>> class Counts(Owner):
    ...     def __init__(self):
    ...         self.seen = np.zeros(3)
    >>> counts = Counts.__new__(Counts)
    >>> counts.__setstate__({"seen": np.frombuffer(bytes(24))})
    >>> counts.seen.flags.writeable
    True
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: owned(value) for name, value in state.items()})


def owned(value: Any) -> Any:
    """Return an array, or a tuple of them, as memory of our own; all else as it is."""
    if isinstance(value, np.ndarray):
        plain = type(value) is np.ndarray and value.flags.carray
        return value if plain else np.array(value, order="C")
    if isinstance(value, tuple):
        return type(value)(*map(owned, value)) if hasattr(value, "_fields") else tuple(map(owned, value))
    return value
