"""Evidence: what the bets of every cell say now, read without touching them."""

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels import wealth as kernel
from swapcal.kernels.play import GAIN, LOG
from swapcal.kernels.wealth import Book, Terms


def lane_log_wealth(book: Book) -> Array:
    """Return (cells, LANES): logarithm of every bet's wealth since its first row."""
    return np.asarray(book.bets[:, LOG] + np.log(book.bets[:, GAIN]), dtype=np.float64)


def log_wealth(book: Book, terms: Terms) -> Array:
    """Return (cells, 2): logarithm of each direction's wealth, the mean over its stakes."""
    return survey(book, terms)[1]


def sums(book: Book, terms: Terms) -> Array:
    """Return (cells, 2): each direction's Shiryaev–Roberts sum, the mean over its stakes."""
    return survey(book, terms)[0]


def survey(book: Book, terms: Terms) -> tuple[Array, Array]:
    """Return the sums and the logarithms of wealth of both directions, each (cells, 2)."""
    found = np.zeros((len(book.notes), 2)), np.zeros((len(book.notes), 2))
    kernel.survey(book, terms.shares, *found)
    return found


def log_mean(logs: Array, shares: Array) -> Array:
    """Return ln Σ shares·exp(logs) over the last axis, without overflow; shares of 0 count for nothing.

    Examples
    --------
    >>> float(log_mean(np.array([1000.0, 1000.0]), np.array([0.5, 0.5])))
    1000.0
    """
    used = np.broadcast_to(shares > 0, logs.shape)
    top = np.max(np.where(used, logs, -np.inf), axis=-1)
    total = np.sum(np.where(used, shares * np.exp(np.where(used, logs - top[..., None], 0.0)), 0.0), axis=-1)
    found: Array = top + np.log(total)
    return found
