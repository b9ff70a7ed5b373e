"""Durable state: files that are replaced whole, and read only if they are what they claim to be."""

from swapcal.archive.container import read, write
from swapcal.archive.files import put_text, replacing
from swapcal.archive.kind import ArchiveError, Kind

__all__ = ["ArchiveError", "Kind", "put_text", "read", "replacing", "write"]
