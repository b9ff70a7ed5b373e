"""The report: findings in, one self-contained HTML page out."""

from swapcal.report.schema import SCHEMA_VERSION, Findings

__all__ = ["SCHEMA_VERSION", "Findings"]
