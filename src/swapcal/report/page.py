"""Page: all sections in order, with the style sheet, as one file that needs nothing else."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from swapcal.report.certificate import certificate
from swapcal.report.comparison import comparison
from swapcal.report.contest import contest
from swapcal.report.decisions import decisions
from swapcal.report.formats import clip, plural
from swapcal.report.groups import groups
from swapcal.report.headline import headline, key_figures
from swapcal.report.identity import identity, window
from swapcal.report.layout import document, given, prose
from swapcal.report.markup import Html, join, tag
from swapcal.report.noise_floor import noise_floor
from swapcal.report.reading import limitations, reading
from swapcal.report.reliability import reliability
from swapcal.report.schema import Findings
from swapcal.report.timeline import timeline
from swapcal.report.validation import validate
from swapcal.report.witnesses import witnesses

SECTIONS: tuple[tuple[str, str, Callable[[Findings], Html]], ...] = (
    ("comparison", "Before and after", comparison),
    ("figures", "Key figures", key_figures),
    ("reliability", "Reliability", reliability),
    ("time", "Time", timeline),
    ("groups", "Groups", groups),
    ("witnesses", "Worst errors", witnesses),
    ("errors", "Errors", noise_floor),
    ("decisions", "Decisions", decisions),
    ("certificate", "Certificate", certificate),
    ("reading", "How to read", reading),
    ("limitations", "Limitations", limitations),
    ("identity", "Identity", identity),
)
"""Anchor, short name and writer of every section, in the order of the page."""


def render(findings: Findings | Mapping[str, Any]) -> str:
    """Render findings as one self-contained HTML page.

    The page holds aggregates only, draws inline SVG, runs no script and loads nothing; it stays below 1 MB
    whatever the findings hold, because every list is cut at a fixed length and the rest is counted. Equal
    findings give equal pages.

    Parameters
    ----------
    findings : mapping
        As described by `swapcal.report.schema.Findings`: plain str, int, float, bool, None, lists and dicts.

    Returns
    -------
    str
        The page, to be written as UTF-8.

    Raises
    ------
    ValueError
        If a required field is missing or of another type; the message names its path.

    Examples
    --------
    >>> identity = dict(title="Rain", swapcal_version="0.1.0", schema_version=2, data_hash="ab",
    ...                 settings_hash="cd", python_version="3.12", numpy_version="2.1", n=3, total_weight=3.0,
    ...                 first_time=None, last_time=None, created_at="2026-01-01", prediction="p", label="y")
    >>> headline = dict(verdict="undecided", sentence="Three rows are too few to tell.")
    >>> page = render(dict(identity=identity, headline=headline))
    >>> page.startswith("<!doctype html>"), "Three rows are too few to tell." in page
    (True, True)
    """
    validate(findings)
    checked = cast(Findings, findings)
    bodies = [(name, short, write(checked)) for name, short, write in SECTIONS]
    present = [(name, short, body) for name, short, body in bodies if body]
    contents = _contents([(name, short) for name, short, _ in present])
    main = tag("main", _top(checked), contest(checked), headline(checked), contents, *(body for _, _, body in present))
    subject = checked["identity"]
    generator = "swapcal " + clip(subject["swapcal_version"], 40)
    return document(clip(subject["title"], 200) + " – calibration audit", main, generator)


def _top(findings: Findings) -> Html:
    subject = findings["identity"]
    dated = subject["first_time"] is not None or subject["last_time"] is not None
    made = f"made {clip(subject['created_at'], 60)}" if subject["created_at"] else ""
    facts = [plural(subject["n"], "row"), window(subject) if dated else "", made]
    dateline = prose(*(tag("span", fact) for fact in facts if fact), style="dateline")
    return tag(
        "header",
        prose("Calibration audit", style="eyebrow"),
        tag("h1", given(subject["title"], 200)),
        dateline,
    )


def _contents(entries: list[tuple[str, str]]) -> Html:
    links = [tag("li", tag("a", short, href=f"#{name}")) for name, short in entries]
    return join([tag("nav", tag("ul", *links), aria_label="Contents")])
