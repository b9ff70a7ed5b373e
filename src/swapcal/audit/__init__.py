"""Audit: exact errors of anyone's predictions, what attains them, and what chance alone would give."""

from swapcal.audit.audit import Audit
from swapcal.audit.comparison import Comparison
from swapcal.audit.difference import Difference, GroupDifference
from swapcal.audit.evidence import GroupRow
from swapcal.audit.null import Noise
from swapcal.audit.text import Titles
from swapcal.audit.verdict import Finding, Term, Witness

__all__ = [
    "Audit",
    "Comparison",
    "Difference",
    "Finding",
    "GroupDifference",
    "GroupRow",
    "Noise",
    "Term",
    "Titles",
    "Witness",
]
