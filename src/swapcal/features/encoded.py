"""`Encoded`: records as the experts and the engine see them."""

from dataclasses import dataclass

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.features.layout import Layout
from swapcal.kernels.encode import LOGIT


@dataclass(eq=False)
class Encoded:
    """n encoded rows. `dims` says how many coordinates existed at each row; later ones are 0 there."""

    x: Array
    dims: Integers
    keys: Keys
    values: Array
    scores: Array
    """(n, number of declared scores) the users' own forecasts as probabilities, NaN where missing."""
    marks: Keys
    """(n,) a hash of each record's values as given; see `swapcal.kernels.draw.row_marks`"""

    def __len__(self) -> int:
        return len(self.dims)


def probabilities(given: Array, layout: Layout) -> Array:
    """Return the declared scores among all columns' numbers (n, K), those that are logits as probabilities."""
    if not layout.scores:
        return np.zeros((len(given), 0))
    numbers, logit = given[:, layout.scores], layout.kinds[layout.scores] == LOGIT
    if not logit.any():
        return np.ascontiguousarray(numbers)
    with np.errstate(over="ignore"):  # the exponential of a very unlikely score is infinite, and its probability 0
        return np.where(logit[None, :], 1.0 / (1.0 + np.exp(-np.where(logit[None, :], numbers, 0.0))), numbers)
