"""The state of `swapcal forecast`: made or continued, saved now and then, its trees in a file beside it."""

import json
import os
import shutil
import time as clock
from pathlib import Path
from typing import Any, Self

from swapcal.archive import ArchiveError
from swapcal.cli.stream_table import Roles
from swapcal.live import Live, Refit

CHECKPOINT = 60.0  # seconds after which a state is saved again
TREES = "trees"


def open_live(roles: Roles, state: Path | None, seed: int, *, trees: bool = False) -> Live:
    """Return a new `Live`, or the one saved at `state` if its settings are these."""
    fresh = Live(
        groups=roles.groups,
        scores=roles.scores,
        numeric=roles.numeric,
        categorical=roles.categorical,
        drop=[*dict.fromkeys([*roles.special(), *roles.drop])],
        models={TREES: Refit(boosted_trees())} if trees else None,
        seed=seed,
    )
    if state is None or not state.exists():
        return fresh
    live = load_live(state)
    if trees != (TREES in live.models):
        raise ArchiveError(
            f"{state}: given a state saved {'without' if trees else 'with'} --trees, expected the same now"
        )
    ours, theirs = (json.loads(json.dumps(each.settings)) for each in (fresh, live))
    for name in ours:
        if ours[name] != theirs.get(name):
            raise ArchiveError(
                f"{state}: given a state with {name} = {theirs.get(name)}, expected {name} = {ours[name]}"
            )
    return live


def load_live(state: Path) -> Live:
    """Return what `save_live` saved; trees that know more labels than the state would know the future."""
    kept = beside(state)
    models = {TREES: Refit.load(kept, boosted_trees())} if kept.exists() else None
    live = Live.load(state, models)
    if models is not None and models[TREES].labels > live.status().labels:
        given = f"given {models[TREES].labels:,} labels beside a state with {live.status().labels:,}"
        raise ArchiveError(f"{kept}: {given}, expected the file that was saved with the state")
    return live


def save_live(live: Live, state: Path) -> None:
    """Save a state and beside it what its trees were fitted on.

    The first time the trees go first, because a state with trees cannot be read without them; later the state does:
    after a crash between the two the trees lack a few rows, and never know more than the state.
    """
    if live.models and not beside(state).exists():
        live.models[TREES].save(beside(state))
    live.save(state)
    if live.models:
        live.models[TREES].save(beside(state))


def beside(state: Path) -> Path:
    """Return where the trees of a state are."""
    return state.with_name(f"{state.name}.trees")


def boosted_trees() -> Any:
    """Return the classifier of --trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0)


class Checkpoint:
    """A state that is saved now and then, so that a crash loses a minute; a run that fails leaves the old one."""

    def __init__(self, state: Path | None) -> None:
        self._state = state
        self._since = clock.monotonic()
        self._old: list[tuple[Path, Path | None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Let the old files take their places again if something went wrong; else they are not needed any more."""
        for path, old in self._old:
            if kind is not None and old is not None:
                os.replace(old, path)
            elif kind is not None:
                path.unlink(missing_ok=True)
            elif old is not None:
                old.unlink(missing_ok=True)

    def is_due(self) -> bool:
        """Tell whether it is time to save."""
        return self._state is not None and clock.monotonic() - self._since >= CHECKPOINT

    def save(self, live: Live) -> None:
        """Save the state; the next time counts from now."""
        assert self._state is not None, "only then is it ever due"
        if not self._old:
            self._old = [(path, _copied(path)) for path in (self._state, beside(self._state))]
        save_live(live, self._state)
        self._since = clock.monotonic()


def _copied(path: Path) -> Path | None:
    if not path.exists():
        return None
    return Path(shutil.copy2(path, path.with_name(f".{path.name}.before")))
