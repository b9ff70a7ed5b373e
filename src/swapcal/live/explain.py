"""A mean forecast as a sum of named contributions, in words and as a small chart."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import starmap
from typing import Any, Self

import numpy as np

from swapcal._validate import UNIT, Span
from swapcal.arrays import AnyArray, Array, Flags
from swapcal.engine.sparse import SparseForecaster
from swapcal.features import Contexts
from swapcal.kernels.encode import ENTRIES
from swapcal.kernels.experts import put_scores
from swapcal.kernels.state import T_HIGH, T_LOW, T_MEAN, T_P, T_WEIGHT
from swapcal.live.experts import Rows, expert_names
from swapcal.live.learner import BANK, Learner

# `Explanation`: a mean forecast as a sum of named contributions, in words and as a small chart.

BAR = 20  # characters of the longest bar
SHOWN = 12  # contributions in words and chart; the rest is added up
ROW, LEFT, WIDE, HIGH = 20, 260, 640, 24  # pixels


@dataclass(frozen=True)
class Contribution:
    """One contribution, in probability."""

    name: str
    kind: str
    """group, feature, score, model, expert, product, constant, bounds or since"""
    amount: float


@dataclass(frozen=True)
class Member:
    """One of those whose log-odds the blend pools."""

    name: str
    share: float
    """of the blend, now"""
    said: float
    """its probability when the forecast was issued"""


@dataclass(frozen=True)
class Explanation:
    """Why a forecast is what it is: ``mean = base + Σ amounts``, to the last digits.

    A column's contribution is what its value adds to the blend of the experts, and what the engine adds for its own
    coordinates (as for a declared group). An expert's is what the engine adds beside the blend. "Calibration of all
    forecasts" is what the engine adds whatever the record; "held between 0 and 1" what clipping took away. The learners
    move on with every label: for a forecast that has been open for a while, the contributions are what they would be
    now, and the difference to what was issued is a term of its own.

    Attributes
    ----------
    p, mean : the issued level and the mean it was drawn around
    base : the rate of the labels known when the forecast was issued
    terms : contributions, largest first
    blend : the blend's probability: what late labels, or how such forecasts turned out of late, make of the pool
    members : what is pooled, largest share first
    span : range of the outcomes, on whose scale everything is but the members' shares

    Examples
    --------
    >>> parts = Contribution("shop = b", "group", 0.12), Contribution("price", "feature", -0.01)
    >>> print(Explanation(0.25, 0.31, 0.2, parts, 0.3, ()))
    forecast 0.3100 (issued as 0.2500) = base rate 0.2000
      +0.1200 ████████████████████  shop = b
      -0.0100 ▒▒                    price
    """

    p: float
    mean: float
    base: float
    terms: tuple[Contribution, ...]
    blend: float
    members: tuple[Member, ...]
    span: Span = UNIT

    @property
    def pool(self) -> float:
        """The probability, or share of the range, that the members' log-odds pool to; the middle without members."""
        shares = [(member.share, self.span.share(member.said)) for member in self.members]
        odds = sum(weight * math.log(said / (1.0 - said)) for weight, said in shares)
        return self.span.value(1.0 / (1.0 + math.exp(-odds)))

    def in_units(self, span: Span) -> Self:
        """Return the same on the scale of outcomes in a range; it was about shares of it."""
        if span == UNIT:
            return self
        held = f"held between {span.low:.10g} and {span.high:.10g}"
        terms = (
            replace(t, name=held if t.kind == BOUNDS[1] else t.name, amount=t.amount * span.width) for t in self.terms
        )
        members = (replace(member, said=span.value(member.said)) for member in self.members)
        p, mean, base, blend = map(span.value, (self.p, self.mean, self.base, self.blend))
        return type(self)(p, mean, base, tuple(terms), blend, tuple(members), span)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON; the range of the outcomes only if it is not [0, 1]."""
        plain = asdict(self)
        own = plain.pop("span")
        return plain if own == UNIT else plain | {"span": [*own]}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return what `to_dict` wrote, as `client.about(…)["explanation"]` has it too."""
        terms = tuple(Contribution(**term) for term in found["terms"])
        members = tuple(Member(**member) for member in found["members"])
        span = Span(*found.get("span", UNIT))
        return cls(found["p"], found["mean"], found["base"], terms, found["blend"], members, span)

    def since(self, before: Self) -> tuple[Contribution, ...]:
        """Return why the mean has changed since an earlier explanation: the amounts add up to the change, exactly.

        Of the same record yesterday and today they say what was learned meanwhile; of a record that has changed, which
        column did it.

        Examples
        --------
        >>> yesterday = Explanation(0.25, 0.29, 0.2, (Contribution("shop = b", "group", 0.09),), 0.3, ())
        >>> today = Explanation(0.25, 0.31, 0.2, (Contribution("shop = b", "group", 0.11),), 0.3, ())
        >>> [(term.name, round(term.amount, 4)) for term in today.since(yesterday)]
        [('shop = b', 0.02)]
        """
        if not isinstance(before, Explanation):
            raise TypeError(f"before: given {type(before).__name__}, expected an Explanation")
        amounts: dict[Name, float] = defaultdict(float)
        amounts[BASE] = self.base - before.base
        for sign, why in ((1.0, self), (-1.0, before)):
            for term in why.terms:
                amounts[term.name, term.kind] += sign * term.amount
        return _sorted_terms(amounts, self.span.width)

    def _figure(self, value: float, decimals: int = 4, sign: str = "") -> str:
        """Write a number with so many decimals, in a range of width 1; of a wider range with as many digits."""
        return f"{value:{sign}.{max(0, decimals - round(math.log10(self.span.width)))}f}"

    def _sum(self) -> str:
        base = "base rate" if self.span == UNIT else "mean outcome"
        return f"= {base} {self._figure(self.base)}"

    def change(self, before: Self) -> str:
        """Return in words why the mean has changed since an earlier explanation; see `since`.

        Below the terms stands what they come to by kind: groups, features, scores, experts, the constant.

        Examples
        --------
        >>> yesterday = Explanation(0.25, 0.29, 0.2, (Contribution("shop = b", "group", 0.09),), 0.3, ())
        >>> today = Explanation(0.25, 0.32, 0.21, (Contribution("shop = b", "group", 0.11),), 0.3, ())
        >>> print(today.change(yesterday))
        forecast 0.2900 before, 0.3200 now: +0.0300
          +0.0200 ████████████████████  shop = b
          +0.0100 ██████████            base rate
        by kind: constant +0.0100, group +0.0200
        the blend of the experts: 0.3000 before, 0.3000 now
        """
        terms, kinds = self.since(before), defaultdict[str, float](float)
        for term in terms:
            kinds[term.kind] += term.amount
        means = f"forecast {self._figure(before.mean)} before, {self._figure(self.mean)} now"
        lines = [f"{means}: {self._figure(self.mean - before.mean, sign='+')}", *self._bars(terms)]
        if kinds:
            sums = (f"{kind} {self._figure(amount, sign='+')}" for kind, amount in sorted(kinds.items()))
            lines.append(f"by kind: {', '.join(sums)}")
        blends = f"{self._figure(before.blend)} before, {self._figure(self.blend)} now"
        return "\n".join([*lines, f"the blend of the experts: {blends}"])

    def _bars(self, terms: tuple[Contribution, ...]) -> list[str]:
        """Return a line for each of the largest terms, with a bar."""
        shown, lines = _largest(terms), []
        largest = max((abs(term.amount) for term in shown), default=1.0) or 1.0
        for term in shown:
            bar = ("█" if term.amount > 0 else "▒") * round(BAR * abs(term.amount) / largest)
            lines.append(f"  {self._figure(term.amount, sign='+')} {bar:{BAR}}  {term.name}")
        return lines

    def __str__(self) -> str:
        shown = self._bars(self.terms)
        lines = [f"forecast {self._figure(self.mean)} (issued as {self._figure(self.p)}) {self._sum()}", *shown]
        said = [f"{m.name} {m.share:.0%} ({self._figure(m.said, 3)})" for m in self.members if m.share >= 0.005]
        if said:
            blend, pool = self._figure(self.blend), self._figure(self.pool)
            lines.append(f"the blend of the experts says {blend}, pooled {pool}: {', '.join(said)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        most = f"; most: {self.terms[0].name} {self._figure(self.terms[0].amount, sign='+')}" if self.terms else ""
        return f"Explanation(mean {self._figure(self.mean)} {self._sum()} and {len(self.terms)} contributions{most})"

    def svg(self) -> str:
        """Return the chart as an SVG drawing: bars to the right raise the forecast, bars to the left lower it."""
        from swapcal.report.html import tag

        shown = _largest(self.terms)
        largest = max((abs(term.amount) for term in shown), default=1.0) or 1.0
        middle = (LEFT + WIDE) / 2
        scale = (WIDE - middle - 60) / largest
        title = f"forecast {self._figure(self.mean)} {self._sum()} and"
        bars = [_bar(term, self._figure(term.amount, sign="+"), k, middle, scale) for k, term in enumerate(shown)]
        axis = tag("line", x1=middle, x2=middle, y1=HIGH, y2=HIGH + ROW * len(shown), stroke="currentColor")
        return tag(
            "svg",
            tag("title", str(self)),
            tag("text", title, x=0.0, y=16.0, font_weight="bold"),
            *bars,
            axis,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDE} {HIGH + ROW * len(shown) + 4}",
            role="img",
            font_family="sans-serif",
            font_size="13",
            fill="currentColor",
        )

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()


def _largest(terms: tuple[Contribution, ...]) -> tuple[Contribution, ...]:
    """Return the largest terms, and the others added up."""
    if len(terms) <= SHOWN:
        return terms
    rest = terms[SHOWN - 1 :]
    return (*terms[: SHOWN - 1], Contribution(f"{len(rest)} others", "others", sum(term.amount for term in rest)))


def _bar(term: Contribution, amount: str, row: int, middle: float, scale: float) -> str:
    from swapcal.report.html import join, tag

    top, width = HIGH + ROW * row, scale * abs(term.amount)
    left = middle if term.amount > 0 else middle - width
    figure = middle + width + 4 if term.amount > 0 else middle - width - 4
    name = term.name if len(term.name) <= 36 else f"{term.name[:35]}…"
    return join(
        [
            tag("text", name, x=0.0, y=float(top + 14)),
            tag(
                "rect",
                x=left,
                y=float(top + 3),
                width=width,
                height=float(ROW - 6),
                fill="#2a78b5" if term.amount > 0 else "#c8553d",
            ),
            tag(
                "text",
                amount,
                x=figure,
                y=float(top + 14),
                text_anchor="start" if term.amount > 0 else "end",
            ),
        ]
    )


# Attribution: from a row as it was forecast to the contributions that its mean is the sum of.

ORDERS = 4  # in which columns are revealed, each also backwards
MANY = 64  # columns, of which one order must do
NEGLIGIBLE = 1e-13  # of a probability: rounding, not a contribution

Name = tuple[str, str]
"""of a term, and its kind"""

CONSTANT: Name = ("calibration of all forecasts", "constant")
BOUNDS: Name = ("held between 0 and 1", "bounds")
BASE: Name = ("base rate", "constant")
UNSEEN: Name = ("outcomes that cannot have been seen yet", "unseen")
LEVELS: Name = ("calibration of the row's groups", "group")
SINCE: Name = ("labels learned since it was issued", "since")


def explain_row(learner: Learner, rows: Rows, row: int) -> Explanation:
    """Return a forecast's mean as a sum of contributions over the base rate.

    The engine's mean is linear in the coordinates but for clipping. Opinions (the blend, experts, models) count from
    the base rate: one that says the base rate contributes nothing. What the blend contributes is shared among the
    record's columns by revealing them one after the other, in several orders, forwards and backwards: the steps of
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
    steps, nothing = _revealed(learner, rows, row, x, base)
    names = _named_columns(learner.contexts, x)
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
    terms = _sorted_terms(amounts)
    members = _members(learner, rows.memory[row])
    return Explanation(p, mean, base, terms, float(rows.judged[row, 0]), members).in_units(learner.span)


def _explain_sparse(learner: Learner, rows: Rows, row: int) -> Explanation:
    """Return the mean as what each column adds to the blend, and what the levels then change for the row's groups.

    The latter is one term: a level's forecast is a ratio of sums over groups and no sum of contributions.
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
    return Explanation(p, mean, base, _sorted_terms(amounts), blend, _members(learner, memory))


def _sorted_terms(amounts: Mapping[Name, float], width: float = 1.0) -> tuple[Contribution, ...]:
    """Return what contributes, largest first; `width` is that of the outcomes' range."""
    found = ((name, kind, float(value)) for (name, kind), value in amounts.items() if abs(value) > NEGLIGIBLE * width)
    return tuple(sorted(starmap(Contribution, found), key=lambda term: (-abs(term.amount), term.name)))


def _neutral(base: float, weights: Array, dim: int) -> Array:
    """Return the coordinates of opinions that all say the base rate."""
    x = np.zeros((1, max(dim, 1 + len(weights))))
    put_scores(np.full((1, len(weights)), base), weights, x)
    return x[0, :dim]


def _named_columns(contexts: Contexts, x: Array) -> dict[str, Name]:
    """Return what to call each column: by the coordinate that its value has, if it has one."""
    names = {}
    for column in contexts.columns:
        kind = "group" if column in contexts.settings["groups"] else "feature"
        kind = "score" if column in contexts.settings["scores"] else kind
        shown = (contexts.names[place] for place in contexts.places(column) if place < len(x) and x[place] != 0.0)
        names[column] = (next(shown, column), kind)
    return names


def _named_places(learner: Learner, columns: dict[str, Name], dim: int) -> Iterator[tuple[int, Name]]:
    """Yield each coordinate after the blend's with the term that it belongs to."""
    contexts = learner.contexts
    owners = {place: columns[column] for column in columns for place in contexts.places(column)}
    models = 1 + len(contexts.reserved_weights)
    for place, name in enumerate(contexts.names[:dim]):
        if 1 < place < 1 + BANK:
            yield place, (f"expert: {expert_names()[place - 1]}", "expert")
        elif place > 1:
            yield place, owners.get(place, (name, "model" if place < models else "product"))


def _revealed(learner: Learner, rows: Rows, row: int, x: Array, base: float) -> tuple[dict[str, float], float]:
    """Return how far each column and model moves the blend, and where the blend stands without all of them."""
    columns, models = learner.contexts.columns, [*learner.models]
    places = [[place for place in learner.contexts.places(column) if place < len(x)] for column in columns]
    entries = rows.keys[row].reshape(-1, ENTRIES).any(axis=1)
    scores = learner.contexts.settings["scores"]
    present = [
        j for j, column in enumerate(columns)
        if entries[j : j + 1].any() or x[places[j]].any() or column in scores
    ]  # fmt: skip
    players = [*(columns[j] for j in present), *models]
    orders = _orders(len(players))
    shown = np.concatenate([_reveal(order) for order in orders])
    keys, values = _masked(rows.keys[row], shown, present), _masked(rows.values[row], shown, present)
    heard = learner.experts.heard(rows.memory[row])
    given = np.full((len(shown), len(heard)), base)
    for s, name in enumerate([*scores, *models]):
        if name in players:
            given[shown[:, players.index(name)], s] = heard[s]
    seen = _seen(x, shown, [places[j] for j in present])
    paths = learner.experts.forecast(keys, values, given, seen)[1][:, 0].reshape(len(orders), -1)
    steps = np.zeros(len(players))
    for order, path in zip(orders, paths, strict=True):
        steps[order] += np.diff(path) / len(orders)
    return dict(zip(players, steps.tolist(), strict=True)), float(paths[0, 0])


def _seen(x: Array, shown: Flags, places: list[list[int]]) -> Array:
    """Return a context once for each row of `shown`: 0 where a column is not, whole once all are."""
    seen = np.tile(x, (len(shown), 1))
    for j, own in enumerate(places):
        seen[np.ix_(~shown[:, j], np.array(own, np.int64))] = 0.0
    shared = np.setdiff1d(np.arange(1, len(x)), [place for own in places for place in own])
    seen[np.ix_(~shown.all(axis=1), shared)] = 0.0
    return seen


def _reveal(order: list[int]) -> Flags:
    """Return what is shown (n + 1, n): nothing, then one more in each row, in the given order."""
    turn = np.argsort(order)
    return turn[None, :] < np.arange(len(order) + 1)[:, None]


def _masked(entries: AnyArray, shown: Flags, present: list[int]) -> AnyArray:
    """Return a row's entries once for each row of `shown`, 0 for the columns that are not."""
    kept = np.zeros((len(shown), len(entries) // ENTRIES), bool)
    kept[:, present] = shown[:, : len(present)]
    return np.where(np.repeat(kept, ENTRIES, axis=1), entries, entries.dtype.type(0))


def _orders(n: int) -> list[list[int]]:
    """Return orders in which to go through n things; each is there backwards too."""
    starts = sorted({k * n // ORDERS for k in range(ORDERS if n <= MANY else 1)})
    forwards = [[*range(start, n), *range(start)] for start in starts]
    return forwards + [order[::-1] for order in forwards]


def _members(learner: Learner, memory: Array) -> tuple[Member, ...]:
    scores = [*learner.contexts.settings["scores"], *learner.models]
    names = ["stack of all experts and scores", *expert_names()[1:], *scores, "base rate"]
    pooled = zip(names, learner.experts.members(memory), strict=True)
    return tuple(sorted((Member(name, *each) for name, each in pooled), key=lambda member: -member.share))
