"""Multicalibration errors and omniprediction: each level with its own function, or one function for all levels."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from swapcal.arrays import Array, Places

# Swap multicalibration: each level has its own test function.

Total = Any
"""A float for one set of statistics, (…) for stacked ones."""

AffineRules = Literal["all", "restricted"]
"""All affine functions with values in [0, 1] on X, or F_res^aff."""

TAIL_RADIUS = 2.0 / np.sqrt(3.0)
"""Θ_1 is the convex hull of ±2e_1 and the sphere of this radius in the other coordinates."""


def power_sum(n: Array, s: Array, q: float) -> Total:
    """Σ_v n_v (s_v / n_v)^q over the levels in use.

    Parameters
    ----------
    n, s : (L,) and (…, L)

    Examples
    --------
    >>> power_sum(np.array([4.0, 0.0]), np.array([2.0, 0.0]), 2)
    1.0
    """
    used = n > 0
    return scalar_or_array(np.sum(n[used] * (s[..., used] / n[used]) ** q, axis=-1))


def support_linear(g: Array) -> Array:
    """Per level, the largest ⟨θ,g⟩ over Θ_1: max(2|g_1|, (2/√3)‖g_2:‖).

    A linear function on a convex hull is largest at one of the points that span it.

    Parameters
    ----------
    g : (…, L, d)

    Examples
    --------
    >>> support_linear(np.array([[1.0, 0.0], [0.0, -3.0]])).round(3)
    array([2.   , 3.464])
    """
    support: Array = np.maximum(2.0 * np.abs(g[..., 0]), TAIL_RADIUS * norms(g[..., 1:]))
    return support


def witness_linear(g: Array) -> Array:
    """Per level, θ in Θ_1 with ⟨θ,g⟩ = `support_linear`; zero where g is zero.

    Examples
    --------
    >>> witness_linear(np.array([[1.0, 0.0]]))
    array([[2., 0.]])
    """
    tail = norms(g[..., 1:])
    head = 2.0 * np.abs(g[..., 0]) >= TAIL_RADIUS * tail
    theta = np.zeros_like(g)
    theta[head, 0] = 2.0 * np.sign(g[head, 0])
    theta[~head, 1:] = TAIL_RADIUS * g[~head, 1:] / tail[~head, None]
    return theta


def smcal_linear(n: Array, g: Array, q: float) -> Total:
    """SMCal_q (or PSMCal_q) against F_1^lin: Σ_v sup_f n_v |Σ α f(x)(y − v) / n_v|^q, exactly.

    Parameters
    ----------
    n, g : (L,) and (…, L, d)
    q : 1 or 2 in the theorems; any q > 0 works.

    Examples
    --------
    >>> smcal_linear(np.array([8.0]), np.array([[1.0, 0.0]]), 2)
    0.5
    """
    return power_sum(n, support_linear(g), q)


def support_affine(A: Array, g: Array, rules: AffineRules = "restricted") -> Array:
    """Per level, the largest |Σ α f(x)(y − v)| over affine rules f(x) = (1 + ⟨θ,x⟩)/2 with values in [0, 1].

    "all" of them, θ in Θ_1: (|A| + max(2|g_1|, (2/√3)‖g_2:‖))/2. "restricted", F_res^aff with ‖θ‖ ≤ 1: (|A| + ‖g‖)/2;
    it has no constants outside [¼, ¾].

    Examples
    --------
    >>> support_affine(np.array([-2.0]), np.array([[-1.0, 0.0]]))
    array([1.5])
    >>> support_affine(np.array([-2.0]), np.array([[-1.0, 0.0]]), "all")
    array([2.])
    """
    return 0.5 * (np.abs(A) + (support_linear(g) if _all(rules) else norms(g)))


def witness_affine(A: Array, g: Array, rules: AffineRules = "restricted") -> Array:
    """Per level, θ for which |A + ⟨θ,g⟩|/2 is `support_affine`: in the unit ball, or with "all" rules in Θ_1.

    Examples
    --------
    >>> witness_affine(np.array([2.0]), np.array([[1.0, 0.0]]))
    array([[1., 0.]])
    """
    sign = np.where(A < 0, -1.0, 1.0)
    if _all(rules):
        return sign[..., None] * witness_linear(g)
    norm = norms(g)
    return sign[..., None] * g / np.where(norm > 0, norm, 1.0)[..., None]


def _all(rules: str) -> bool:
    if rules not in ("all", "restricted"):
        raise ValueError(f'rules: given {rules!r}, expected "all" or "restricted"')
    return rules == "all"


def smcal_affine(n: Array, A: Array, g: Array, q: float) -> Total:
    """SMCal_q against F_res^aff.

    Examples
    --------
    >>> smcal_affine(np.array([10.0]), np.array([2.0]), np.array([[1.0, 0.0]]), 1)
    1.5
    """
    return power_sum(n, support_affine(A, g), q)


def smcal_groups(n: Array, S: Array, q: float) -> Total:
    """SMCal_q against a finite class f_1 … f_K, with S_vk = Σ α f_k(x)(y − v).

    Parameters
    ----------
    n, S : (L,) and (…, L, K)

    Examples
    --------
    >>> smcal_groups(np.array([10.0]), np.array([[1.0, -3.0]]), 1)
    3.0
    """
    return power_sum(n, np.abs(S).max(axis=-1), q)


def witness_groups(S: Array) -> Places:
    """Per level, the index of the function that attains the maximum.

    Examples
    --------
    >>> witness_groups(np.array([[1.0, -3.0]]))
    array([1])
    """
    worst: Places = np.abs(S).argmax(axis=-1)
    return worst


def cal(n: Array, A: Array, q: float) -> Total:
    """Cal_q = Σ_v n_v (|A_v|/n_v)^q: calibration alone, the class holding only f = 1.

    Examples
    --------
    >>> cal(np.array([8.0]), np.array([-1.0]), 2)
    0.125
    """
    return power_sum(n, np.abs(A), q)


def norms(rows: Array) -> Array:
    """Euclidean norm of each row.

    Examples
    --------
    >>> norms(np.array([[3.0, 4.0]]))
    array([5.])
    """
    lengths: Array = np.sqrt(np.einsum("...d,...d->...", rows, rows))
    return lengths


def scalar_or_array(total: Array) -> Total:
    """Return a float where there is one total, else the array of them."""
    return total if np.ndim(total) else float(total)


# Swap omniprediction over all convex Lipschitz losses, exactly.


class Omniprediction(NamedTuple):
    """SOmni and, per level, the loss and the comparator that attain it.

    The loss is ℓ(a, y) = slope_y · (a − action): convex, 1-Lipschitz, in [−1, 1], and indifferent at level v,
    so a vanishing |a − action| makes `action` the best response. The comparator is f(x) = (1 + ⟨θ,x⟩)/2.
    """

    total: Total
    levels: Array
    slopes: Array
    action: Array
    theta: Array


def somni_levels(v: Array, A: Array, g: Array, rules: AffineRules = "restricted") -> Array:
    """SOmni_v for each level: `support_affine` / max(v, 1 − v).

    The supremum of Σ_{p=v} α[ℓ(k_ℓ(v), y) − ℓ(f(x), y)] over losses ℓ in L^cvx (convex, 1-Lipschitz, values in [−1, 1])
    and f in F_res^aff, or with "all" over every affine f with values in [0, 1] on X. What no such loss can lose to
    any affine rule on the features is the latter. For outcomes 0 and 1: with others the sums may be those of 0s and 1s
    while best responses to v are not best (y = v = ½: 0 here, but |a − y| loses ½ a row to the constant ½).

    Proof. Replace ℓ(·, 0) and ℓ(·, 1) by tangents at k = k_ℓ(v) whose slopes balance, (1 − v)s_0 + v s_1 = 0 (at an end
    of [0, 1] lower a slope until they do): the comparator only gains and k stays optimal. So
    s_y = τ(y − v)/max(v, 1 − v) with |τ| ≤ 1, and the gain −τ Σ α(y − v)(f − k)/max(v, 1 − v) is linear in k: take k in
    {0, 1}, then the best f.

    Parameters
    ----------
    v, A, g : (L,), (…, L), (…, L, d)

    Examples
    --------
    >>> somni_levels(np.array([0.2]), np.array([3.0]), np.array([[1.5, 2.0]]))
    array([3.4375])
    """
    return support_affine(A, g, rules) / np.maximum(v, 1.0 - v)


def somni(v: Array, A: Array, g: Array, rules: AffineRules = "restricted") -> Omniprediction:
    """SOmni, the sum of `somni_levels`, and what attains it.

    Parameters
    ----------
    v, A, g : (L,), (…, L), (…, L, d)

    Examples
    --------
    >>> found = somni(np.array([0.5]), np.array([1.0]), np.array([[0.5, 0.0]]))
    >>> found.total, found.slopes, found.action
    (1.5, array([[-1.,  1.]]), array([1.]))
    >>> somni(np.array([0.5]), np.array([1.0]), np.array([[0.5, 0.0]]), "all").total
    2.0
    """
    margin = np.maximum(v, 1.0 - v)
    levels = somni_levels(v, A, g, rules)
    return Omniprediction(
        total=scalar_or_array(levels.sum(axis=-1)),
        levels=levels,
        slopes=np.stack([-v, 1.0 - v], axis=1) / margin[:, None],
        action=np.where(A < 0, 0.0, 1.0),
        theta=-witness_affine(np.abs(A), g, rules),
    )


# Multicalibration: one test function for all levels.

RESTARTS = 16
"""Random starts of the alternating ascent, besides the spectral one and the heaviest levels."""


class Interval(NamedTuple):
    """A value known to lie in [lower, upper]; `theta` attains `lower`."""

    lower: Total
    upper: Total
    theta: Array


def mcal2_linear(n: Array, g: Array) -> tuple[Total, Array]:
    """MCal_2 against F_1^lin and the θ that attains it: sup_θ Σ_v ⟨θ,g_v⟩²/n_v.

    With M = Σ g gᵀ/n this is max(4 M_11, (4/3) λ_max(M_2:,2:)): a convex function is largest at an extreme
    point of Θ_1, which is ±2e_1 or lies on the tail sphere.

    Examples
    --------
    >>> value, theta = mcal2_linear(np.array([1.0, 1.0]), np.array([[0.0, 3.0], [0.0, -3.0]]))
    >>> round(value, 9), np.abs(theta).round(3)
    (24.0, array([0.   , 1.155]))
    """
    head, M = _moments(n, g)
    value, theta = mcal2_linear_total(n, g), np.zeros((*head.shape, g.shape[-1]))
    theta[..., 0] = 2.0
    if M.size:
        tail = np.asarray(value > head)
        theta[tail, 0] = 0.0
        theta[tail, 1:] = TAIL_RADIUS * np.linalg.eigh(M)[1][tail, :, -1]
    return value, theta


def mcal2_linear_total(n: Array, g: Array) -> Total:
    """MCal_2 against F_1^lin without what attains it: half the work, for many draws."""
    head, M = _moments(n, g)
    return scalar_or_array(np.maximum(head, TAIL_RADIUS**2 * np.linalg.eigvalsh(M)[..., -1]) if M.size else head)


def mcal1_linear(n: Array, g: Array) -> Interval:
    """MCal_1 against F_1^lin, sup_θ Σ_v |⟨θ,g_v⟩|, as an interval (the maximum is NP-hard in general).

    Lower end: θ ← argmax ⟨θ, Σ sign⟨θ,g_v⟩ g_v⟩, which never decreases the value, from several starts.
    Upper end: min(SMCal_1, √(T·MCal_2)).

    Examples
    --------
    >>> found = mcal1_linear(np.array([1.0, 1.0]), np.array([[1.0, 0.0], [-1.0, 0.0]]))
    >>> found.lower, found.upper
    (4.0, 4.0)
    """
    if g.ndim > 2:
        return Interval(*_one_by_one(mcal1_linear, n, g))
    value2, theta2 = mcal2_linear(n, g)
    constant = 2.0 * float(np.abs(g[:, 0]).sum())
    tail = TAIL_RADIUS * _ascend(np.zeros(len(g)), g[:, 1:], theta2[1:])
    reached = float(np.abs(g[:, 1:] @ tail).sum())
    theta = np.concatenate([[2.0], np.zeros_like(tail)]) if constant >= reached else np.append(0.0, tail)
    upper = min(smcal_linear(n, g, 1), float(np.sqrt(n.sum() * value2)))
    return Interval(max(constant, reached), max(upper, constant, reached), theta)


def mcal2_affine(n: Array, A: Array, g: Array) -> tuple[Total, Array]:
    """MCal_2 against F_res^aff: sup over ‖θ‖ ≤ 1 of Σ_v (A_v + ⟨θ,g_v⟩)²/(4 n_v), exactly.

    A convex quadratic on a ball is largest on the sphere, where (μI − M)θ = m with μ ≥ λ_max(M),
    M = Σ g gᵀ/n, m = Σ A g/n; μ solves the secular equation ‖θ(μ)‖ = 1.

    Examples
    --------
    >>> mcal2_affine(np.array([1.0]), np.array([2.0]), np.array([[1.0, 0.0]]))
    (2.25, array([1., 0.]))
    """
    if g.ndim > 2:
        return _one_by_one(mcal2_affine, n, A, g)
    used = n > 0
    weighted = g[used] / n[used, None]
    theta = _sphere_maximiser(g[used].T @ weighted, weighted.T @ A[used])
    return power_sum(n, 0.5 * np.abs(A + g @ theta), 2), theta


def mcal1_affine(n: Array, A: Array, g: Array) -> Interval:
    """MCal_1 against F_res^aff, as an interval found like `mcal1_linear`'s.

    Examples
    --------
    >>> mcal1_affine(np.array([4.0]), np.array([2.0]), np.array([[1.0, 0.0]])).lower
    1.5
    """
    if g.ndim > 2:
        return Interval(*_one_by_one(mcal1_affine, n, A, g))
    value2, theta2 = mcal2_affine(n, A, g)
    theta = _ascend(A, g, theta2)
    lower = 0.5 * float(np.abs(A + g @ theta).sum())
    upper = min(smcal_affine(n, A, g, 1), float(np.sqrt(n.sum() * value2)))
    return Interval(lower, max(lower, upper), theta)


def mcal_groups(n: Array, S: Array, q: float) -> tuple[Total, Any]:
    """MCal_q against a finite class, with S (…, L, K) = Σ α f_k(x)(y − v), and the worst function's index.

    Examples
    --------
    >>> mcal_groups(np.array([1.0, 1.0]), np.array([[1.0, 0.0], [0.0, 3.0]]), 2)
    (9.0, 1)
    """
    used = n > 0
    values = np.sum(n[used, None] * np.abs(S[..., used, :] / n[used, None]) ** q, axis=-2)
    worst = values.argmax(axis=-1)
    return scalar_or_array(values.max(axis=-1)), worst if np.ndim(worst) else int(worst)


def _one_by_one(error: Callable[..., tuple[Any, ...]], n: Array, *stacked: Array) -> tuple[Any, ...]:
    """Return an error and what attains it for every one of (B, L, …) residual sums: each is its own optimisation."""
    results = [error(n, *one) for one in zip(*stacked, strict=True)]
    return tuple(np.array(part) for part in zip(*results, strict=True))


def _moments(n: Array, g: Array) -> tuple[Array, Array]:
    """4 M_11 and M_2:,2:, for M = Σ g gᵀ/n."""
    used = n > 0
    scaled = g[..., used, :] / np.sqrt(n[used])[:, None]
    tail = scaled[..., 1:]
    return 4.0 * np.sum(scaled[..., 0] ** 2, axis=-1), np.swapaxes(tail, -1, -2) @ tail


def _sphere_maximiser(M: Array, m: Array) -> Array:
    """Argmax of θᵀMθ + 2mᵀθ on the unit sphere."""
    values, V = np.linalg.eigh(M)
    h, gaps = V.T @ m, values[-1] - values
    # Bounds on μ − λ_max: the whole of m, or its top component alone, cannot exceed norm 1.
    low, high = abs(h[-1]), float(np.linalg.norm(h))
    scale = max(values[-1], high)
    if high <= 1e-15 * scale or (low <= 1e-15 * scale and _hard(h, gaps, scale)):
        return np.asarray(V @ _hard_case(h, gaps, scale))
    for _ in range(200):
        middle = 0.5 * (low + high)
        below = middle > 0 and np.linalg.norm(h / (gaps + middle)) < 1.0
        low, high = (low, middle) if below else (middle, high)
    theta = h / (gaps + high)
    return np.asarray(V @ (theta / np.linalg.norm(theta)))


def _hard(h: Array, gaps: Array, scale: float) -> bool:
    away = gaps > 1e-12 * scale
    return bool(np.linalg.norm(h[away] / gaps[away]) <= 1.0)


def _hard_case(h: Array, gaps: Array, scale: float) -> Array:
    """Fill what m leaves of the unit norm with the top eigenvector."""
    theta = np.zeros_like(h)
    away = gaps > 1e-12 * scale
    theta[away] = h[away] / gaps[away]
    theta[-1] = np.sqrt(max(0.0, 1.0 - float(theta @ theta))) * (-1.0 if h[-1] < 0 else 1.0)
    return theta


def _ascend(offset: Array, rows: Array, spectral: Array) -> Array:
    """Best unit u found for Σ_v |offset_v + ⟨u, rows_v⟩|, alternating signs and direction from many starts."""
    if not rows.shape[1]:
        return np.zeros(0)
    heaviest = rows[np.argsort(-norms(rows))[:RESTARTS]]
    random = np.random.default_rng(0).standard_normal((RESTARTS, rows.shape[1]))
    u = _unit(np.concatenate([[spectral, -spectral], heaviest, random]))
    signs = np.zeros((len(u), len(rows)))
    for _ in range(100):
        fresh = np.where(offset + u @ rows.T < 0, -1.0, 1.0)
        if np.array_equal(fresh, signs):
            break
        signs, u = fresh, _unit(fresh @ rows)
    best: Array = u[np.abs(offset + u @ rows.T).sum(axis=1).argmax()]
    return best


def _unit(rows: Array) -> Array:
    length = norms(rows)
    return rows / np.where(length > 0, length, 1.0)[:, None]
