"""A comparison as plain data, and in sentences a reader without statistics understands."""

from collections.abc import Sequence
from typing import cast

from swapcal.audit.difference import LEAST_EVENTS, Difference, GroupDifference
from swapcal.audit.labels import Titles
from swapcal.audit.verdict import ALPHA
from swapcal.audit.words import chance, listed
from swapcal.report.schema import (
    ComparedGroup,
    ComparedPredictor,
    ComparedScore,
    ComparisonEntry,
    Findings,
)

MOST_GROUPS = 100

METHOD = (
    "Both predictors are judged on the same rows, so differences are taken row by row, with the row as the unit of "
    "resampling: rows are taken to be independent, and a row of weight 2 counts as twice its difference. Intervals and "
    "p-values of the scores stand alone; those of single groups allow for all groups tested at once (Bonferroni). The "
    "calibration loss is estimated without the bias that noise gives, over the same ranges of forecasts for both."
)


def compared(
    names: tuple[str, str],
    findings: tuple[Findings, Findings],
    scores: Sequence[Difference],
    groups: Sequence[GroupDifference],
    titles: Titles,
) -> ComparisonEntry:
    """Return everything the report shows of a comparison."""
    shown = sorted(groups, key=_doubt)[:MOST_GROUPS]
    said = titles(names[0]), titles(names[1])
    called = [_called(one, titles) for one in scores]
    return {
        "sentence": sentence(said, called),
        "predictors": [_predictor(name, found, titles) for name, found in zip(names, findings, strict=True)],
        "scores": [_score(said, one, title) for one, title in zip(scores, called, strict=True)],
        "groups": [cast(ComparedGroup, {**one._asdict(), **_title(one.name, titles(one.name))}) for one in shown],
        "groups_sentence": groups_sentence(said, groups),
        "groups_examined": len(groups),
        "method": METHOD,
    }


def _doubt(row: GroupDifference) -> tuple[float, float, str]:
    p_values = [p for p in (row.gap_p, row.loss_p) if p is not None]
    return min(p_values, default=2.0), -abs(row.gap_change), row.name


def _called(score: Difference, titles: Titles) -> Difference:
    """Return a score in which the column it is about is called by its title."""
    start = "calibration loss within "
    column = score.name.removeprefix(start)
    if column == score.name:
        return score
    meaning = score.meaning.replace(f"group of {column} by", f"group of {titles(column)} by")
    return score._replace(name=start + titles(column), meaning=meaning)


def _title(name: str, title: str) -> dict[str, str]:
    return {"title": title} if title != name else {}


def _predictor(name: str, found: Findings, titles: Titles) -> ComparedPredictor:
    headline = found["headline"]
    return {
        "name": name,
        **_title(name, titles(name)),  # type: ignore[typeddict-item]
        "verdict": headline["verdict"],
        "sentence": headline["sentence"],
        "low": headline.get("low"),
        "high": headline.get("high"),
        "p_value": headline.get("p_value"),
        "scores": found.get("scores"),
        "reliability": found.get("reliability"),
    }


def _score(names: tuple[str, str], one: Difference, called: Difference) -> ComparedScore:
    entry = {**called._asdict(), "name": one.name, **_title(one.name, called.name)}
    entry |= {"sentence": score_sentence(names, called)}
    return cast(ComparedScore, entry)


def score_sentence(names: tuple[str, str], one: Difference) -> str:
    """Say how two predictors differ by one score.

    Examples
    --------
    >>> score_sentence(("old", "new"), Difference("log loss", "…", 0.5, 0.48, -0.02, -0.03, -0.01, 0.01, "better"))
    'The log loss of new is 0.02 lower than that of old (0.48 against 0.5; 95 % interval 0.01 to 0.03 lower, p = 0.01).'
    """
    before, after = names
    if one.word == "no difference found":
        span = f"95 % interval of the difference {_signed(one.low)} to {_signed(one.high)}"
        return (
            f"Between the {one.name} of {after} and of {before} no difference beyond chance was found "
            f"({one.after:.4g} against {one.before:.4g}; {span}, {_chance(one.p_value)})."
        )
    way = "lower" if one.difference < 0 else "higher"
    near, far = sorted((abs(one.low), abs(one.high)))
    return (
        f"The {one.name} of {after} is {abs(one.difference):.3g} {way} than that of {before} ({one.after:.4g} against "
        f"{one.before:.4g}; 95 % interval {near:.3g} to {far:.3g} {way}, {_chance(one.p_value)})."
    )


def sentence(names: tuple[str, str], scores: Sequence[Difference]) -> str:
    """Say which of two predictors is better, by the scores that count every error."""
    before, after = names
    brier, log_loss, *calibration = scores
    sure = _sure((brier, log_loss))
    if not sure:
        ends = " and ".join(f"{one.name} {_chance(one.p_value)}" for one in (brier, log_loss))
        start = f"No difference between {after} and {before} was found in their scores ({ends})."
    elif len({one.word for one in sure}) == 2:
        start = (
            f"The scores disagree: {after} is {brier.word} than {before} by the Brier score and {log_loss.word} by the "
            "log loss."
        )
    else:
        start = f"{after} is {sure[0].word} than {before}: {_lower_first(score_sentence(names, sure[0]))}"
    return start + "".join(_calibrations(_sure(calibration), word) for word in ("better", "worse"))


def _sure(scores: Sequence[Difference]) -> list[Difference]:
    """Return the differences found if one allows for all of these: a sentence may rest on any of them."""
    return [one for one in scores if one.word != "no difference found" and one.p_value <= ALPHA / len(scores)]


def _calibrations(scores: Sequence[Difference], word: str) -> str:
    found = [one.name.removeprefix("calibration loss").strip() or "overall" for one in scores if one.word == word]
    within = [name.removeprefix("within ") for name in found if name != "overall"]
    places = (["overall"] if "overall" in found else []) + ([f"within {listed(within)}"] if within else [])
    return f" Its calibration is {word} {' and '.join(places)}." if places else ""


def groups_sentence(names: tuple[str, str], groups: Sequence[GroupDifference]) -> str:
    """Say how many groups fare better or worse."""
    if not groups:
        return ""
    small = sum(one.small for one in groups)
    better, worse = (sum(one.word == word for one in groups) for word in ("better", "worse"))
    many = "expects" if small == 1 else "expect"
    left = f"; {small:,} {many} fewer than {LEAST_EVENTS:g} of the rarer outcome: not tested" if small else ""
    return (
        f"Of {len(groups):,} groups, {better:,} surely fare better under {names[1]} than under {names[0]}, {worse:,} "
        f"surely worse{left}. A chance finding among all groups together has probability at most {100 * ALPHA:g} %."
    )


def _lower_first(text: str) -> str:
    return text[0].lower() + text[1:]


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")


def _chance(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else chance(p_value)
