"""Every error by name, from the sums of a tally, and what attains it."""

from typing import cast

import numpy as np

from swapcal import errors
from swapcal.arrays import Array
from swapcal.audit.encode import Coordinate
from swapcal.audit.quantities import CLASSES
from swapcal.audit.tallies import Tally
from swapcal.audit.witness import Form, Witness
from swapcal.kernels import tally as kernel


def smcal(tally: Tally, q: int, against: str) -> float:
    """SMCal_q: Σ_v sup_f n_v |Σ α f(x)(y − p)/n_v|^q over the class `against`."""
    if against == "groups":
        return float(errors.smcal_groups(tally.n, _group_residuals(tally)[1], q))
    if against == "affine":
        return float(errors.smcal_affine(tally.n, tally.A, tally.g, q))
    return _radius(against) ** q * float(errors.smcal_linear(tally.n, tally.g, q))


def mcal(tally: Tally, q: int, against: str) -> float | tuple[float, float]:
    """MCal_q: sup_f Σ_v n_v |Σ α f(x)(y − p)/n_v|^q; an interval for q = 1 unless the class is groups."""
    if q not in (1, 2):
        raise ValueError(f"q: given {q}, expected 1 or 2 for mcal")
    if against == "groups":
        return float(errors.mcal_groups(tally.n, _group_residuals(tally)[1], q)[0])
    n, A, g = tally.n, tally.A, tally.g
    scale = 1.0 if against == "affine" else _radius(against) ** q
    if q == 2:
        return scale * float((errors.mcal2_affine(n, A, g) if against == "affine" else errors.mcal2_linear(n, g))[0])
    found = errors.mcal1_affine(n, A, g) if against == "affine" else errors.mcal1_linear(n, g)
    return scale * found.lower, scale * found.upper


def sreg(tally: Tally) -> float:
    """SReg against F_4^lin: the squared loss that one linear function per level would have saved."""
    return float(errors.swap_regret(tally.v, tally.g, tally.G)[0].sum())


def witness(
    tally: Tally, coordinates: tuple[Coordinate, ...], quantity: str, q: int = 2, against: str = "linear"
) -> Witness:
    """Return what attains "smcal", "mcal", "sreg" or "somni"."""
    names: tuple[str, ...] | None = None
    theta: Array | None = None
    if quantity == "sreg":
        q, against, symbol, form = 2, "linear4", "SReg", "regret"
        theta = errors.swap_regret(tally.v, tally.g, tally.G)[1]
        theta[:, 0] -= 2.0 * tally.v
    elif quantity == "somni":
        q, against, symbol, form = 1, "affine", "SOmni", "omni"
        theta = errors.somni(tally.v, tally.A, tally.g).theta
    elif quantity in {"smcal", "mcal"}:
        symbol = f"{'SMCal' if quantity == 'smcal' else 'MCal'}_{q}"
        form = against if against in {"groups", "affine"} else "linear"
        if against == "groups":
            names = _worst_groups(tally, quantity, q)
        else:
            theta = _worst_theta(tally, quantity, q, against)
    else:
        raise ValueError(f'quantity: given {quantity!r}, expected "smcal", "mcal", "sreg" or "somni"')
    sums = _level_sums(tally, form, theta, names)
    safe = np.where(tally.n > 0, tally.n, 1.0)
    shares = sums if form in {"regret", "omni"} else safe * np.abs(sums / safe) ** q
    gaps = (tally.A if form == "omni" else sums) / safe
    return Witness(
        symbol,
        CLASSES[against],
        cast(Form, form),
        q,
        float(shares.sum()),
        tally.levels,
        tally.n,
        tally.v,
        shares,
        gaps,
        coordinates,
        theta,
        names,
    )


def _worst_groups(tally: Tally, quantity: str, q: int) -> tuple[str, ...]:
    names, S = _group_residuals(tally)
    if quantity == "smcal":
        return tuple(names[k] for k in errors.witness_groups(S))
    return (names[errors.mcal_groups(tally.n, S, q)[1]],) * len(S)


def _worst_theta(tally: Tally, quantity: str, q: int, against: str) -> Array:
    n, A, g = tally.n, tally.A, tally.g
    radius = 1.0 if against == "affine" else _radius(against)
    if quantity == "smcal":
        return radius * (errors.witness_affine(A, g) if against == "affine" else errors.witness_linear(g))
    if against == "affine":
        theta = errors.mcal2_affine(n, A, g)[1] if q == 2 else errors.mcal1_affine(n, A, g).theta
    else:
        theta = errors.mcal2_linear(n, g)[1] if q == 2 else errors.mcal1_linear(n, g).theta
    return np.tile(radius * theta, (len(n), 1))


def _level_sums(tally: Tally, form: str, theta: Array | None, names: tuple[str, ...] | None) -> Array:
    """Σ of what the witness's rows carry, per level, from the statistics."""
    if names is not None:
        every, S = _group_residuals(tally)
        place = {name: k for k, name in enumerate(every)}
        return np.asarray(S[np.arange(len(names)), [place[name] for name in names]])
    assert theta is not None
    linear = np.einsum("ld,ld->l", theta, tally.g)
    if form == "affine":
        return np.asarray(0.5 * (tally.A + linear))
    if form == "omni":
        action = errors.somni(tally.v, tally.A, tally.g).action
        return np.asarray((action * tally.A - 0.5 * (tally.A + linear)) / np.maximum(tally.v, 1.0 - tally.v))
    if form == "regret":
        return np.asarray(2.0 * linear - np.einsum("ld,lde,le->l", theta, tally.G, theta, optimize=True))
    return np.asarray(linear)


def _group_residuals(tally: Tally) -> tuple[list[str], Array]:
    """Return the names of all groups and Σ α(y − p) of each per level, (L, K)."""
    if not tally.groups:
        raise ValueError("groups: given none, expected groups= or categorical features; issued sums have none")
    columns = tally.columns()
    names = [f"{column} = {category}" for column, categories, _ in columns for category in categories]
    return names, np.concatenate([table[:, :, kernel.RESIDUAL] for _, _, table in columns], axis=1)


def _radius(against: str) -> float:
    if against not in {"linear", "linear4"}:
        raise ValueError(f"against: given {against!r}, expected one of linear, linear4, affine, groups")
    return 2.0 if against == "linear4" else 1.0
