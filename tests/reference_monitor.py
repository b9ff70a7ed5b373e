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


def alarm_log(p, y, stakes, tolerance, edges, limit):
    """Every alarm of every range and direction of one group: raised, strongest, ended, and its size when strongest.

    `limit` is that of the mean sum of one direction. An alarm ends when the sum is below a thousandth of its largest,
    and then all starts are forgotten; it also ends where rows begin that lie wholly after it was raised and are the
    strongest start in hindsight when the sum reaches a new height.
    """
    bets, found, raised, open_ = defaultdict(Bet), [], {}, {}
    for t in range(len(p)):
        for span in ranges_of(p[t], edges):
            for sign in (1, -1):
                own = [bets[span, sign, k] for k in stakes]
                for k, bet in zip(stakes, own, strict=True):
                    bet.play(gain(p[t], y[t], sign, k, tolerance), y[t] - p[t], t + 1.0)
                value, key = sum(bet.sum for bet in own) / len(own), (span, sign)
                peak = raised.get(key, 0.0)
                if value > peak:
                    raised[key] = value
                    if value < limit:
                        continue
                    best = max(own, key=lambda bet: bet.cusum)
                    if key in open_ and best.start > open_[key]["raised"]:
                        last = open_.pop(key)
                        found.append({**last, "ended": max(best.start, last["at"])})
                    entry = open_.setdefault(key, {"span": span, "sign": sign, "raised": t + 1.0, "ended": None})
                    entry |= {"peak": value, "at": t + 1.0, "since": best.start, "rows": best.rows}
                    entry |= {"residual": best.residual, "square": best.square}
                elif key in open_ and value < 1e-3 * peak:
                    found.append({**open_.pop(key), "ended": t + 1.0})
                    raised[key] = 0.0
                    for bet in own:
                        bet.sum = bet.cusum = 0.0
    return found + list(open_.values())
