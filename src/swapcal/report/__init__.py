"""The report: findings in, one self-contained HTML page out.

>>> from swapcal.report import render
"""

from swapcal.report.card import card
from swapcal.report.page import render
from swapcal.report.schema import SCHEMA_VERSION, Findings, validate

__all__ = ["SCHEMA_VERSION", "Findings", "card", "render", "validate"]
