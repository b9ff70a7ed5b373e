"""`Gauge`: what the desk has done so far, for metrics and tests."""

from bisect import bisect_left
from dataclasses import dataclass, field

BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


@dataclass
class Durations:
    """Seconds in bins, as Prometheus counts them.

    Examples
    --------
    >>> latency = Durations()
    >>> latency.add(0.003)
    >>> latency.count, latency.counts[3]
    (1, 1)
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


@dataclass
class Gauge:
    """Counters of the learning thread."""

    commits: Durations = field(default_factory=Durations)
    events: dict[str, int] = field(default_factory=dict)
    """by kind"""
    failures: int = 0
    """commits that failed"""
    rebuilds: int = 0
    snapshots: Durations = field(default_factory=Durations)
    snapshot_failures: int = 0
    full: int = 0
    """requests refused because the queue was full"""
