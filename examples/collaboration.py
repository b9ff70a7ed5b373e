"""Two parties, each with its own columns of one table, talk until they agree on a probability.

    SWAPCAL_DATA=directory python examples/collaboration.py [--rows 40000] [--epsilon 0.05] [--messages 8]

After Collina et al. 2025, collaborative prediction: for every person the parties take turns to say a probability. The
speaker of message k forecasts from its own columns and from what was said last, with one forecaster per (k, bucket of
the last message), so that each message is swap multicalibrated given the conversation. They stop once two consecutive
messages differ by at most ε. Then the label arrives and everybody who spoke learns it. Nobody shows a column.

Here the table is the census extract `acs_income`: one party knows the person (age, schooling, family, origin), the
other the job (occupation, class of worker, travel). Printed are the squared losses over the second half of the table:
alone, together, and what one forecaster with all columns in one hand would lose.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from swapcal import Contexts, Forecast, Forecaster
from swapcal.arrays import Array

PERSON = ["Age", "Gender", "Race", "Citizenship", "Education", "Marital", "English", "Military", "Mobility"]
JOB = ["Workclass", "Occ_group", "Occupation", "Transport", "TravelTime", "State"]
BUCKETS = 5
FEATURES, MESSAGE = 0.7, 0.5
"""Norm of a party's features and weight of the other's message: 0.5² + 0.7² + 0.5² < 1."""


@dataclass
class Party:
    """Someone with columns of its own, and a forecaster for each stage of a conversation."""

    features: Array
    stages: dict[tuple[int, int], Forecaster] = field(default_factory=dict)
    alone: Forecaster = field(init=False)

    def __post_init__(self) -> None:
        self.alone = Forecaster(self.features.shape[1])

    def speak(self, row: int, turn: int, heard: float) -> tuple[Forecaster, Forecast]:
        """Say message number `turn` about a row, having heard a probability."""
        stage = (turn, min(BUCKETS - 1, int(heard * BUCKETS)))
        forecaster = self.stages.setdefault(stage, Forecaster(self.features.shape[1] + 1))
        x = np.append(self.features[row], MESSAGE * (2.0 * heard - 1.0))
        return forecaster, forecaster.predict(x)


@dataclass(frozen=True)
class Conversation:
    """What was said about one row, in turn, and whether it ended in agreement."""

    messages: list[float]
    agreed: bool

    def last_word(self, party: int) -> float:
        """Return the last message of the party that speaks first (0) or second (1)."""
        return self.messages[party::2][-1]


def converse(parties: tuple[Party, Party], row: int, y: float, epsilon: float, most: int) -> Conversation:
    """Let the parties talk about one row, then learn its label."""
    said: list[float] = []
    tickets = []
    while len(said) < most and not (len(said) > 1 and abs(said[-1] - said[-2]) <= epsilon):
        turn = len(said)
        forecaster, forecast = parties[turn % 2].speak(row, turn, said[-1] if said else 0.5)
        tickets.append((forecaster, forecast))
        said.append(forecast.mean)
    for forecaster, forecast in tickets:
        forecaster.update(forecast, y)
    return Conversation(said, abs(said[-1] - said[-2]) <= epsilon)


def encode(frame: pd.DataFrame) -> Array:
    """Return contexts from a party's columns, using only the past of each row, with features of norm at most 0.7."""
    X = Contexts(categories=40)(frame)
    rest = X[:, 1:]
    longest = np.linalg.norm(rest[:1000], axis=1).max()
    rest *= FEATURES / longest
    rest /= np.maximum(1.0, np.linalg.norm(rest, axis=1, keepdims=True) / FEATURES)
    return X


def talk(
    frames: tuple[pd.DataFrame, pd.DataFrame],
    y: Array,
    epsilon: float = 0.05,
    most: int = 8,
    watch: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> tuple[list[Conversation], Array, tuple[Party, Party]]:
    """Play all rows; return the conversations, what each party says alone (n, 2), and the parties."""
    first, second = (Party(encode(frame)) for frame in frames)
    alone = np.column_stack([party.alone.run(party.features, y).mean for party in (first, second)])
    conversations = [converse((first, second), row, float(y[row]), epsilon, most) for row in watch(range(len(y)))]
    return conversations, alone, (first, second)


def report(conversations: list[Conversation], alone: Array, y: Array) -> dict[str, float]:
    """Return losses over the second half, alone and together, and how conversations end."""
    half = len(y) // 2
    late = conversations[half:]
    together = np.array([[talk.last_word(party) for party in (0, 1)] for talk in late])
    losses = {}
    for party, name in enumerate(("person", "job")):
        losses[f"{name}, alone"] = float(np.mean((alone[half:, party] - y[half:]) ** 2))
        losses[f"{name}, together"] = float(np.mean((together[:, party] - y[half:]) ** 2))
    losses["agreed"] = float(np.mean([talk.agreed for talk in late]))
    losses["messages"] = float(np.mean([len(talk.messages) for talk in late]))
    return losses


def pooled(frames: tuple[pd.DataFrame, pd.DataFrame], y: Array) -> float:
    """Return the loss over the second half of one forecaster that sees all columns."""
    X = encode(pd.concat(frames, axis=1))
    mean = Forecaster(X.shape[1]).run(X, y).mean
    return float(np.mean((mean - y)[len(y) // 2 :] ** 2))


def main() -> int:
    """Run the example on the census table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--epsilon", type=float, default=0.05)
    parser.add_argument("--messages", type=int, default=8)
    given = parser.parse_args()
    folder = os.environ.get("SWAPCAL_DATA")
    table = Path(folder or "") / "acs_income.csv.gz"
    if not folder or not table.exists():
        print("collaboration: set SWAPCAL_DATA to a folder that holds acs_income.csv.gz; nothing was run")
        return 0
    frame = pd.read_csv(table, nrows=given.rows)
    y = frame["y"].to_numpy(float)
    frames = frame[PERSON], frame[JOB]
    found = talk(frames, y, given.epsilon, given.messages, _progress)
    for name, value in {**report(found[0], found[1], y), "all in one hand": pooled(frames, y)}.items():
        print(f"{name:18s} {value:.4f}")
    print(f"forecasters: {', '.join(str(len(party.stages)) for party in found[2])}")
    return 0


def _progress(rows: Iterable[int]) -> Iterator[int]:
    for row in rows:
        if row % 5000 == 0:
            print(f"row {row:,}", file=sys.stderr, flush=True)
        yield row


if __name__ == "__main__":
    sys.exit(main())
