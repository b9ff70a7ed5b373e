"""`SparseForecaster`: the engine for so many groups that a coordinate for each does not fit."""

import secrets
from collections.abc import Callable
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate
from swapcal._display import display
from swapcal._locking import CopyableLock, locked
from swapcal.archive import State
from swapcal.arrays import Array, Keys
from swapcal.engine import grid
from swapcal.engine.forecast import FixedLevelsPlayer, Forecast
from swapcal.engine.groups import FILE, GroupCertificate, blank, certify, packed, scratch, unpacked
from swapcal.kernels import sparse as kernel
from swapcal.kernels.state import RunOptions

NO_OPTIONS = RunOptions()


class SparseForecaster(FixedLevelsPlayer):
    """Issue probabilities that are swap multicalibrated over 10⁴ to 10⁶ groups, whatever the outcomes do.

    A row has a value in each of some columns; every value that occurs is a group, and so are all rows. Each level keeps
    exponential weights over corrections of single groups (and over your scores), a row costs time in proportion to its
    own groups, and memory is the pairs of a group and a level that met. For any sequence of outcomes, also of an
    adversary who sees the distribution, the pseudo swap regret is of order T^{1/3} (ln K)^{2/3} for K groups
    (`bounds.group_psreg`). Where a coordinate for each group fits, `Forecaster` with ridge learners also combines
    groups and mostly has smaller errors; its time and memory grow with the square of the number of coordinates.

    Parameters
    ----------
    columns : number of columns.
    scores : number of probabilities of your own that come with each row. Levels compete with each of them.
    levels : N for uniform levels i/N, "sine:N", or an increasing array from 0 to 1.
    seed : of the draws between the two levels.

    Values are integers from 0, or texts; a negative integer, None or NaN means that the row has none. Integers are kept
    as they are, each column for itself: no two groups are mistaken for each other. Texts are known by 64 bits of their
    hash: among a million texts of a column two share one with probability 3e-8. 7 and "7" are different values.

    Examples
    --------
    >>> import numpy as np
    >>> from swapcal import Forecaster
    >>> forecaster = Forecaster.sparse(columns=2)
    >>> forecast = forecaster.predict([17, "north"])
    >>> forecaster.update(forecast, 1)
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 50, (4000, 2))
    >>> y = rng.random(4000) < np.where(X[:, 0] < 25, 0.3, 0.6)
    >>> forecasts = forecaster.run(X, y)
    >>> forecaster.certificate().holds()
    True
    >>> forecaster.groups
    102
    """

    _file = FILE

    def __init__(self, columns: int, *, scores: int = 0, levels: Any = 16, seed: int = 0) -> None:
        self._dim = _validate.count("columns", columns)
        score_columns = _validate.count("scores", scores, 0)
        z, adaptive = grid.starting(levels)
        if adaptive:
            raise ValueError('levels: given "adaptive", expected fixed levels: N, "sine:N" or an array')
        self._owner = secrets.token_hex(8)
        self._lock = CopyableLock()
        self._memory = blank(z, self._dim, score_columns, _validate.event_key(_validate.seed(seed)))
        self._scratch = scratch(self._memory)

    @property
    def rounds(self) -> int:
        """Number of outcomes learned."""
        return int(self._memory.counts[kernel.UPDATES])

    @property
    def groups(self) -> int:
        """Number of groups seen with an outcome; all rows are one."""
        return int(self._memory.counts[kernel.GROUPS])

    @property
    def scores(self) -> int:
        """Number of probabilities that come with each row."""
        return int(self._memory.score_loss.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use."""
        return sum(array.nbytes for array in (*self._memory, *self._scratch))

    @locked
    def predict(self, x: Any, event: object = None, *, scores: ArrayLike | None = None) -> Forecast:
        """Return a forecast for one row; nothing changes, and a second call returns an equal ticket.

        Parameters
        ----------
        x : (columns,) values
        event : as in `Forecaster.predict`
        scores : (scores,) probabilities, NaN if missing
        """
        row = self._encoded([x], None if scores is None else [scores])
        return self._issue(row, None if event is None else [event], single=True)

    @locked
    def predict_many(
        self, X: Any, events: "list[object] | None" = None, *, scores: ArrayLike | None = None
    ) -> Forecast:
        """Return forecasts for many rows from the present, frozen state; they may be learned from later."""
        return self._issue(self._encoded(X, scores), events, single=False)

    @locked
    def run(
        self,
        X: Any,
        y: ArrayLike,
        events: "list[object] | None" = None,
        progress: "Callable[[int], object] | None" = None,
        *,
        scores: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Forecast:
        """Forecast, then learn, row by row: the loop of predict and update, bit for bit, at kernel speed.

        Parameters
        ----------
        X : (n, columns) values: an array of integers or texts, a data frame, or rows
        y : (n,) outcomes in [0, 1]
        events, progress : as in `Forecaster.run`
        scores : (n, scores) probabilities, NaN if missing
        weights : (n,) how often each row counts; by default once
        """
        rows = self._encoded(X, scores)
        return self._run(rows, y, events, progress, _validate.weight_rows(weights, len(rows)))

    @locked
    def play(
        self, keys: Keys, scores: Array, y: Array, events: Keys, tickets: Array, weights: Array | None = None
    ) -> None:
        """Issue the rows whose tickets are blank and learn those that have a label, in order, filling in `tickets`.

        For callers that keep keys and tickets in arrays of their own; nothing is checked. Key 0 means no value.
        """
        options = None if weights is None else RunOptions(weights=weights)
        self._advance(np.hstack([keys.view(np.float64), scores]), y, events, tickets, self._blank_mixes(1), options)

    @locked
    def certificate(self) -> GroupCertificate:
        """Return the exact errors over all groups so far, with their bounds."""
        return certify(self._memory)

    def to_state(self) -> State:
        """Return the state as `save` writes it."""
        settings = {"columns": self._dim, "scores": self.scores, "owner": self._owner}
        return State(packed(self._memory), settings)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from `to_state`; the state must have been checked."""
        self = cls.__new__(cls)
        self._dim, self._owner = state.manifest["columns"], state.manifest["owner"]
        self._lock = CopyableLock()
        self._memory = unpacked({name: np.array(array, order="C") for name, array in state.arrays.items()})
        self._scratch = scratch(self._memory)
        return self

    def _rows(self, X: Any, *, single: bool = False, copy: bool = True) -> Array:
        return self._encoded([X] if single else X, None)

    def _encoded(self, X: Any, scores: Any) -> Array:
        """Return rows as the kernel reads them: keys of values, by their bits, then scores."""
        keys = group_keys(X, self._dim)
        return np.hstack([keys.view(np.float64), _score_rows(scores, len(keys), self.scores)])

    def _advance(
        self, X: Array, y: Array, events: Keys, tickets: Array, mixes: Array, options: RunOptions | None = None
    ) -> None:
        done, given = 0, NO_OPTIONS if options is None else options
        while True:
            done = kernel.advance_sparse(self._memory, self._scratch, X, y, events, tickets, done, given)
            if done == len(X):
                return
            self._memory = unpacked(packed(self._memory))
            self._scratch = scratch(self._memory)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(columns={self._dim}, scores={self.scores}, levels={len(self._memory.z) - 1}, "
            f"groups={self.groups}, rounds={self.rounds})"
        )

    def _repr_html_(self) -> str:
        facts = {"levels": len(self._memory.z), "columns": self._dim, "groups": self.groups, "scores": self.scores}
        return display(type(self).__name__, f"after {self.rounds:,} outcomes", facts)


# Values to keys.


def group_keys(X: Any, columns: int) -> Keys:
    """Return a 64-bit key for each value, shape (n, columns); 0 without a value.

    Examples
    --------
    >>> group_keys([[3, None], [0, 7]], 2)
    array([[4, 0],
           [1, 8]], dtype=uint64)
    """
    values = X if isinstance(X, np.ndarray) else _as_objects(X)
    if values.ndim != 2 or values.shape[1] != columns:
        raise ValueError(f"groups: given shape {values.shape}, expected (rows, {columns})")
    if values.dtype.kind in "iu" and np.any(values >= 2**63 - 1):
        raise _first_fault(values)
    if values.dtype.kind in "biu" and values.dtype != np.uint64:
        return (
            np.maximum(values.astype(np.int64) + 1, 0).view(np.uint64) if values.dtype.kind != "b" else _bools(values)
        )
    seen: dict[Any, int] = {}
    try:
        keys = [[_key(value, seen) for value in row] for row in values.tolist()]
    except ValueError:
        raise _first_fault(values) from None
    return np.array(keys, np.uint64).reshape(values.shape)


def _bools(values: Any) -> Keys:
    return values.astype(np.uint64) + np.uint64(1)  # type: ignore[no-any-return]


def _as_objects(X: Any) -> Any:
    """Return rows as an array that keeps integers and texts apart."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):  # column by column: as one array, integers beside a gap would become floats
        X = zip(*(frame[name].to_list() for name in frame.columns), strict=True)
    elif hasattr(X, "__array__"):
        return np.asarray(X)
    rows = [list(row) for row in X]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("groups: given rows of different lengths, expected one value for each column")
    out = np.empty((len(rows), len(rows[0]) if rows else 0), object)
    for k, row in enumerate(rows):
        out[k] = row
    return out


def _key(value: Any, seen: dict[Any, int]) -> int:
    """Return the key of one value; `seen` holds the keys of texts met before."""
    if value is None or type(value).__name__ == "NAType" or value != value:  # comparing pandas' NA raises
        return 0
    if isinstance(value, str):
        if (key := seen.get(value)) is None:
            key = seen[value] = _validate.event_key(value)
        return key
    if isinstance(value, (int, float, np.integer, np.bool_)) and _is_whole(float(value)):
        return max(int(value) + 1, 0)
    raise ValueError(value)


def _is_whole(value: float) -> bool:
    return abs(value) < 2**63 and value == int(value)


def _first_fault(values: Any) -> Exception:
    for row, each in enumerate(values.tolist(), 1):
        for column, value in enumerate(each, 1):
            try:
                _key(value, {})
            except (ValueError, OverflowError):
                given = f"{value!r}"[:60]
                return ValueError(
                    f"groups: given {given} in row {row}, column {column}, expected an integer below 2^63 or a text"
                )
    return AssertionError("a value was refused")


def _score_rows(scores: Any, rows: int, columns: int) -> Array:
    """Return scores of shape (rows, columns), in [0, 1] or NaN."""
    if scores is None:
        if columns:
            raise ValueError(f"scores: given none, expected ({rows}, {columns})")
        return np.zeros((rows, 0))
    values = _validate.probability_rows("scores", scores, columns, gaps=True)
    if len(values) != rows:
        raise ValueError(f"scores: given {len(values)} rows, expected {rows}")
    return values
