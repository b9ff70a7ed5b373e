"""Forecasting for log loss as the theory states it: every round kept, constants by quadrature."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swapcal.arrays import Array

# Double exponential quadrature on (0, 1): powers of θ that are not whole do no harm.
STEP = 0.04
NODES = np.arange(-2.96, 2.96 + STEP / 2, STEP)
THETA = 1 / (1 + np.exp(-np.pi * np.sinh(NODES)))
WIDTH = STEP * np.pi * np.cosh(NODES) * THETA * (1 - THETA)
FLOOR = 1e-6


def loss(p: Any, y: float) -> Any:
    inside = np.clip(p, FLOOR, 1 - FLOOR)
    return -y * np.log(inside) - (1 - y) * np.log(1 - inside)


def logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


@dataclass
class LogReference:
    """Bayes mixtures of experts (one half) and of a fine grid of constants (the other), one for each level."""

    z: Array
    experts: int
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def wish(self, level: int, x: Array) -> float:
        past = [r for r in self.rounds if level in r["P"]]
        expert, constant = np.log(np.full(self.experts, 0.5 / self.experts)), np.log(0.5 * WIDTH)
        for r in past:
            alpha = r["count"] * r["P"][level]
            expert = expert - alpha * loss(r["x"], r["y"])
            constant = constant + alpha * (r["y"] * np.log(THETA) + (1 - r["y"]) * np.log(1 - THETA))
        weights = np.exp(np.concatenate([expert, constant]) - max(expert.max(), constant.max()))
        forecasts = np.concatenate([np.clip(x, FLOOR, 1 - FLOOR), THETA])
        return float(np.sum(weights * forecasts) / np.sum(weights))

    def check(self, forecast: Any, x: Array) -> dict[str, Any]:
        """Check that mean logits of levels and wishes agree at a legal crossing; return what learning needs."""
        low, high = (int(np.flatnonzero(self.z == v)[0]) for v in (forecast.low, forecast.high))
        assert high == low + 1
        raw = {level: self.wish(level, x) for level in (low, high)}
        w = {level: float(np.clip(raw[level], self.z[0], self.z[-1])) for level in raw}
        P = {low: 1 - forecast.weight, high: forecast.weight}
        assert w[low] >= self.z[low] - 1e-9
        assert w[high] <= self.z[high] + 1e-9
        levels, wishes = (sum(P[v] * logit(values[v]) for v in P) for values in (self.z, w))
        assert abs(levels - wishes) < 1e-7
        return {"P": P, "w": w, "raw": raw, "x": np.asarray(x, float), "p": forecast.p}

    def learn(self, issued: dict[str, Any], y: float, count: float = 1) -> None:
        self.rounds.append({**issued, "y": y, "count": count})

    def errors(self) -> dict[str, float]:
        """Return all sums by brute force."""
        names = ("loss", "psreg", "against_experts", "klcal", "drawn_klcal", "rounding", "clipping")
        out = dict.fromkeys(names, 0.0)
        for level, z in enumerate(self.z):
            rows = [(r["count"] * r["P"][level], r["y"], r["x"]) for r in self.rounds if r["P"].get(level, 0) > 0]
            drawn = [(r["count"], r["y"]) for r in self.rounds if r["p"] == z]
            own, constant = self._loss(z, rows), self._loss(self._mean(rows), rows)
            if not rows:
                continue
            expert = min(sum(a * loss(x[j], y) for a, y, x in rows) for j in range(self.experts))
            out["loss"] += own
            out["psreg"] += own - min(expert, constant)
            out["against_experts"] += own - expert
            out["klcal"] += own - constant
            if drawn:
                out["drawn_klcal"] += self._loss(z, drawn) - self._loss(self._mean(drawn), drawn)
        for r in self.rounds:
            for level, share in r["P"].items():
                alpha, y = r["count"] * share, r["y"]
                out["rounding"] += alpha * (loss(self.z[level], y) - loss(r["w"][level], y))
                out["clipping"] += alpha * (loss(r["w"][level], y) - loss(r["raw"][level], y))
        return out

    def _mean(self, rows: Any) -> float:
        return sum(row[0] * row[1] for row in rows) / max(sum(row[0] for row in rows), 1e-300)

    def _loss(self, p: float, rows: Any) -> float:
        hits, misses = (sum(row[0] * part(row[1]) for row in rows) for part in (lambda y: y, lambda y: 1 - y))
        return -(hits * np.log(p) if hits > 0 else 0.0) - (misses * np.log(1 - p) if misses > 0 else 0.0)
