"""Layout: the few page elements every section is made of."""

from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from swapcal.report.formats import clip, clip_middle, plural
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import Verdict

NAME_LENGTH = 100
"""Longest name shown in full: a page must stay small and readable whatever the data call their groups."""
SENTENCE_LENGTH = 800
"""Longest supplied sentence shown in full."""
TALL = 30
"""Tables with more rows than this scroll inside their own frame on a screen (never in print)."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Told to the browser: this page loads nothing and runs nothing."""

_SHAPES = {
    "miscalibrated": "M5 0L10 5L5 10L0 5Z",
    "small": "M5 2L8 5L5 8L2 5Z",
    "no error found": "M5 1A4 4 0 1 1 5 9A4 4 0 1 1 5 1Z",
    "undecided": "M5 1.5A3.5 3.5 0 1 1 5 8.5A3.5 3.5 0 1 1 5 1.5Z",
}
_SAID = {"small": "small error"}
"""How a verdict is shown where it stands alone, unless by its own word."""


def section(name: str, title: str, *content: str) -> Html:
    """Write one section under a heading that can be linked to."""
    return tag("section", tag("h2", title, id=name), *content, aria_labelledby=name)


def top(kind: str, title: str, facts: Iterable[str]) -> Html:
    """Write the top of a page: what kind of page, its title, and the facts that are known."""
    dateline = prose(*(tag("span", fact) for fact in facts if fact), style="dateline")
    return tag("header", prose(kind, style="eyebrow"), tag("h1", given(title, 200)), dateline)


def prose(*content: str, style: str | None = None) -> Html:
    """Write a paragraph."""
    return tag("p", *content, class_=style)


def given(text: str, length: int = NAME_LENGTH) -> Html:
    """Show a name from the data, shortened if huge, and isolated so that its script keeps its direction."""
    return tag("bdi", clip_middle(text, length))


def named(entry: Any, length: int = NAME_LENGTH, key: str = "name") -> Html:
    """Show an entry's title, or its name where it has none."""
    return given(
        entry.get("group_title" if key == "group" and "group_title" in entry else "title") or entry[key], length
    )


def exhibit(caption: str, *content: str) -> Html:
    """Hold a picture under its caption."""
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
    return tag("div", whole, class_=frame, tabindex="0", role="region", aria_label=f"Table: {plain(caption)}")


def _row(columns: Sequence[tuple[str, str]], cells: Sequence[str]) -> Html:
    first = tag("th", cells[0], scope="row", class_=columns[0][1] or None)
    rest = (tag("td", cell, class_=kind or None) for cell, (_, kind) in zip(cells[1:], columns[1:], strict=True))
    return tag("tr", first, *rest)


def plain(caption: str) -> str:
    """Reduce a caption to what fits an accessible label: its first sentence, without markup.

    >>> plain("Groups. Positive gap: more than predicted.")
    'Groups'
    """
    return clip(caption.split(".")[0], 80) if not isinstance(caption, Html) else "figures"


def folded(summary: str, *content: str) -> Html:
    """Hide details until asked for; the page needs no script for it."""
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


def badge(verdict: Verdict) -> Html:
    """Show a verdict as a shape and a word, so that colour is never the only sign."""
    shape = tag("svg", tag("path", d=_SHAPES[verdict]), width="10", height="10", aria_hidden="true")
    return tag("span", shape, _SAID.get(verdict, verdict), class_=f"verdict {verdict.split()[0]}")


def hidden(shown: int, total: int, noun: str, rule: str) -> Html:
    """Say how many rows are left out and by which rule; nothing when all are shown."""
    if shown >= total:
        return Html("")
    text = f"{plural(total - shown, noun)} not shown ({rule}). The JSON twin of this page holds them all."
    return prose(text, style="hidden-count")


def sentences(texts: Iterable[str], limit: int = 20) -> Html:
    """List supplied sentences."""
    everything = list(texts)
    items = [tag("li", clip(text, SENTENCE_LENGTH)) for text in everything[:limit]]
    rest = hidden(len(items), len(everything), "note", "the first are shown")
    return join([tag("ul", *items, class_="sentences"), rest]) if items else Html("")


def document(title: str, main: Html, generator: str | None = None) -> str:
    """Write a whole page with its style sheet, as one file that needs nothing else."""
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
