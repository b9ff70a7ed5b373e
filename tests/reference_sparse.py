"""Forecasting with many groups as the theory states it: every expert of every level in a list, every round kept."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swapcal.arrays import Array

STEPS = [sign * 2.0**-k for sign in (1, -1) for k in range(9)]
NORM = 2.10974281
EVERYONE = (0, "everyone")

Group = tuple[int, Any]


def clip(w: float) -> float:
    return float(np.clip(w, 0.0, 1.0))


@dataclass
class SparseReference:
    """Exponential weights of rate 2 over (group, step), over scores, and over groups that have not come yet."""

    z: Array
    columns: int
    scores: int = 0
    share: dict[Group, float] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    loss: Any = field(default_factory=lambda: defaultdict(float))
    """Of each level's experts."""

    def __post_init__(self) -> None:
        self.total = 0.5 if self.scores else 1.0
        self.share[EVERYONE] = self.total / (1 + self.columns)

    def active(self, values: list[Any]) -> dict[Group, float]:
        """Return the groups of a row with their prior weights; a new value has that of the next of its column."""
        found = {EVERYONE: self.share[EVERYONE]}
        for column, value in enumerate(values, 1):
            if value is None:
                continue
            before = sum(group[0] == column for group in self.share)
            n = before + 2
            new = self.total / (1 + self.columns) / (NORM * n * np.log(n) ** 2)
            found[column, value] = self.share.get((column, value), new)
        return found

    def experts(self, level: int, values: list[Any], scores: list[float]) -> list[tuple[Any, float, float]]:
        """Return (name, prior weight, forecast) of every expert of a level for a row."""
        z = float(self.z[level])
        awake = self.active(values)
        everyone = {**self.share, **awake}
        listed: list[tuple[Any, float, float]] = [
            ((group, step), share / 18, clip(z + step) if group in awake else z)
            for group, share in everyone.items()
            for step in STEPS
        ]
        listed.append(("unseen", self.total - sum(everyone.values()), z))
        listed += [(("score", j), 0.5 / self.scores, z if np.isnan(s) else s) for j, s in enumerate(scores)]
        return listed

    def wish(self, level: int, values: list[Any], scores: list[float]) -> float:
        """Return Vovk's substitution from the generalised losses of both outcomes."""
        listed = self.experts(level, values, scores)
        past = np.array([np.log(share) - 2 * self.loss[level, name] for name, share, _ in listed])
        weights = np.exp(past - past.max())
        weights /= weights.sum()
        forecasts = np.array([forecast for _, _, forecast in listed])
        generalised = [-0.5 * np.log(np.sum(weights * np.exp(-2 * (forecasts - y) ** 2))) for y in (0.0, 1.0)]
        return clip(0.5 + (generalised[0] - generalised[1]) / 2)

    def check(self, forecast: Any, values: list[Any], scores: list[float]) -> dict[str, Any]:
        """Check that a forecast hedges a legal crossing of the wishes; return what is needed to learn from it."""
        low, high = (int(np.flatnonzero(self.z == v)[0]) for v in (forecast.low, forecast.high))
        assert high == low + 1
        w = {level: self.wish(level, values, scores) for level in (low, high)}
        u, v = w[low] - self.z[low], self.z[high] - w[high]
        assert u >= -1e-9
        assert v >= -1e-9
        if u + v > 1e-6:
            np.testing.assert_allclose(forecast.weight, u / (u + v), atol=1e-7)
        assert forecast.p in (forecast.low, forecast.high)
        return {"P": {low: 1 - forecast.weight, high: forecast.weight}, "w": w, "p": forecast.p}

    def learn(self, issued: dict[str, Any], values: list[Any], scores: list[float], y: float, count: float = 1) -> None:
        """Charge every expert of the levels that were played."""
        for level, alpha in issued["P"].items():
            for name, _, forecast in self.experts(level, values, scores):
                self.loss[level, name] += count * alpha * ((forecast - y) ** 2 - (self.z[level] - y) ** 2)
        self.share.update(self.active(values))
        self.rounds.append({**issued, "groups": list(self.active(values)), "scores": scores, "y": y, "count": count})

    def best_rules(self, level: int) -> dict[Any, float]:
        """Return what the best constant on each group, and each score, would have saved on a level."""
        rows = [(r, r["count"] * r["P"][level]) for r in self.rounds if level in r["P"]]
        z, saved = float(self.z[level]), {}
        for group in self.share:
            a = np.array([alpha for r, alpha in rows if group in r["groups"]])
            y = np.array([r["y"] for r, alpha in rows if group in r["groups"]])
            if a.sum() > 0:
                best = np.sum(a * y) / a.sum()
                saved[group] = float(np.sum(a * (z - y) ** 2) - np.sum(a * (best - y) ** 2))
        for j in range(self.scores):
            s = [z if np.isnan(r["scores"][j]) else r["scores"][j] for r, _ in rows]
            saved["score", j] = sum(
                a * ((z - r["y"]) ** 2 - (w - r["y"]) ** 2) for (r, a), w in zip(rows, s, strict=True)
            )
        return saved

    def errors(self) -> dict[str, float]:
        """Return all errors by brute force over levels, groups and rounds."""
        out: dict[str, float] = defaultdict(float)
        for level, z in enumerate(self.z):
            played = [(r, r["count"] * r["P"].get(level, 0.0), r["count"] * (r["p"] == z)) for r in self.rounds]
            gap = {g: sum(a * (r["y"] - z) for r, a, _ in played if g in r["groups"]) for g in self.share}
            drawn = {g: sum(d * (r["y"] - z) for r, _, d in played if g in r["groups"]) for g in self.share}
            n, m = sum(a for _, a, _ in played), sum(d for _, _, d in played)
            out["psmcal_1"] += max(map(abs, gap.values()))
            out["psmcal_2"] += max(map(abs, gap.values())) ** 2 / n if n > 0 else 0.0
            out["smcal_1"] += max(map(abs, drawn.values()))
            out["smcal_2"] += max(map(abs, drawn.values())) ** 2 / m if m > 0 else 0.0
            out["cal"] += abs(drawn[EVERYONE])
            out["psreg"] += max([0.0, *self.best_rules(level).values()])
        for r in self.rounds:
            for level, alpha in r["P"].items():
                w, z = r["w"][level], self.z[level]
                out["rounding"] += r["count"] * alpha * ((z - r["y"]) ** 2 - (w - r["y"]) ** 2)
        return dict(out)
