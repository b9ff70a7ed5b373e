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
        self.blend = np.zeros(n)
        self.blend[1 + kernels.EXPERTS if scores else 1 :] = 1 / (scores or kernels.EXPERTS)
        self.covariance = kernels.PRIOR * np.eye(n)

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
        memory = np.array([1.0, *logits, *users])
        chances = [1 / (1 + math.exp(-m)) for m in margins]
        return memory, np.array([1 / (1 + math.exp(-self.blend @ memory)), *chances])

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
        p = 1 / (1 + math.exp(-self.blend @ memory))
        curvature = max(p * (1 - p), kernels.FLAT)
        loose = np.trace(self.covariance) >= kernels.LOOSEST * len(memory) * kernels.PRIOR
        posterior = np.linalg.inv(np.linalg.inv(self.covariance) + curvature * np.outer(memory, memory))
        self.blend = self.blend + posterior @ memory * (y - p)
        self.covariance = posterior / (1.0 if loose else kernels.FORGET)
