"""A mean forecast as a sum of named contributions, in words and as a small chart: of `Live` and of the batch models."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import starmap
from typing import Any, Self

import numpy as np

from swapcal._display import counted
from swapcal._validate import UNIT, Span
from swapcal.arrays import Array, Flags

Name = tuple[str, str]
"""name and kind of a term"""

BOUNDS: Name = ("held between 0 and 1", "bounds")
BASE: Name = ("base rate", "constant")
NEGLIGIBLE = 1e-13  # of a probability: rounding, not a contribution

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
    """An expert or model whose log-odds the blend pools."""

    name: str
    share: float
    """of the blend, now"""
    said: float
    """its probability when the forecast was issued"""


@dataclass(frozen=True)
class Explanation:
    """Why a forecast is what it is: ``mean = base + Σ amounts``, to the last digits.

    Of `SwapClassifier` and `SwapRegressor` each column, and the score given, has one contribution: see their `explain`.

    Of `Live` a column's contribution is what its value adds to the blend of the experts, and what the engine adds for
    its own coordinates (as for a declared group). An expert's is what the engine adds beside the blend. "Calibration of
    all forecasts" is what the engine adds whatever the record; "held between 0 and 1" what clipping took away. The
    learners move on with every label: for a forecast that has been open for a while, the contributions are what they
    would be now, and the difference to what was issued is a term of its own.

    Attributes
    ----------
    p, mean : the issued level and the mean it was drawn around; both are the mean where no level was drawn
    base : the rate of the labels known when the forecast was issued, or what `start` names
    terms : contributions, largest first
    blend : the blend's probability: what late labels, or how such forecasts turned out recently, make of the pool
    members : what is pooled, largest share first
    span : range of the outcomes, on whose scale everything is but the members' shares
    start : what `base` is, if it is not a rate of labels

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
    start: str = ""

    @property
    def pool(self) -> float:
        """The probability, or share of the range, that the members' log-odds pool to; the middle without members."""
        shares = [(member.share, self.span.share(member.said)) for member in self.members]
        odds = sum(weight * math.log(p / (1.0 - p)) for weight, p in shares)
        return self.span.value(1.0 / (1.0 + math.exp(-odds)))

    def in_units(self, span: Span) -> Self:
        """Return an explanation in shares of a range on the scale of its outcomes."""
        if span == UNIT:
            return self
        held = f"held between {span.low:.10g} and {span.high:.10g}"
        terms = (
            replace(t, name=held if t.kind == BOUNDS[1] else t.name, amount=t.amount * span.width) for t in self.terms
        )
        members = (replace(member, said=span.value(member.said)) for member in self.members)
        p, mean, base, blend = map(span.value, (self.p, self.mean, self.base, self.blend))
        return type(self)(p, mean, base, tuple(terms), blend, tuple(members), span, self.start)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON; `span` and `start` only if they differ from their defaults."""
        fields = asdict(self)
        own, start = fields.pop("span"), fields.pop("start")
        return fields | ({} if own == UNIT else {"span": [*own]}) | ({"start": start} if start else {})

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Return the explanation that `to_dict` wrote; `client.about(…)["explanation"]` has the same form."""
        terms = tuple(Contribution(**term) for term in fields["terms"])
        members = tuple(Member(**member) for member in fields["members"])
        span = Span(*fields.get("span", UNIT))
        start = fields.get("start", "")
        return cls(fields["p"], fields["mean"], fields["base"], terms, fields["blend"], members, span, start)

    def since(self, before: Self) -> tuple[Contribution, ...]:
        """Return why the mean has changed since an earlier explanation: the amounts add up to the change, exactly.

        For one record at two times they show what was learned in between; for a record that has changed, which column
        changed the forecast.

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
        amounts[self.start or BASE[0], BASE[1]] = self.base - before.base
        for sign, why in ((1.0, self), (-1.0, before)):
            for term in why.terms:
                amounts[term.name, term.kind] += sign * term.amount
        return sorted_terms(amounts, self.span.width)

    def _figure(self, value: float, decimals: int = 4, sign: str = "") -> str:
        """Write a number with so many decimals, in a range of width 1; of a wider range with as many digits."""
        return f"{value:{sign}.{max(0, decimals - round(math.log10(self.span.width)))}f}"

    def _sum(self) -> str:
        base = self.start or (BASE[0] if self.span == UNIT else "mean outcome")
        return f"= {base} {self._figure(self.base)}"

    def change(self, before: Self) -> str:
        """Return in words why the mean has changed since an earlier explanation; see `since`.

        The last lines are the sums by kind: groups, features, scores, experts, the constant.

        Examples
        --------
        >>> yesterday = Explanation(0.25, 0.29, 0.2, (Contribution("shop = b", "group", 0.09),), 0.3, ())
        >>> today = Explanation(0.25, 0.32, 0.21, (Contribution("shop = b", "group", 0.11),), 0.3, ())
        >>> print(today.change(yesterday))
        forecast 0.2900 before, 0.3200 now: +0.0300
          +0.0200 ████████████████████  shop = b
          +0.0100 ██████████            base rate
        by kind: constant +0.0100, group +0.0200
        """
        terms, kinds = self.since(before), defaultdict[str, float](float)
        for term in terms:
            kinds[term.kind] += term.amount
        means = f"forecast {self._figure(before.mean)} before, {self._figure(self.mean)} now"
        lines = [f"{means}: {self._figure(self.mean - before.mean, sign='+')}", *self._bars(terms)]
        if kinds:
            sums = (f"{kind} {self._figure(amount, sign='+')}" for kind, amount in sorted(kinds.items()))
            lines.append(f"by kind: {', '.join(sums)}")
        if self.members or before.members:
            blends = f"{self._figure(before.blend)} before, {self._figure(self.blend)} now"
            lines.append(f"the blend of the experts: {blends}")
        return "\n".join(lines)

    def _bars(self, terms: tuple[Contribution, ...]) -> list[str]:
        """Return a line for each of the largest terms, with a bar."""
        shown, lines = _largest(terms), []
        largest = max((abs(term.amount) for term in shown), default=1.0) or 1.0
        for term in shown:
            bar = ("█" if term.amount > 0 else "▒") * round(BAR * abs(term.amount) / largest)
            lines.append(f"  {self._figure(term.amount, sign='+')} {bar:{BAR}}  {term.name}")
        return lines

    def __str__(self) -> str:
        issued = "" if self.p == self.mean else f" (issued as {self._figure(self.p)})"
        lines = [f"forecast {self._figure(self.mean)}{issued} {self._sum()}", *self._bars(self.terms)]
        members = [f"{m.name} {m.share:.0%} ({self._figure(m.said, 3)})" for m in self.members if m.share >= 0.005]
        if members:
            blend, pool = self._figure(self.blend), self._figure(self.pool)
            lines.append(f"the blend of the experts says {blend}, pooled {pool}: {', '.join(members)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        most = f"; most: {self.terms[0].name} {self._figure(self.terms[0].amount, sign='+')}" if self.terms else ""
        terms = counted(len(self.terms), "contribution")
        return f"Explanation(mean {self._figure(self.mean)} {self._sum()} and {terms}{most})"

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
    smaller = terms[SHOWN - 1 :]
    return (*terms[: SHOWN - 1], Contribution(f"{len(smaller)} others", "others", sum(term.amount for term in smaller)))


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


def sorted_terms(amounts: Mapping[Name, float], width: float = 1.0) -> tuple[Contribution, ...]:
    """Return the contributions that are not negligible, largest first; `width` is that of the outcomes' range."""
    terms = ((name, kind, float(value)) for (name, kind), value in amounts.items() if abs(value) > NEGLIGIBLE * width)
    return tuple(sorted(starmap(Contribution, terms), key=lambda term: (-abs(term.amount), term.name)))


# Columns revealed one after the other: the steps of every order add up to the whole, so their means do.

ORDERS = 4  # in which columns are revealed, each also backwards
MANY = 64  # columns, of which one order must do


def reveal(order: list[int]) -> Flags:
    """Return flags (n + 1, n) of the columns revealed: none in the first row, one more in each next, in this order."""
    turn = np.argsort(order)
    return turn[None, :] < np.arange(len(order) + 1)[:, None]


def reveal_orders(n: int) -> list[list[int]]:
    """Return orders of n columns, each also backwards."""
    starts = sorted({k * n // ORDERS for k in range(ORDERS if n <= MANY else 1)})
    forwards = [[*range(start, n), *range(start)] for start in starts]
    return forwards + [order[::-1] for order in forwards]


def mean_steps(orders: list[list[int]], paths: Array) -> Array:
    """Return what revealing each of n columns adds, on average over the orders: (..., n) of paths (..., orders, n + 1).

    Where no more than two columns act together, that is the Shapley value: of two, each comes first in half of the
    orders.
    """
    steps = np.zeros((*paths.shape[:-2], paths.shape[-1] - 1))
    for k, order in enumerate(orders):
        steps[..., order] += np.diff(paths[..., k, :], axis=-1) / len(orders)
    return steps
