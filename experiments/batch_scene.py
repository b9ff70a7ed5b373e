"""Scene: one table, base model and seed, with what every method and every measure needs of them."""

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from batch_tasks import Cells, Task
from swapcal.arrays import Array
from swapcal.batch.settings import lay_out
from swapcal.features.encoder import FittedEncoder
from swapcal.kernels.batch import fill_contexts
from swapcal.tables.frame import Table

PATCHED_GROUPS, PATCHED_ROWS = 400, 100


class Scene:
    """Rows to fit on and rows to test on; with a base model, its scores of both; without one, more rows to fit on."""

    def __init__(self, task: Task, base: Any, seed: int) -> None:
        (X0, y0), (X1, y1), (X2, self.y_test) = (task.part(i) for i in range(3))
        if base is None:
            nothing = np.full(len(X2), 0.5)
            X1, y1 = pd.concat([X0, X1], ignore_index=True), np.concatenate([y0, y1])
            self.p, self.p_test = np.full(len(X1), 0.5), nothing
        else:
            base.fit(X0[task.base_columns], y0)
            self.p, self.p_test = (base.predict_proba(X[task.base_columns])[:, 1] for X in (X1, X2))
        self.frame, self.frame_test, self.y = X1, X2, y1
        self.groups, self.seed = task.groups, seed
        self.truth = None if task.truth is None else task.truth[task.parts[2]]

    @cached_property
    def cells(self) -> tuple[Cells, Cells]:
        """The groups and intersections of both parts."""
        fit, test = Cells.of([self.frame, self.frame_test], self.groups)
        return fit, test

    @cached_property
    def memberships(self) -> tuple[Array, Array]:
        """The cells that HKRR is to patch, as 0-1 columns of both parts."""
        chosen = self.cells[0].at_least(PATCHED_ROWS, PATCHED_GROUPS)
        return self.cells[0].memberships(chosen), self.cells[1].memberships(chosen)

    @cached_property
    def coordinates(self) -> tuple[Array, Array]:
        """Groups and features of both parts, for the linear baselines."""
        return self._contexts(0, np.zeros(len(self.y))), self._contexts(1, np.zeros(len(self.y_test)))

    @cached_property
    def contexts(self) -> Array:
        """Coordinates of the test part that favour no method: the base model's score, groups and features."""
        return self._contexts(1, self.p_test)

    @cached_property
    def _encoded(self) -> tuple[Any, tuple[Any, Any]]:
        features = FittedEncoder.learn(Table(self.frame), self.groups)
        rows = features.encode(Table(self.frame)), features.encode(Table(self.frame_test))
        return lay_out(features, rows[0]), rows

    def _contexts(self, part: int, score: Array) -> Array:
        layout, rows = self._encoded
        width = int(max(layout.numeric.max(initial=2), layout.category.max(initial=2))) + 1
        X = np.empty((len(score), width))
        fill_contexts(layout, score, np.full(len(score), 0.5), rows[part].Z, rows[part].codes, X)
        return np.delete(X, 2, axis=1)
