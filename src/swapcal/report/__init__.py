"""The report: findings in, one self-contained HTML page out.

>>> from swapcal.report import render
"""

from swapcal.report.card import card
from swapcal.report.findings import SCHEMA_VERSION, Findings
from swapcal.report.page import render

__all__ = ["SCHEMA_VERSION", "Findings", "card", "render"]
