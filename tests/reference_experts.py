"""The bank of experts and its blend, literally, in float64 and dictionaries."""

import math
from typing import Any

import numpy as np

from swapcal.kernels import experts as kernels
from swapcal.kernels.draw import GOLDEN, MIX_1
from swapcal.kernels.encode import ENTRIES


class ReferenceExperts:
    def __init__(self, scores: Any = 0) -> None:
        n = 1 + kernels.EXPERTS + scores
        self.weights = [{} for _ in range(kernels.EXPERTS)]
        self.squares = [{} for _ in range(kernels.EXPERTS)]
        self.stack = np.zeros(n)
        self.stack[1 + kernels.EXPERTS if scores else 1 :] = 1 / (scores or kernels.EXPERTS)
        self.covariance = kernels.PRIOR * np.eye(n)
        self.known, self.ones, self.lag = 0, 0.0, 0.0
        self.merits = np.zeros(n + 1)

    def features(self, keys: Any, values: Any, pairs: Any) -> Any:
        mask = kernels.PAIR_MASK if pairs else kernels.LINEAR_MASK
        listed = [(int(kernels.BIAS & mask), 1.0)]
        listed += [(int(k & mask), v) for k, v in zip(keys, values, strict=True) if v != 0]
        if pairs:
            symbols = [s for s in keys[::ENTRIES] if s != 0]
            for a, left in enumerate(symbols):
                for right in symbols[a + 1 :]:
                    mixed = (int(left) * int(GOLDEN) + int(right)) * int(MIX_1) % 2**64
                    listed.append((mixed * kernels.PAIR_SLOTS >> 64, 1.0))
        norm = math.sqrt(sum(v * v for _, v in listed))
        return [(slot, v / norm) for slot, v in listed]

    def margin(self, e: Any, keys: Any, values: Any) -> Any:
        rows = self.features(keys, values, e >= kernels.LINEAR)
        return sum(self.weights[e].get(slot, 0.0) * v for slot, v in rows), rows

    def forecast(self, keys: Any, values: Any, given: Any) -> Any:
        margins = [self.margin(e, keys, values)[0] for e in range(kernels.EXPERTS)]
        logits = [min(max(m, -kernels.LOGIT), kernels.LOGIT) for m in margins]
        users = [0.0 if math.isnan(p) else math.log(p / (1 - p)) for p in given]
        inputs = np.array([1.0, *logits, *users])
        base = math.log((self.ones + 0.5) / (self.known - self.ones + 0.5))
        members = np.array([self.stack @ inputs, *logits, *users, base])
        chances = [1 / (1 + math.exp(-m)) for m in margins]
        return (inputs, members, self.known), np.array([self.blend(members), *chances])

    def trusts(self) -> Any:
        rates = [float(r) for r in kernels.RATES]
        falling = [
            kernels.LINEAR_SGD <= e < kernels.LINEAR or e >= kernels.LINEAR + kernels.PAIR_SGD for e in range(15)
        ]
        aged = [r / math.sqrt(self.known + 1) if f else r for r, f in zip(rates, falling, strict=True)]
        scores = len(self.stack) - 1 - kernels.EXPERTS
        return np.array([1000 / (1 + self.lag), *(1 / (1 + r * self.lag) for r in aged), *([1.0] * scores), 0.1])

    def blend(self, members: Any) -> Any:
        weights = self.trusts() * np.exp(self.merits) if self.known else np.eye(len(members))[0]
        return 1 / (1 + math.exp(-(weights @ members) / weights.sum()))

    def learn(self, keys: Any, values: Any, memory: Any, y: Any) -> Any:
        for e in range(kernels.EXPERTS):
            margin, rows = self.margin(e, keys, values)
            error = y - 1 / (1 + math.exp(-margin))
            ada = kernels.LINEAR_SGD <= e < kernels.LINEAR or e >= kernels.LINEAR + kernels.PAIR_SGD
            for slot, v in rows:
                gradient, step = error * v, float(kernels.RATES[e])
                if ada:
                    self.squares[e][slot] = self.squares[e].get(slot, 1e-8) + gradient**2
                    step /= math.sqrt(self.squares[e][slot])
                self.weights[e][slot] = self.weights[e].get(slot, 0.0) + step * gradient
        self.learn_blend(memory, y)

    def learn_blend(self, memory: Any, y: Any) -> Any:
        inputs, members, then = memory
        share = then / self.known if then < self.known else 1.0
        self.lag += (self.known - then - self.lag) * max(0.01, 1 / (self.known + 1))
        if share > 0:
            self.learn_stack(inputs, y, share)
            p = 1 / (1 + np.exp(-np.clip(members, -kernels.LOGIT, kernels.LOGIT)))
            keep = 1 - 1 / (kernels.MEMORY + 2 * self.lag)
            gained = share / math.sqrt(1 + self.lag) * np.log(np.where(y == 1, p, 1 - p))
            self.merits = keep * self.merits + gained
            self.merits -= self.merits.max()
        self.known, self.ones = self.known + 1, self.ones + y

    def learn_stack(self, inputs: Any, y: Any, share: Any) -> Any:
        p = 1 / (1 + math.exp(-self.stack @ inputs))
        curvature = share * max(p * (1 - p), kernels.FLAT)
        loose = np.trace(self.covariance) >= kernels.LOOSEST * len(inputs) * kernels.PRIOR
        posterior = np.linalg.inv(np.linalg.inv(self.covariance) + curvature * np.outer(inputs, inputs))
        self.stack = self.stack + posterior @ inputs * share * (y - p)
        self.covariance = posterior / (1.0 if loose else kernels.FORGET)
