"""Audit: exact errors of any predictions, what attains them, and what chance alone would give."""

from swapcal.audit.audit import Audit
from swapcal.audit.comparison import ClassAudits, Comparison
from swapcal.audit.conventional import ConventionalMeasures, ObservedRate, TheoryMeasures
from swapcal.audit.null import Noise
from swapcal.audit.text import Titles
from swapcal.audit.verdict import Finding, Witness
from swapcal.report.findings import Difference, GroupDifference, GroupRow, Term

__all__ = [
    "Audit",
    "ClassAudits",
    "Comparison",
    "ConventionalMeasures",
    "Difference",
    "Finding",
    "GroupDifference",
    "GroupRow",
    "Noise",
    "ObservedRate",
    "Term",
    "TheoryMeasures",
    "Titles",
    "Witness",
]
