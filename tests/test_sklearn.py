from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from swapcal import SwapClassifier

EXPLAINED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "an online pass over a row of weight 2 differs from meeting it twice; only the weighted sums agree"
    ),
}


def run_check(estimator: Any, check: Any) -> None:
    check(estimator)


test_scikit_learn_checks = parametrize_with_checks(
    [SwapClassifier(), SwapClassifier(mode="hash", snapshots=4)],
    expected_failed_checks=lambda estimator: EXPLAINED,
)(run_check)
