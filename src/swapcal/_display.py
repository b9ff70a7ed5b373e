"""Representations of public classes in a console and in a notebook: small, escaped, for light and dark themes."""

import html
import re
from collections.abc import Iterable, Mapping
from math import floor, log10

MOST_NAMES = 4
"""Number of names listed; further ones are counted."""
LONGEST = 600
"""Characters of a value that are shown."""

_FRAME = "display:inline-block;max-width:60em;padding:.4em .9em;border-left:3px solid #888;font-family:sans-serif"
_TERM = "text-align:left;font-weight:normal;opacity:.7;padding:.1em 1.2em .1em 0;vertical-align:top"
_VALUE = "text-align:left;padding:.1em 0;font-variant-numeric:tabular-nums"


INSEPARABLE = re.compile(r"(?<=\d) (?=%)|(?<=\bp) (?=[=<≤])|(?<=[=<≤]) (?=\d)")
"""Blanks inside "95 %" and "p ≤ 0.001", at which no line ends."""


def display(title: str, sentence: str = "", facts: Mapping[str, object] | None = None) -> str:
    """Return a small piece of HTML: a title, a sentence and facts by name, all shown literally.

    Examples
    --------
    >>> display("Audit", "3 rows <so far>").endswith("<b>Audit</b> 3 rows &lt;so far&gt;</div>")
    True
    """
    rows = "".join(
        f'<tr><th scope="row" style="{_TERM}">{_shown(name)}</th><td style="{_VALUE}">{_shown(value)}</td></tr>'
        for name, value in (facts or {}).items()
    )
    table = (
        f'<table style="border:none;border-collapse:collapse;margin:.3em 0 0;color:inherit;font:inherit">{rows}</table>'
        if rows
        else ""
    )
    return f'<div style="{_FRAME}"><b>{_shown(title)}</b> {_shown(sentence, 2000)}{table}</div>'


def _shown(value: object, longest: int = LONGEST) -> str:
    text = value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else str(value)
    return html.escape(text if len(text) <= longest else text[: longest - 1] + "…")


def counted(number: int, noun: str) -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def named(names: Iterable[object], most: int = MOST_NAMES) -> str:
    """List a few names and count the others.

    Examples
    --------
    >>> named(["a", "b"]), named("abcdefg"), named([])
    ('a, b', 'a, b, c, d and 3 more', '')
    """
    known = [str(name) for name in names]
    remaining = len(known) - most
    return ", ".join(known[:most]) + (f" and {remaining:,} more" if remaining > 0 else "")


def share(value: float) -> str:
    """Write a rate as a percentage with three significant digits.

    Examples
    --------
    >>> share(0.184), share(0.00478), share(0.0), share(float("nan"))
    ('18.4 %', '0.478 %', '0 %', '–')
    """
    if value != value:
        return "–"
    return f"{100 * value:.3g} %"


def changes(*values: float) -> list[str]:
    """Write small signed numbers with the same decimals, two digits of the largest.

    Examples
    --------
    >>> changes(0.00021, -0.000089, 0.0005)
    ['+0.00021', '-0.00009', '+0.00050']
    """
    largest = max(map(abs, values))
    places = 2 if not 0.0 < largest < 1.0 else 1 - floor(log10(largest))
    return [f"{value:+.{places}f}" for value in values]


def points(gap: float) -> str:
    """Write a signed gap in percentage points.

    Examples
    --------
    >>> points(0.0412), points(-0.0004), points(0.0)
    ('+4.1', '-0.04', '0.0')
    """
    size = abs(100 * gap)
    text = f"{100 * gap:+.1f}" if size >= 1 or size == 0 else f"{100 * gap:+.2g}"
    return text if size else "0.0"
