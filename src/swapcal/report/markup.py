"""Markup: HTML built so that text is escaped unless it already is markup.

`Html` is a string known to be well formed. `tag` inserts `Html` children as they are and escapes every other
string, so a group named ``<script>`` can only ever be shown, never run.
"""

import html
import math
import re
from collections.abc import Iterable

VOID = frozenset({"meta", "br", "path", "circle", "line", "rect"})
"""Elements written without a closing tag: HTML's own and the SVG shapes, which have no content here."""

UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters no HTML page may hold, lone surrogates included (they cannot be written as UTF-8)."""


class Html(str):
    """A string that is markup already and must not be escaped again."""

    __slots__ = ()


def escape(text: str) -> Html:
    """Return `text` as markup that shows it literally.

    >>> escape('<b a="1">&')
    '&lt;b a="1"&gt;&amp;'
    """
    if isinstance(text, Html):
        return text
    return Html(html.escape(UNPRINTABLE.sub("\ufffd", text), quote=False))


def join(parts: Iterable[str]) -> Html:
    """Concatenate, escaping what is not markup.

    >>> join([Html("<b>"), "<", Html("</b>")])
    '<b>&lt;</b>'
    """
    return Html("".join(map(escape, parts)))


def coordinate(value: float) -> str:
    """Write a drawing coordinate with two decimals; only finite numbers can be drawn.

    >>> coordinate(1.5), coordinate(-0.001), coordinate(3)
    ('1.5', '0', '3')
    """
    if not math.isfinite(value):
        raise ValueError(f"coordinate: given {value}, expected a finite number")
    rounded = round(value, 2) + 0.0  # adding zero turns -0.0 into 0.0
    return f"{rounded:.2f}".rstrip("0").rstrip(".")


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Html:
    """Write one element; ``class_`` means class, other underscores mean hyphens, None drops the attribute.

    >>> tag("p", "a < b", class_="lead", aria_hidden="true", title=None)
    '<p class="lead" aria-hidden="true">a &lt; b</p>'
    >>> tag("circle", r=2.0)
    '<circle r="2"/>'
    """
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in VOID:
        return Html(f"<{opening}/>")
    return Html(f"<{opening}>{join(children)}</{name}>")


def _attribute(key: str, value: str | float) -> str:
    # str() strips the promise of Html: an attribute is always escaped.
    text = escape(str(value) if isinstance(value, str) else coordinate(value)).replace('"', "&quot;")
    return f' {key.rstrip("_").replace("_", "-")}="{text}"'
