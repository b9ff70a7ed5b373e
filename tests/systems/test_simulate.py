"""The simulator: a hundred seeds keep the contract, a run is its seed, and planted faults are found."""

import inspect
import os
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("apsw")
pytest.importorskip("msgspec")

from swapcal.service import hosted, sql, worker
from swapcal.service.commands import CommandHandler
from tests.systems.simulator import STEPS, campaign, run, shortest

pytestmark = pytest.mark.systems

SEEDS = int(os.environ.get("SWAPCAL_SIMULATE", "100"))
ENOUGH = 60
"""Seeds among which every planted fault is found."""


def test_every_seed_keeps_the_contract() -> None:
    lines: list[str] = []
    campaign(range(SEEDS), lines.append)
    assert lines[-1] == f"{SEEDS} passed, 0 failed", "\n".join(lines)
    happened = dict(re.findall(r"([a-z:]+[a-z0-9: ]*) ([\d,]+)", lines[-3]))
    for what in ("killed", "damaged", "backups", "pruned", "snapshots", "outcomes: corrected", "outcomes: held"):
        assert what in happened, f"{what} never happened"


def test_a_run_is_its_seed_and_its_first_steps_a_prefix() -> None:
    first, second = run(3), run(3)
    assert (first.digest, first.counts, first.trace) == (second.digest, second.counts, second.trace)
    assert run(4).digest != first.digest
    assert run(3, STEPS // 2).trace == first.trace[: len(run(3, STEPS // 2).trace)]


@contextmanager
def planted(owner: Any, name: str, old: str, new: str) -> Iterator[None]:
    """Change a line of a function for a while."""
    right = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(right))
    assert source.count(old) == 1, f"{name}: {old} is there {source.count(old)} times"
    space: dict[str, Any] = {}
    exec(source.replace(old, new), right.__globals__, space)
    setattr(owner, name, space[name])
    try:
        yield
    finally:
        setattr(owner, name, right)


FAULTS = {
    "an outcome is learned twice": (
        hosted.HostedForecaster,
        "_settle",
        "self.figures.learn(learned, now)",
        "[self.figures.learn(learned, now) for _ in '12']",
    ),
    "a commit of unknown fate counts as done": (
        worker.Worker,
        "_write",
        "return self._failed(jobs, names, error)",
        "return answers",
    ),
    "a commit of unknown fate counts as not done": (
        worker.Worker,
        "_failed",
        "self._lost_touch(names, unknown=not isinstance(error, Conflict))",
        "pass",
    ),
    "a learner behind its log goes on": (worker.Worker, "_rebuild", "== hosted.seq", ">= hosted.seq"),
    "a snapshot's digest is not compared": (
        sql.SqlStore,
        "snapshot",
        "or _digest([content]) != listed[0][0]",
        "",
    ),
    "the first outcome does not win": (
        CommandHandler,
        "_outcome_known",
        "if (y, weight) == (row.y, row.weight):",
        "if True:",
    ),
    "early outcomes are not joined": (CommandHandler, "_issue_and_deliver", "parked=True", "parked=False"),
    "an outcome is learned before its maturity": (
        hosted.HostedForecaster,
        "_window_end",
        "now + window",
        "now",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    with planted(*FAULTS[name]):
        found = next((one for one in map(run, range(ENOUGH)) if one.broken), None)
        assert found is not None, f"{name}: not found by {ENOUGH} seeds"
        least = shortest(found)
    print(f"{name}: seed {found.seed}, {least.steps} steps, {least.broken[:150]}")
    assert least.broken
    assert not run(found.seed, least.steps).broken, "without the fault the same steps keep the contract"
