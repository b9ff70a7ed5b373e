"""What it takes to calibrate an LLM judge: human labels for a chosen part of its answers, against MCGrad's recipe.

    python experiments/judges.py        # in the environment of `make bench-batch`; a few minutes

Answers are made (`swapcal.datasets.judged_answers`), so the probability that each is right is known. Answers of which
the judge is unsure are reviewed more often, with probability π; each label has the weight (mean of π)/π, which is 1 on
average. Every method learns the labels of the same reviewed answers and is judged on 20,000 other ones, by the truth.
The table of docs/tutorials/judges.md is what this prints.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn.isotonic import IsotonicRegression

from swapcal import Live
from swapcal.arrays import Array
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.datasets import judged_answers
from swapcal.tables.frame import Table

LABELS = (250, 500, 1000, 2000, 5000)
SEEDS = range(10)
JUDGED = 20_000
GROUPS = ["task", "language"]
COLUMNS = [*GROUPS, "length"]
WRONG, REVIEW = 5.0, 1.0  # costs of a wrong answer that is sent, and of asking a person

Fitted = Callable[[pd.DataFrame], Array]


def reviewed(answers: pd.DataFrame, labels: int, seed: int) -> pd.DataFrame:
    """Return the first answers chosen for review, with the weights of their labels."""
    chance = np.where(answers.judge < 0.8, 0.5, 0.1)
    chosen = np.random.default_rng(seed).random(len(answers)) < chance
    return answers.assign(weight=chance.mean() / chance)[chosen].head(labels).reset_index(drop=True)


def isotonic(known: pd.DataFrame) -> Fitted:
    curve = IsotonicRegression(out_of_bounds="clip", y_min=0.01, y_max=0.99)
    curve.fit(known.judge, known.correct, sample_weight=known.weight)
    return lambda answers: np.asarray(curve.predict(answers.judge))


def mcgrad(known: pd.DataFrame) -> Fitted:
    """Return MCGrad as its documentation calls it, with the labels' weights."""
    from mcgrad import methods

    roles = {
        "prediction_column_name": "judge",
        "categorical_feature_column_names": GROUPS,
        "numerical_feature_column_names": ["length"],
    }
    model = methods.MCGrad()
    model.fit(known, label_column_name="correct", weight_column_name="weight", **roles)
    return lambda answers: np.asarray(model.predict(answers, **roles))


def batch(known: pd.DataFrame) -> Fitted:
    table, scores = Table(known[COLUMNS]), known.judge.to_numpy()
    weight = known.weight.to_numpy()
    model = Model.fit(
        table, known.correct.to_numpy(), scores, groups=GROUPS, weight=weight, settings=FitSettings(seed=0)
    )
    return lambda answers: model.mean(Table(answers[COLUMNS]), answers.judge.to_numpy())


def live(known: pd.DataFrame) -> Fitted:
    """Return `Live` after the labels came one by one; judged as it then stands, without learning further."""
    made = Live(groups=GROUPS, scores=["judge"], seed=0)
    made.run(known[[*COLUMNS, "judge"]], known.correct, weight=known.weight)
    return lambda answers: np.asarray(made.preview(answers[[*COLUMNS, "judge"]]).mean)


METHODS = {
    "the judge as it is": lambda known: lambda answers: answers.judge.to_numpy(),
    "isotonic regression": isotonic,
    "MCGrad": mcgrad,
    "swapcal, batch": batch,
    "swapcal, live": live,
}


def judged(p: Array, answers: pd.DataFrame) -> tuple[float, float, float]:
    """Return (rms distance from the truth, worst gap of the twelve groups in points, cost per answer)."""
    truth = answers.truth.to_numpy()
    gaps = answers.assign(gap=truth - p).groupby(GROUPS).gap.mean().abs()
    cost = np.where(p >= 1.0 - REVIEW / WRONG, WRONG * (1.0 - truth), REVIEW).mean()
    return float(np.sqrt(np.mean((p - truth) ** 2))), 100.0 * float(gaps.max()), float(cost)


def main() -> None:
    print("| labels | method | rms distance from the truth | worst of 12 groups, points | cost per answer |")
    print("|--:|---|--:|--:|--:|")
    for labels in LABELS:
        found = {name: [] for name in METHODS}
        for seed in SEEDS:
            known = reviewed(pd.DataFrame(judged_answers(12 * labels, seed=2 * seed + 1)), labels, seed)
            assert len(known) == labels
            others = pd.DataFrame(judged_answers(JUDGED, seed=2 * seed + 2))
            for name, fit in METHODS.items():
                found[name].append(judged(fit(known)(others), others))
        for name, rows in found.items():
            rms, worst, cost = np.median(rows, axis=0)
            print(f"| {labels:,} | {name} | {rms:.3f} | {worst:.1f} | {cost:.3f} |", flush=True)


if __name__ == "__main__":
    main()
