"""The audit computes the same with its kernels compiled and as plain Python."""

import json

import pytest

from tests.fresh import python

PROGRAM = """
import json
import numpy as np
from swapcal import Audit

rng = np.random.default_rng(0)
p = rng.random(400)
X = np.column_stack([np.full(400, 0.5), rng.uniform(-0.5, 0.5, (400, 2))])
groups = {"g": rng.integers(0, 3, 400)}
audit = Audit(p, rng.random(400) < p, X, groups=groups, weights=rng.random(400) + 0.5, time=np.arange(400))
sums, evidence = audit.sums, audit.evidence
theory = audit.theory
print(json.dumps([theory.smcal(2), theory.sreg(), audit.log_loss(), sums.histogram.auc()[0], sums.sample.digest,
                  float(evidence.scan.measure(evidence.design, evidence.residuals)[0]), sums.timeline.table.sum()]))
"""


def test_compiled_and_plain_kernels_agree():
    compiled, plain = (json.loads(python(PROGRAM, **more)) for more in ({}, {"NUMBA_DISABLE_JIT": "1"}))
    assert compiled[4] == plain[4]
    assert [x for x in compiled if x != compiled[4]] == pytest.approx([x for x in plain if x != plain[4]])
