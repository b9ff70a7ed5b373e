"""Graph: the mean of a model's mixture as an ONNX graph of standard operators, in double precision."""

import os
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import count
from typing import Any

import numpy as np

from swapcal.archive import replacing
from swapcal.arrays import AnyArray
from swapcal.batch.correction import LOGIT_LIMIT
from swapcal.batch.export import ExportArrays, ExportColumns, FittedTable, Splits, Texts, export_arrays
from swapcal.batch.mixture import MOST_STEPS
from swapcal.features.sources import Name
from swapcal.kernels.trees import MISSING as LEAST
from swapcal.tables.values import MISSING, group_name

try:
    import onnx
except ModuleNotFoundError:
    raise ModuleNotFoundError('an ONNX graph needs onnx: pip install "swapcal[onnx]"', name="onnx") from None
from onnx import TensorProto, helper, numpy_helper

OPSETS = {"": 17, "ai.onnx.ml": 3}
IR_VERSION = 8
"""The oldest versions with all operators used, so that old runtimes read the file."""
ARRAY, SCORE, OUTPUT = "X", "score", "p"
"""Names of the input of a model of arrays, of the scores to correct, and of the output."""
INNER = "swapcal:"
"""Prefix of the names inside the graph."""


def write_graph(
    path: "str | os.PathLike[str]", models: Sequence[FittedTable], *, outcomes: tuple[float, float] = (0.0, 1.0)
) -> None:
    """Write models of one table, one for each of several classes, as one ONNX file.

    Inputs: one per column, of shape (n, 1), doubles or strings, under the columns' names; for a model of arrays, "X" of
    shape (n, columns); "score" of shape (n, 1), or (n, classes), where scores of another model are corrected. Output:
    "p" of shape (n, 1), the probability of the second class or the expected outcome, or (n, classes).
    """
    columns, flats = export_arrays(models)
    for name in (SCORE, OUTPUT):
        if name in columns.names:
            raise ValueError(f"column {name!r}: given a name the graph needs itself, expected another")
    graph = _Graph()
    raw = _read(graph, columns)
    score = graph.input(SCORE, TensorProto.DOUBLE, len(flats)) if flats[0].scored else None
    least = graph.real(models[0].least), graph.real(1.0 - models[0].least)
    means = [graph("Clip", _mean(graph, flat, k, raw, score), *least) for k, flat in enumerate(flats)]
    if len(means) > 1:
        graph("Identity", _to_simplex(graph, graph("Concat", *means, axis=1)), out=OUTPUT)
    else:
        low, high = outcomes
        graph("Add", graph("Mul", means[0], graph.real(high - low)), graph.real(low), out=OUTPUT)
    written = graph.model(len(means)).SerializeToString()
    with replacing(path) as file:
        file.write(written)


class _Graph:
    """Nodes, constants and inputs, made on first use; calling it adds a node and returns its output's name."""

    def __init__(self, parent: "_Graph | None" = None) -> None:
        self.nodes: list[Any] = []
        self.inputs: dict[str, Any] = {}
        self.constants: list[Any] = parent.constants if parent else []
        self._numbers: Iterator[int] = parent._numbers if parent else count()

    def __call__(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        name = out or self.name()
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def name(self) -> str:
        return f"{INNER}{next(self._numbers)}"

    def constant(self, values: AnyArray) -> str:
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values).reshape(np.shape(values)), name))
        return name

    def real(self, values: Any) -> str:
        return self.constant(np.asarray(values, np.float64))

    def integers(self, values: Any) -> str:
        return self.constant(np.asarray(values, np.int64))

    def cast(self, value: str, kind: int) -> str:
        return self("Cast", value, to=kind)

    def sum(self, terms: Sequence[str]) -> str:
        return reduce(lambda left, right: self("Add", left, right), terms)

    def input(self, name: str, kind: int, width: int | None) -> str:
        self.inputs.setdefault(name, helper.make_tensor_value_info(name, kind, ["rows", width or "columns"]))
        return name

    def step(self, name: str, inputs: list[str], outputs: list[str], kind: int, width: int | None) -> Any:
        """Return the nodes as the body of a Loop: iteration, going on and what is carried in; the latter two out."""
        first = helper.make_tensor_value_info(inputs[0], TensorProto.INT64, [])
        ends = [
            [
                helper.make_tensor_value_info(names[0], TensorProto.BOOL, []),
                *(helper.make_tensor_value_info(carried, kind, ["rows", width]) for carried in names[1:]),
            ]
            for names in (inputs[1:], outputs)
        ]
        return helper.make_graph(self.nodes, name, [first, *ends[0]], ends[1])

    def model(self, width: int) -> Any:
        output = helper.make_tensor_value_info(OUTPUT, TensorProto.DOUBLE, ["rows", width])
        graph = helper.make_graph(self.nodes, "swapcal", list(self.inputs.values()), [output], self.constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="swapcal", ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return model


def _mean(graph: _Graph, flat: ExportArrays, number: int, raw: str | None, score: str | None) -> str:
    """Return the mixture's mean, shape (n, 1); the recipe is that of `swapcal.batch.standalone`."""
    arrays = flat.arrays
    inside = _inside(graph, arrays, raw)
    singles = _singles(graph, arrays, raw, inside)
    F = _with_pairs(graph, arrays, singles, inside)
    if score is None:
        given = graph("MatMul", F, graph.real(arrays["weights"][0, 0, :, None]))  # of any log-odds
    else:
        own = graph("Gather", score, graph.integers([number]), axis=1)
        given = _corrected(graph, arrays, 0, _log_odds(graph, own), F)
    better = _corrected(graph, arrays, 1, given, F)
    if flat.splits.leaf.any():
        better = graph("Add", better, _trees(graph, flat.splits, _compared(graph, flat.splits, given, raw, inside)))
    corrected = _corrected(graph, arrays, 2, better, F)
    scores = graph("Tanh", graph("Mul", graph("Concat", corrected, given, axis=1), graph.real(0.5)))  # 2p - 1
    learners = np.zeros((len(arrays["weights"][0, 0]) - arrays["pairs"].shape[1], len(arrays["pool"])))
    learners[arrays["seen"]] = arrays["pool"][:, :-2].T
    parts_of_wishes = [
        graph("MatMul", inputs, graph.real(weights))
        for inputs, weights in ((singles, learners), (scores, arrays["pool"][:, -2:].T))
    ]
    wishes = graph("Clip", graph.sum(parts_of_wishes), graph.real(0.0), graph.real(1.0))
    return _mixture(graph, arrays, wishes)


def _to_simplex(graph: _Graph, p: str) -> str:
    """Return probabilities that sum to 1; see `swapcal.batch.mixture.to_simplex`."""
    one, axis = graph.real(1.0), graph.integers([1])
    odds = graph("Div", p, graph("Sub", one, p))
    start, end = graph("Div", one, graph("ReduceSum", odds, axis)), graph.name()

    def shifted(inner: _Graph, t: str) -> str:
        scaled = inner("Mul", odds, t)
        return inner("Div", scaled, inner("Add", one, scaled))

    body = _Graph(graph)
    turn, going, t = (body.name() for _ in range(3))
    q = shifted(body, t)
    short = body("Max", body("Sub", one, body("ReduceSum", q, axis)), body.real(0.0))
    slope = body("ReduceSum", body("Mul", q, body("Sub", one, q)), axis)
    then, again = body("Mul", t, body("Add", one, body("Div", short, slope))), body("Identity", going)
    step = body.step("simplex", [turn, going, t], [again, then], TensorProto.DOUBLE, 1)
    truth = graph.constant(np.array(True))
    graph.nodes.append(helper.make_node("Loop", [graph.integers(MOST_STEPS), truth, start], [end], body=step))
    shares = shifted(graph, end)
    return graph("Div", shares, graph("ReduceSum", shares, axis))


def _ones(graph: _Graph) -> str:
    """Return a column of ones, as long as the inputs."""
    rows = graph("Gather", graph("Shape", next(iter(graph.inputs))), graph.integers([0]))
    return graph("Expand", graph.real([[1.0]]), graph("Concat", rows, graph.integers([1]), axis=0))


def _read(graph: _Graph, columns: ExportColumns) -> str | None:
    """Return the columns of numbers, side by side; None if there are no columns."""
    parts = [
        *(_number(graph, name) for name in columns.numbers),
        *(_coded(graph, texts) for texts in columns.texts),
    ]
    return graph("Concat", *parts, axis=1) if parts else None


def _number(graph: _Graph, name: Name) -> str:
    """Return an input of its own, or a column of an array."""
    if isinstance(name, str):
        return graph.input(name, TensorProto.DOUBLE, 1)
    return graph("Gather", graph.input(ARRAY, TensorProto.DOUBLE, None), graph.integers([name]), axis=1)


def _coded(graph: _Graph, texts: Texts) -> str:
    """Return the numbers of a column of texts."""
    place = graph(
        "LabelEncoder",
        graph.input(str(texts.name), TensorProto.STRING, 1),
        domain="ai.onnx.ml",
        keys_strings=[MISSING if text is None else group_name(text) for text in texts.numbers],
        values_int64s=list(range(len(texts.numbers))),
        default_int64=len(texts.numbers),
    )
    return graph("Gather", graph.real([*texts.numbers.values(), texts.other]), place)


def _inside(graph: _Graph, arrays: dict[str, AnyArray], raw: str | None) -> str | None:
    """Return truth values, whether a number lies in the interval of a category; None if there are no categories."""
    if raw is None or not len(arrays["looked_at"]):
        return None
    seen = graph("Gather", raw, graph.integers(arrays["looked_at"]), axis=1)
    least, most = graph.real(arrays["at_least"]), graph.real(arrays["at_most"])
    return graph("And", graph("GreaterOrEqual", seen, least), graph("LessOrEqual", seen, most))


def _singles(graph: _Graph, arrays: dict[str, AnyArray], raw: str | None, inside: str | None) -> str:
    """Return the features without pairs: a one, standard scores, flags of missing values, categories."""
    parts = [_ones(graph)]
    if raw is not None and len(arrays["numbers"]):
        # with the one, because onnxruntime takes a constant of one element that is 0 as a float for 0, and drops it
        numbers = graph("Concat", parts[0], graph("Gather", raw, graph.integers(arrays["numbers"]), axis=1), axis=1)
        centre, spread = (graph.real(np.append(own, arrays[name])) for name, own in (("centre", 0.0), ("spread", 1.0)))
        clipped = graph("Clip", graph("Div", graph("Sub", numbers, centre), spread), graph.real(-3.0), graph.real(3.0))
        parts = [graph("Where", graph("IsNaN", numbers), graph.real(0.0), clipped)]
    if raw is not None and len(arrays["flagged"]):
        missing = graph("IsNaN", graph("Gather", raw, graph.integers(arrays["flagged"]), axis=1))
        parts.append(graph.cast(missing, TensorProto.DOUBLE))
    if inside is not None:
        parts.append(graph.cast(inside, TensorProto.DOUBLE))
    return graph("Concat", *parts, axis=1)


def _with_pairs(graph: _Graph, arrays: dict[str, AnyArray], singles: str, inside: str | None) -> str:
    if inside is None or not arrays["pairs"].size:
        return singles
    left, right = (graph("Gather", inside, graph.integers(side), axis=1) for side in arrays["pairs"])
    return graph("Concat", singles, graph.cast(graph("And", left, right), TensorProto.DOUBLE), axis=1)


def _log_odds(graph: _Graph, score: str) -> str:
    against = graph("Log", graph("Sub", graph.real(1.0), score))
    limits = graph.real(-LOGIT_LIMIT), graph.real(LOGIT_LIMIT)
    return graph("Clip", graph("Sub", graph("Log", score), against), *limits)


def _corrected(graph: _Graph, arrays: dict[str, AnyArray], stage: int, log_odds: str, F: str) -> str:
    """Return corrected log-odds, shape (n, 1)."""
    weights, knots = arrays["weights"][stage], arrays["knots"][stage, 2:]
    offsets, slopes, hinges = weights[0], weights[1], weights[2:, 0]
    if not offsets.any() and not slopes[1:].any() and not hinges.any() and slopes[0] == 1.0:
        return log_odds
    slope = graph("MatMul", F, graph.real(slopes[:, None])) if slopes[1:].any() else graph.real([[slopes[0]]])
    terms = [graph("MatMul", F, graph.real(offsets[:, None])), graph("Mul", log_odds, slope)]
    if hinges.any():
        bends = graph("Relu", graph("Sub", log_odds, graph.real(knots)))
        terms.append(graph("MatMul", bends, graph.real(hinges[:, None])))
    return graph.sum(terms)


def _compared(graph: _Graph, splits: Splits, given: str, raw: str | None, inside: str | None) -> str:
    """Return the numbers that the trees compare, side by side."""
    parts = [given]
    if inside is not None and len(splits.sets):
        parts.append(graph("MatMul", graph.cast(inside, TensorProto.DOUBLE), graph.real(splits.sets.T)))
    if raw is not None and (splits.threshold < LEAST).any():
        raw = graph("Where", graph("IsNaN", raw), graph.real(LEAST), raw)
    return graph("Concat", *parts, *([] if raw is None else [raw]), axis=1)


def _trees(graph: _Graph, splits: Splits, inputs: str) -> str:
    """Return the sum of the leaves every row comes to, shape (n, 1), all trees walking down together."""
    rows = graph("Gather", graph("Shape", inputs), graph.integers([0]))
    shape = graph("Concat", rows, graph.integers([len(splits.root)]), axis=0)
    place = graph("Expand", graph.integers(splits.root[None]), shape)
    feature, child, threshold = (
        graph.integers(splits.feature),
        graph.integers(splits.child),
        graph.real(splits.threshold),
    )
    two = graph.integers(2)
    for _ in range(splits.depth):
        value = graph("GatherElements", inputs, graph("Gather", feature, place), axis=1)
        right = graph.cast(graph("Greater", value, graph("Gather", threshold, place)), TensorProto.INT64)
        place = graph("Gather", child, graph("Add", graph("Mul", place, two), right))
    return graph("ReduceSum", graph("Gather", graph.real(splits.leaf), place), graph.integers([1]))


def _mixture(graph: _Graph, arrays: dict[str, AnyArray], wishes: str) -> str:
    """Return the mean over forecasters; the search is that of `swapcal.batch.standalone`, the walk a Loop."""
    ladder = _Ladder(graph, wishes, arrays["z"], arrays["member"])
    rows = graph("Gather", graph("Shape", wishes), graph.integers([0]))
    shape, one = graph("Concat", rows, graph.integers([arrays["ends"].shape[1]]), axis=0), graph.integers(1)
    first, middle, last = (graph("Expand", graph.integers(places[None]), shape) for places in arrays["ends"])
    w, level = ladder.at(graph, middle)
    above = graph("GreaterOrEqual", w, level)
    lo, hi = graph("Where", above, middle, first), graph("Where", above, last, middle)
    gained = graph("Where", above, graph("Sub", w, level), w)
    room = graph("Where", above, graph("Sub", graph.real(1.0), level), level)
    width = graph.cast(graph("Sub", hi, lo), TensorProto.DOUBLE)
    steps = graph.cast(graph("Mul", graph("Div", gained, room), width), TensorProto.INT64)
    start = graph("Min", graph("Sub", hi, one), graph("Add", lo, steps))
    longest = int((arrays["ends"][2] - arrays["ends"][0]).max()) + 1
    most = graph.integers(3 * (longest.bit_length() + 2))  # every third step halves what is left
    ends = [graph.name() for _ in range(3)]
    truth = graph.constant(np.array(True))
    graph.nodes.append(helper.make_node("Loop", [most, truth, lo, hi, start], ends, body=_walk(graph, ladder)))
    k = ends[2]
    (w_low, z_low), (w_high, z_high) = ladder.at(graph, k), ladder.at(graph, graph("Add", k, one))
    u, v = graph("Sub", w_low, z_low), graph("Sub", z_high, w_high)
    positive = graph("Greater", u, graph.real(0.0))
    total = graph("Where", positive, graph("Add", u, v), graph.real(1.0))
    share = graph("Where", positive, graph("Div", u, total), graph.real(0.0))
    means = graph("Add", z_low, graph("Mul", share, graph("Sub", z_high, z_low)))
    return graph("ReduceMean", means, axes=[1], keepdims=1)


class _Ladder:
    """Every forecaster's levels and their learners' wishes, by place."""

    def __init__(self, graph: _Graph, wishes: str, z: AnyArray, member: AnyArray) -> None:
        self._wishes, self._z, self._member = wishes, graph.real(z), graph.integers(member)

    def at(self, graph: _Graph, k: str) -> tuple[str, str]:
        member = graph("Gather", self._member, k)
        return graph("GatherElements", self._wishes, member, axis=1), graph("Gather", self._z, k)


def _walk(parent: _Graph, ladder: _Ladder) -> Any:
    """Return one step of the walk: iteration, whether to go on, lo, hi and k in; the last four out."""
    graph = _Graph(parent)
    turn, going, lo, hi, k = (graph.name() for _ in range(5))
    one = graph.integers(1)
    (w_low, z_low), after = ladder.at(graph, k), graph("Add", k, one)
    w_high, z_high = ladder.at(graph, after)
    down = graph("And", graph("Less", w_low, z_low), graph("Greater", k, lo))
    rising = graph("And", graph("Greater", w_high, z_high), graph("Less", after, hi))
    up = graph("And", graph("Not", down), rising)
    low, high = graph("Where", up, after, lo), graph("Where", down, k, hi)
    below = graph("Sub", high, one)
    half = graph("Min", graph("Div", graph("Add", low, high), graph.integers(2)), below)
    third = graph("Equal", graph("Mod", turn, graph.integers(3)), graph.integers(2))
    moving = graph("Or", up, down)
    step = graph("Where", third, half, graph("Where", down, below, low))
    then = graph("Where", moving, step, k)
    moves = graph("ReduceSum", graph.cast(moving, TensorProto.INT64), graph.integers([0, 1]), keepdims=0)
    again = graph("Greater", moves, graph.integers(0))
    return graph.step("walk", [turn, going, lo, hi, k], [again, low, high, then], TensorProto.INT64, None)
