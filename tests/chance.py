"""The seeds of statistical tests: fixed in the suite, others on request.

`SWAPCAL_SEED=7 pytest -m statistical` runs every test that could fail by chance, on other data than usual; `make seeds`
does so for many seeds. A correct program passes each test with all but a negligible probability: if one of a hundred
seeds fails, the level or the tolerance of the test is wrong, or the statistic, but never the seed.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

APART = 100_000
"""Seeds in tests are smaller, so no two runs share data."""


def seeded(fixed: int) -> int:
    """Return the seed itself, or the one of the same test in the run that `SWAPCAL_SEED` names."""
    run = os.environ.get("SWAPCAL_SEED")
    return fixed if run is None else APART * (int(run) + 1) + fixed


def assert_five_percent(rates: Mapping[Any, float], redraws: int, draws: int = 999) -> None:
    """Check shares of true cases that a 5 % test rejects, whose critical values come from `draws` simulated ones.

    Both the share among `redraws` and the critical value vary: within 4.5 of their standard deviations together, which
    a correct test leaves once in 150,000 cases.
    """
    reach = 4.5 * np.sqrt(0.05 * 0.95 * (1 / redraws + 1 / (draws + 1)))
    off = {name: float(rate) for name, rate in rates.items() if not abs(rate - 0.05) <= reach}
    assert not off, f"rejected {off}, expected 0.05 ± {reach:.3f}"
