"""Nested findings as flat columns: one list of values for each path of keys, with list indices as []."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

IGNORED = ("created_at", "version", "seconds")
"""Keys that hold a time of day, a release or a duration."""


class Flat:
    """Numbers as arrays by key path, texts as lists by key path."""

    def __init__(self) -> None:
        self.numbers: dict[str, Any] = {}
        self.texts: dict[str, list[str]] = {}

    def add(self, **found: Any) -> "Flat":
        """Take in arrays, numbers, texts, or nested dicts and lists of them, under a name each."""
        for name, value in found.items():
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                self.numbers[name] = np.array(value, np.float64)
            else:
                self._add_tree(name, value)
        return self

    def _add_tree(self, name: str, tree: Any) -> None:
        numbers: dict[str, list[float]] = {}
        for path, leaf in leaves(tree, name):
            if isinstance(leaf, str):
                self.texts.setdefault(path, []).append(leaf)
            else:
                numbers.setdefault(path, []).append(np.nan if leaf is None else float(leaf))
        self.numbers.update({path: np.array(values) for path, values in numbers.items()})


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (key path, value) of everything that is not a dict or a list; empty lists have no leaf."""
    if isinstance(tree, dict):
        for key in sorted(tree, key=str):
            if key not in IGNORED:
                yield from leaves(tree[key], f"{path}.{key}" if path else str(key))
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from leaves(value, f"{path}[]")
    elif isinstance(tree, np.ndarray):
        yield from leaves(tree.tolist(), path)
    else:
        yield path, tree.item() if isinstance(tree, np.generic) else tree


def key_paths(tree: Any) -> list[str]:
    """Return the sorted set of key paths, those of empty lists and objects included."""
    return sorted(set(_paths(tree, "")))


def _paths(tree: Any, path: str) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            inner = f"{path}.{key}" if path else str(key)
            yield inner
            yield from _paths(value, inner)
    elif isinstance(tree, list | tuple):
        yield f"{path}[]"
        for value in tree:
            yield from _paths(value, f"{path}[]")


def plain(text: str) -> Any:
    """Return JSON text as a tree."""
    return json.loads(text)
