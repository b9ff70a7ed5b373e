"""One reader of files (CSV, TSV, JSONL, Parquet, gzip, standard input), one reading of outcomes, one atomic writer."""

from swapcal.tables.dialect import Dialect, InputError
from swapcal.tables.kinds import Kind
from swapcal.tables.source import Part, Source, open_source

__all__ = ["Dialect", "InputError", "Kind", "Part", "Source", "open_source"]
