"""Sphinx extension: put what is generated in the place of a line `<!-- generated: name -->` of a page."""

import re
from typing import Any

import commands
import endpoints
import states
from sphinx.application import Sphinx

PARTS = {"commands": commands.markdown, "endpoints": endpoints.markdown, "states": states.markdown}
PLACE = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _fill(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = PLACE.sub(lambda found: PARTS[found[1]](), source[0])
