"""Sphinx extension: read our docstrings as they are meant, before napoleon sees them.

They are plain text in numpy's layout: backticks are code, bars and stars are mathematics, and what follows the colon
after a parameter's name is what it means (types are in the signature).
"""

import re
from typing import Any

from sphinx.application import Sphinx

BEFORE_NAPOLEON = 400
OTHERS = ("sklearn", "river")
CODE = re.compile(r"(`+[^`]+`+)")
PARAMETER = re.compile(r"(\*{0,2}\w[\w, *]*?) : (.+)")
SECTION = re.compile(r"-{3,}")
SIGN = re.compile(r"([|*]|(?<=\w)_\b)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", _rewrite, priority=BEFORE_NAPOLEON)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _rewrite(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    if what == "data" and getattr(item, "__doc__", None) == type(item).__doc__:  # what a dict is, not this one
        lines.clear()
    found: list[str] = []
    listed = example = False
    for k, line in enumerate(lines):
        following = lines[k + 1] if k + 1 < len(lines) else ""
        if SECTION.fullmatch(following):
            listed = line in ("Parameters", "Attributes")
            line = line.replace("Attributes", "Fields")  # "Attributes" would make a cross-reference of each
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        entry = PARAMETER.fullmatch(line) if listed else None
        if entry is not None:
            found += [entry[1], f"    {_escaped(entry[2])}"]
        else:
            found.append(line if example else _escaped(line))
    lines[:] = found


def _escaped(line: str) -> str:
    """Turn backticks into code, and keep other signs from meaning anything."""
    parts = CODE.split(line)
    parts[::2] = [SIGN.sub(r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"``{part.strip('`')}``" for part in parts[1::2]]
    return "".join(parts)


def _skip(app: Sphinx, what: str, name: str, item: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what others wrote, and fields of named tuples that nobody described."""
    theirs = str(getattr(item, "__module__", "")).startswith(OTHERS)
    return True if theirs or str(getattr(item, "__doc__", "")).startswith("Alias for field number") else None
