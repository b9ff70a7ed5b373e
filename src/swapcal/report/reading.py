"""How to read the page, and what it cannot tell."""

from swapcal.report.layout import facts, section, sentences
from swapcal.report.markup import Html
from swapcal.report.schema import Findings

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
        "Worst rule on the features",
        "The combination of features, and the rows, on which an error is largest. Recomputing the error there gives "
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
    "An error shown here says where forecasts and outcomes differ, not why.",
)


def reading(findings: Findings) -> Html:
    """Explain the terms used above, and only those."""
    promised = any(q["certificate"] is not None for q in findings.get("quantities") or [])
    unused = set() if findings.get("witnesses") else {"Worst rule on the features"}
    unused |= set() if promised or findings.get("forecaster") else {"Certificate"}
    terms = [(term, words) for term, words in READING if term not in unused]
    return section("reading", "How to read this", facts(terms, "glossary"))


def limitations(findings: Findings) -> Html:
    """List what the audit cannot tell, the caller's own notes first."""
    return section("limitations", "Limitations", sentences(findings.get("notes") or []), sentences(ALWAYS))
