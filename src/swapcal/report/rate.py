"""Rates: a mean prediction beside an observed frequency, and the band that chance allows around it."""

from dataclasses import dataclass

from swapcal.report.formats import count, finite, percent
from swapcal.report.markup import Html
from swapcal.report.svg import Plot


def outside(value: float | None, low: float | None, high: float | None) -> bool:
    """Tell whether a value lies beyond a band; without a band nothing does.

    >>> outside(0.4, 0.1, 0.3), outside(0.4, None, None)
    (True, False)
    """
    x, a, b = finite(value), finite(low), finite(high)
    return x is not None and ((a is not None and x < a) or (b is not None and x > b))


@dataclass(frozen=True)
class Rate:
    """What was predicted and what was seen on some rows; `x` is where the pair stands in a picture.

    >>> rate = Rate.of(0.5, 0.3, 0.35, 1200, 0.28, 0.33)
    >>> rate.beyond, round(rate.gap, 2), rate.band
    (True, 0.05, (0.28, 0.33))
    >>> Rate.of(0.5, 0.3, None, 1200, None, None) is None
    True
    """

    x: float
    p: float
    y: float
    n: float
    band: tuple[float, float] | None

    @staticmethod
    def of(
        x: float | None,
        p: float | None,
        y: float | None,
        n: float | None,
        low: float | None,
        high: float | None,
    ) -> "Rate | None":
        """Make a rate of figures that may be missing; None when it cannot be drawn."""
        at, predicted, observed, bottom, top = map(finite, (x, p, y, low, high))
        if at is None or predicted is None or observed is None:
            return None
        band = None if bottom is None or top is None else (bottom, top)
        return Rate(at, predicted, observed, max(0.0, finite(n) or 0.0), band)

    @property
    def gap(self) -> float:
        """Observed minus predicted."""
        return self.y - self.p

    @property
    def beyond(self) -> bool:
        """Whether the observed rate lies outside its band."""
        return self.band is not None and outside(self.y, *self.band)

    @property
    def widest(self) -> float:
        """Largest distance of the observed rate or a band's end from the prediction."""
        low, high = self.band or (self.y, self.y)
        return max(abs(self.gap), abs(low - self.p), abs(high - self.p))

    def mark(self, plot: Plot, x: float, y: float, radius: float) -> Html:
        """Draw the observed rate: round within the band, a coloured diamond outside."""
        title = f"predicted {percent(self.p, 2)}, observed {percent(self.y, 2)}, {count(self.n)} rows"
        draw = plot.diamond if self.beyond else plot.dot
        return draw(x, y, "beyond" if self.beyond else "observed", radius, title)
