"""`Live`: records, experts and engine composed; the class that most users meet first."""

import copy
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate, archive
from swapcal._display import counted, display, named
from swapcal._locking import CopyableLock, locked
from swapcal._validate import UNIT, Span
from swapcal.archive import State, copied, nested, part
from swapcal.arrays import Array
from swapcal.engine.certificate import Certificate
from swapcal.engine.explanation import Explanation
from swapcal.engine.forecast import Forecast
from swapcal.engine.forecaster import Forecaster
from swapcal.engine.groups import GroupCertificate
from swapcal.engine.sparse import SparseForecaster
from swapcal.features import Contexts, Encoded
from swapcal.kernels.state import TICKET
from swapcal.live.experts import EXPERT_WEIGHT, FULL, Rows, as_model, expert_names, expert_weights
from swapcal.live.explain import explain_row
from swapcal.live.learner import Learner, SparseLearner
from swapcal.live.monitor_feed import MonitorFeed, Values, counting_rows
from swapcal.live.open_forecasts import (
    CORRECTION,
    ConflictingLabelError,
    OpenForecasts,
    UnknownIdError,
    taken,
)
from swapcal.live.open_rows import OpenRows
from swapcal.live.scheduler import CORRECTED, HELD, LEARNED, EventBatch, Learned, Scheduler, Trace
from swapcal.live.state import FILE
from swapcal.live.status import ENOUGH, ScoreBeside, Status, score_beside, too_early, weighted_sums
from swapcal.live.times import NO_TIMES, EventTimes, read_arrivals, read_event_times, read_mixed
from swapcal.live.unseen import AUTO, FAIR, read_unseen
from swapcal.live.validation import (
    ORDERS,
    REMEMBERED,
    Id,
    Maturity,
    alone,
    as_mappings,
    check_size,
    checked_id,
    counted_rows,
    each_label,
    fingerprint,
    hashed_groups,
    is_sparse,
    label_column,
    listed_ids,
    of_fresh,
    read_limits,
    read_maturity,
    read_patience,
    record_of,
    weight_column,
)
from swapcal.monitor import Monitor
from swapcal.tables.frame import batches_of
from swapcal.tables.values import FEATURE_CATEGORIES

__all__ = ["CORRECTED", "HELD", "LEARNED", "REPEATED", "Live", "Trace"]

RIDGE, KAPPA = 2.0, 0.05
REPEATED, REFUSED = "repeated", "refused"


class Live:
    """Forecast the probability of a binary event for records as they arrive; learn from labels as they come.

    `Contexts` encodes each record. The compiled bank of `Experts`, and your own models and scores, forecast it; from
    these `Forecaster` makes the forecast that is issued. Its guarantee holds for any labels: on every issued level the
    forecasts are right on average against every linear function of the coordinates. One setting serves every stream.

    Parameters
    ----------
    groups : columns to treat as categories, whatever their type, with up to 64 coordinates each: forecasts are right on
        average for each of their values.
    scores : columns that are forecasts already: names of probabilities, or {name: "probability" | "logit"}.
    products : pairs of column names; each pair adds the coordinates of its product, such as shop × price.
    numeric, categorical : columns of this type; the type of others follows from their first value.
    drop : columns to ignore.
    categories : coordinates per categorical column that is no group; later values share one.
    max_dim : largest number of coordinates; later values share one or have none.
    fourier : number of random Fourier features of the numeric columns.
    models : {name: model} of river classifiers, scikit-learn classifiers with `partial_fit`, or any other in `Refit`;
        each becomes a score.
    ridge : λ from 1e-12 to 1e8, the penalty that keeps the levels' regressions near their start, by default 2. With
        scores or models it is 32 times as large while the blend trusts them as given; see docs/streams.md.
    kappa : levels split when rounding costs more than this share of learning.
    seed : of the draws between two levels, and of the Fourier features.
    window : for streams that drift: the regressions that follow the drift remember about this many labels, and
        `certificate(window=…)` is about them; 2,000 is a good number where labels come at once. By default none.
    matures : the time after which the label of every forecast is known, whichever it is, unless the forecast has a
        maturity of its own: in the unit of the times, or "24h", "7d", a timedelta. Labels are learned at maturity.
    silence : 0 or 1, the label to learn at maturity for a forecast without one, where only the other outcome is ever
        reported; counted in `status().silent`. By default such a forecast remains open. A forecast without a
        maturity always remains open; `status().sentences()` counts those.
    burst : a number of labels. Labels with a time are then learned once the clock has passed it; if at least this many
        have the same time, they are learned in an order hashed from seed and ids. It helps where forecasts of one kind
        come last before each such time, and harms where the newest are the most informative: docs/streams.md. By
        default labels of the same time are learned in the order of their forecasts.
    prior : a base rate, or the name of a score: the forecast before any label is known, and the assumed rate of
        outcomes that take longer than any seen. By default the score, if there is one, else one half. A base rate is
        also what experts start from (10⁻⁴ from 0 and 1 at least), counts as one label, and stands in for missing
        scores.
    unseen : how to allow for the share π of outcomes that take longer than any seen so far (`status().unseen`), about
        which the data have no information: the forecast is (1 - π)·mean + π·q. "anything": q is the prior. A number Λ:
        q is the prior, limited to odds within a factor Λ of those of the outcomes seen; without a prior it is the
        middle of that range. "fair": delays do not depend on outcomes, and the mean is not changed. "auto":
        Λ = 1 + 30/k with k outcomes of the rarer kind known, at most 1.5 if 1 is the rarer kind. With probability π the
        level `p` is drawn around q too: `certificate().issued` is about the levels issued, the other figures of the
        certificate are about those that would have been issued without this allowance.
    max_open : the largest number of forecasts without a label. One more makes the oldest expire: it remains unlabelled,
        is counted in `status().expired`, and a label for it raises `ExpiredIdError`. Each open forecast of a dozen
        columns takes some 600 bytes, including its id.
    expires : number of later forecasts after which an open one expires; by default never.
    lifetime : time after which an open one expires, in the unit of the times given (seconds, for dates); a forecast
        without a time does not. Both count from the forecast's maturity, if it has one; a label held does not expire.
    order : "arrival" learns a label when it comes (or at its maturity); "issue" in the order of the forecasts, where no
        maturity is known: a label waits until all earlier forecasts have theirs or have expired, which keeps labels
        that come early from being a biased sample.
    patience : with order "issue", the number of later forecasts after which labels stop waiting for a forecast.
    size : "full", or "small" for very many objects, such as one for each key of a stream, whose states take about a
        tenth: the experts' hashed tables have 1,024 and 512 rows, which many values share, and the levels compete with
        linear functions of the blend and of your scores only. Without models, and with groups only for the learner
        "sparse". docs/scale.md compares the two.
    learner : "ridge", or "sparse" for groups with 10⁴ to 10⁶ values: each value of the columns in `groups`, and each
        pair of values of the pairs in `products`, is a group of the engine, by the hash of column and value; new values
        may appear at any time. The engine is then `SparseForecaster`, whose levels compete with the correction of any
        one group, with the blend of the experts and with your scores and models, and not with linear functions of the
        coordinates; `certificate()` is a `GroupCertificate`. It has no `ridge`, `kappa` or `window`.
    monitor : a `Monitor` that receives every label when it is learned, with the mean forecast and the columns that it
        watches; it counts rows, is part of the state, and is available as `live.monitor`. With `Monitor(clusters=…)`
        each cluster bets once, with the first of its labels that is learned; name that column in `drop` if it is no
        feature.
    low, high : the range of outcomes, by default 0 and 1. For any other range, forecasts are means: labels, scores,
        models (then regressors), `prior`, `silence` (any number of the range), p, mean and the certificate are on the
        scale of the outcomes. Swap multicalibration and swap regret hold as for probabilities, with squared errors
        times (high - low)²; omniprediction does not carry over and is not reported. Only the monitor receives shares of
        the range, in [0, 1].

    A declared column must be in every record: None is a missing value, an absent column is an error. A record, label or
    batch that raises an error changes nothing. Threads may share one object: its methods run one at a time. An
    exception of your own model is passed on, and then the record counts as seen by the other models.

    Examples
    --------
    >>> live = Live(groups=["shop"])
    >>> forecast = live.forecast({"shop": "a", "price": 3.0}, id="order 1")
    >>> 0 <= forecast.p <= 1
    True
    >>> live.label("order 1", 1)
    True
    >>> live.label("order 1", 1)  # a repeated label is ignored
    False
    >>> live.status().coverage
    1.0
    """

    def __init__(
        self,
        *,
        groups: Iterable[str] = (),
        scores: "Iterable[str] | Mapping[str, str]" = (),
        products: Iterable[Sequence[str]] = (),
        numeric: Iterable[str] = (),
        categorical: Iterable[str] = (),
        drop: Iterable[str] = (),
        models: "Mapping[str, Any] | None" = None,
        categories: int = FEATURE_CATEGORIES,
        max_dim: int = 160,
        fourier: int = 0,
        ridge: float | None = None,
        kappa: float = KAPPA,
        window: float | None = None,
        seed: int = 0,
        learner: str = "ridge",
        size: str = FULL,
        matures: Any = None,
        silence: int | None = None,
        burst: int | None = None,
        prior: "float | str | None" = None,
        unseen: "float | str" = AUTO,
        max_open: int = REMEMBERED,
        expires: int | None = None,
        lifetime: float | None = None,
        order: str = "arrival",
        patience: int | None = None,
        monitor: Monitor | None = None,
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        seed, span = _validate.seed(seed), _validate.span(low, high)
        kinds = {"kappa": None if kappa == KAPPA else kappa, "low": low or None, "high": None if high == 1.0 else high}
        sparse = is_sparse(learner, {"ridge": ridge, "window": window, **kinds})
        wrapped = {str(name): as_model(model, span) for name, model in (models or {}).items()}
        contexts = Contexts(
            groups=groups,
            scores=scores,
            products=() if sparse else products,
            numeric=numeric,
            categorical=categorical,
            drop=drop,
            categories=categories,
            max_dim=max_dim,
            fourier=fourier,
            reserved=expert_weights(size) | dict.fromkeys(wrapped, EXPERT_WEIGHT),
            seed=seed,
        )
        check_size(size, {"models": wrapped, "groups": () if sparse else contexts.settings["groups"]})
        contexts.read_scores_in(span)
        hashed = hashed_groups(contexts.settings, products) if sparse else []
        self._engine = {
            "ridge": _validate.ridge(RIDGE if ridge is None else ridge),
            "kappa": _validate.positive("kappa", kappa),
            "window": None if window is None else _validate.window(window),
        }
        own = {**self._engine, "seed": seed}
        self._learner = (
            SparseLearner(contexts, wrapped, own, hashed, size) if hashed else Learner(contexts, wrapped, own, size)
        )
        limits, maturity = read_limits(max_open, expires, lifetime), read_maturity(matures, silence, burst, span)
        self._open_forecasts = OpenForecasts(limits, read_patience(order, patience, burst), maturity, span, seed)
        self._belief: dict[str, Any] = {"unseen": unseen, "prior": prior}
        self._learner.unseen = read_unseen(unseen, prior, contexts.settings["scores"], span)
        if prior is not None and self._learner.unseen.prior is not None:
            self._learner.experts.start_from(self._learner.unseen.prior)
        self._scheduler = Scheduler(self._learner, self._open_forecasts)
        self._scheduler.monitor_feed = None if monitor is None else MonitorFeed(counting_rows(monitor))
        self._lock = CopyableLock()

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of this object, as JSON-able values."""
        limits = self._open_forecasts.limits._asdict() | self._open_forecasts.maturity._asdict()
        del limits["in_seconds"]
        if limits["silence"] is not None:
            limits["silence"] = self._span.value(limits["silence"])
        turn = {"order": ORDERS[self._open_forecasts.patience is not None], "patience": self._open_forecasts.patience}
        hashed = self.contexts.hashed
        own: dict[str, Any] = {} if self._learner.size == FULL else {"size": self._learner.size}
        own |= {"learner": "sparse", "products": [[*names] for names in hashed if len(names) == 2]} if hashed else {}
        return {
            **self.contexts.settings,
            **self._engine,
            "learner": "ridge",
            **own,
            "models": list(self._learner.models),
            **limits,
            **turn,
            **self._belief,
            **self._span._asdict(),
        }

    @property
    def _span(self) -> Span:
        return self._learner.span

    @property
    def contexts(self) -> Contexts:
        """The map from records to coordinates."""
        return self._learner.contexts

    @property
    def models(self) -> dict[str, Any]:
        """The outside models, in the order in which they forecast."""
        return dict(self._learner.models)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each coordinate, made of columns and values."""
        constant, *others = self.contexts.names
        bank = len(expert_weights(self._learner.size))
        return (constant, *expert_names()[:bank], *others[bank:])

    @property
    def experts(self) -> tuple[str, ...]:
        """Names of the forecasts that enter the issued one: the blend, the experts, then your models."""
        return (*expert_names(), *self._learner.models)

    @locked
    def knows(self, id: Id) -> bool:
        """Return whether an id names an open forecast, or a closed one that is still remembered."""
        return self._open_forecasts.knows(checked_id(id))

    @locked
    def status(self) -> Status:
        """Return label coverage and delay, missing scores and groups, and `certificate().issued`.

        Examples
        --------
        >>> live = Live()
        >>> _ = live.run([{"shop": "a"}] * 40, [0, 1] * 20)
        >>> status = live.status()
        >>> status.coverage, status.issued.labels, status.issued == live.certificate().issued
        (1.0, 40, True)
        """
        gaps, issued = self.contexts.gaps, self._learner.issued_errors()
        status = self._open_forecasts.status()
        scores = (*self._beside(),)
        return status._replace(missing=gaps.missing(), warnings=(*gaps.sentences(),), issued=issued, scores=scores)

    def _beside(self) -> Iterator[ScoreBeside]:
        """Yield the comparison of each given score and model with the mean forecasts."""
        events, scale = self._open_forecasts, self._span.width**2
        names = [*self.contexts.settings["scores"], *self._learner.models]
        for name, sums in zip(names, self._scheduler.score_sums.tolist(), strict=True):
            early = too_early(events.labels, events.ones) or sums[0] < 2 * ENOUGH  # an earlier state had no such sums
            yield score_beside(name, sums, early=early, scale=scale)

    @locked
    def is_open(self, id: Id) -> bool:
        """Return whether a forecast is open: it has no label, or its label has not been learned yet."""
        return checked_id(id) in self._open_forecasts.opened

    @locked
    def issued_at(self, id: Id) -> float | None:
        """Return the time of an open forecast, dates in seconds since 1970; None if it has no time."""
        slot = self._open_forecasts.opened.get(checked_id(id))
        if slot is None:
            raise UnknownIdError(f"issued_at: given id {id!r}, expected an open forecast")
        time = self._open_forecasts.time[slot]
        return time if time == time else None

    @locked
    def watch(self, watcher: "Callable[[Learned], None] | None") -> None:
        """Set a function to be called with the labels that `forecast` and `label` learn, in order; None removes it.

        It is not part of the state, and is not called for labels that `run` and `trace` learn.
        """
        span = self._span
        if watcher is None or span == UNIT:
            self._scheduler.watcher = watcher
        else:
            self._scheduler.watcher = lambda learned: watcher(learned.in_units(span))

    @property
    def monitor(self) -> Monitor | None:
        """The monitor, if one was given.

        Examples
        --------
        >>> live = Live(monitor=Monitor(["shop"]))
        >>> _ = live.run([{"shop": "a", "price": 3.0}, {"shop": "b", "price": 4.0}], [1, 0])
        >>> live.monitor.rows
        2
        """
        return None if self._scheduler.monitor_feed is None else self._scheduler.monitor_feed.monitor

    @locked
    def date_monitor(self, time: "np.datetime64") -> None:
        """Set the monitor's time for labels learned from now on, instead of the number of the row.

        Raises ValueError without a monitor.

        Examples
        --------
        >>> live = Live(monitor=Monitor())
        >>> live.date_monitor(np.datetime64("2024-05-01T09:00", "us"))
        >>> forecast, _ = live.forecast({"price": 3.0}, id="first"), live.label("first", 1)
        >>> live.monitor.clock_kind
        'dates'
        """
        if self._scheduler.monitor_feed is None:
            raise ValueError("date_monitor: given a Live without a monitor, expected Live(monitor=Monitor(…))")
        self._scheduler.monitor_feed.time = time

    @locked
    def release(self) -> list[Id]:
        """Forget the ids of closed forecasts; return those that expired since the last call.

        This is for callers who keep ids themselves. Otherwise a million labelled ids, and as many expired ones, are
        remembered to recognise duplicates.

        Examples
        --------
        >>> live = Live(max_open=1)
        >>> _ = live.forecast({"price": 3.0}, id="first"), live.forecast({"price": 4.0}, id="second")
        >>> live.release(), live.is_open("second")
        (['first'], True)
        """
        return self._open_forecasts.release()

    @locked
    def give_up(self, ids: "Sequence[Id]") -> None:
        """Let open forecasts expire now: they remain unlabelled and are counted in `status().expired`.

        A forecast whose label is held stays open. Raises `UnknownIdError`, and changes nothing, if an id is not open.

        Examples
        --------
        >>> live = Live()
        >>> _ = live.forecast({"price": 3.0}, id="first"), live.forecast({"price": 4.0}, id="second")
        >>> live.give_up(["first"])
        >>> live.is_open("first"), live.status().expired
        (False, 1)
        """
        names = listed_ids(ids)
        unknown = next((name for name in names if name not in self._open_forecasts.opened), None)
        if unknown is not None:
            raise UnknownIdError(f"ids: given {unknown!r}, expected open forecasts")
        self._open_forecasts.give_up(names)

    @locked
    def engine(self) -> "Forecaster | SparseForecaster | None":
        """Return a copy of the engine as it is now, for long computations; None before the first record.

        Its outcomes are shares of the range, in [0, 1].
        """
        return copy.deepcopy(self._learner.forecaster)

    @locked
    def certificate(self, window: float | None = None) -> "Certificate | GroupCertificate":
        """Return the engine's exact errors so far, or recent ones, with their bounds; see `Forecaster.certificate`.

        If any label had a weight, all errors are of weighted sums, and the worst-case theorem is not claimed.

        Examples
        --------
        >>> Live().certificate().rounds
        0
        """
        return self._learner.certificate(window, weighted=self._open_forecasts.weighted > 0)

    @locked
    def forecast(self, record: Any, id: Id, time: Any = None, matures: Any = None) -> Forecast:
        """Issue the forecast of one record; pass its label to `label(id, y)` at any later time.

        A second call with the same id and record while the forecast is open returns the same forecast.

        Parameters
        ----------
        record : a mapping from column names to values, a pandas Series of one row, or a data frame of one row
        id : an int or str that names this event
        time : when the forecast is made (number, date, or ISO text); must not go backwards
        matures : when the label will be known, whichever it is, if some labels are known earlier than others (a
            cancellation at once, a stay when it ends). A label that comes before is held until then: early labels are
            no fair sample of all.
        """
        if type(record) is not dict:
            record = record_of(record)
        name, mark = checked_id(id), fingerprint(record)
        slot = self._issued_before(name, mark)
        row = self._scheduler.row(slot) if slot is not None else self._issue_alone(record, name, mark, time, matures)
        x, ticket = row.x[:, : row.dims[0]].copy(), row.ticket.copy()
        return self._learner.forecast(ticket, x, single=True).explained_by(lambda _: self.explain(name))

    def _issue_alone(self, record: Mapping[str, Any], name: Id, mark: int, time: Any, matures: Any) -> Rows:
        """Open the forecast of one record; the row is valid until the next call."""
        scheduler, learner = self._scheduler, self._learner
        event_times = read_event_times(self._open_forecasts, alone(time), None, alone(matures), 1)
        watched_rows = self._watched([record])
        watched = None if watched_rows is None else watched_rows[0]
        row = scheduler.encoded(record, name)
        return scheduler.forecast_one(row, name, mark, event_times, record if learner.models else None, watched)

    @locked
    def forecast_many(self, records: Any, ids: "Sequence[Id]", *, time: Any = None, matures: Any = None) -> Forecast:
        """Issue the forecasts of many records at once: the same as `forecast` one by one, bit for bit, and faster.

        If a row is invalid, the error names it and nothing is issued; `check` finds such rows beforehand, except those
        that are invalid because of an earlier row of the batch: text in a column where that row has a number.

        Parameters
        ----------
        records : n mappings, or a data frame
        ids : n names; for one that is open with the same record, the open forecast is returned
        time : when the forecasts are made (number, date, or ISO text), one for all rows or one per row; must not go
            backwards
        matures : when each label will be known, whichever it is, one for all rows or one per row; a label that comes
            earlier is held until then

        Examples
        --------
        >>> live = Live()
        >>> forecasts = live.forecast_many([{"price": 3.0}, {"price": 4.0}], ["a", "b"])
        >>> forecasts.p.shape
        (2,)
        >>> live.label_many(["b", "a", "b"], [1, 0, 1])
        ['learned', 'learned', 'repeated']
        """
        n = counted_rows(records)
        names, mappings = listed_ids(ids, n), as_mappings(records)
        answers, marks = self._answers(names, mappings)
        fresh = [row for row, answer in enumerate(answers) if answer == row]
        tickets = np.zeros((len(names), TICKET))
        for row, answer in enumerate(answers):
            if answer < 0:
                tickets[row] = self._scheduler.row(self._open_forecasts.opened[names[row]]).ticket[0]
        if fresh:
            tickets[fresh] = self._issue([*zip(names, mappings, marks, strict=True)], fresh, time, matures)
        tickets = tickets[[row if answer < 0 else answer for row, answer in enumerate(answers)]]
        return self._learner.forecast(tickets).explained_by(lambda row: self.explain(names[row]))

    def _issue(
        self, events: "list[tuple[Id, Mapping[str, Any], int]]", fresh: list[int], time: Any, matures: Any
    ) -> Array:
        """Open the rows `fresh` of a batch and return their tickets."""
        n = len(events)
        event_times = self._event_times_of(fresh, n, time, matures)
        if len(fresh) < n:
            self.contexts.check([record for _, record, _ in events])  # for the row's number, if one is refused
        names, records, marks = map(list, zip(*(events[row] for row in fresh), strict=True))
        watched = self._watched(records)
        rows = self._learner.rows(self.contexts.encode(records), names, 0)
        announced = self._announced(records)
        unlabelled = np.full(len(fresh), math.nan)
        self._scheduler.step(EventBatch(rows, unlabelled, names, event_times, announced, watched, marks))
        return rows.ticket

    def _event_times_of(self, fresh: list[int], n: int, time: Any, matures: Any) -> EventTimes:
        """Return the times of the rows among n that are forecast. Raises an error that names an invalid row."""
        if not fresh:
            return NO_TIMES
        given = [None if each is None else of_fresh(each, n, fresh) for each in (time, matures)]
        return read_event_times(self._open_forecasts, given[0], None, given[1], n).some(fresh)

    def _answers(self, names: "list[Id]", records: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[int]]:
        """Return for each row the row whose new forecast it gets, mostly itself, or -1 if it gets an open forecast.

        The second list has the records' fingerprints.
        """
        firsts: dict[Id, tuple[int, int]] = {}
        answers: list[int] = []
        marks: list[int] = []
        is_new = len({*names}) == len(names) and not self._open_forecasts.knows_any(names)
        try:
            for row, (name, record) in enumerate(zip(names, records, strict=True)):
                mark = fingerprint(record)
                marks.append(mark)
                if is_new:
                    answers.append(row)
                    continue
                first, known = firsts.setdefault(name, (row, mark))
                if known != mark:
                    raise taken(name)
                answers.append(first if self._issued_before(name, mark) is None else -1)
        except (TypeError, ValueError) as error:
            raise _validate.in_row(len(answers), error) from None
        return answers, marks

    @locked
    def check(self, record: Any, id: Id, time: Any = None, matures: Any = None) -> None:
        """Raise the error that `forecast` would raise now with `record`, `id`, `time` and `matures`; change nothing.

        Your own models are not called, so their errors are not found.
        """
        if type(record) is not dict:
            record = record_of(record)
        if self._issued_before(checked_id(id), fingerprint(record)) is None:
            read_event_times(self._open_forecasts, alone(time), None, alone(matures), 1)
            self.contexts.check(record)

    @locked
    def preview(self, records: Any) -> Forecast:
        """Forecast records as they would be forecast now, without opening them and without changing anything.

        One record gives numbers, as in `forecast`; many give arrays.
        """
        if nw.dependencies.is_pandas_like_series(records):
            records = record_of(records)
        single = isinstance(records, Mapping)
        learner, fresh = self._learner, self._learner.forecaster is None
        contexts = copy.deepcopy(self.contexts) if fresh else self.contexts  # has no columns before a record
        rows = learner.rows(contexts.encode(records, learn=fresh), None, self._open_forecasts.forecasts)
        if learner.models and learner.forecaster is not None:
            for k, record in enumerate([records] if single else as_mappings(records)):
                learner.consult(rows, k, record)
        issued = learner.preview(rows, *self._scheduler.allowance(), single=single)
        return issued.explained_by(lambda row: explain_row(learner, rows, row))

    @locked
    def around(self, record: Any) -> list[dict[str, Any]]:
        """Return how uncertain a record's forecast would be now: the observed rates where forecasts were like it.

        That is `Monitor.around` of the record and its `mean`, on the scale of the outcomes: for all rows and for each
        group of the record that the monitor watches, the narrowest range of forecasts around the mean with 50 rows or
        more, its rows, their mean forecast, the observed rate and an interval [low, high] for the expected rate, valid
        at all times and over all groups and ranges together with probability 1 - `alpha`. This interval measures the
        uncertainty; `Forecast.low` and `Forecast.high` are neighbouring levels. Raises ValueError without a monitor.

        Examples
        --------
        >>> live = Live(groups=["shop"], monitor=Monitor(["shop"]))
        >>> happened = np.random.default_rng(0).random(800) < np.tile([0.2, 0.4], 400)
        >>> issued = live.run([{"shop": "ab"[k % 2]} for k in range(800)], happened)
        >>> for found in live.around({"shop": "b"}):
        ...     print(found["group"], found["rows"] >= 50, found["low"] < 0.4 < found["high"])
        all rows True True
        shop = b True True
        """
        if self.monitor is None:
            raise ValueError(
                "around: given a Live without a monitor, expected Live(monitor=Monitor(…)), whose sums it reads"
            )
        record, span = record_of(record), self._span
        rates = self.monitor.around(record, span.share(self.preview(record).mean))
        for one in rates:
            one["forecasts"] = tuple(map(span.value, one["forecasts"]))
            one |= {name: span.value(one[name]) for name in ("mean_forecast", "observed", "low", "high")}
        return rates

    @locked
    def explain(self, id: Id) -> Explanation:
        """Return the mean forecast of an open id as a sum of named contributions; see `Explanation`.

        A closed forecast cannot be explained: its context is not kept.

        Examples
        --------
        >>> live = Live(groups=["shop"])
        >>> issued = live.run([{"shop": "ab"[k % 2]} for k in range(400)], [k % 2 for k in range(400)])
        >>> forecast = live.forecast({"shop": "b"}, id="next")
        >>> live.explain("next").terms[0].name
        'shop = b'
        """
        name = checked_id(id)
        slot = self._open_forecasts.opened.get(name)
        if slot is None:
            known = self._open_forecasts.knows(name)
            given = "whose forecast is closed: its context is no longer kept" if known else "which was never forecast"
            raise UnknownIdError(f"explain: given id {name!r}, {given}; expected an open forecast")
        return explain_row(self._learner, self._scheduler.row(slot), 0)

    @locked
    def label(self, id: Id, y: float, time: Any = None, weight: Any = None) -> "bool | Literal['corrected']":
        """Learn the label of a forecast. Returns False, and learns nothing, if the same label came before.

        A label that comes before its forecast's maturity is held until then. One that comes after its forecast was
        learned as silence, and differs, is counted in `status().corrections`, and "corrected" is returned; experts,
        levels, certificate and monitor are not changed. Raises `UnknownIdError` for an id that was not forecast (the
        service keeps such an outcome until its forecast comes), its subclass `ExpiredIdError` if the forecast has
        expired, and `ConflictingLabelError` for a label that contradicts an earlier one.

        Parameters
        ----------
        id : that of the forecast
        y : the label, in [0, 1], or in [low, high]
        time : when the label came
        weight : how often it counts, 1 by default. Where labels are obtained for a chosen part of the forecasts, each
            with a known probability π > 0 that may depend on the record, the forecast and the past, but not on the
            label, 1/π makes every sum unbiased for all forecasts. Experts, blend, levels, certificate and monitor are
            weighted; models of yours, and `plot`, count every label once. Silence weighs 1, and a repeated label is
            compared by its value alone.
        """
        value = _validate.label(y, span=self._span)
        many = self._weights(weight, [value])
        when = read_arrivals(self._open_forecasts, time, 1)[0]
        name = checked_id(id)
        slot = self._open_forecasts.find(name, value, when)
        if slot is None:
            return False
        if slot == CORRECTION:
            self._scheduler.correct(name, value, when)
            self._scheduler.flush()
            return "corrected"
        self._scheduler.learn_one(slot, value, when, 1.0 if many is None else float(many[0]))
        return True

    def _weights(self, weight: Any, y: "Array | Sequence[float]") -> Array | None:
        """Return how often labels count, None if each counts once. Raises ValueError for weights that are invalid."""
        if weight is None:
            return None
        weights, feed = weight_column(weight, y), self._scheduler.monitor_feed
        if weights is not None and feed is not None:
            feed.refuse_weights(weights)
        return weights

    @locked
    def settle(self, time: Any, most: int | None = None) -> int:
        """Learn the labels that are due before a time, without a forecast; return their number, silence included.

        A forecast made at that time would learn them first. Where many windows end together, they can be learned in
        several calls.

        Parameters
        ----------
        time : the present; later forecasts must not have an earlier time. If `most` labels were learned and more are
            due, they must not be earlier than `next_due`
        most : the largest number of labels to learn now; by default all

        Examples
        --------
        >>> live = Live(matures="1h", silence=0)
        >>> forecast = live.forecast({"price": 3.0}, id="offer 1", time="2024-05-01T09:00")
        >>> live.settle("2024-05-01T10:00"), live.settle("2024-05-01T10:01")
        (0, 1)
        >>> live.label("offer 1", 1, time="2024-05-01T12:00")  # its window has ended
        'corrected'
        """
        event_times = read_event_times(self._open_forecasts, alone(time), None, alone(time), 1)
        if event_times.time is None:
            raise ValueError("time: given none, expected the present")
        limit = sys.maxsize if most is None else _validate.count("most", most)
        self._open_forecasts.calendar = event_times.calendar
        learned = self._scheduler.settle(float(event_times.time[0]), limit)
        self._open_forecasts.clock = min(float(event_times.time[0]), self.next_due())
        return learned

    def next_due(self) -> float:
        """Return the time at which the next planned outcome arrives, matures or becomes silence; infinity without one.

        A forecast made at that time or before it learns no label first.
        """
        return max(self._open_forecasts.clock, self._open_forecasts.earliest())

    @locked
    def label_many(self, ids: "Sequence[Id]", y: Any, *, time: Any = None, weight: Any = None) -> list[str]:
        """Learn many labels, in order: the same as `label` one by one, bit for bit, and faster.

        Returns the state of each label when it came: "learned", "held" until its maturity or its turn, "repeated", or
        "corrected", as in `label`. If a label is invalid, the error names its row and nothing is learned.

        Parameters
        ----------
        ids : n ids
        y : (n,) labels in [0, 1]
        time : when they came, one for all or one per label
        weight : how often each counts, one for all or one per label; 1/π where a label is obtained with probability π
        """
        names = listed_ids(ids)
        n = len(names)
        labels = each_label(y, n, self._span)
        weights = self._weights(weight, labels)
        counts = [1.0] * n if weights is None else weights.tolist()
        arrivals = read_arrivals(self._open_forecasts, time, n)
        times = None if time is None else arrivals
        simple = None if self._learner.models else self._open_forecasts.simple_slots(names, times)
        if simple is not None:
            self._scheduler.learn_many(simple, labels, counts, times)
            return [LEARNED] * n
        events = [*zip(names, labels, arrivals, strict=True)]
        slots = self._open_forecasts.find_all(events)
        outcomes = [self._deliver(slot, *event, w) for slot, event, w in zip(slots, events, counts, strict=True)]
        self._scheduler.flush()
        return outcomes

    @locked
    def follow(
        self,
        records: Any,
        ids: "Sequence[Id]",
        y: ArrayLike,
        asks: ArrayLike,
        *,
        time: Any = None,
        matures: Any = None,
        weight: Any = None,
    ) -> tuple[Forecast, list[str]]:
        """Forecast records and learn labels in the order in which they come, mixed: as one by one, bit for bit.

        Returns the forecasts, and the state of each label that is a row of its own: as in `label_many`, or "refused" if
        its forecast expired in between. Any other error is raised before anything is changed.

        Parameters
        ----------
        records : those of the rows to be forecast: m mappings, or a data frame
        ids : n names; those of the rows to be forecast are new
        y : (n,) labels in [0, 1]; NaN if missing
        asks : (n,) true for a row that is a record to be forecast, and labelled at once if it has a label; false for a
            row that is the label of an earlier record
        time : when the forecasts are made (number, date, or ISO text), one for all rows or one per row; must not go
            backwards
        matures : when each label will be known, whichever it is, one for all rows or one per row; a label that comes
            earlier is held until then
        weight : how often each label counts, one for all rows or one per row; 1/π where it is obtained with
            probability π

        Examples
        --------
        >>> live = Live()
        >>> records = [{"price": 3.0}, {"price": 4.0}]
        >>> forecasts, labels = live.follow(records, ["a", "b", "a"], [math.nan, math.nan, 1], [True, True, False])
        >>> len(forecasts), labels, live.is_open("b")
        (2, ['learned'], True)
        """
        mixed = read_mixed(self._open_forecasts, records, ids, y, asks, time)
        mixed = mixed._replace(weight=self._weights(weight, mixed.y))
        asking = mixed.asking.tolist()
        event_times = self._event_times_of(asking, len(mixed.names), time, matures)
        names = self._new_ids([mixed.names[row] for row in asking], len(asking), asking)
        mixed.check(self._open_forecasts, event_times.matures)
        marks = [*map(fingerprint, as_mappings(records))]
        watched = self._watched(records)
        rows = self._learner.rows(self.contexts.encode(records), names, 0)
        announced = self._announced(records)
        outcomes: list[str] = []

        def deliver(k: int) -> None:
            """Deliver the labels that come before the k-th forecast."""
            outcomes.extend(self._delivered(*event) for event in mixed.labels_before(k, asking))

        weights = None if mixed.weight is None else mixed.weight[asking]
        batch = EventBatch(rows, mixed.y[asking], names, event_times, announced, watched, marks, weights)
        self._scheduler.step(batch, deliver)
        return self._learner.forecast(rows.ticket), outcomes

    def _delivered(self, name: Id, y: float, time: float, weight: float) -> str:
        """Deliver a label whose forecast may have expired since it was checked."""
        try:
            return self._deliver(self._open_forecasts.find(name, y, time), name, y, time, weight)
        except UnknownIdError:
            return REFUSED

    def _deliver(self, slot: int | None, name: Id, y: float, time: float, weight: float) -> str:
        """Deliver a label to the slot that `find` returned; handle repeated and corrected ones."""
        if slot is None:
            return REPEATED
        if slot == CORRECTION:
            return self._scheduler.correct(name, y, time)
        return self._scheduler.deliver(slot, y, time, weight)

    def run(
        self,
        records: Any,
        y: ArrayLike,
        *,
        ids: "Sequence[Id] | None" = None,
        time: ArrayLike | None = None,
        label_time: ArrayLike | None = None,
        matures: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> Forecast:
        """Forecast each record, then learn its label, in order; `trace` also returns what the experts forecast.

        Parameters
        ----------
        records : (n rows) a frame, a list of mappings, or contexts' encoded rows
        y : (n,) labels in [0, 1]; NaN where none is known yet
        ids : (n,) names of the rows, for labels that come later; default: "row 1" and so on
        time : (n,) when each forecast is made, not decreasing
        label_time : (n,) when each label becomes known, not before `time`
        matures : (n,) when each label will be known, whichever it is; NaN where that is not known
        weight : (n,), or one for all: how often each label counts

        The records may be a duckdb relation, a polars LazyFrame or a pyarrow dataset, larger than memory: they are read
        in batches, and y, ids, times and weight may be names of columns, which are then no features. If a batch raises
        an error, the batches before it stay learned.
        """
        times = {"time": time, "label_time": label_time, "matures": matures}
        given: dict[str, Any] = {"y": y, "ids": ids, **times, "weight": weight}
        many = batches_of(records)
        if many is None:
            return self.trace(records, **given).forecast
        parts, done = [], 0
        for rows, own in many.split(given):
            try:
                parts.append(self.trace(rows, **own).forecast)
            except (TypeError, ValueError) as error:
                raise _validate.after_rows(done, error) from None
            done += len(rows)
        return Forecast.joined(parts)

    @locked
    def trace(
        self,
        records: Any,
        y: ArrayLike,
        *,
        ids: "Sequence[Id] | None" = None,
        time: ArrayLike | None = None,
        label_time: ArrayLike | None = None,
        matures: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> Trace:
        """Forecast each record, then learn its label, in order, at kernel speed; the same as one by one.

        Parameters
        ----------
        records : a list of mappings, or a data frame of any library; n rows. Without models also their encoding by
            `live.contexts.encode`, which another thread may compute while earlier rows are learned.
        y : (n,) labels in [0, 1]; NaN if missing (with ids, `label` can deliver those later)
        ids : names of the rows; they also determine the draws. Without them a row is called "row 17" if it is the
            seventeenth of all forecasts, with ' appended while that name is in use, and its values and the number of
            forecasts before it determine the draws.
        time : (n,) when each forecast is made, not decreasing
        label_time : (n,) when each label becomes known, not before `time`. A label is learned just before the first
            forecast made strictly later; labels that are not due at the end wait for later calls.
        matures : (n,) when each label will be known, whichever it is; NaN where that is not known
        weight : (n,), or one for all: how often each label counts
        """
        n = counted_rows(records)
        labels = label_column(y, n, self._span)
        weights = self._weights(weight, labels)
        event_times = read_event_times(self._open_forecasts, time, label_time, matures, n)
        names = self._new_ids(ids, n)
        watched = self._watched(records)
        encoded = self._learner.checked(records) if isinstance(records, Encoded) else self.contexts.encode(records)
        announced = self._announced(records)
        rows = self._learner.rows(encoded, names, self._open_forecasts.forecasts + np.arange(n))
        self._scheduler.step(EventBatch(rows, labels, names, event_times, announced, watched, weight=weights))
        experts = rows.judged if self._span == UNIT else self._span.values(rows.judged)
        return Trace(self._learner.forecast(rows.ticket), rows.x, experts)

    def _announced(self, records: Any) -> list[Mapping[str, Any]] | None:
        """Return records as mappings, after announcing them to the models that support it; None without models."""
        if not self._learner.models:
            return None
        mappings = as_mappings(records)
        for model in self._learner.models.values():
            if hasattr(model, "announce"):
                model.announce(mappings)
        return mappings

    def _watched(self, records: Any) -> list[Values] | None:
        """Return the monitor's columns of some records."""
        if self._scheduler.monitor_feed is None:
            return None
        if isinstance(records, Encoded):
            raise TypeError("records: given encoded ones, expected records: the monitor reads their groups")
        return self._scheduler.monitor_feed.values(records, self.contexts.settings["groups"])

    def _issued_before(self, id: Id, mark: int) -> int | None:
        """Return the slot of this event, if open. Raises ConflictingLabelError if its id names another forecast."""
        slot = self._open_forecasts.opened.get(id)
        if self._open_forecasts.knows(id) and (slot is None or self._open_forecasts.fingerprint[slot] != mark):
            raise taken(id)
        return slot

    def _new_ids(self, ids: "Sequence[Id] | None", n: int, rows: Sequence[int] | None = None) -> "list[Id] | None":
        """Return ids. Raises ValueError if one is taken; `rows` are their numbers among the caller's rows."""
        if ids is None:
            return None
        names = listed_ids(ids, n)
        seen: set[Id] = set()
        for row, id in zip(range(n) if rows is None else rows, names, strict=True):
            if id in seen or self._open_forecasts.knows(id):
                raise ConflictingLabelError(f"ids: given {id!r} again in row {row + 1}, expected each id once")
            seen.add(id)
        return names

    @locked
    def plot(self, kind: str = "score", *, ax: Any = None) -> Any:
        """Draw the errors of the forecasts over the labels learned, and return the matplotlib axes.

        Sums of at most 64 periods are kept in memory, since this object was made or loaded.

        Parameters
        ----------
        kind : "score", the squared error of the mean forecasts with that of the base rate known at the time; or
            "rates", the mean forecast and the observed rate, with the band of chance.
        ax : axes to draw on; by default those of a new figure. Needs matplotlib, the extra ``plot``.
        """
        from swapcal import plots

        if kind not in ("score", "rates"):
            raise ValueError(f'kind: given {kind!r}, expected "score" or "rates"')
        draw = plots.score if kind == "score" else plots.rates
        span, stretches = self._span, self._scheduler.score_history.stretches()
        return draw([each.in_units(span) for each in stretches], ax=ax, **span._asdict())

    def __repr__(self) -> str:
        events, own = self._open_forecasts, self.contexts.settings
        counts = (
            f"{counted(events.forecasts, 'forecast')}, {counted(events.labels, 'label')}, {len(events.opened):,} open"
        )
        roles = [f"{role} {named(own[role])}" for role in ("groups", "scores") if own[role]]
        roles += [f"models {named(self._learner.models)}"] if self._learner.models else []
        return f"Live({'; '.join([counts, *roles])})"

    def _repr_html_(self) -> str:
        status, own = self.status(), self.contexts.settings
        counts = f"{counted(status.forecasts, 'forecast')}, {counted(status.labels, 'label')}, {status.open:,} open"
        facts = {role: named(own[role]) for role in ("groups", "scores") if own[role]}
        facts |= {"models": named(self._learner.models)} if self._learner.models else {}
        facts |= {"expired unlabelled": f"{status.expired:,}"} if status.expired else {}
        facts |= {f"beside {score.name}": score.sentence for score in status.scores}
        if status.labels:
            facts |= {"certificate": self.certificate().sentences()[0]}
        return display("Live", counts, {**facts, "coordinates": f"{self.contexts.dim:,}"})

    @locked
    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the whole state, including open forecasts, to one file; after `load` it continues bit for bit.

        The file is read back and checked before it replaces an old one; `swapcal.archive.replacing` describes what a
        crash can leave. Save your own models yourself, and pass them to `load`. They do not learn the labels of
        forecasts that were open when saved: the records are not kept.
        """
        archive.write(path, FILE, *self.to_state())

    @locked
    def to_state(self) -> State:
        """Return the whole state as `save` writes it."""
        scheduler = self._scheduler
        return self._state(self._learner.to_state(), self._open_forecasts, scheduler.open_rows, scheduler.monitor_feed)

    @locked
    def frozen_state(self) -> Callable[[], State]:
        """Return a function that returns the present `to_state()`; another thread may call it while this object learns.

        This call takes a fraction of the time of `to_state`: the packed rows of open forecasts are only copied.

        Examples
        --------
        >>> live = Live()
        >>> forecast = live.forecast({"price": 3.0}, id="first")
        >>> later = live.frozen_state()
        >>> live.label("first", 1), Live.from_state(later()).is_open("first")
        (True, True)
        """
        scheduler, feed, own = self._scheduler, self._scheduler.monitor_feed, self._own_state()
        learner, events, rows = copied(self._learner.to_state()), self._open_forecasts.frozen(), scheduler.open_rows
        return partial(self._state, learner, events, rows.frozen(), None if feed is None else feed.frozen(), own)

    def _own_state(self) -> State:
        """Return the part of the state that belongs neither to the learner nor to open forecasts."""
        own: dict[str, Any] = {
            "engine": self._engine,
            "models": list(self._learner.models),
            "limits": self._open_forecasts.limits._asdict(),
            "maturity": self._open_forecasts.maturity._asdict(),
            "belief": self._belief,
            "patience": self._open_forecasts.patience,
        }
        if self.contexts.hashed:
            own["hashed"] = [[*names] for names in self.contexts.hashed]
        if self._learner.size != FULL:
            own["size"] = self._learner.size
        if self._span != UNIT:
            own["range"] = [self._span.low, self._span.high]
        if not len(self._scheduler.score_sums):
            return State({}, own)
        return State({"score_sums": self._scheduler.score_sums.copy()}, {**own, "compared": True})

    def _state(
        self,
        learner: State,
        open_forecasts: OpenForecasts,
        open_rows: OpenRows,
        feed: MonitorFeed | None,
        own: State | None = None,
    ) -> State:
        """Return the whole state, from parts that may be frozen copies."""
        events, slots = open_forecasts.to_state(), open_forecasts.in_order()
        own_state = self._own_state() if own is None else own
        manifest = learner.manifest | own_state.manifest | {"ledger": events.manifest}
        arrays = learner.arrays | events.arrays | nested(open=self._scheduler.to_state(open_rows, slots)).arrays
        if feed is not None:
            arrays |= nested(monitor=feed.to_state(slots)).arrays
            manifest["watched"] = True
        return State(arrays | own_state.arrays, manifest)

    @classmethod
    def load(cls, path: "str | os.PathLike[str]", models: "Mapping[str, Any] | None" = None) -> Self:
        """Return the object that `save` wrote; `models` must have the same names as then."""
        return archive.load(path, FILE, lambda state: cls.from_state(state, models))

    @classmethod
    def from_state(cls, state: State, models: "Mapping[str, Any] | None" = None) -> Self:
        """Rebuild from `to_state`."""
        manifest = state.manifest
        if sorted(models or {}) != sorted(manifest["models"]):
            given, expected = sorted(models or {}), sorted(manifest["models"])
            raise ValueError(f"models: given {given}, expected those it was saved with: {expected}")
        ordered = {name: (models or {})[name] for name in manifest["models"]}
        seed = manifest["contexts"]["settings"]["seed"]
        span = Span(*manifest.get("range", UNIT))
        size = manifest.get("size", FULL)
        live = cls(**manifest["engine"], **manifest["limits"], seed=seed, models=ordered, size=size, **span._asdict())
        hashed = [tuple(names) for names in manifest.get("hashed", ())]
        if hashed:
            live._learner = SparseLearner(
                live.contexts, live._learner.models, {**live._engine, "seed": seed}, hashed, size
            )
        live._learner.restore(state)
        live._belief = manifest.get("belief", {"unseen": FAIR, "prior": None})
        live._learner.unseen = read_unseen(**live._belief, scores=live.contexts.settings["scores"], span=span)
        own = State(state.arrays, manifest["ledger"])
        maturity = Maturity(**manifest.get("maturity", {}))
        limits = live._open_forecasts.limits
        live._open_forecasts = OpenForecasts.from_state(own, limits, manifest["patience"], maturity, span, seed)
        live._scheduler = Scheduler(live._learner, live._open_forecasts)
        live._scheduler.restore(part(state, "open"))
        if manifest.get("compared"):
            live._scheduler.score_sums = weighted_sums(state.arrays["score_sums"])
        if manifest.get("watched"):
            live._scheduler.monitor_feed = MonitorFeed.from_state(
                part(state, "monitor"), live._open_forecasts.in_order()
            )
        return live
