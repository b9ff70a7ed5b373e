"""Elements of a page: HTML that escapes text, formats of numbers, and layout."""

import html
import math
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import NamedTuple, Self

from swapcal._display import INSEPARABLE
from swapcal.report.findings import ComparisonEntry, Findings, Word

# Markup: HTML built so that text is escaped unless it already is markup.
#
# `Html` is a string known to be well formed. `tag` inserts `Html` children as they are and escapes every other
# string, so a group named ``<script>`` can only ever be shown, never run.

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


# Formats: how a number, a rate, a p-value or a symbol is written on the page.

DASH = "–"
"""Shown for a figure that does not exist."""
LARGEST = 1e300
"""Figures beyond this are treated as missing, so that differences of two figures stay finite."""
THIN = "\u202f"
"""Narrow space that does not break, between a number and its unit."""

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_IRREGULAR = {"quantity": "quantities", "loss": "losses", "smaller error": "smaller errors"}
_SYMBOL = re.compile(r"\b([A-Z][A-Za-z]*)_(\d|res)(?:\^(lin|aff))?(?!\w)")


def finite(value: float | None) -> float | None:
    """Return a usable figure, or None for None, NaN and anything too large to draw.

    >>> finite(2), finite(float("nan")), finite(None)
    (2.0, None, None)
    """
    if value is None or not math.isfinite(value) or abs(value) > LARGEST:
        return None
    return float(value)


def all_finite(values: Iterable[float | None]) -> list[float]:
    """Keep the usable figures.

    >>> all_finite([1, None, float("inf")])
    [1.0]
    """
    return [x for x in map(finite, values) if x is not None]


def clip(text: str, length: int) -> str:
    """Shorten a text that would swamp the page.

    >>> clip("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= length else text[: length - 1] + "…"


def clip_middle(text: str, length: int) -> str:
    """Shorten a long name in the middle: the ends distinguish names.

    >>> clip_middle("feature = a very long value 17", 15)
    'feature…alue 17'
    """
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[: length - 1 - half]}…{text[-half:]}"


def counted(findings: Findings) -> str:
    """Return the title of counts: "Rows", or "Weight" if rows have weights."""
    identity = findings.identity
    return "Rows" if identity.total_weight == identity.n else "Weight"


def sized(value: float | None, amount: str) -> str:
    """Write a number of rows, or their weight.

    >>> sized(1204, "Rows"), sized(12.25, "Weight")
    ('1,204 rows', 'weight 12.2')
    """
    return f"{count(value)} rows" if amount == "Rows" else f"{amount.lower()} {count(value)}"


FEW_SMALL = 24
"""Groups too small to be tested that are listed one by one; more of them share one row."""


class GroupCounts(NamedTuple):
    """Numbers of groups tested, and of groups too small to be tested."""

    tested: int
    small: int

    @classmethod
    def of(cls, findings: Findings | ComparisonEntry) -> Self:
        """Return the counts; files of earlier releases count small groups among the examined."""
        listed = sum(group.small for group in findings.groups)
        examined = findings.groups_examined or len(findings.groups)
        small = findings.groups_small
        return cls(examined - listed, listed) if small is None else cls(findings.groups_examined or 0, small)

    @property
    def joined(self) -> bool:
        """Whether the small groups share one row."""
        return self.small > FEW_SMALL

    @property
    def too_small(self) -> str:
        """The number of small groups in words; empty if there are none."""
        if not self.small:
            return ""
        return f"{plural(self.small, 'group')} {'is' if self.small == 1 else 'are'} too small to be tested"


def count(value: float | None) -> str:
    """Write a number of rows, or a total weight.

    >>> count(61035), count(12.25), count(None)
    ('61,035', '12.2', '–')
    """
    x = finite(value)
    if x is None:
        return DASH
    if abs(x) >= 1e15:
        return figure(x)
    return f"{x:,.0f}" if x == round(x) or abs(x) >= 1000 else f"{x:,.1f}"


def figure(value: float | None, digits: int = 3) -> str:
    """Write a quantity with `digits` significant digits.

    >>> figure(0.012345), figure(12345.6), figure(-2.5), figure(3.2e-7), figure(0)
    ('0.0123', '12,346', '−2.50', '3.20 × 10⁻⁷', '0')
    """
    x = finite(value)
    if x is None:
        return DASH
    if x == 0:
        return "0"
    exponent = int(f"{x:.{digits - 1}e}".split("e")[1])
    if not -4 <= exponent < 9:
        return _scientific(x, digits)
    return minus(f"{x:,.{max(0, digits - 1 - exponent)}f}")


def _scientific(x: float, digits: int) -> str:
    mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
    return minus(f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}")


def minus(text: str) -> str:
    """Write a leading hyphen as a minus sign, and zero without a sign.

    >>> minus("-0.5"), minus("-0.0")
    ('−0.5', '0.0')
    """
    return text.replace("-", "−" if re.search("[1-9]", text) else "", 1)


def decimals(rates: Iterable[float | None]) -> int:
    """Decimals that suit a column of percentages, from its largest rate.

    >>> decimals([0.5, 0.01]), decimals([0.004]), decimals([])
    (1, 2, 1)
    """
    largest = max(map(abs, all_finite(rates)), default=0.0)
    return 1 if largest == 0 or largest >= 0.05 else min(6, -math.floor(math.log10(largest)) - 1)


def axis_decimals(span: float) -> int:
    """Decimals that keep the percentages of neighbouring ticks apart, of five.

    >>> axis_decimals(1.0), axis_decimals(0.02), axis_decimals(0.0)
    (0, 1, 9)
    """
    return max(0, math.ceil(-math.log10(max(100 * span / 5, 1e-9)) - 1e-9))


def tick(value: float, step: float) -> str:
    """Write an axis label with the decimals its step needs.

    >>> tick(0.1, 0.05), tick(0.0, 0.05), tick(2000.0, 1000.0), tick(4e-7, 2e-7)
    ('0.10', '0', '2,000', '4.00 × 10⁻⁷')
    """
    if value == 0:
        return "0"
    if not 1e-5 <= step < 1e9:
        return figure(value)
    return minus(f"{value:,.{max(0, math.ceil(-math.log10(step) - 1e-9))}f}")


def percent(rate: float | None, places: int = 1) -> str:
    """Write a rate as a percentage.

    >>> percent(0.4964), percent(0.0048, 2), percent(None)
    ('49.6\u202f%', '0.48\u202f%', '–')
    """
    x = finite(rate)
    return DASH if x is None else minus(f"{100 * x:,.{places}f}") + THIN + "%"


def points(gap: float | None, places: int = 1) -> str:
    """Write a signed difference of rates in percentage points.

    >>> points(0.031), points(-0.0204, 2), points(0.0)
    ('+3.1', '−2.04', '0.0')
    """
    x = finite(gap)
    if x is None:
        return DASH
    text = f"{100 * x:+,.{places}f}"
    return minus(text) if re.search("[1-9]", text) else text.lstrip("+-")


def p_value(value: float | None) -> str:
    """Write a p-value; the tails are bounds, not digits.

    >>> p_value(0.0002), p_value(0.0412), p_value(0.62), p_value(1.0)
    ('< 0.001', '0.041', '0.62', '> 0.99')
    """
    x = finite(value)
    if x is None:
        return DASH
    if x < 0.001:
        return "< 0.001"
    if x > 0.99:
        return "> 0.99"
    return f"{x:.3f}" if x < 0.0995 else f"{x:.2f}"


def symbol(name: str) -> Html:
    """Set the symbols of the theory with true sub- and superscripts.

    >>> symbol("SMCal_2 over F_1^lin")
    'SMCal<sub>2</sub> over F<sub>1</sub><sup>lin</sup>'
    """
    pieces: list[str] = []
    end = 0
    for match in _SYMBOL.finditer(name):
        base, low, high = match.groups()
        pieces += [name[end : match.start()], base, tag("sub", low), tag("sup", high) if high else ""]
        end = match.end()
    return join([*pieces, name[end:]])


def drawn_symbol(name: str) -> Html:
    """Set symbols inside a drawing, where sub- and superscripts are shifted pieces of text.

    >>> drawn_symbol("Cal_2 ·")
    'Cal<tspan dy="3" class="script">2</tspan><tspan dy="-3"> ·</tspan>'
    """
    pieces: list[str] = []
    end, shift = 0, 0
    for match in _SYMBOL.finditer(name):
        base, low, high = match.groups()
        pieces += [_shifted(name[end : match.start()] + base, -shift), _shifted(low, 3, "script")]
        pieces += [_shifted(high, -8, "script")] if high else []
        end, shift = match.end(), 3 - (8 if high else 0)
    return join([*pieces, _shifted(name[end:], -shift)])


def _shifted(text: str, dy: int, style: str | None = None) -> str:
    return tag("tspan", text, dy=dy, class_=style) if text and dy else text


def plain_symbol(name: str) -> str:
    """Write a symbol where no markup fits.

    >>> plain_symbol("SMCal_2")
    'SMCal₂'
    """
    return _SYMBOL.sub(lambda m: m[1] + m[2].translate(_SUBSCRIPTS) + (m[3] or ""), name)


def plural(number: float, noun: str) -> str:
    """Write a count with its noun.

    >>> plural(1, "group"), plural(1200, "group"), plural(2, "quantity")
    ('1 group', '1,200 groups', '2 quantities')
    """
    return f"{count(number)} {noun if number == 1 else _IRREGULAR.get(noun, noun + 's')}"


# Layout: the elements of sections.

NAME_LENGTH = 100
"""Longest name shown in full: a page must stay small and readable with any names of groups."""
SENTENCE_LENGTH = 800
"""Longest supplied sentence shown in full."""
TALL = 30
"""Tables with more rows than this scroll inside their own frame on a screen (never in print)."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The content security policy: this page loads nothing and runs nothing."""

_SHAPES = {
    "miscalibrated": "M5 0L10 5L5 10L0 5Z",
    "small": "M5 2L8 5L5 8L2 5Z",
    "no error found": "M5 1A4 4 0 1 1 5 9A4 4 0 1 1 5 1Z",
    "undecided": "M5 1.5A3.5 3.5 0 1 1 5 8.5A3.5 3.5 0 1 1 5 1.5Z",
}
_SHOWN = {"small": "small error"}
"""Verdicts shown by other words where they stand alone."""


def section(name: str, title: str, *content: str) -> Html:
    """Write one section under a heading that can be linked to."""
    return tag("section", tag("h2", title, id=name), *content, aria_labelledby=name)


def top(kind: str, title: str, facts: Iterable[str]) -> Html:
    """Write the top of a page: what kind of page, its title, and the facts that are known."""
    dateline = prose(*(tag("span", fact) for fact in facts if fact), style="dateline")
    return tag("header", prose(kind, style="eyebrow"), tag("h1", given(title, 200)), dateline)


def prose(*content: str, style: str | None = None) -> Html:
    """Write a paragraph; no line of a large sentence or of its details ends inside "95 %" or "p < 0.001"."""
    if style in ("sentence", "detail", "lead"):
        content = tuple(part if isinstance(part, Html) else INSEPARABLE.sub("\u00a0", part) for part in content)
    return tag("p", *content, class_=style)


def given(text: str, length: int = NAME_LENGTH) -> Html:
    """Show a name from the data, shortened if huge, and isolated so that its script keeps its direction."""
    return tag("bdi", clip_middle(text, length))


def named(name: str, title: str | None, length: int = NAME_LENGTH) -> Html:
    """Show a title, or the name of what has none."""
    return given(title or name, length)


def exhibit(caption: str, *content: str) -> Html:
    """Write a picture under its caption."""
    return tag("figure", tag("figcaption", caption), *content)


def table(
    caption: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], style: str | None = None
) -> Html:
    """Write a table; each column is (heading, class) and the first cell of a row is its heading."""
    head = tag("tr", *(tag("th", heading, scope="col", class_=kind or None) for heading, kind in columns))
    body = tag("tbody", *(_row(columns, row) for row in rows))
    tall = len(rows) > TALL
    hint = tag("span", f" {plural(len(rows), 'row')}; scroll within the table.", class_="hint") if tall else ""
    title = tag("caption", tag("span", caption, hint, class_="words")) if caption else ""
    whole = tag("table", title, tag("thead", head), body, class_=style)
    frame = "scroll tall" if tall else "scroll"
    return tag("div", whole, class_=frame, tabindex="0", role="region", aria_label=f"Table: {first_sentence(caption)}")


def _row(columns: Sequence[tuple[str, str]], cells: Sequence[str]) -> Html:
    first = tag("th", cells[0], scope="row", class_=columns[0][1] or None)
    others = (tag("td", cell, class_=kind or None) for cell, (_, kind) in zip(cells[1:], columns[1:], strict=True))
    return tag("tr", first, *others)


def first_sentence(caption: str) -> str:
    """Return the first sentence of a caption, without markup, for an accessible label.

    >>> first_sentence("Groups. Positive gap: more than predicted.")
    'Groups'
    """
    return clip(caption.split(".")[0], 80) if not isinstance(caption, Html) else "figures"


def folded(summary: str, *content: str) -> Html:
    """Write details that unfold on a click, without a script."""
    return tag("details", tag("summary", summary), *content)


def facts(pairs: Iterable[tuple[str, str]], style: str) -> Html:
    """Write terms with their values."""
    return tag("dl", *(tag("div", tag("dt", term), tag("dd", value)) for term, value in pairs), class_=style)


def legend(*entries: tuple[str, str]) -> Html:
    """Explain marks: each entry is (kind of swatch, words)."""
    return tag("ul", *(tag("li", swatch(kind), words) for kind, words in entries), class_="legend", role="list")


def swatch(kind: str) -> Html:
    """Draw a small sample of a line, a band or a mark."""
    shapes = {
        "band": tag("rect", x=0, y=1, width=18, height=8, class_="band"),
        "predicted": tag("line", x1=0, y1=5, x2=18, y2=5, class_="predicted"),
        "ideal": tag("line", x1=0, y1=5, x2=18, y2=5, class_="ideal"),
        "observed-line": tag("line", x1=0, y1=5, x2=18, y2=5, class_="observed-line"),
        "before": tag("circle", cx=9, cy=5, r=3.5, class_="before-mark"),
        "after": tag("path", d="M9 0L14 5L9 10L4 5Z", class_="after-mark"),
        "observed": tag("circle", cx=9, cy=5, r=3.5, class_="observed"),
        "beyond": tag("path", d="M9 0L14 5L9 10L4 5Z", class_="beyond"),
        "floor": tag("line", x1=9, y1=0, x2=9, y2=10, class_="floor"),
        "promise": tag("path", d="M6 0H12M9 0V10M6 10H12", class_="promise"),
    }
    return tag("svg", shapes[kind], width="18", height="10", class_="swatch", aria_hidden="true")


def badge(verdict: Word) -> Html:
    """Show a verdict as a shape and a word, so that colour is never the only sign."""
    shape = tag("svg", tag("path", d=_SHAPES[verdict]), width="10", height="10", aria_hidden="true")
    return tag("span", shape, _SHOWN.get(verdict, verdict), class_=f"verdict {verdict.split()[0]}")


def hidden(shown: int, total: int, noun: str, rule: str) -> Html:
    """Write how many rows are left out and by which rule; empty when all are shown."""
    if shown >= total:
        return Html("")
    text = f"{plural(total - shown, noun)} not shown ({rule}). The JSON version of this page has them all."
    return prose(text, style="hidden-count")


def sentences(texts: Iterable[str], limit: int = 20) -> Html:
    """List supplied sentences."""
    everything = list(texts)
    items = [tag("li", clip(text, SENTENCE_LENGTH)) for text in everything[:limit]]
    note = hidden(len(items), len(everything), "note", "the first are shown")
    return join([tag("ul", *items, class_="sentences"), note]) if items else Html("")


def document(title: str, main: Html, generator: str | None = None) -> str:
    """Return a page with its style sheet, as one self-contained file."""
    metas = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        *([tag("meta", name="generator", content=generator)] if generator else []),
    ]
    style = resources.files("swapcal.report").joinpath("style.css").read_text(encoding="utf-8")
    head = tag("head", *metas, tag("title", title), tag("style", Html(style)))
    return "<!doctype html>\n" + tag("html", head, tag("body", main), lang="en") + "\n"
