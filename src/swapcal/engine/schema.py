"""What a forecaster's arrays must be for the kernels to be safe on them and the certificate to be true of them."""

from collections.abc import Iterator

import numpy as np

from swapcal.archive.kind import Arrays, Field, floats, integers, keys
from swapcal.kernels.linalg import factor_size, padded
from swapcal.kernels.state import (
    BLUM_MANSOUR,
    CODES_ADAPTIVE,
    CODES_LEARNER,
    CODES_MIXING,
    FLOOR,
    KAPPA,
    LATE,
    LEVELS,
    ONS_LEARNER,
    REACH,
    RECENT_COORDINATES,
    RIDGE,
    RIDGE_LEARNER,
    START,
    STEP,
    UPDATES,
    VAW_LEARNER,
    WINDOW,
)

FIELDS: dict[str, Field] = {
    "z": floats("slots"),
    "order": integers("slots"),
    "right": integers("slots"),
    "theta": floats("slots", "width"),
    "prior": floats("slots", "width"),
    "factor": floats("slots", "packed"),
    "scale": floats("slots", "width"),
    "residual": floats("slots", "width"),
    "gram": floats("slots", "triangle"),
    "mass": floats("slots"),
    "excess": floats("slots"),
    "potential": floats("slots"),
    "slack": floats("slots"),
    "recent": floats("memories", "recent width"),
    "recent_factor": floats("memories", "recent packed"),
    "recent_scale": floats("memories", "recent width"),
    "recent_pull": floats("memories", "recent width"),
    "recent_excess": floats("memories"),
    "recent_clock": integers("memories"),
    "recent_prior": floats(2, "recent width"),
    "totals": floats(2),
    "counts": integers(3),
    "knobs": floats(7),
    "codes": integers(3),
    "seed": keys(1),
}


def faults(arrays: Arrays, dim: int, learner: int, mixing: int, uniform: bool) -> Iterator[str]:
    """Yield what is wrong with the arrays of a forecaster that claims these settings."""
    yield from _code_faults(arrays, learner, mixing)
    yield from _size_faults(arrays, dim)
    yield from _number_faults(arrays)
    yield from _level_faults(arrays, uniform)


def _code_faults(arrays: Arrays, learner: int, mixing: int) -> Iterator[str]:
    codes = arrays["codes"].tolist()
    if codes[CODES_LEARNER] != learner or codes[CODES_MIXING] != mixing or codes[CODES_ADAPTIVE] not in (0, 1):
        yield f"codes: given {codes}, expected [{learner}, {mixing}, 0 or 1] as the settings say"
    if mixing == BLUM_MANSOUR and (codes[CODES_ADAPTIVE] or learner == VAW_LEARNER):
        yield f"codes: given {codes}, expected a combination that a forecaster has"
    if arrays["knobs"][WINDOW] != 0.0 and (mixing == BLUM_MANSOUR or learner != RIDGE_LEARNER):
        yield f"codes: given {codes} with a window, expected a combination that a forecaster has"


def _size_faults(arrays: Arrays, dim: int) -> Iterator[str]:
    width, recalls = arrays["theta"].shape[1], arrays["knobs"][WINDOW] != 0.0
    inner = dim + (RECENT_COORDINATES if recalls else 0)
    if width != padded(inner):
        yield f"theta: given {width} columns, expected {padded(inner)} for dim {dim}"
    if arrays["factor"].shape[1] != factor_size(inner):
        yield f"factor: given {arrays['factor'].shape[1]} columns, expected {factor_size(inner)} for dim {dim}"
    expected = (1 + len(arrays["z"]), factor_size(inner), padded(inner)) if recalls else (0, 0, 0)
    if (*arrays["recent_factor"].shape, arrays["recent"].shape[1]) != expected:
        yield f"recent: given learners of {arrays['recent'].shape}, expected {expected[0]} of {expected[2]} weights"
    triangle = width * (width + 1) // 2 if arrays["codes"][CODES_LEARNER] == ONS_LEARNER else 0
    if arrays["gram"].shape[1] != triangle:
        yield f"gram: given {arrays['gram'].shape[1]} columns, expected {triangle}"


def _number_faults(arrays: Arrays) -> Iterator[str]:
    if (arrays["scale"] <= 0.0).any():
        yield "scale: given a number that is not positive, expected positive ones"
    if (arrays["mass"] < 0.0).any():
        yield "mass: given a negative number, expected none"
    knobs = arrays["knobs"]
    if (knobs[[RIDGE, KAPPA, START, FLOOR, REACH]] <= 0.0).any() or knobs[STEP] < 0.0:
        yield f"knobs: given {knobs.tolist()}, expected positive numbers"
    if knobs[WINDOW] != 0.0 and not knobs[WINDOW] >= 1.0:
        yield f"window: given {knobs[WINDOW]}, expected 0 for none or at least 1"
    pull = arrays["recent_pull"]
    if (arrays["recent_scale"] <= 0.0).any() or (pull <= 0.0).any() or (pull > knobs[RIDGE]).any():
        yield "recent: given a scale or pull that is not positive, or a pull above the ridge, expected them within"
    clock = arrays["recent_clock"]
    if (clock < 0).any() or (clock > arrays["counts"][UPDATES]).any():
        yield "recent_clock: given a time that has not come, expected numbers of labels learned"
    updates, late = int(arrays["counts"][UPDATES]), int(arrays["counts"][LATE])
    if not 0 <= late <= updates:
        yield f"counts: given {late} late of {updates} updates, expected from none to all of them"


def _level_faults(arrays: Arrays, uniform: bool) -> Iterator[str]:
    slots, n, adaptive = len(arrays["z"]), int(arrays["counts"][LEVELS]), arrays["codes"][CODES_ADAPTIVE] == 1
    if not 2 <= n <= slots or not (adaptive or n == slots):
        yield f"counts: given {n} levels, expected {f'2 to {slots}' if adaptive else slots}, the slots there are"
        return
    order, right = arrays["order"], arrays["right"]
    used = order[:n]
    if not np.array_equal(np.sort(used), np.arange(n)) or (order < 0).any() or (order >= slots).any():
        yield f"order: given slots that repeat or do not exist, expected each of the first {n} once"
        return
    z = arrays["z"][used]
    if z[0] != 0.0 or z[-1] != 1.0 or (np.diff(z) <= 0.0).any():
        yield "z: given levels out of order, expected them to increase from 0 to 1"
    if not np.array_equal(right[used], np.append(used[1:], -1)) or (right[n:] != -1).any():
        yield "right: given links that disagree with the order, expected each level's upper neighbour"
    if uniform and (adaptive or not np.array_equal(z, np.arange(n) / (n - 1))):
        yield "uniform: given true, expected false: the levels are not i/N"
