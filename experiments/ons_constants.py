"""Find which constant of the paper's Online Newton Step makes its measured slopes steep, β or ω.

    python experiments/ons_constants.py

The paper's reduction at d = 5 with its N(T), T from 10^3 to 10^6, and learners that differ only in (β, ω); ridge
regression for comparison. Prints, per stream, PSReg at both ends, its slope, the slope of the last decade, and how
much of A at T = 10^6 is still its start ωI, as ω/det(A)^{1/d} (1: the step never shrank). Two seeds up to 10^5, one
beyond. The regret proof needs β ≤ 1/50; larger values are run only to see the trend.
"""

import numpy as np

from rates.plan import decades
from rates.slopes import fit
from swapcal import Forecaster, bounds
from swapcal.datasets import Stream, play
from swapcal.kernels.state import START, STEP

DIM = 5
STREAMS = ("linear", "oppose", "adaptive", "drifting", "leave-ahead")
CONSTANTS = [(1 / 640, 102_400.0), (1 / 640, 6400.0), (1 / 640, 1.0), (1 / 50, 102_400.0), (1 / 50, 1.0), (1 / 4, 1.0)]


def forecaster(rounds: int, constants: tuple[float, float] | None) -> Forecaster:
    learner = "ridge" if constants is None else "ons"
    made = Forecaster(DIM, levels=bounds.default_levels(rounds, DIM), learner=learner, mixing="blum-mansour")
    if constants is not None:
        made._state.knobs[[STEP, START]] = constants
        made._state.scale[:] = 1.0 / constants[1]
    return made


def start_share(made: Forecaster) -> float:
    """Return ω/det(A)^{1/d}, averaged over levels by their mass; det A = Π 1/D."""
    state = made._state
    typical = np.exp(-np.log(state.scale[:, :DIM]).mean(axis=1))
    return float(np.average(state.knobs[START] / typical, weights=state.mass))


def main() -> None:
    for stream in STREAMS:
        for constants in (*CONSTANTS, None):
            points = []
            for rounds in decades(3, 6):
                found = []
                for seed in range(2 if rounds <= 10**5 else 1):
                    made = forecaster(rounds, constants)
                    for _ in play(made, Stream(stream, DIM, rounds, seed)):
                        pass
                    found.append(made.certificate().psreg)
                points.append((float(rounds), float(np.median(found))))
            name = "ridge" if constants is None else f"β = 1/{1 / constants[0]:.0f}, ω = {constants[1]:,.0f}"
            print(
                f"{stream:12s} {name:24s} PSReg {points[0][1]:7.0f} … {points[-1][1]:7.0f}   "
                f"slope {fit(points).value:5.2f}   last decade {fit(points[-3:]).value:5.2f}   "
                f"start left {start_share(made):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
