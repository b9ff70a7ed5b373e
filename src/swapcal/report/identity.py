"""Identity: what is needed to repeat the audit."""

from swapcal.report.formats import clip, count, symbol
from swapcal.report.layout import NAME_LENGTH, facts, folded, given, prose, section
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import Findings, Identity

MOST_FEATURES, MOST_SETTINGS = 60, 40
"""How much of each list is shown."""


def identity(findings: Findings) -> Html:
    """Write what is needed to repeat the audit."""
    subject = findings["identity"]
    parts = [facts(_pairs(subject), "identity"), _settings(subject)]
    twin = "Every figure on this page is also in its JSON twin. The page holds aggregates only, no rows of data."
    return section("identity", "Identity of this audit", *parts, prose(twin, style="note"))


def window(subject: Identity) -> str:
    """Write the time window in words."""
    first, last = subject["first_time"], subject["last_time"]
    if first is None and last is None:
        return "no time column given"
    return f"{clip(first or 'unknown', 40)} to {clip(last or 'unknown', 40)}"


def _pairs(subject: Identity) -> list[tuple[str, str]]:
    weight = subject["total_weight"]
    pairs = [
        ("Predictions", _column(subject, subject["prediction"])),
        ("Outcomes", _column(subject, subject["label"])),
        (
            "Rows",
            count(subject["n"]) + (f" (total weight {count(weight)})" if weight != subject["n"] else ""),
        ),
        ("Window", window(subject)),
        *_optional(subject),
        ("Data hash", _code(subject["data_hash"])),
        ("Settings hash", _code(subject["settings_hash"])),
        ("Made", clip(subject["created_at"], 60)),
        ("Made by", _versions(subject)),
    ]
    return [(name, value) for name, value in pairs if value]


def _versions(subject: Identity) -> str:
    swapcal, python, numpy = (clip(subject[key], 40) for key in ("swapcal_version", "python_version", "numpy_version"))
    return f"swapcal {swapcal} (schema {subject['schema_version']}), Python {python}, NumPy {numpy}"


def _optional(subject: Identity) -> list[tuple[str, str]]:
    levels = subject.get("n_levels")
    rule = clip(subject.get("levelling") or "", 400)
    return [
        ("Features", _features(subject, subject.get("features") or [])),
        ("Levels", ". ".join(part for part in (count(levels) if levels else "", rule) if part)),
    ]


def _features(subject: Identity, names: list[str]) -> Html:
    shown = [_column(subject, name, 60) for name in names[:MOST_FEATURES]]
    more = [f"and {count(len(names) - len(shown))} more"] if len(names) > len(shown) else []
    items = [piece for name in [*shown, *more] for piece in (", ", name)]
    return join(items[1:])


def _column(subject: Identity, name: str, length: int = NAME_LENGTH) -> Html:
    """Show a column by its title, with its name beside it."""
    title = (subject.get("titles") or {}).get(name)
    return given(name, length) if title is None else join([given(title, length), " (", given(name, length), ")"])


def _code(text: str) -> Html:
    return tag("code", clip(text, NAME_LENGTH))


def _settings(subject: Identity) -> Html:
    settings = subject.get("settings") or {}
    pairs = [(clip(name, 60), symbol(clip(value, 200))) for name, value in list(settings.items())[:MOST_SETTINGS]]
    return folded("Settings", facts(pairs, "identity")) if pairs else Html("")
