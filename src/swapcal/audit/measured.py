"""Measured: every error and score by name, and what attains it."""

from typing import Any

import numpy as np

from swapcal import errors
from swapcal.arrays import Array
from swapcal.audit.quantities import CLASSES, Against
from swapcal.audit.record import Record
from swapcal.audit.scene import Residuals, Scene, observe
from swapcal.audit.spectrum import area, smooth_error
from swapcal.audit.tallies import Tally
from swapcal.audit.witness import Form, Witness
from swapcal.kernels import tally as kernel


class Measured(Record):
    """The quantities of the theory and the familiar scores, read off the record."""

    def smcal(self, q: int = 2, against: Against = "linear", *, mean: bool = False) -> float:
        """SMCal_q: Σ_v sup_f n_v |Σ α f(x)(y − p)/n_v|^q over the class `against`."""
        return self._scaled(self._smcal(self._tally, q, against), mean)

    def psmcal(self, q: int = 2, against: Against = "linear", *, mean: bool = False) -> float:
        """PSMCal_q: `smcal` with the issued probabilities as weights (equal to it if none were given)."""
        return self._scaled(self._smcal(self._issued or self._tally, q, against), mean)

    def mcal(self, q: int = 2, against: Against = "linear", *, mean: bool = False) -> float | tuple[float, float]:
        """MCal_q: sup_f Σ_v n_v |Σ α f(x)(y − p)/n_v|^q; an interval for q = 1 unless the class is groups."""
        found: float | tuple[float, float] = self._pooled(self._tally, q, against, mean)
        return found

    def pmcal(self, q: int = 2, against: Against = "linear", *, mean: bool = False) -> float | tuple[float, float]:
        """PMCal_q: `mcal` with the issued probabilities as weights."""
        found: float | tuple[float, float] = self._pooled(self._issued or self._tally, q, against, mean)
        return found

    def cal(self, q: int = 1, *, mean: bool = False) -> float:
        """Cal_q: Σ_v n_v (|A_v|/n_v)^q."""
        return self._scaled(errors.cal(self._tally.n, self._tally.A, q), mean)

    def pcal(self, q: int = 1, *, mean: bool = False) -> float:
        """PCal_q: `cal` with the issued probabilities as weights."""
        tally = self._issued or self._tally
        return self._scaled(errors.cal(tally.n, tally.A, q), mean)

    def sreg(self, *, mean: bool = False) -> float:
        """SReg against F_4^lin: the squared loss that one linear function per level would have saved."""
        return self._scaled(_regret(self._tally), mean)

    def psreg(self, *, mean: bool = False) -> float:
        """PSReg against F_4^lin: `sreg` with the issued probabilities as weights."""
        return self._scaled(_regret(self._issued or self._tally), mean)

    def somni(self, *, mean: bool = False) -> float:
        """SOmni over L^cvx × F_res^aff, exactly."""
        tally = self._tally
        return self._scaled(errors.somni(tally.v, tally.A, tally.g).total, mean)

    def dsmcal(self, q: int = 2, against: Against = "linear") -> float:
        """DSMCal_q: `smcal` per row, the distributional error when the rows are a held-out sample."""
        return self.smcal(q, against, mean=True)

    def dmcal(self, q: int = 2, against: Against = "linear") -> float | tuple[float, float]:
        """DMCal_q: `mcal` per row, on a held-out sample."""
        return self.mcal(q, against, mean=True)

    def dsomni(self) -> float:
        """DSOmni: `somni` per row, on a held-out sample."""
        return self.somni(mean=True)

    def saerr(self) -> float:
        """SAErr: `sreg` per row, the swap agnostic error on a held-out sample."""
        return self.sreg(mean=True)

    def ece(self) -> float:
        """Return the expected calibration error over the levels: Cal_1 per row."""
        return self.cal(1, mean=True)

    def smooth_ece(self) -> float:
        """Return the smooth calibration error, from the rows if all are kept, else from the histogram."""
        rows = self._sketch.rows
        if not self._sketch.complete or rows is None:
            return self._spectrum.smooth_ece()
        return smooth_error(rows.p, rows.copies * rows.weights * (rows.y - rows.p) / self.n)

    def brier(self) -> float:
        """Return the mean squared error."""
        return float(self._tally.table[:, kernel.SQUARED].sum()) / self.n

    def brier_split(self) -> tuple[float, float]:
        """Return the calibration and the refinement part of the Brier score; they add up to it.

        Calibration is what shifting every level by its own mean residual would save.
        """
        calibration = self.cal(2, mean=True)
        return calibration, self.brier() - calibration

    def log_loss(self) -> float:
        """Return the mean log loss in nats, with probabilities kept 10⁻⁶ away from 0 and 1 (`kernels.logloss`)."""
        return self._spectrum.log_loss / self.n

    def auc(self) -> tuple[float | None, float]:
        """Return the area under the ROC curve and how far binning can have moved it.

        None with one class only. Exact, with 0 in the second place, if every distinct prediction is kept.
        """
        rows = self._sketch.rows
        if self._sketch.complete and rows is not None:
            _, place = np.unique(rows.p, return_inverse=True)
            mass = rows.copies * rows.weights
            total, ones = (np.bincount(place, weights=w).astype(np.float64) for w in (mass, mass * rows.y))
            return area(total - ones, ones)[0], 0.0
        if self.levels.values is not None:
            ones = self._tally.table[:, kernel.OBSERVED]
            return area(self._tally.n - ones, ones)[0], 0.0
        return self._spectrum.auc()

    def witness(self, quantity: str = "smcal", q: int = 2, against: str | None = None) -> Witness:
        """Return what attains an error: "smcal", "mcal", "sreg" or "somni".

        Examples
        --------
        >>> from swapcal import Audit
        >>> audit = Audit([0.5] * 4, [1, 1, 0, 1], [[0.5, 0.1]] * 2 + [[0.5, -0.1]] * 2)
        >>> found = audit.witness("smcal")
        >>> found.evaluate([0.5] * 4, [1, 1, 0, 1], [[0.5, 0.1]] * 2 + [[0.5, -0.1]] * 2) == audit.smcal()
        True
        """
        tally = self._tally
        against = {"sreg": "linear4", "somni": "affine"}.get(quantity, against or "linear")
        if quantity == "sreg":
            theta = errors.swap_regret(tally.v, tally.g, tally.G)[1]
            theta[:, 0] -= 2.0 * tally.v
            return self._attained("SReg", "linear4", "regret", 2, theta=theta)
        if quantity == "somni":
            return self._attained("SOmni", "affine", "omni", 1, theta=errors.somni(tally.v, tally.A, tally.g).theta)
        if quantity not in {"smcal", "mcal"}:
            raise ValueError(f'quantity must be "smcal", "mcal", "sreg" or "somni", got {quantity!r}')
        symbol = f"{'SMCal' if quantity == 'smcal' else 'MCal'}_{q}"
        if against == "groups":
            return self._attained(symbol, against, "groups", q, names=self._worst_groups(quantity, q))
        return self._attained(symbol, against, _form(against), q, theta=self._worst_theta(quantity, q, against))

    def _scaled(self, value: float, mean: bool) -> float:
        return value / self.n if mean else value

    def _smcal(self, tally: Tally, q: int, against: str) -> Any:
        if against == "linear":
            return errors.smcal_linear(tally.n, tally.g, q)
        if against == "linear4":
            return 2.0**q * errors.smcal_linear(tally.n, tally.g, q)
        if against == "affine":
            return errors.smcal_affine(tally.n, tally.A, tally.g, q)
        return errors.smcal_groups(tally.n, self._group_sums(tally, against), q)

    def _pooled(self, tally: Tally, q: int, against: str, mean: bool) -> Any:
        if q not in (1, 2):
            raise ValueError(f"mcal is defined for q = 1 and q = 2, got {q}")
        scale = (2.0**q if against == "linear4" else 1.0) / (self.n if mean else 1.0)
        if against in {"linear", "linear4"}:
            if q == 2:
                return scale * errors.mcal2_linear(tally.n, tally.g)[0]
            found = errors.mcal1_linear(tally.n, tally.g)
            return scale * found.lower, scale * found.upper
        if against == "affine":
            if q == 2:
                return scale * errors.mcal2_affine(tally.n, tally.A, tally.g)[0]
            found = errors.mcal1_affine(tally.n, tally.A, tally.g)
            return scale * found.lower, scale * found.upper
        return scale * errors.mcal_groups(tally.n, self._group_sums(tally, against), q)[0]

    def _group_sums(self, tally: Tally, against: str) -> Array:
        if against != "groups":
            raise ValueError(f"against must be one of {', '.join(CLASSES)}, got {against!r}")
        self._need_groups()
        return np.asarray(observe(tally)[1].S[0])

    def _need_groups(self) -> None:
        if not self._group_columns:
            raise ValueError("this audit has no groups: pass groups= or categorical features")

    def _worst_groups(self, quantity: str, q: int) -> tuple[str, ...]:
        names = self._observed[0].group_names
        S = self._group_sums(self._tally, "groups")
        if quantity == "smcal":
            return tuple(names[k] for k in errors.witness_groups(S))
        return (names[errors.mcal_groups(self._tally.n, S, q)[1]],) * len(S)

    def _worst_theta(self, quantity: str, q: int, against: str) -> Array:
        n, A, g = self._tally.n, self._tally.A, self._tally.g
        if quantity == "smcal":
            return errors.witness_affine(A, g) if against == "affine" else _radius(against) * errors.witness_linear(g)
        if against == "affine":
            theta = errors.mcal2_affine(n, A, g)[1] if q == 2 else errors.mcal1_affine(n, A, g).theta
        else:
            theta = errors.mcal2_linear(n, g)[1] if q == 2 else errors.mcal1_linear(n, g).theta
            theta = _radius(against) * theta
        return np.tile(theta, (len(n), 1))

    def _attained(
        self,
        symbol: str,
        against: str,
        form: Form,
        q: int,
        theta: Array | None = None,
        names: tuple[str, ...] | None = None,
    ) -> Witness:
        tally = self._tally
        sums = self._level_sums(form, theta, names)
        safe = np.where(tally.n > 0, tally.n, 1.0)
        shares = sums if form in {"regret", "omni"} else safe * np.abs(sums / safe) ** q
        gaps = (tally.A if form == "omni" else sums) / safe
        return Witness(
            symbol,
            CLASSES[against],
            form,
            q,
            float(shares.sum()),
            tally.levels,
            tally.n,
            tally.v,
            shares,
            gaps,
            self.coordinates,
            theta,
            names,
        )

    def _level_sums(self, form: Form, theta: Array | None, names: tuple[str, ...] | None) -> Array:
        """Σ of what the witness's rows carry, per level, from the statistics."""
        tally = self._tally
        if names is not None:
            place = {name: k for k, name in enumerate(self._observed[0].group_names)}
            chosen = [place[name] for name in names]
            return np.asarray(self._observed[1].S[0][np.arange(len(chosen)), chosen])
        assert theta is not None
        linear = np.einsum("ld,ld->l", theta, tally.g)
        if form == "affine":
            return np.asarray(0.5 * (tally.A + linear))
        if form == "omni":
            action = np.where(tally.A < 0, 0.0, 1.0)
            return np.asarray((action * tally.A - 0.5 * (tally.A + linear)) / np.maximum(tally.v, 1.0 - tally.v))
        if form == "regret":
            return np.asarray(2.0 * linear - np.einsum("ld,lde,le->l", theta, tally.G, theta, optimize=True))
        return np.asarray(linear)

    @property
    def _observed(self) -> tuple[Scene, Residuals, Array]:
        if "observed" not in self._memory:
            self._memory["observed"] = observe(self._tally)
        found: tuple[Scene, Residuals, Array] = self._memory["observed"]
        return found


def _form(against: str) -> Form:
    if against not in {"linear", "linear4", "affine"}:
        raise ValueError(f"against must be one of {', '.join(CLASSES)}, got {against!r}")
    return "affine" if against == "affine" else "linear"


def _radius(against: str) -> float:
    return 2.0 if against == "linear4" else 1.0


def _regret(tally: Tally) -> float:
    return float(errors.swap_regret(tally.v, tally.g, tally.G)[0].sum())
