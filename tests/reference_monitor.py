"""The monitor as its definition reads: one bet, one row, one logarithm at a time."""

import math
from collections import defaultdict


def ranges_of(p, edges):
    """Every range by halves that holds p, as (low, high)."""
    leaves = len(edges) - 1
    leaf = max(i for i in range(leaves) if edges[i] <= p)
    found, width = [], 1
    while width <= leaves:
        first = leaf // width * width
        found.append((edges[first], edges[first + width]))
        width *= 2
    return found


def gain(p, y, sign, k, tolerance):
    """What a bet is multiplied by."""
    chance = p if sign > 0 else 1 - p
    return 1 + k / (1 + k * chance) * (sign * (y - p) - tolerance)


class Bet:
    """One bet's wealth, Shiryaev–Roberts sum, and the cumulative sum with what has passed since its start."""

    def __init__(self):
        self.log, self.sum, self.cusum = 0.0, 0.0, 0.0
        self.start, self.rows, self.residual, self.square = 0.0, 0, 0.0, 0.0

    def play(self, b, residual, clock):
        self.log += math.log(b)
        self.sum = (1 + self.sum) * b
        if self.cusum <= 1:
            self.cusum, self.start, self.rows, self.residual, self.square = 1.0, clock, 0, 0.0, 0.0
        self.cusum *= b
        self.rows += 1
        self.residual += residual
        self.square += residual**2


def run(memberships, p, y, stakes, tolerance, edges):
    """Return bets by (group, range, sign, stake) after all rows; `memberships` lists every row's groups."""
    bets = defaultdict(Bet)
    for t in range(len(p)):
        for group in memberships[t]:
            for span in ranges_of(p[t], edges):
                for sign in (1, -1):
                    for k in stakes:
                        b = gain(p[t], y[t], sign, k, tolerance)
                        bets[group, span, sign, k].play(b, y[t] - p[t], t + 1.0)
    return bets
