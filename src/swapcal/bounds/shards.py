"""What bounds of shards say about their union."""

from __future__ import annotations

from collections.abc import Sequence

from swapcal.bounds.bound import Bound

__all__ = ["union_of_shards"]


def union_of_shards(shards: Sequence[Bound]) -> Bound:
    """Bound an error of all rows together by the sum of the bounds of disjoint shards, each with a learner of its own.

    The errors are sums over levels of n|S/n|^q with q ≥ 1, where S = Σ f(x)(y − p), or of S itself, and a supremum over
    the class. The rows of a level are those of the shards' levels together, so n and S add up; n|S/n|^q is convex and
    homogeneous in (n, S), hence subadditive; and a supremum of a sum is at most the sum of the suprema. The comparator
    may even be another function in every shard. Swap regrets and omniprediction errors are suprema of sums, too.

    S shards of T/S rows with a bound C·T^a each give S^(1−a) times what one learner of all T rows would have. Bounds
    that hold with probability 1 − δ each hold together with probability 1 − Sδ.

    Examples
    --------
    >>> from swapcal.bounds import smcal2
    >>> one = smcal2(10**6, dim=5, delta=0.05 / 8)
    >>> float(union_of_shards([one] * 8)) == 8 * float(one)
    True
    """
    if not shards:
        raise ValueError("shards: given none, expected at least one")
    exponents = [shard.exponent for shard in shards]
    known = [exponent for exponent in exponents if exponent is not None]
    return Bound(
        sum(float(shard) for shard in shards),
        max(known) if len(known) == len(exponents) else None,
        f"ours: union of shards; each by {shards[0].citation.removeprefix('ours: ')}",
        explicit=all(shard.explicit for shard in shards),
    )
