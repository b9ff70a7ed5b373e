"""Closing sections: how to read the page, its limitations, and the identity of the audit."""

from swapcal.report.formats import clip, count, symbol
from swapcal.report.layout import NAME_LENGTH, facts, folded, given, prose, section, sentences
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import Findings, Identity

MOST_FEATURES, MOST_SETTINGS = 60, 40
"""How much of each list is shown."""

READING = (
    (
        "Calibrated",
        "Among the cases given a probability, that share comes true: of the days with “30\u202f% rain”, about"
        " 30 in 100 are wet.",
    ),
    (
        "Level",
        "A value of the forecast. Forecasts that take many values are grouped into narrow levels.",
    ),
    (
        "Multicalibrated",
        "Calibrated not only overall but within every subgroup and along every combination of the features examined.",
    ),
    (
        "Noise band",
        "The range in which a figure falls in 95 of 100 cases if every forecast is exactly right. It is "
        "simulated from the forecasts themselves, so it fits this number of rows and these features.",
    ),
    (
        "p-value",
        "How often chance alone would give an error at least this large somewhere, among all groups, features and "
        "ranges of predictions examined, if every forecast were right. Under “Errors against chance” each row is a "
        "test of its own.",
    ),
    (
        "Gap",
        "Observed minus predicted, in percentage points. Positive: it happens more often than forecast.",
    ),
    (
        "Witness",
        "The level, direction and rows on which an error is largest. Recomputing the error there gives "
        "the reported value exactly.",
    ),
    (
        "Certificate",
        "An upper limit on the error that the forecaster computed itself, valid for this sequence.",
    ),
)

ALWAYS = (
    "The audit judges only the rows it was given. If these rows do not represent the cases of interest, "
    "neither does the verdict.",
    "“No error found” means that no error beyond chance was found with this many rows and these features, not "
    "that there is none. Smaller errors than the detectable ones may be present.",
    "A group, feature or interaction that is not among the features cannot be tested.",
    "The noise floor assumes that outcomes are independent given the forecasts. Clustered or repeated "
    "outcomes make chance errors larger than shown.",
    "A witness shows where forecasts and outcomes differ, not why.",
)


def reading(findings: Findings) -> Html:
    """Explain the terms used above, and only those."""
    promised = any(q["certificate"] is not None for q in findings.get("quantities") or [])
    unused = set() if findings.get("witnesses") else {"Witness"}
    unused |= set() if promised or findings.get("forecaster") else {"Certificate"}
    terms = [(term, words) for term, words in READING if term not in unused]
    return section("reading", "How to read this", facts(terms, "glossary"))


def limitations(findings: Findings) -> Html:
    """List what the audit cannot tell, the caller's own notes first."""
    return section("limitations", "Limitations", sentences(findings.get("notes") or []), sentences(ALWAYS))


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
        ("Predictions", given(subject["prediction"])),
        ("Outcomes", given(subject["label"])),
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
        ("Features", _features(subject.get("features") or [])),
        ("Levels", ". ".join(part for part in (count(levels) if levels else "", rule) if part)),
    ]


def _features(names: list[str]) -> Html:
    shown = [given(name, 60) for name in names[:MOST_FEATURES]]
    more = [f"and {count(len(names) - len(shown))} more"] if len(names) > len(shown) else []
    items = [piece for name in [*shown, *more] for piece in (", ", name)]
    return join(items[1:])


def _code(text: str) -> Html:
    return tag("code", clip(text, NAME_LENGTH))


def _settings(subject: Identity) -> Html:
    settings = subject.get("settings") or {}
    pairs = [(clip(name, 60), symbol(clip(value, 200))) for name, value in list(settings.items())[:MOST_SETTINGS]]
    return folded("Settings", facts(pairs, "identity")) if pairs else Html("")
