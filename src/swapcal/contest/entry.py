"""Entry: one method of a contest."""

from typing import NamedTuple

from swapcal.audit.difference import Difference
from swapcal.audit.verdict import Word
from swapcal.report.schema import ContestMethod


class Entry(NamedTuple):
    """One method: its scores, its worst group, its verdict, and its scores beside yours, tested; lower is better."""

    name: str
    brier: float
    log_loss: float
    worst_group: str | None
    worst_gap: float | None
    """observed minus forecast, of the group with the largest among those large enough to be tested"""
    verdict: Word
    squared: Difference | None
    """Brier score beside yours; None for yours"""
    logged: Difference | None
    """log loss beside yours"""

    @property
    def better(self) -> bool:
        """Whether the squared error is lower than yours beyond chance, and the log loss not higher."""
        return _word(self.squared) == "better" and _word(self.logged) != "worse"

    def plain(self) -> ContestMethod:
        """Return it as plain data."""
        squared, logged = self.squared, self.logged
        return {
            "name": self.name,
            "brier": self.brier,
            "log_loss": self.log_loss,
            "worst_group": self.worst_group,
            "worst_gap": self.worst_gap,
            "verdict": self.verdict,
            "brier_change": None if squared is None else squared.difference,
            "brier_low": None if squared is None else squared.low,
            "brier_high": None if squared is None else squared.high,
            "word": None if squared is None else squared.word,
            "log_loss_change": None if logged is None else logged.difference,
            "log_loss_low": None if logged is None else logged.low,
            "log_loss_high": None if logged is None else logged.high,
        }


def _word(difference: Difference | None) -> str:
    return "" if difference is None else difference.word
