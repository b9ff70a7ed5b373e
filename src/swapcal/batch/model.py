"""Model: a table and its labels in, swap-multicalibrated probabilities for any table of the same columns out."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from swapcal import archive
from swapcal.archive import State, nested, part
from swapcal.arrays import Array, Integers, Keys
from swapcal.batch.correction import (
    MARGIN,
    NO_MARGIN,
    SLOPE_MARGIN,
    Correction,
    Scorer,
    is_significant,
    left_out,
    logit,
    plan,
    probabilities,
    slopes_off,
    untouched,
)
from swapcal.batch.export import export
from swapcal.batch.mixture import History, IssuedRows, Mixture, Snapshot, SnapshotRun, stratified
from swapcal.batch.settings import FILE, FitSettings, in_threads, lay_out, prior_of, width_of
from swapcal.batch.trees import QUICK, THOROUGH, Boost
from swapcal.engine.certificate import Certificate
from swapcal.features.encoder import EncodedTable, FittedEncoder
from swapcal.features.sources import Name, Source, opened, rows_of
from swapcal.kernels.batch import Design, Placement, fill_contexts
from swapcal.kernels.linalg import padded
from swapcal.kernels.trees import Forest

Progress = Callable[[int], object]

MODES = ("mean", "hash", "sample")
FOLDS = 5
FEWER_FOLDS, MANY_ROWS = 3, 5000
"""Folds around a given score of at least this many rows: the correction is small relative to the score."""
APART, MOST_APART = 10, 10_000
"""One row in so many, but no more than so many, is used for scales and categories where no correction is made."""
RARE_APART = 2
"""Rows there that a category must have."""
TRIED, FEWEST_TRIED = 16, 2000
"""One row in so many, but at least so many, is streamed with each ridge, enough to choose one."""


class Model:
    """Features, then trees and a pooled correction of the score, then the mixture of frozen swap forecasters.

    Without a score the model first makes one: a logistic regression on the features. The engine's contexts hold the
    corrected score, the score given, the groups and the features; its learners start from the corrected score.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = (rng.random(4000) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
    >>> model = Model.fit(X, y)
    >>> bool(np.mean((model.mean(X) - y) ** 2) < 0.22)
    True
    """

    def __init__(
        self,
        features: FittedEncoder,
        scorer: Scorer | None,
        correction: Correction,
        layout: Placement,
        boost: Boost | None = None,
        opening: Correction | None = None,
    ) -> None:
        self.features, self.scorer, self.correction, self.layout = features, scorer, correction, layout
        self.boost, self.opening = boost, opening
        self.settings = FitSettings()
        self.notes: dict[str, Any] = {}
        """JSON values of the caller, saved with the model."""
        self.runs: list[SnapshotRun] = []
        self._certificate: Certificate | None = None
        self._snapshots: list[Snapshot] = []
        self._mixture: Mixture | None = None
        self._history: History | None = None
        self.rows = 0
        self.held_out: Array | None = None
        """Mean forecast of each row fitted last, made before its label was used, NaN if it has none; not saved."""

    @classmethod
    def fit(
        cls,
        source: Source,
        y: Array,
        scores: Array | None = None,
        weight: Array | None = None,
        *,
        groups: Sequence[Name] = (),
        columns: Sequence[Name] | None = None,
        settings: FitSettings | None = None,
        progress: Progress | None = None,
        clusters: Integers | None = None,
    ) -> "Model":
        """Fit on rows that the model behind `scores` has not seen, or on its out-of-fold scores.

        Parameters
        ----------
        source : a table, or an array of shape (n, columns)
        y : (n,) labels in [0, 1]
        scores : (n,) given probabilities, to be corrected
        weight : (n,) how often each row counts
        groups : columns over whose categories, and their intersections, calibration matters most
        columns : other columns to use; all by default
        clusters : (n,) numbers from 0 of what rows belong to; no cluster is split between folds
        """
        settings = settings or FitSettings()
        scores = None if scores is None else probabilities(scores)
        if settings.correction == "none":
            return cls._fit_as_given(source, y, scores, weight, groups, columns, settings, progress)
        rng = np.random.default_rng(settings.seed)
        weight = np.ones(len(y)) if weight is None else weight * (len(y) / weight.sum())
        known = np.full(len(y), np.average(y, weights=weight)) if scores is None else scores
        units = len(y) if clusters is None else int(clusters.max()) + 1
        count = min(_fold_count(len(y), scores is not None), units)

        def split(rng: np.random.Generator) -> Integers:
            folds = _folds(units, count, rng)
            return folds if clusters is None else folds[clusters]

        apart = split(np.random.default_rng([settings.seed, 1]))
        features, offsets = FittedEncoder.learn(source, groups, columns).rate(source, y, known, weight, apart)
        rows = features.encode(source, offsets)
        settings = settings.resolved(len(y))
        grow, scorer = settings.correction == "trees", None
        if scores is None:
            folds = split(rng)
            scorer, without = Scorer.fit(features, rows, y, weight, folds)
            given = left_out(without, folds)
        else:
            given = logit(scores)
        margin = NO_MARGIN if scores is None else MARGIN

        def fitted(given: Array, margin: float) -> tuple[Correction, Array, Integers]:
            folds, (design, width) = split(rng), plan(features, rows, given, scored=True)
            return *Correction.fit(design, width, given, rows, y, weight, folds, margin), folds

        correction, without, folds = fitted(given, margin)
        opening, out_of_fold = None, left_out(without, folds)
        if scores is not None and slopes_off(rows, features.groups, out_of_fold, y, weight) > SLOPE_MARGIN:
            opening, given = correction, out_of_fold
            correction, without, folds = fitted(given, NO_MARGIN)
        boosted, pace = None, THOROUGH if scores is None else QUICK
        if grow:
            boosted = Boost.fit(correction, without, features, rows, given, y, weight, folds, settings.seed, pace)
        boost = None
        if boosted is not None:
            boost, better = boosted
            correction, without, folds = fitted(better, NO_MARGIN)
        out_of_fold = left_out(without, folds)
        model = cls(features, scorer, correction, lay_out(features, rows), boost, opening)
        model.settings = settings
        model.runs = [model._open(len(y), ridge) for ridge in settings.ridges]
        model.learn(rows, y, expit(out_of_fold), expit(given), weight, rng, progress)
        return model

    @classmethod
    def _fit_as_given(
        cls,
        source: Source,
        y: Array,
        scores: Array | None,
        weight: Array | None,
        groups: Sequence[Name],
        columns: Sequence[Name] | None,
        settings: FitSettings,
        progress: Progress | None,
    ) -> "Model":
        """Fit with contexts fixed before the first row streamed: the score as given (½ if none), features as they are.

        Scales and categories are learned from a tenth of the rows, without their labels, and only the others are
        streamed: given those scales, the rows streamed are independent of each other and like any new row.
        """
        rng = np.random.default_rng(settings.seed)
        order = rng.permutation(len(y))
        apart = order[: max(1, min(len(y) // APART, MOST_APART))]
        used = np.sort(order[len(apart) :])
        sample = rows_of(source, apart)
        features = FittedEncoder.learn(sample, groups, columns, rare=RARE_APART)
        known, rows = features.encode(sample), features.encode(source).take(used)
        scorer = Scorer(untouched(*plan(features, known, np.zeros(0), scored=False)), 0.0) if scores is None else None
        seen = np.zeros(len(apart)) if scores is None else logit(scores[apart])
        correction = untouched(*plan(features, known, seen, scored=True))
        model = cls(features, scorer, correction, lay_out(features, known))
        model.settings = settings
        model.runs = [model._open(len(used), ridge) for ridge in settings.ridges]
        given = model._given(rows, None if scores is None else scores[used])
        counts = np.ones(len(used)) if weight is None else weight[used] * (len(used) / weight[used].sum())
        model.learn(rows, y[used], model._corrected(given, rows), expit(given), counts, rng, progress)
        means, model.held_out = model.held_out, np.full(len(y), np.nan)
        model.held_out[used] = means
        return model

    @property
    def dim(self) -> int:
        """Number of coordinates of a context."""
        return width_of(self.layout)

    @property
    def certificate(self) -> Certificate:
        """Exact pseudo errors on the rows streamed, with their bounds."""
        if self._certificate is None:
            self._certificate = self.runs[0].certificate()
        return self._certificate

    @property
    def mixture(self) -> Mixture:
        """The snapshots, as one mixture."""
        if self._mixture is None:
            self._mixture = Mixture.of(self._snapshots)
        return self._mixture

    @property
    def history(self) -> History | None:
        """All rounds, if they were kept (`FitSettings.log`)."""
        if self._history is None and self.runs and self.settings.log:
            self._history = self.runs[0].history()
        return self._history

    def learn(
        self,
        rows: EncodedTable,
        y: Array,
        score: Array,
        given: Array,
        weight: Array,
        rng: np.random.Generator,
        progress: Progress | None = None,
    ) -> None:
        """Stream rows in random order, `passes` times; keep snapshots uniform over the rounds of the last pass.

        The first call streams some of the rows with several ridge penalties, and goes on with the one whose forecasts,
        each made before its label was used, had the least squared error; a choice among three costs the theorems a
        factor 3 in δ.

        Called again with new rows, it keeps each old snapshot with the probability that a uniform round lies in the
        past, so that the mixture stays uniform over all rounds.
        """
        assert self.runs, "a model read from a file predicts only"
        count = self.settings.snapshots
        at = stratified(count, len(y), rng)
        for number in range(self.settings.passes):
            order = rng.permutation(len(y))
            X, yo, wo = self._contexts(rows.take(order), score[order], given[order]), y[order], weight[order]
            tried = min(len(y), max(len(y) // TRIED, FEWEST_TRIED)) if len(self.runs) > 1 else 0
            means: Array = np.zeros(0)
            fresh: list[Snapshot] = []
            if tried:
                means, fresh = self._choose(X[:tried], yo[:tried], wo[:tried], at[at < tried], progress)
            later, more = self.runs[0].run(X[tried:], yo[tried:], wo[tried:], at[at >= tried] - tried, progress)
            fresh += more
            if number == 0:  # later passes have seen all labels
                unseen = np.empty(len(y))
                unseen[order] = np.concatenate([means, later])
        share = self.rows / (self.rows + len(y))
        old = rng.random(len(self._snapshots)) < share
        remaining = [snapshot for snapshot, keep in zip(self._snapshots, old, strict=True) if keep]
        self._snapshots = remaining + [fresh[k] for k in rng.permutation(count)[: count - len(remaining)]]
        self._mixture = self._history = None
        self.rows += len(y)
        self.held_out = self._inside(unseen)
        self._certificate = None

    def _choose(
        self, X: Array, y: Array, weight: Array, at: Integers, progress: Progress | None
    ) -> tuple[Array, list[Snapshot]]:
        """Keep the run with the least squared error, if significantly least; return its means and snapshots.

        Runs are tried from the heaviest ridge on, as long as the error falls.
        """
        losses: list[Array] = []
        results = []
        for run in self.runs:
            results.append(run.run(X, y, weight, at, None if losses else progress))
            losses.append(weight * (results[-1][0] - y) ** 2)
            if losses[-1].sum() > losses[max(0, len(losses) - 2)].sum():
                break
        best = int(np.argmin([loss.sum() for loss in losses]))
        best = best if is_significant(losses[0] - losses[best], self._margin) else 0
        self.runs = [self.runs[best]]
        return results[best]

    @property
    def _margin(self) -> float:
        """Standard errors by which a model must be better than a given score before it replaces the score."""
        return MARGIN if self.scorer is None else NO_MARGIN

    def learn_more(self, source: Source, y: Array, scores: Array | None, weight: Array) -> None:
        """Continue with new rows, encoded and corrected as fitted on the first ones."""
        rows = self.features.encode(source)
        given = self._given(rows, self._expected(scores))
        rng = np.random.default_rng([self.settings.seed, self.rows])
        score = self._corrected(given, rows)
        self.learn(rows, y, score, expit(given), weight, rng)

    def mean(self, source: Any, scores: Array | None = None, jobs: int = 1) -> Array:
        """Return the mixture's mean probability of every row of a data frame or array, computed by so many threads.

        `scores` are the probabilities of the model that this one corrects, if there is one; they are not in its file.
        """
        rows, mixture = self._encoded(source), self.mixture

        def part(rows: EncodedTable, scores: Array | None) -> Array:
            return mixture.mean(self._seen(rows, scores))

        return self._inside(np.concatenate(in_threads(part, rows, self._expected(scores), jobs)))

    def issue(
        self,
        source: Any,
        scores: Array | None = None,
        keys: Keys | None = None,
        jobs: int = 1,
    ) -> IssuedRows:
        """Return issued levels, drawn by the keys, by default a hash of each row's values as given.

        The round is one of all if the model kept them (`history`), else one of its snapshots; the theorems are about
        the former.
        """
        source = opened(source)
        keys = self.features.keys(source) if keys is None else keys
        contexts = np.concatenate(in_threads(self._seen, self._encoded(source), self._expected(scores), jobs))
        p, low, high, weight = (self.history or self.mixture).issue(contexts, keys, self.settings.seed)
        return IssuedRows(self._inside(p), self._inside(low), self._inside(high), weight)

    def _encoded(self, source: Any) -> EncodedTable:
        return source if isinstance(source, EncodedTable) else self.features.encode(opened(source))

    def contexts(self, source: Source | EncodedTable, scores: Array | None = None) -> Array:
        """Return contexts, with zeros up to a multiple of four coordinates."""
        return self._seen(self._encoded(source), self._expected(scores))

    def _seen(self, rows: EncodedTable, scores: Array | None) -> Array:
        given = self._given(rows, scores)
        return self._contexts(rows, self._corrected(given, rows), expit(given))

    def corrected(self, source: Source | EncodedTable, scores: Array | None = None) -> Array:
        """Return the corrected score alone: what the learners start from."""
        rows = self._encoded(source)
        return self._corrected(self._given(rows, self._expected(scores)), rows)

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write what prediction needs to one file."""
        places = {name: np.asarray(value) for name, value in self.layout._asdict().items()}
        mixture = {name: getattr(self.mixture, name) for name in ("pool", "members", "z", "counts")}
        parts = nested(
            correction=_to_state(self.correction),
            scorer=None if self.scorer is None else _to_state(self.scorer.correction),
            opening=None if self.opening is None else _to_state(self.opening),
            first=None if self.boost is None else _to_state(self.boost.first),
            forest=None if self.boost is None else State(self.boost.forest._asdict(), {}),
            layout=State(places, {}),
            mixture=State(mixture, {}),
            history=None if self.history is None else self.history.to_state(),
        )
        settings = {
            "features": self.features.manifest(),
            "base": None if self.scorer is None else self.scorer.base,
            "trees": 0 if self.boost is None else len(self.boost),
            "rows": self.rows,
            "settings": vars(self.settings),
            "notes": self.notes,
            "certificate": self.certificate.as_dict(),
        }
        if self.opening is not None:
            settings["opened"] = True
        archive.write(path, FILE, parts.arrays, settings)

    def export(self, path: "str | os.PathLike[str]") -> None:
        """Write what `mean` needs, and the script that computes it with numpy alone; see `swapcal.batch.export`."""
        export(path, [self])

    def to_onnx(self, path: "str | os.PathLike[str]") -> None:
        """Write `mean` as an ONNX graph; see `swapcal.batch.onnx.write_graph` for its inputs."""
        from swapcal.batch.onnx import write_graph  # needs onnx

        write_graph(path, [self])

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> "Model":
        """Return the model saved at `path`; it predicts as the original did, and learns no more."""
        return archive.load(path, FILE, cls._restored)

    @classmethod
    def _restored(cls, state: State) -> "Model":
        manifest = state.manifest
        places: dict[str, Any] = part(state, "layout").arrays
        layout = Placement(**places)._replace(number_size=float(places["number_size"]))
        base, features = manifest["base"], FittedEncoder.from_manifest(manifest["features"])
        scorer = None if base is None else Scorer(_from_state(part(state, "scorer")), base)
        boost = _boost_from_state(state) if manifest["trees"] else None
        opening = _from_state(part(state, "opening")) if manifest.get("opened") else None
        model = cls(features, scorer, _from_state(part(state, "correction")), layout, boost, opening)
        model.notes = manifest["notes"]
        model.settings, model.rows = FitSettings(**manifest["settings"]), manifest["rows"]
        model._mixture = Mixture(**part(state, "mixture").arrays, dim=width_of(layout))
        widths = {"mixture.pool": (model._mixture.pool.shape[1], padded(model.dim))}
        if model.settings.log:
            model._history = History.from_state(part(state, "history"), model.rows)
            widths["history.theta"] = model._history.theta.shape[1], model.dim
        for name, (width, expected) in widths.items():
            if width != expected:
                raise archive.ArchiveError(f"{name}: given {width} coordinates, expected {expected}")
        model._certificate = Certificate(**manifest["certificate"])
        return model

    def _open(self, rows: int, ridge: float) -> SnapshotRun:
        settings, dim = self.settings, self.dim
        levels, prior = settings.levels(rows, dim), prior_of(self.layout)
        run = SnapshotRun(dim, levels=levels, prior=prior, ridge=ridge, kappa=settings.kappa, log=settings.log)
        settings.check_rows(rows, dim, run.distance2)
        return run

    @property
    def least(self) -> float:
        """How near to 0 and 1 a probability may come: T rows support none nearer than 1/(T + 2).

        The errors of the theorems change by no more than that.
        """
        return 1.0 / (self.rows + 2.0)

    def _inside(self, p: Array) -> Array:
        return np.clip(p, self.least, 1.0 - self.least, out=p)

    def _expected(self, scores: Array | None) -> Array | None:
        """Return scores that are probabilities, for a model that needs them."""
        if (scores is None) == (self.scorer is None):
            need = "those of the model it corrects" if self.scorer is None else "none: it was fitted without scores"
            raise ValueError(f"scores: given {'none' if scores is None else 'some'}, expected {need}")
        return None if scores is None else probabilities(scores)

    def _given(self, rows: EncodedTable, scores: Array | None) -> Array:
        if scores is None:
            assert self.scorer is not None
            return self.scorer.logits(rows)
        given = logit(scores)
        return given if self.opening is None else self.opening.logits(given, rows)

    def _corrected(self, given: Array, rows: EncodedTable) -> Array:
        better = given if self.boost is None else self.boost.logits(given, rows)
        return np.asarray(expit(self.correction.logits(better, rows)))

    def _contexts(self, rows: EncodedTable, score: Array, given: Array) -> Array:
        X = np.empty((len(score), padded(self.dim)))
        fill_contexts(self.layout, score, given, rows.Z, rows.codes, X)
        return X


def _fold_count(rows: int, scored: bool) -> int:
    return min(FEWER_FOLDS if scored and rows >= MANY_ROWS else FOLDS, rows)


def _folds(units: int, count: int, rng: np.random.Generator) -> Integers:
    """Return a fold for each row or cluster, anew for each stage.

    With the folds of the stage before, all rows outside a fold would come with log-odds that its labels have pushed up
    or down, and a stage would seem to do worse out of fold than it does.
    """
    return rng.permutation(units) % count


def _to_state(correction: Correction) -> State:
    return State(correction.design._asdict() | {"coefficients": correction.coefficients}, {})


def _from_state(state: State) -> Correction:
    design: dict[str, Any] = dict(state.arrays)
    coefficients = design.pop("coefficients")
    return Correction(Design(**design), coefficients)


def _boost_from_state(state: State) -> Boost:
    forest: dict[str, Any] = part(state, "forest").arrays
    return Boost(_from_state(part(state, "first")), Forest(**forest))
