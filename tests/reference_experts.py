"""The bank of experts and its blend, literally, in float64 and dictionaries."""

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

from swapcal.kernels import experts as kernels
from swapcal.kernels import learners as newton
from swapcal.kernels.draw import GOLDEN, MIX_1
from swapcal.kernels.encode import ENTRIES


def chance(m: Any) -> Any:
    return 1 / (1 + math.exp(-m))


def parts(weight: Any) -> Any:
    """Return the weights of the equal steps in which a label is learned."""
    steps = max(math.ceil(weight), 1)
    return [weight / steps] * steps


class ReferenceNewton:
    """One second-order logistic regression, its precision matrix inverted anew at each step."""

    def __init__(self, ridge: Any, keep: Any, start: Any) -> None:
        self.ridge, self.keep, self.start = ridge, keep, start
        self.weights, self.covariance = np.zeros(0), np.zeros((0, 0))

    def widened(self, n: Any) -> Any:
        old = len(self.weights)
        prior = np.full(max(n, old), 1 / self.ridge)
        prior[0] = newton.CONSTANT_VARIANCE
        wider = np.diag(prior)
        wider[:old, :old] = self.covariance
        return np.append(self.weights, np.zeros(len(prior) - old)), wider

    def margin(self, context: Any) -> Any:
        known = min(len(self.weights), len(context))
        return self.start + self.weights[:known] @ context[:known]

    def variance(self, context: Any) -> Any:
        covariance, n = self.widened(len(context))[1], len(context)
        return context @ covariance[:n, :n] @ context

    def learn(self, context: Any, y: Any, weight: Any = 1.0) -> Any:
        self.weights, self.covariance = self.widened(len(context))
        full = np.append(context, np.zeros(len(self.weights) - len(context)))
        if self.start:
            m, pull = self.margin(context), self.covariance @ full
            push = brentq(lambda a: a - weight * (y - chance(m + a * (full @ pull))), -weight, weight, xtol=1e-14)
            p = chance(m + push * (full @ pull))
            precision = np.linalg.inv(self.covariance) + weight * max(p * (1 - p), newton.FLAT) * np.outer(full, full)
            self.covariance, self.weights = np.linalg.inv(precision), self.weights + push * pull
        for part in () if self.start else parts(weight):
            p = chance(self.margin(context))
            precision = np.linalg.inv(self.covariance) + part * max(p * (1 - p), newton.FLAT) * np.outer(full, full)
            self.covariance = np.linalg.inv(precision)
            self.weights = self.weights + self.covariance @ full * (y - p) * part
        self.covariance = self.covariance / self.keep


class ReferenceExperts:
    def __init__(self, scores: Any = 0, first: Any = 1, norm: Any = 1.0, models: Any = 0, start: Any = 0.0) -> None:
        n, own = 1 + kernels.EXPERTS + scores, 1 + kernels.EXPERTS
        self.first, self.norm, self.scores, self.users = first, norm, scores, scores - models
        self.weights = [{} for _ in range(kernels.HASHED)]
        self.squares = [{} for _ in range(kernels.HASHED)]
        self.newtons = [ReferenceNewton(*each, start) for each in zip(newton.RIDGES, newton.KEEP, strict=True)]
        plain, scored = np.zeros(n), np.zeros(n)
        scored[own : own + self.users] = 1 / max(self.users, 1)
        self.stacks = [plain, scored][: 1 + (scores > 0)]
        known = (np.arange(n) < own).astype(float)
        self.covariances = [kernels.PRIOR * np.diag(known), kernels.PRIOR * np.eye(n)][: 1 + (scores > 0)]
        self.start = start
        self.shares = np.array([0.02, 0.08, 0.9]) if scores else np.ones(1)
        self.beside = 0.9 if scores else 0.0
        self.known, self.ones, self.lag = 0, 0.0, 0.0
        self.merits, self.runs = np.zeros(n + 1), np.zeros(n + 1)
        self.tension, self.peak = 0.0, 0.0
        self.shortfalls = np.zeros(kernels.EXPERTS + scores)
        self.curve, self.spread = np.zeros(2), 0.1 * np.eye(2)

    def context(self, x: Any) -> Any:
        return np.append(1.0, np.asarray(x)[self.first :] / self.norm)

    def features(self, keys: Any, values: Any, pairs: Any) -> Any:
        mask = np.uint64((kernels.PAIR_SLOTS if pairs else kernels.LINEAR_SLOTS) - 1)
        listed = [(int(k & mask), v) for k, v in zip(keys, values, strict=True) if v != 0]
        bias = 1.0 if pairs else max(1.0, math.sqrt(sum(v * v for _, v in listed)))
        listed.insert(0, (int(kernels.BIAS & mask), bias))
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
        return self.start + sum(self.weights[e].get(slot, 0.0) * v for slot, v in rows), rows

    def base(self) -> Any:
        """Return the log-odds of the rate of known outcomes, with one more at the rate that experts start from."""
        return math.log((self.ones + chance(self.start)) / (self.known - self.ones + chance(-self.start)))

    def forecast(self, keys: Any, values: Any, given: Any, x: Any = (0.5,)) -> Any:
        margins = [self.margin(e, keys, values)[0] for e in range(kernels.HASHED)]
        margins += [each.margin(self.context(x)) for each in self.newtons]
        logits = [min(max(m, -kernels.LOGIT), kernels.LOGIT) for m in margins]
        users = [self.start if math.isnan(p) else math.log(p / (1 - p)) for p in given]
        inputs = np.array([1.0, *logits, *users])
        base = self.base()
        stacks = [self.stacked(k, inputs) for k in range(len(self.stacks))]
        stacks += [float(np.mean(users[: self.users]))] if self.scores else []
        believed = self.shares if self.known else np.eye(len(stacks))[len(self.stacks) - 1]
        mixed = float(believed @ [chance(m) for m in stacks])
        members = np.array([math.log(mixed / (1 - mixed)), *logits, *users, base])
        blend = self.blend(members) if self.known else members[0]
        if self.lag > 0:
            blend -= (1 - self.confidence(blend, x)) * (self.weights_of_members()[1 : 1 + kernels.EXPERTS] @ logits)
        p = chance(blend)
        pull = float(self.curve @ [1, 2 * p - 1])
        said = p + p * (1 - p) * min(max(pull, -0.7), 0.7) / (1 + self.lag)
        if self.known and self.scores:
            said += max(2 * self.beside - 1, 0) / (1 + self.lag) * (chance(stacks[-1]) - said)
        return (inputs, members, stacks, self.known), np.array([said, *map(chance, margins)])

    def confidence(self, blend: Any, x: Any) -> Any:
        leverage = chance(blend) * (1 - chance(blend)) * self.newtons[-1].variance(self.context(x))
        return 1 / math.sqrt(1 + 0.2 * leverage * self.lag / (self.lag + 1000))

    def stacked(self, k: Any, inputs: Any) -> Any:
        trust = self.trusts()[1 : 1 + kernels.EXPERTS]
        pool = trust @ inputs[1 : 1 + kernels.EXPERTS] / trust.sum()
        return float(self.stacks[k] @ self.centred(inputs)) + (pool if k == kernels.PLAIN else self.start)

    def centred(self, inputs: Any) -> Any:
        """Return the stacks' inputs: what was learned since the start."""
        return np.append(inputs[0], np.array(inputs[1:]) - self.start)

    def trusts(self) -> Any:
        seen, rates = self.known + 1, [float(r) for r in kernels.RATES]
        falling = [
            kernels.LINEAR_SGD <= e < kernels.LINEAR or e >= kernels.LINEAR + kernels.PAIR_SGD
            for e in range(kernels.HASHED)
        ]
        aged = [0.15 * r / math.sqrt(seen) if f else r for r, f in zip(rates, falling, strict=True)]
        aged += [max(1 / seen, 1 - keep) for keep in newton.KEEP]
        own, given = self.shortfalls[: kernels.EXPERTS], self.shortfalls[kernels.EXPERTS :]
        least, young = min([0.0, *given]), self.lag / (self.lag + seen)
        lost = min(seen, 1000) * np.maximum(own - least, 0) * young
        odds = np.exp(-np.minimum(lost, 15)) / (1 + np.array(aged) * self.lag)
        lasting = 1 / (1 + np.array(aged) * self.lag)
        leads = [max(short - least, *(lasting * (short - own))) for short in given]
        scores = self.lag * young * np.exp(-np.minimum(min(seen, 1000) * np.array(leads), 15))
        scores = scores + np.exp(-np.minimum(min(seen, 1000) * np.maximum(given, 0), 15) * young)
        return np.array([1000 / (1 + self.lag), *odds, *scores, 0.03])

    def weights_of_members(self) -> Any:
        rate = min(1.0, math.sqrt(2 / self.peak)) if self.peak else 1.0
        weights = self.trusts() * np.exp(np.maximum(rate * self.merits, -15))
        return weights / weights.sum()

    def blend(self, members: Any) -> Any:
        return float(self.weights_of_members() @ np.clip(members, -kernels.LOGIT, kernels.LOGIT))

    def learn(self, keys: Any, values: Any, memory: Any, y: Any, x: Any = (0.5,), weight: Any = 1.0) -> Any:
        if self.lag > 0 or memory[3] < self.known:
            self.learn_shortfalls(keys, values, memory[0][1 + kernels.EXPERTS :], y, x, weight)
        for each in self.newtons:
            each.learn(self.context(x), y, weight)
        for e in range(kernels.HASHED):
            ada = kernels.LINEAR_SGD <= e < kernels.LINEAR or e >= kernels.LINEAR + kernels.PAIR_SGD
            for part in [weight] if ada else parts(weight):
                self.step(e, keys, values, y, part, ada)
        self.learn_blend(memory, y, weight)

    def step(self, e: Any, keys: Any, values: Any, y: Any, weight: Any, ada: Any) -> Any:
        margin, rows = self.margin(e, keys, values)
        error = weight * (y - chance(margin))
        for slot, v in rows:
            gradient, step = error * v, float(kernels.RATES[e])
            if ada:
                self.squares[e][slot] = self.squares[e].get(slot, 1e-8) + gradient**2
                step /= math.sqrt(self.squares[e][slot])
            self.weights[e][slot] = self.weights[e].get(slot, 0.0) + step * gradient

    def learn_shortfalls(self, keys: Any, values: Any, given: Any, y: Any, x: Any, weight: Any) -> Any:
        margins = [self.margin(e, keys, values)[0] for e in range(kernels.HASHED)]
        margins += [*(each.margin(self.context(x)) for each in self.newtons), *given]
        base = self.base()
        short = self.likelihoods(np.array([base]), y) - self.likelihoods(np.array(margins), y)
        self.shortfalls += (short - self.shortfalls) * min(weight * max(2 / (self.known + 2), 1 / 1000), 1.0)

    def learn_blend(self, memory: Any, y: Any, weight: Any) -> Any:
        inputs, members, stacks, then = memory
        share = then / self.known if then < self.known else 1.0
        self.lag += (self.known - then - self.lag) * max(0.01, 1 / (self.known + 1))
        if share > 0:
            for k in range(len(self.stacks)):
                self.learn_stack(k, inputs, y, weight * share)
            self.learn_merits(np.clip(members, -kernels.LOGIT, kernels.LOGIT), y, weight * share)
            self.learn_shares(stacks, y, weight * share / (1 + self.lag) ** 0.6)
        if share < 0.5 and self.scores:
            base = self.base()
            self.learn_shares([base, *stacks[1:]], y, weight * (1 - 2 * share))
        self.beside = min(self.shares[-1], self.beside + 1e-3) if self.scores else 0.0
        self.known, self.ones = self.known + weight, self.ones + weight * y

    def learn_shares(self, stacks: Any, y: Any, rate: Any) -> Any:
        gained = self.shares * np.exp(rate * self.likelihoods(np.array(stacks), y))
        self.shares = (1 - 1e-4) * gained / gained.sum() + 1e-4 / len(stacks)

    def learn_merits(self, members: Any, y: Any, share: Any) -> Any:
        weights, keep, odds = self.weights_of_members(), 1 - 1 / (kernels.MEMORY + 10 * self.lag), self.blend(members)
        credit = share * (y - chance(odds)) * (members - odds)
        self.tension = max(keep * self.tension + weights @ (credit * (credit + 2 * self.runs)), 0.0)
        self.peak = max(keep * self.peak + weights @ credit**2, self.tension)
        self.runs = (self.runs + credit) * self.lag / (1 + self.lag)
        self.merits = keep * self.merits + credit
        self.merits -= self.merits.max()
        self.learn_curve(chance(odds), y, share)

    def learn_curve(self, p: Any, y: Any, share: Any) -> Any:
        terms, fades = p * (1 - p) * np.array([1, 2 * p - 1]), np.trace(self.spread) < 2.0
        precision = np.linalg.inv(self.spread) + share * np.outer(terms, terms)
        self.curve = self.curve + np.linalg.inv(precision) @ terms * share * (y - p - self.curve @ terms)
        self.spread = np.linalg.inv(precision) / (1 - 1 / 5000 if fades else 1.0)

    @staticmethod
    def likelihoods(log_odds: Any, y: Any) -> Any:
        p = 1 / (1 + np.exp(-np.clip(log_odds, -kernels.LOGIT, kernels.LOGIT)))
        return np.log(np.where(y == 1, p, 1 - p))

    def learn_stack(self, k: Any, inputs: Any, y: Any, share: Any) -> Any:
        posterior = self.covariances[k]
        loose = np.trace(posterior) >= kernels.LOOSEST * len(inputs) * kernels.PRIOR
        for part in parts(share):
            p, centred = chance(self.stacked(k, inputs)), self.centred(inputs)
            gain = posterior @ centred
            curvature = part * max(p * (1 - p), kernels.FLAT)
            posterior = posterior - curvature * np.outer(gain, gain) / (1 + curvature * centred @ gain)
            self.stacks[k] = self.stacks[k] + posterior @ centred * part * (y - p)
        self.covariances[k] = posterior / (1.0 if loose else kernels.FORGET)
