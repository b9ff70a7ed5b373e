"""Page: all sections in order, with the style sheet, as one file that needs nothing else."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from swapcal.report.comparison import comparison, contest, gain
from swapcal.report.findings import Findings
from swapcal.report.groups import groups, witnesses
from swapcal.report.headline import headline, identity, key_figures, limitations, reading, window
from swapcal.report.html import Html, clip, document, join, plural, tag, top
from swapcal.report.noise_floor import certificate, decisions, noise_floor
from swapcal.report.reliability import reliability, timeline


class Section(NamedTuple):
    """One section of the page, left out where its field is missing or empty."""

    anchor: str
    short: str
    write: Callable[[Findings], Html]
    field: str = "identity"


SECTIONS = (
    Section("comparison", "Before and after", comparison, "comparison"),
    Section("figures", "Key figures", key_figures),
    Section("reliability", "Reliability", reliability, "reliability"),
    Section("time", "Time", timeline, "timeline"),
    Section("groups", "Groups", groups, "groups"),
    Section("witnesses", "Worst errors", witnesses, "witnesses"),
    Section("errors", "Errors", noise_floor, "quantities"),
    Section("decisions", "Decisions", decisions, "decisions"),
    Section("certificate", "Certificate", certificate, "forecaster"),
    Section("reading", "How to read", reading),
    Section("limitations", "Limitations", limitations),
    Section("identity", "Identity", identity),
)
"""In the order of the page."""


def render(findings: Findings | Mapping[str, Any]) -> str:
    """Render findings as one self-contained HTML page.

    The page holds aggregates only, draws inline SVG, runs no script and loads nothing; it stays below 1 MB
    whatever the findings hold, because every list is cut at a fixed length and the rest is counted. Equal
    findings give equal pages.

    Parameters
    ----------
    findings : Findings or mapping
        What `to_findings` of an audit returns, or the same as plain data: what `to_dict` returns or a JSON file holds.

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
    found = Findings.of(findings)
    bodies = {section: section.write(found) for section in SECTIONS if getattr(found, section.field)}
    written = {section: body for section, body in bodies.items() if body}
    first = contest(found) if found.contest else gain(found)
    main = tag("main", _top(found), first, headline(found), _contents(written), *written.values())
    subject = found.identity
    generator = "swapcal " + clip(subject.swapcal_version, 40)
    return document(clip(subject.title, 200) + " – calibration audit", main, generator)


def _top(findings: Findings) -> Html:
    subject = findings.identity
    dated = subject.first_time is not None or subject.last_time is not None
    made = f"made {clip(subject.created_at, 60)}" if subject.created_at else ""
    facts = [plural(subject.n, "row"), window(subject) if dated else "", made]
    return top("Calibration audit", subject.title, facts)


def _contents(sections: Iterable[Section]) -> Html:
    links = [tag("li", tag("a", section.short, href=f"#{section.anchor}")) for section in sections]
    return join([tag("nav", tag("ul", *links), aria_label="Contents")])
