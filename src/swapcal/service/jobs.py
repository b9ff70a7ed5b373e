"""Jobs: what is put on the desk's queue."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from swapcal.service.rows import CorrectionRow, ForecastRow, OutcomeRow
from swapcal.service.settings import Settings
from swapcal.service.ward import Ward

FORECASTS, OUTCOMES, CORRECTIONS = "forecasts", "outcomes", "corrections"
ORDER = (FORECASTS, OUTCOMES, CORRECTIONS)
"""In which kinds of one batch are done: nobody has an answer yet, so any order is as good, and like goes with like."""


class Promise(Protocol):
    """A future of any library."""

    def done(self) -> bool:
        """Tell whether nobody waits any longer."""

    def set_result(self, result: Any, /) -> None:
        """Answer."""

    def set_exception(self, exception: Any, /) -> None:
        """Refuse."""


class Write(NamedTuple):
    """Rows of one kind for one forecaster; the answer is a list with an answer or refusal for each."""

    promise: Promise
    forecaster: str
    kind: str
    rows: "Sequence[ForecastRow] | Sequence[OutcomeRow] | Sequence[CorrectionRow]"


class Make(NamedTuple):
    """A forecaster to be made; the answer is whether it is new."""

    promise: Promise
    settings: Settings


class Ask(NamedTuple):
    """A question to one forecaster; the answer is what the function returns."""

    promise: Promise
    forecaster: str
    question: Callable[[Ward], Any]


Job = Write | Make | Ask


def size(job: Job) -> int:
    """Return how many rows a job is."""
    return max(1, len(job.rows)) if isinstance(job, Write) else 1
