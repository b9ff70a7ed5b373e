"""`State`: what any learner is, as named arrays and a manifest; states nest."""

from typing import Any, NamedTuple

from swapcal.arrays import AnyArray


class State(NamedTuple):
    """Arrays by name, and the rest as JSON."""

    arrays: dict[str, AnyArray]
    manifest: dict[str, Any]


def nested(**parts: "State | None") -> State:
    """Return several states as one: each part's arrays and manifest under its name, null for a part that is not there.

    Examples
    --------
    >>> import numpy as np
    >>> whole = nested(left=State({"w": np.zeros(2)}, {"n": 1}), right=None)
    >>> sorted(whole.arrays), whole.manifest
    (['left.w'], {'left': {'n': 1}, 'right': None})
    >>> part(whole, "left").manifest
    {'n': 1}
    """
    found = {name: state for name, state in parts.items() if state is not None}
    arrays = {f"{name}.{key}": array for name, state in found.items() for key, array in state.arrays.items()}
    return State(arrays, {name: None if state is None else state.manifest for name, state in parts.items()})


def part(state: State, name: str) -> State:
    """Return the state that `nested` put under a name."""
    inside = f"{name}."
    arrays = {key.removeprefix(inside): array for key, array in state.arrays.items() if key.startswith(inside)}
    return State(arrays, state.manifest.get(name) or {})
