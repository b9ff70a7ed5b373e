"""`Contest`: forecasts of several methods for the same rows, each audited, each tested against yours."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any

from swapcal.archive import written
from swapcal.audit import Audit, Comparison
from swapcal.audit.findings import json_text
from swapcal.audit.verdict import TOLERANCE, checked_tolerance
from swapcal.contest import words
from swapcal.contest.entry import Entry
from swapcal.contest.rivals import MINE, SWAPCAL
from swapcal.faces import counted, face
from swapcal.report import Findings, render
from swapcal.report.schema import ContestEntry


class Contest:
    """Judge the forecasts of several methods on the same rows, and say what you would gain.

    Parameters
    ----------
    y : (rows,) outcomes in [0, 1]
    forecasts : (rows,) forecasts by name; "mine" is compared with all others, "swapcal" is what the report is about
    groups, time : as in `Audit`
    how : how the forecasts were made, a sentence for the report
    title, seed : of the report, and of the simulated noise floor

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth, night = rng.uniform(0.2, 0.8, 4000), rng.random(4000) < 0.3
    >>> forecasts = {"mine": truth - 0.15 * night, "swapcal": truth}
    >>> contest = Contest(rng.random(4000) < truth, forecasts, groups={"night": night})
    >>> [(entry.name, entry.verdict) for entry in contest.entries]
    [('mine', 'miscalibrated'), ('swapcal', 'no error found')]
    >>> contest.sentence()[:16]
    'You would gain: '
    """

    def __init__(
        self,
        y: Any,
        forecasts: Mapping[str, Any],
        *,
        groups: Any = None,
        time: Any = None,
        how: str = "",
        tolerance: float = TOLERANCE,
        title: str = "What would I gain?",
        seed: int = 0,
    ) -> None:
        if MINE not in forecasts or SWAPCAL not in forecasts:
            given = ", ".join(forecasts) or "none"
            raise ValueError(f'forecasts: given {given}, expected "{MINE}" and "{SWAPCAL}" among them')
        self.y, self.forecasts, self.how, self.title = y, dict(forecasts), how, title
        self._rows: dict[str, Any] = {"groups": groups, "time": time, "title": title, "seed": seed}
        self.tolerance = checked_tolerance(tolerance)

    def comparison(self, before: str, after: str) -> Comparison:
        """Return two of the methods compared."""
        one, other = self.forecasts[before], self.forecasts[after]
        return Comparison(one, other, self.y, names=(before, after), **self._rows)

    @cached_property
    def _against_mine(self) -> dict[str, Comparison]:
        return {name: self.comparison(MINE, name) for name in self.forecasts if name != MINE}

    @cached_property
    def entries(self) -> list[Entry]:
        """Every method, yours first."""
        mine = self._entry(MINE, self._against_mine[SWAPCAL].before, None)
        return [mine, *(self._entry(name, found.after, found) for name, found in self._against_mine.items())]

    def _entry(self, name: str, audit: Audit, beside: Comparison | None) -> Entry:
        tested = [row for row in audit.group_table(self.tolerance) if not row.small]
        worst = max(tested, key=lambda row: abs(row.gap), default=None)
        scores = {} if beside is None else {one.name: one for one in beside.differences()}
        return Entry(
            name,
            audit.brier(),
            audit.log_loss(),
            None if worst is None else worst.name,
            None if worst is None else worst.gap,
            audit.verdict(self.tolerance).word,
            scores.get("Brier score"),
            scores.get("log loss"),
        )

    def sentence(self) -> str:
        """Say what you would gain, or that there is nothing to gain."""
        simple = min((one for one in self._simple() if one.better), key=lambda one: one.brier, default=None)
        beyond = None
        if simple is not None:
            beyond = self.comparison(simple.name, SWAPCAL).differences()[0]
        return words.gain(self.entries[0], self[SWAPCAL], simple, beyond)

    def _simple(self) -> Sequence[Entry]:
        return [one for one in self.entries if one.name not in (MINE, SWAPCAL)]

    def __getitem__(self, name: str) -> Entry:
        """Return a method's entry."""
        return next(one for one in self.entries if one.name == name)

    def to_dict(self, *, created_at: str = "") -> Findings:
        """Return the findings of swapcal's forecasts beside yours, with a section "contest" about all methods."""
        found = self._against_mine[SWAPCAL].to_dict(created_at=created_at, tolerance=self.tolerance)
        entry: ContestEntry = {
            "sentence": self.sentence(),
            "how": self.how,
            "methods": [one.plain() for one in self.entries],
        }
        found["contest"] = entry
        found["headline"]["sentence"] = f"The forecasts of {SWAPCAL}, audited: {found['headline']['sentence']}"
        return found

    def to_json(self, path: str | PathLike[str] | None = None, *, created_at: str = "") -> str:
        """Return `to_dict` as JSON, and write it if a path is given."""
        return written(json_text(self.to_dict(created_at=created_at)), path)

    def to_html(self, path: str | PathLike[str] | None = None, *, created_at: str = "") -> str:
        """Return the report as one self-contained HTML page, and write it if a path is given."""
        return written(render(self.to_dict(created_at=created_at)), path)

    def __repr__(self) -> str:
        return f"Contest({counted(len(self.y), 'row')}: {', '.join(self.forecasts)})"

    def _repr_html_(self) -> str:
        scores = {
            one.name: f"Brier {one.brier:.4g}, log loss {one.log_loss:.4g}, {one.verdict}" for one in self.entries
        }
        return face(self.title, self.sentence(), scores)
