"""Centred binomial variables, made from standard normal ones."""

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.jit import jit


@jit
def fill_cdfs(count: Array, chance: Array, start: Integers, out: Array) -> None:
    """Write the distribution function of Bin(count_c, chance_c) at 0, 1, … into out[start_c : start_{c+1}].

    Parameters
    ----------
    count, chance : (C,), chances at most ½ and expectations small enough that (1 − chance)^count is no underflow
    start : (C + 1,)
    """
    for c in range(len(count)):
        if start[c + 1] > start[c]:
            odds = chance[c] / (1.0 - chance[c])
            mass = (1.0 - chance[c]) ** count[c]
            total = mass
            for k in range(start[c + 1] - start[c]):
                out[start[c] + k] = min(total, 1.0)
                mass *= odds * (count[c] - k) / (k + 1.0)
                total += mass


@jit
def shape(z: Array, start: Integers, thresholds: Array, count: Array, chance: Array, jump: Array) -> None:
    """Turn standard normal numbers into jump·(Bin(count, chance) − count·chance), in place.

    Few expected events: the binomial quantile, by comparing z with the thresholds Φ⁻¹(P(Bin ≤ k)) of its cell.
    Many: the Cornish–Fisher expansion with the binomial's skewness and kurtosis.

    Parameters
    ----------
    z : (B, C)
    start : (C + 1,) where each cell's thresholds begin; none for cells with many expected events
    thresholds : for the rarer of the two outcomes
    count, chance, jump : (C,); a jump of 0 makes the variable 0
    """
    for c in range(len(count)):
        if jump[c] == 0.0:
            z[:, c] = 0.0
        elif start[c + 1] > start[c]:
            sign = 1.0 if chance[c] <= 0.5 else -1.0
            expected = count[c] * min(chance[c], 1.0 - chance[c])
            for b in range(len(z)):
                k, x = start[c], sign * z[b, c]
                while k < start[c + 1] and thresholds[k] < x:
                    k += 1
                z[b, c] = sign * jump[c] * (k - start[c] - expected)
        else:
            unit = chance[c] * (1.0 - chance[c])
            spread = np.sqrt(count[c] * unit)
            skew, kurtosis = (1.0 - 2.0 * chance[c]) / spread, (1.0 - 6.0 * unit) / spread**2
            for b in range(len(z)):
                x = z[b, c]
                bent = skew * (x * x - 1.0) / 6.0
                bent += kurtosis * x * (x * x - 3.0) / 24.0 - skew * skew * x * (2.0 * x * x - 5.0) / 36.0
                z[b, c] = jump[c] * spread * (x + bent)
