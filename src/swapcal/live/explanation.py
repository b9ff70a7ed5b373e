"""`Explanation`: a mean forecast as a sum of named contributions, in words and as a small chart."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from swapcal.report.markup import Html, join, tag

BAR = 20  # characters of the longest bar
SHOWN = 12  # contributions in words and chart; the rest is added up
ROW, LEFT, WIDE, HIGH = 20, 260, 640, 24  # pixels


@dataclass(frozen=True)
class Term:
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

    Examples
    --------
    >>> print(Explanation(0.25, 0.31, 0.2, (Term("shop = b", "group", 0.12), Term("price", "feature", -0.01)), 0.3, ()))
    forecast 0.3100 (issued as 0.2500) = base rate 0.2000
      +0.1200 ████████████████████  shop = b
      -0.0100 ▒▒                    price
    """

    p: float
    mean: float
    base: float
    terms: tuple[Term, ...]
    blend: float
    members: tuple[Member, ...]

    @property
    def pool(self) -> float:
        """The probability that the members' log-odds pool to; ½ without members."""
        odds = sum(member.share * math.log(member.said / (1.0 - member.said)) for member in self.members)
        return 1.0 / (1.0 + math.exp(-odds))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return asdict(self)

    def _shown(self) -> list[Term]:
        """Return the largest terms, and the others added up."""
        if len(self.terms) <= SHOWN:
            return [*self.terms]
        rest = self.terms[SHOWN - 1 :]
        return [*self.terms[: SHOWN - 1], Term(f"{len(rest)} others", "others", sum(term.amount for term in rest))]

    def __str__(self) -> str:
        shown = self._shown()
        largest = max((abs(term.amount) for term in shown), default=1.0) or 1.0
        lines = [f"forecast {self.mean:.4f} (issued as {self.p:.4f}) = base rate {self.base:.4f}"]
        for term in shown:
            bar = ("█" if term.amount > 0 else "▒") * round(BAR * abs(term.amount) / largest)
            lines.append(f"  {term.amount:+.4f} {bar:{BAR}}  {term.name}")
        said = [f"{m.name} {m.share:.0%} ({m.said:.3f})" for m in self.members if m.share >= 0.005]
        if said:
            lines.append(f"the blend of the experts says {self.blend:.4f}, pooled {self.pool:.4f}: {', '.join(said)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        most = f"; most: {self.terms[0].name} {self.terms[0].amount:+.4f}" if self.terms else ""
        return (
            f"Explanation(mean {self.mean:.4f} = base rate {self.base:.4f} and {len(self.terms)} contributions{most})"
        )

    def svg(self) -> str:
        """Return the chart as an SVG drawing: bars to the right raise the forecast, bars to the left lower it."""
        shown = self._shown()
        largest = max((abs(term.amount) for term in shown), default=1.0) or 1.0
        middle = (LEFT + WIDE) / 2
        scale = (WIDE - middle - 60) / largest
        title = f"forecast {self.mean:.4f} = base rate {self.base:.4f} and"
        bars = [_bar(term, k, middle, scale) for k, term in enumerate(shown)]
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


def _bar(term: Term, row: int, middle: float, scale: float) -> Html:
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
                f"{term.amount:+.4f}",
                x=figure,
                y=float(top + 14),
                text_anchor="start" if term.amount > 0 else "end",
            ),
        ]
    )
