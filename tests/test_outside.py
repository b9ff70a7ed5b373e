"""Smooth ECE, the reliability curve and isotonic regression equal values computed by other programs."""

import numpy as np
import pytest

from swapcal import Audit
from swapcal.baselines.batch import Isotonic


def spread(step):
    """Return 2,000 numbers spread evenly over [0, 1) in an order like random, the same on every machine."""
    return np.arange(1, 2001) * step % 1.0


U, COIN = spread(0.6180339887), spread(0.7548776662)
THIRD = (3 * U).astype(int)
SURE = np.clip(1.4 * (U - 0.5) + 0.5, 0.01, 0.99)
SCENES = {
    "overconfident": (SURE, COIN < U),
    "too low": (0.8 * U, COIN < U),
    "calibrated": (U, COIN < U),
    "rare": (0.04 * U**2, COIN < 0.02 * U),
    "three levels": (np.array([0.1, 0.45, 0.5])[THIRD], np.array([0.2, 0.35, 0.6])[THIRD] > COIN),
}

RELPLOT = {
    "overconfident": (0.0692120318600337, 0.06907213524304633),
    "too low": (0.09576835822915511, 0.0960215396387657),
    "calibrated": (0.012482258821285992, 0.012822117462309776),
    "rare": (0.006579230580539964, 0.006611447713384834),
    "three levels": (0.05355652597983905, 0.05353903831564229),
}
"""By relplot 1.0.3 (Błasiok and Nakkiran's own program), numpy 2: `relplot.smECE(p, y)`, whose width has 1/1024 as its
resolution and whose integral has 200 points; and its parts with 30 halvings of the width and 20,001 points:
`config.smECE_mesh_pts = 20001`, `width = search_param(lambda s: s < 1e-9 or s < smooth_ece(p, y, s), refine=30)`,
`smooth_ece(p, y, width)`.
"""


@pytest.mark.parametrize("scene", SCENES)
def test_smooth_ece_is_relplots(scene):
    rough, fine = RELPLOT[scene]
    found = Audit(*SCENES[scene]).smooth_ece()
    assert found == pytest.approx(rough, abs=1 / 1024)
    coarse = 0.03 if scene == "rare" else 0.005  # relplot's kernel has a fixed grid, coarse for forecasts below 0.04
    assert found == pytest.approx(fine, rel=coarse)


def residual_mass(p, y, width):
    """Integrate |residuals smoothed by a Gaussian that is reflected at 0 and 1|, as the definition reads."""
    grid = (np.arange(3000) + 0.5) / 3000
    places, which = np.unique(p, return_inverse=True)
    residual = np.bincount(which, weights=y - p) / len(p)
    images = [2 * k + sign * places for k in (-1, 0, 1) for sign in (1, -1)]
    kernel = sum(np.exp(-0.5 * ((grid[:, None] - image) / width) ** 2) for image in images)
    return float(np.abs(kernel @ residual).mean() / (width * np.sqrt(2 * np.pi)))


@pytest.mark.parametrize("scene", SCENES)
def test_smooth_ece_is_the_fixed_point_of_its_definition(scene):
    p, y = (part[::4] for part in SCENES[scene])
    found = Audit(p, y).smooth_ece()
    assert residual_mass(p, y, found) == pytest.approx(found, rel=0.01)


CURVES = {
    "overconfident": (
        "0.0234600366 0.1497794847 0.2501072266 0.3499688118 0.4500040727 "
        "0.5500277199 0.6500629808 0.7500955010 0.8499853894 0.9764804863",
        "0.0981308411 0.2430555556 0.3169014085 0.4125874126 0.4615384615 "
        "0.5384615385 0.6013986014 0.6783216783 0.7464788732 0.8834498834",
    ),
    "too low": (
        "0.0502983917 0.1504035211 0.2501471741 0.3500688061 0.4501888929 0.5503140790 0.6504355425 0.7501793936",
        "0.0557768924 0.1800000000 0.3172690763 0.4360000000 0.5577689243 0.6880000000 0.8120000000 0.9236947791",
    ),
}
"""By scikit-learn 1.9.1: `calibration_curve(y, p, n_bins=10, strategy="uniform")`, mean predictions and frequencies."""


@pytest.mark.parametrize("scene", CURVES)
def test_the_reliability_curve_is_scikit_learns(scene):
    curve = Audit(*SCENES[scene], levels=10).to_dict()["reliability"]
    predicted, observed = ([float(number) for number in part.split()] for part in CURVES[scene])
    assert [point["mean_p"] for point in curve] == pytest.approx(predicted, abs=1e-8)
    assert [point["mean_y"] for point in curve] == pytest.approx(observed, abs=1e-8)


ISOTONIC = (
    "0.0643086817 0.1803278689 0.2000000000 0.2580645161 0.2580645161 0.3026315789 0.3571428571 0.3978494624 "
    "0.4153846154 0.4827586207 0.5000000000 0.5495495495 0.5495495495 0.5750000000 0.6562500000 0.6794871795 "
    "0.7021276596 0.7586206897 0.7857142857 0.8235294118 0.9093851133",
    "0 0 0.4545454545 0.4545454545 0.4545454545 0.4545454545 0.4545454545 0.5 1 1 1",
)
"""By scikit-learn 1.9.1: `IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")` of the overconfident scene, at
0, 0.05, … 1; then of its first 30 rows with predictions rounded to one digit, so that many are equal, at 0, 0.1, … 1.
"""


def test_isotonic_regression_is_scikit_learns():
    p, y = SCENES["overconfident"]
    whole, tied = ([float(number) for number in part.split()] for part in ISOTONIC)
    np.testing.assert_allclose(Isotonic().fit(p, y).predict(np.linspace(0, 1, 21)), whole, atol=1e-9)
    rounded = Isotonic().fit(p[:30].round(1), y[:30])
    np.testing.assert_allclose(rounded.predict(np.linspace(0, 1, 11)), tied, atol=1e-9)
