"""Sphinx extension: add to the stamp of a measured page that the code it measures has changed since."""

import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).resolve().parents[2] / "experiments"))

import measured


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _note)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _note(app: Sphinx, page: str, source: list[str]) -> None:
    if page in measured.PAGES:
        added = measured.note(source[0], measured.PAGES[page].sources)
        source[0] = measured.STAMP.sub(lambda found: f"{found[0]} {added}".rstrip(), source[0])
