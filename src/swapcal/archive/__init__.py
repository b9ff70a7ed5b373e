"""Durable state: files that are replaced whole, and read only if they are what they claim to be."""

from swapcal.archive.container import read, write
from swapcal.archive.files import put_text, replacing, written
from swapcal.archive.kind import ArchiveError, Kind
from swapcal.archive.state import State, nested, part

__all__ = ["ArchiveError", "Kind", "State", "nested", "part", "put_text", "read", "replacing", "write", "written"]
