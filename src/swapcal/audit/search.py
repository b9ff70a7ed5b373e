"""Regions that were not declared: proposed by some of the rows, tested on the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Flags, Keys, Places
from swapcal.tables.values import Categories

# The proposing rows grow trees on the residuals: from each of the best first splits, branches of up to three conditions
# are followed, the best at every depth. A region is a branch. It is then tested on the other rows: given the
# proposing rows, the region is fixed, so under "the predictions are right" its residual sum is distributed as any
# group's, and it enters the same simultaneous test.

SEARCHED = "searched region"
ELSEWHERE = "elsewhere, or proposing"
"""Name of the regions' group columns, and of their other category, which is not tested."""

METHODS = ("trees",)
DEPTH, BEAM, MOST_REGIONS = 3, 40, 6
"""Conditions of a region, branches followed at each depth, regions tested."""
CUTS = 7
"""Cut points of a number: its octiles."""
MOST_CATEGORIES, FEWEST_ROWS = 30, 20
MOST_PROPOSING = 50_000
LEAST_EVENTS = 20.0
"""Least Σp(1 − p) of a region among the proposing rows, so that the other rows have enough to test it."""
PRICE = 0.3
"""Standard errors that each further condition must add: of two similar regions the simpler is reported."""
MOST_ALIKE = 0.5
"""Part of two regions' rows, of those in either, up to which both are tested."""


class Condition(NamedTuple):
    """One condition on a column: a category, a number's lower or upper end, or that it is missing."""

    column: str
    kind: str
    value: Any

    def holds(self, columns: Mapping[str, "Array | Categories"]) -> Flags:
        """Return for each row whether the condition holds."""
        column = columns[self.column]
        if isinstance(column, Categories):
            codes = [code for code, name in enumerate(column.names) if name == self.value]
            return np.isin(column.codes, codes)
        if self.kind == "missing":
            return np.isnan(column)
        return np.asarray(column >= self.value if self.kind == "≥" else column < self.value)


@dataclass(frozen=True)
class Regions:
    """Regions as conjunctions of conditions, which also apply to rows added later."""

    rules: tuple[tuple[Condition, ...], ...]

    @property
    def columns(self) -> list[str]:
        """Names of the regions' group columns."""
        return [f"{SEARCHED} {k}" for k in range(1, len(self.rules) + 1)]

    def groups(
        self, columns: Mapping[str, "Array | Categories"], rows: int, tested: Flags | None = None
    ) -> dict[str, Categories]:
        """Return one group column a region; rows that are not `tested` (all by default) are elsewhere."""
        inside = np.ones(rows, bool) if tested is None else tested
        made = {}
        for name, region in zip(self.columns, self.rules, strict=True):
            member = inside & np.all([condition.holds(columns) for condition in region], axis=0)
            made[name] = Categories(np.where(member, 0, 1).astype(np.int32), [words(region), ELSEWHERE])
        return made


def words(region: Sequence[Condition]) -> str:
    """Return the conditions of a region in words.

    Examples
    --------
    >>> words([Condition("age", "≥", 30.0), Condition("sex", "=", "f"), Condition("age", "<", 50.0)])
    '30 ≤ age < 50 and sex = f'
    """
    parts = []
    for column in dict.fromkeys(one.column for one in region):
        ends = {one.kind: one.value for one in region if one.column == column}
        low, high = (None if ends.get(kind) is None else f"{ends[kind]:.4g}" for kind in ("≥", "<"))
        if "=" in ends:
            parts.append(f"{column} = {ends['=']}")
        elif "missing" in ends:
            parts.append(f"{column} is missing")
        elif low is not None and high is not None:
            parts.append(f"{low} ≤ {column} < {high}")
        else:
            parts.append(f"{column} ≥ {low}" if high is None else f"{column} < {high}")
    return " and ".join(parts)


def is_region(name: str) -> bool:
    """Return whether a group or a group column is that of a region."""
    return name.startswith(f"{SEARCHED} ")


def is_elsewhere(name: str) -> bool:
    """Return whether a group is the complement of a region."""
    return is_region(name) and name.endswith(f" = {ELSEWHERE}")


def checked_search(search: str | None) -> str | None:
    """Return `search` unchanged. Raises ValueError if it is not "trees" or None.

    Examples
    --------
    >>> checked_search("forest")
    Traceback (most recent call last):
    ValueError: search: given 'forest', expected "trees" or None
    """
    if search is not None and search not in METHODS:
        raise ValueError(f'search: given {search!r}, expected "trees" or None')
    return search


def proposing(rows: int, seed: int) -> Flags:
    """Return which rows propose: half of them at random, at most `MOST_PROPOSING`, whatever their outcomes."""
    chosen = np.zeros(rows, bool)
    count = min(rows // 2, MOST_PROPOSING)
    chosen[np.random.default_rng([seed, rows]).permutation(rows)[:count]] = True
    return chosen


def proposing_clusters(clusters: Keys) -> Flags:
    """Return which rows propose if there are clusters: those of half of the clusters, the same in every batch."""
    return np.asarray((clusters * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(63) == 1)


def propose(columns: Mapping[str, "Array | Categories"], p: Array, y: Array, weights: Array) -> Regions:
    """Return the regions in which residuals differ most from those of all rows, found on these rows.

    Parameters
    ----------
    columns : numbers (n,), or categories, by name
    p, y, weights : (n,)
    """
    residual, variance = weights * (y - p), weights**2 * p * (1.0 - p)
    residual = residual - weights * residual.sum() / weights.sum()
    splits = _splits(columns)
    if not splits:
        return Regions(())
    member = np.array([condition.holds(columns) for condition in splits], dtype=np.float32)
    least = LEAST_EVENTS * float(np.sum(weights**2) / len(weights))
    branches: dict[frozenset[int], float] = {}
    grown: list[tuple[frozenset[int], Any]] = [(frozenset(), np.ones(len(p), np.float32))]
    for _ in range(DEPTH):
        grown = _grown(grown, member, residual.astype(np.float32), variance.astype(np.float32), least, branches)
    return Regions(_chosen(branches, member, splits))


def _splits(columns: Mapping[str, "Array | Categories"]) -> list[Condition]:
    conditions: list[Condition] = []
    for name, column in columns.items():
        if isinstance(column, Categories):
            rows = np.bincount(column.codes, minlength=len(column.names))
            frequent = np.argsort(-rows, kind="stable")[:MOST_CATEGORIES]
            conditions += [Condition(name, "=", column.names[k]) for k in frequent if rows[k] >= FEWEST_ROWS]
            continue
        known = column[~np.isnan(column)]
        cuts = np.unique(np.quantile(known, np.arange(1, CUTS + 1) / (CUTS + 1))) if len(known) else np.zeros(0)
        conditions += [Condition(name, kind, float(cut)) for cut in cuts for kind in ("≥", "<") if known.min() < cut]
        conditions += [Condition(name, "missing", None)] if len(column) - len(known) >= FEWEST_ROWS else []
    return conditions


def _grown(
    grown: list[tuple[frozenset[int], Any]],
    member: Any,
    residual: Any,
    variance: Any,
    least: float,
    branches: dict[frozenset[int], float],
) -> list[tuple[frozenset[int], Any]]:
    """Return the best branches that are one condition longer; note the score of all of them."""
    fresh: dict[frozenset[int], tuple[float, Any, int]] = {}
    for branch, inside in grown:
        sums, spread = member @ (inside * residual), member @ (inside * variance)
        score = np.abs(sums) / np.sqrt(np.maximum(spread, 1e-30)) - PRICE * len(branch)
        score[spread < least] = -np.inf
        for k in np.argsort(-score)[:BEAM].tolist():
            key = branch | {k}
            if k not in branch and np.isfinite(score[k]) and key not in fresh:
                fresh[key] = float(score[k]), inside, k
    best = sorted(fresh.items(), key=lambda item: (-item[1][0], sorted(item[0])))[:BEAM]
    branches |= {key: score for key, (score, _, _) in best}
    return [(key, inside * member[k]) for key, (_, inside, k) in best]


def _chosen(
    branches: Mapping[frozenset[int], float], member: Any, splits: Sequence[Condition]
) -> tuple[tuple[Condition, ...], ...]:
    """Return the best branches that are not much alike; single categories are groups already."""
    chosen: list[tuple[tuple[Condition, ...], Flags]] = []
    for key in sorted(branches, key=lambda key: (-branches[key], sorted(key))):
        region = tuple(splits[k] for k in sorted(key))
        places: Places = np.array(sorted(key), dtype=np.intp)
        rows = member[places].min(axis=0) > 0
        alike = any((rows & other).sum() > MOST_ALIKE * (rows | other).sum() for _, other in chosen)
        if alike or (len(region) == 1 and region[0].kind == "="):
            continue
        chosen.append((region, rows))
        if len(chosen) == MOST_REGIONS:
            break
    return tuple(region for region, _ in chosen)
