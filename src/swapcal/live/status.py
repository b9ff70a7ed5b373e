"""`Status` of `Live`: labels, their delays, warnings about them, and errors of the issued levels."""

from collections.abc import Iterator, Mapping, Sequence
from math import isclose, sqrt
from types import MappingProxyType
from typing import NamedTuple

from swapcal._display import counted, display, share
from swapcal.arrays import Array
from swapcal.bounds import coin_wealth, ville
from swapcal.engine.certificate import IssuedErrors

ENOUGH = 20  # outcomes of one kind before a warning; of either kind before forecasts and scores are compared
NORMAL = 1.96
ONCE = range(4)


class ScoreBeside(NamedTuple):
    """A given score against the mean forecasts: Brier score, their difference, and a 95 % interval."""

    name: str
    labels: int
    brier: float | None
    difference: float | None
    low: float | None
    high: float | None
    sentence: str


def too_early(labels: float, ones: float) -> bool:
    """Return whether there are too few outcomes of either kind for comparisons."""
    return min(ones, labels - ones) < ENOUGH


def score_beside(name: str, sums: Sequence[float], *, early: bool, scale: float = 1.0) -> ScoreBeside:
    """Return a given score against the mean forecasts; no interval while there are too few outcomes.

    The interval is 95 % at one look, of outcomes that are independent: it does not hold at all times at once.

    Parameters
    ----------
    name : of the score
    sums : labels; sums of the score's squared errors, of the mean forecasts' less its own (d), and of d². Of outcomes
        with weights w the sums are of w times the score's, wd and w²d², and those of w, w² and w²d follow
    early : whether there are too few outcomes of either kind
    scale : of a squared error

    Examples
    --------
    >>> score_beside("theirs", [100, 20.0, -2.0, 1.0], early=False).sentence
    'The forecasts are better than theirs by the Brier score: -0.02 (-0.039 to -0.0008, 95 % at this look).'
    """
    n, theirs, change, square, *weighted = sums
    w, ww, cross = weighted or (n, n, change)
    if not n:
        return ScoreBeside(name, 0, None, None, None, None, f"{name}: no outcome yet.")
    mean = change / w
    reach = scale * NORMAL * sqrt(max(square - 2.0 * mean * cross + mean**2 * ww, 0.0)) / w
    theirs, mean = scale * theirs / w, scale * mean
    low, high = (None, None) if early else (mean - reach, mean + reach)
    return ScoreBeside(name, int(n), theirs, mean, low, high, _beside_in_words(name, mean, low, high))


def weighted_sums(sums: Array) -> Array:
    """Return sums as `score_beside` reads them; those from before they were by weight counted each label once."""
    return sums.copy() if sums.shape[1] > len(ONCE) else sums[:, [*ONCE, 0, 0, 2]]


def _beside_in_words(name: str, change: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"{name}: too early to tell, {ENOUGH} outcomes of either kind are needed."
    span = f"{change:+.2g} ({low:+.2g} to {high:+.2g}, 95 % at this look)"
    if high < 0:
        return f"The forecasts are better than {name} by the Brier score: {span}."
    if low > 0:
        return f"The forecasts are worse than {name} by the Brier score: {span}."
    return f"No difference from {name} beyond chance by the Brier score: {span}."


SHOWN = ("forecasts", "labels", "open", "coverage")
UNREMARKABLE: tuple[object, ...] = (0, 1.0, {}, (), None)


class Status(NamedTuple):
    """Label coverage and delay, and the errors of the issued levels.

    Delays count forecasts issued meanwhile, and time where times were given.
    """

    forecasts: int
    labels: int
    open: int
    coverage: float
    """labels / forecasts; NaN before the first forecast"""
    mean_delay: float
    """mean number of later forecasts issued before a label was learned"""
    mean_wait: float
    """mean time from forecast to label, or to its maturity if that is later, in the unit of the times given; NaN
    without times"""
    oldest_open: float
    """number of forecasts issued since the oldest one still open"""
    expired: int = 0
    """forecasts that expired without a label: forecasts = labels + open + expired"""
    held: int = 0
    """open forecasts whose label has come, and waits for its maturity or for its turn"""
    silent: int = 0
    """labels without a report: forecasts learned as `silence` because none had come at their maturity"""
    corrections: int = 0
    """later reports that contradict the silence learned, which is not changed"""
    missing: Mapping[str, int] = MappingProxyType({})
    """forecasts without a value of each declared score and group"""
    warnings: tuple[str, ...] = ()
    """warnings: scores and groups that are suddenly missing, by a fixed threshold"""
    issued: IssuedErrors | None = None
    """exact errors of the issued levels p, not of the mean forecasts, as sums over labels; None before the first"""
    ones: float = 0.0
    """sum of the labels learned"""
    unseen: float = 1.0
    """share π of outcomes that take longer than any seen so far, by Kaplan and Meier"""
    earlier: int = 0
    """pairs of neighbouring forecasts with different labels in which the 1 had the shorter delay"""
    later: int = 0
    """such pairs in which the 0 had the shorter delay"""
    weighted: int = 0
    """labels learned whose weight is not 1; all other figures here but `scores` count each label once"""
    low: float = 0.0
    """lower end of the range of outcomes"""
    high: float = 1.0
    """upper end of the range of outcomes"""
    scores: tuple[ScoreBeside, ...] = ()
    """each given score, and model, against the mean forecasts by the Brier score, labels by their weights; a missing
    score counts as one half, or as the prior rate"""
    windowless: int = 0
    """open forecasts without a maturity where silence is a label: they are never learned as silence"""

    def sentences(self) -> list[str]:
        """Return warnings about the labels known, each with the setting that helps.

        Examples
        --------
        >>> from math import nan
        >>> Status(400, 30, 370, 0.075, 2.0, nan, 399.0, ones=30.0, unseen=0.93).sentences()[0][:72]
        'All 30 outcomes known so far are 1 and 370 forecasts are still open: if '
        """
        order = _order_of_arrival(self)
        return [*_one_kind(self), *order, *_unseen_share(self), *_corrected(self), *_windowless(self)]

    def is_selected(self) -> bool:
        """Return whether the labels known are a biased sample: all of one kind with many open, or one kind earlier.

        Examples
        --------
        >>> from math import nan
        >>> Status(400, 30, 370, 0.075, 2.0, nan, 399.0, ones=30.0).is_selected()
        True
        """
        return any(_one_kind(self)) or any(_order_of_arrival(self))

    def __repr__(self) -> str:
        shown = {name: value for name, value in self._asdict().items() if name in SHOWN or value not in UNREMARKABLE}
        issued, _ = shown.pop("issued", None), shown.pop("scores", None)
        own = "" if issued is None else f", issued levels off by {issued.short()}"
        return f"Status({', '.join(f'{name}={value!r}' for name, value in shown.items())}{own})"

    def _repr_html_(self) -> str:
        counts = f"{counted(self.forecasts, 'forecast')}, {counted(self.labels, 'label')}, {self.open:,} open"
        facts = {"labels that came": share(self.coverage), "mean delay": f"{self.mean_delay:,.4g} forecasts"}
        facts |= {"expired": f"{self.expired:,}", "held": f"{self.held:,}"}
        facts |= {f"{name} missing": f"{count:,}" for name, count in self.missing.items() if count}
        facts |= {} if self.issued is None else {"issued levels off by": self.issued.short()}
        facts |= {f"beside {score.name}": score.sentence for score in self.scores}
        return display("Status", counts, facts | ({"look at": " ".join(self.warnings)} if self.warnings else {}))


FALSE_ALARMS = 0.001  # probability of ever warning about the order of arrival where it does not matter
ROUNDED = 1e-12  # relative rounding error of sums of outcomes
SMALL = 0.01  # a smaller share of unseen outcomes gets no sentence


def _one_kind(status: Status) -> Iterator[str]:
    """Yield the warning that all known outcomes are equal while many are unknown: a count, valid at any look."""
    ends = status.low, status.high
    if status.labels - status.silent < ENOUGH or status.open < status.labels:
        return
    for kind, other, when in zip(ends, ends[::-1], ("do not happen", "happen"), strict=True):
        if isclose(status.ones, kind * status.labels, rel_tol=ROUNDED, abs_tol=ROUNDED * (ends[1] - ends[0])):
            only = f"only when they {when}" if ends == (0.0, 1.0) else "early only where they are this"
            yield (
                f"All {status.labels:,} outcomes known so far are {kind:g} and {status.open:,} forecasts are still "
                f"open: if outcomes are reported {only}, name the window and the meaning of silence, matures= and "
                f"silence={other:g}."
            )


def _order_of_arrival(status: Status) -> Iterator[str]:
    first, pairs = max(status.earlier, status.later), status.earlier + status.later
    if float(coin_wealth(status.earlier, status.later)) < float(ville(FALSE_ALARMS)):
        return
    kinds = (status.high, status.low) if status.earlier > status.later else (status.low, status.high)
    kind = f"{kinds[0]:g} comes earlier than {kinds[1]:g}"
    yield (
        f"Outcome {kind} in {first:,} of {pairs:,} pairs of neighbouring forecasts (false-alarm probability below "
        f"{FALSE_ALARMS:.1%}, however often one looks): the outcomes known are no fair sample of all. Name the time by "
        "which an outcome is known whatever it is, matures=."
    )


def _unseen_share(status: Status) -> Iterator[str]:
    if status.labels >= ENOUGH and status.unseen - 1.0 / (status.labels + 1.0) >= SMALL:  # less: one delay of all
        yield (
            f"{status.unseen:.1%} of the outcomes cannot have been seen yet: they take longer than any that has come. "
            'Name matures= if that is not done, or unseen="fair" if delays do not depend on outcomes.'
        )


def _corrected(status: Status) -> Iterator[str]:
    if status.corrections:
        yield (
            f"{status.corrections:,} of {status.silent:,} forecasts learned as silence were reported otherwise after "
            "their window; what was learned stays. A longer matures= would wait for them."
        )


def _windowless(status: Status) -> Iterator[str]:
    if status.windowless:
        yield (
            f"{counted(status.windowless, 'open forecast')} without a maturity: silence is never learned there. Name "
            "the window, matures=."
        )
