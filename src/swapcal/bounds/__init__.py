"""Each theorem as a function: value, exponent, default N(T), citation.

Names starting with ``paper_`` are statements of "Improved Bounds for Swap Multicalibration and Swap
Omniprediction" (Luo, Senapati, Sharan 2025), numbered in order of appearance, with the constants its
proofs give or allow; other names are ours unless the docstring says they are shared. Every function
returns a `Bound`, which converts to ``float``.

Examples
--------
>>> from swapcal import bounds
>>> ours, paper = bounds.smcal2(10**6, dim=5, delta=0.05), bounds.paper_smcal2(10**6, dim=5, delta=0.05)
>>> float(ours) < float(paper)
True
>>> bounds.RATES["SReg", "paper"], bounds.RATES["SReg", "ours"] == 1 / 3
(0.6, True)
"""

from swapcal.bounds import adaptive, batch, bound, learners, mixtures, online, realised
from swapcal.bounds.adaptive import *
from swapcal.bounds.batch import *
from swapcal.bounds.bound import *
from swapcal.bounds.learners import *
from swapcal.bounds.mixtures import *
from swapcal.bounds.online import *
from swapcal.bounds.realised import *

__all__ = [
    *adaptive.__all__,
    *batch.__all__,
    *bound.__all__,
    *learners.__all__,
    *mixtures.__all__,
    *online.__all__,
    *realised.__all__,
]
"""The exports of all files."""
