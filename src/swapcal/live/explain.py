"""A forecast of `Live` as a sum of contributions: from a row as it was issued to an `Explanation`."""

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from swapcal.arrays import AnyArray, Array, Flags
from swapcal.engine.explanation import (
    BOUNDS,
    Explanation,
    Member,
    Name,
    mean_steps,
    reveal,
    reveal_orders,
    sorted_terms,
)
from swapcal.engine.sparse import SparseForecaster
from swapcal.features import Contexts
from swapcal.kernels.encode import ENTRIES
from swapcal.kernels.experts import put_scores
from swapcal.kernels.state import T_HIGH, T_LOW, T_MEAN, T_P, T_WEIGHT
from swapcal.live.experts import Rows, expert_names
from swapcal.live.learner import BANK, Learner

CONSTANT: Name = ("calibration of all forecasts", "constant")
UNSEEN: Name = ("outcomes that cannot have been seen yet", "unseen")
LEVELS: Name = ("calibration of the row's groups", "group")
SINCE: Name = ("labels learned since it was issued", "since")


def explain_row(learner: Learner, rows: Rows, row: int) -> Explanation:
    """Return a forecast's mean as a sum of contributions over the base rate.

    The engine's mean is linear in the coordinates, except for clipping. Forecasts of the blend, experts and models
    count from the base rate: one equal to the base rate contributes nothing. The blend's contribution is shared among
    the record's columns by revealing them one after the other, in several orders, forwards and backwards: the steps of
    every order add up to the whole, so their means do.
    """
    engine, ticket = learner.forecaster, rows.ticket[row]
    p, mean = float(ticket[T_P]), float(ticket[T_MEAN])
    if engine is None:
        return Explanation(p, mean, mean, (), mean, ()).in_units(learner.span)
    if isinstance(engine, SparseForecaster):
        return _explain_sparse(learner, rows, row)
    x = rows.x[row, : min(rows.x.shape[1], engine.dim)]
    theta, clipped = engine.behind(ticket, x)
    base, weights = learner.experts.base_rate(rows.memory[row]), learner.contexts.reserved_weights
    neutral = _neutral(base, weights, len(x))
    own, per_point = theta * (x - neutral), 2.0 * weights[0] * theta[1]
    seen = rows.x[row, : max(len(x), int(rows.dims[row]))]  # by the experts; more than x if the engine is small
    steps, nothing = _revealed(learner, rows, row, seen, base)
    names = _named_columns(learner.contexts, seen)
    amounts: dict[Name, float] = defaultdict(float)
    for player, step in steps.items():
        amounts[names.get(player, (player, "model"))] += per_point * step
    for place, name in _named_places(learner, names, len(x)):
        amounts[name] += own[place]
    amounts[CONSTANT] += float(theta[0] * x[0] + theta @ neutral) - base + per_point * (nothing - base)
    amounts[BOUNDS] += clipped
    issued = float(ticket[T_LOW] + ticket[T_WEIGHT] * (ticket[T_HIGH] - ticket[T_LOW]))
    amounts[SINCE] += issued - math.fsum([base, *amounts.values()])
    amounts[UNSEEN] += mean - issued
    terms = sorted_terms(amounts)
    members = _members(learner, rows.memory[row])
    return Explanation(p, mean, base, terms, float(rows.judged[row, 0]), members).in_units(learner.span)


def _explain_sparse(learner: Learner, rows: Rows, row: int) -> Explanation:
    """Return the mean as the blend's contributions by column, and the change that the levels make for the row's groups.

    That change is one term: a level's forecast is a ratio of sums over groups and no sum of contributions.
    """
    ticket, memory = rows.ticket[row], rows.memory[row]
    p, mean, base, blend = (
        float(ticket[T_P]),
        float(ticket[T_MEAN]),
        learner.experts.base_rate(memory),
        float(rows.judged[row, 0]),
    )
    x = rows.x[row, : rows.dims[row]]
    steps, nothing = _revealed(learner, rows, row, x, base)
    names = _named_columns(learner.contexts, x)
    amounts: dict[Name, float] = defaultdict(float)
    for player, step in steps.items():
        amounts[names.get(player, (player, "model"))] += step
    amounts[CONSTANT] += nothing - base
    amounts[SINCE] += blend - math.fsum([base, *amounts.values()])
    issued = float(ticket[T_LOW] + ticket[T_WEIGHT] * (ticket[T_HIGH] - ticket[T_LOW]))
    amounts[LEVELS] += issued - blend
    amounts[UNSEEN] += mean - issued
    return Explanation(p, mean, base, sorted_terms(amounts), blend, _members(learner, memory))


def _neutral(base: float, weights: Array, dim: int) -> Array:
    """Return the coordinates of forecasts that all equal the base rate."""
    x = np.zeros((1, max(dim, 1 + len(weights))))
    put_scores(np.full((1, len(weights)), base), weights, x)
    return x[0, :dim]


def _named_columns(contexts: Contexts, x: Array) -> dict[str, Name]:
    """Return the name of each column: that of the coordinate of its value, if it has one.

    A column that was always missing is the same in all rows: its contribution belongs to all forecasts.
    """
    names = {}
    for column in contexts.columns:
        kind = "group" if column in contexts.settings["groups"] else "feature"
        kind = "score" if column in contexts.settings["scores"] else kind
        shown = (contexts.names[place] for place in contexts.places(column) if place < len(x) and x[place] != 0.0)
        names[column] = (next(shown, column), kind) if contexts.was_present(column) else CONSTANT
    return names


def _named_places(learner: Learner, columns: dict[str, Name], dim: int) -> Iterator[tuple[int, Name]]:
    """Yield each coordinate after the blend's with the term that it belongs to."""
    contexts = learner.contexts
    owners = {place: columns[column] for column in columns for place in contexts.places(column)}
    models = 1 + len(contexts.reserved_weights)
    for place, name in enumerate(contexts.names[:dim]):
        if 1 < place < min(1 + BANK, models):
            yield place, (f"expert: {expert_names()[place - 1]}", "expert")
        elif place > 1:
            yield place, owners.get(place, (name, "model" if place < models else "product"))


def _revealed(learner: Learner, rows: Rows, row: int, x: Array, base: float) -> tuple[dict[str, float], float]:
    """Return the amount by which each column and model moves the blend, and the blend without all of them."""
    columns, models = learner.contexts.columns, [*learner.models]
    places = [[place for place in learner.contexts.places(column) if place < len(x)] for column in columns]
    entries = rows.keys[row].reshape(-1, ENTRIES).any(axis=1)
    scores = learner.contexts.settings["scores"]
    present = [
        j for j, column in enumerate(columns)
        if entries[j : j + 1].any() or x[places[j]].any() or column in scores
    ]  # fmt: skip
    players = [*(columns[j] for j in present), *models]
    orders = reveal_orders(len(players))
    shown = np.concatenate([reveal(order) for order in orders])
    keys, values = _masked(rows.keys[row], shown, present), _masked(rows.values[row], shown, present)
    scored = learner.experts.user_scores(rows.memory[row])
    given = np.full((len(shown), len(scored)), base)
    for s, name in enumerate([*scores, *models]):
        if name in players:
            given[shown[:, players.index(name)], s] = scored[s]
    seen = _seen(x, shown, [places[j] for j in present])
    paths = learner.experts.forecast(keys, values, given, seen)[1][:, 0].reshape(len(orders), -1)
    steps = mean_steps(orders, paths)
    return dict(zip(players, steps.tolist(), strict=True)), float(paths[0, 0])


def _seen(x: Array, shown: Flags, places: list[list[int]]) -> Array:
    """Return a context once for each row of `shown`: 0 for hidden columns, complete if none is hidden."""
    seen = np.tile(x, (len(shown), 1))
    for j, own in enumerate(places):
        seen[np.ix_(~shown[:, j], np.array(own, np.int64))] = 0.0
    shared = np.setdiff1d(np.arange(1, len(x)), [place for own in places for place in own])
    seen[np.ix_(~shown.all(axis=1), shared)] = 0.0
    return seen


def _masked(entries: AnyArray, shown: Flags, present: list[int]) -> AnyArray:
    """Return a row's entries once for each row of `shown`, 0 for hidden columns."""
    kept = np.zeros((len(shown), len(entries) // ENTRIES), bool)
    kept[:, present] = shown[:, : len(present)]
    return np.where(np.repeat(kept, ENTRIES, axis=1), entries, entries.dtype.type(0))


def _members(learner: Learner, memory: Array) -> tuple[Member, ...]:
    scores = [*learner.contexts.settings["scores"], *learner.models]
    names = ["stack of all experts and scores", *expert_names()[1:], *scores, "base rate"]
    pooled = zip(names, learner.experts.members(memory), strict=True)
    return tuple(sorted((Member(name, *each) for name, each in pooled), key=lambda member: -member.share))
