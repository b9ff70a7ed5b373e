"""Graph: the mean of a model's mixture as an ONNX graph of standard operators, in double precision."""

import os
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import count
from typing import Any

import numpy as np

from swapcal.archive.files import replacing
from swapcal.arrays import AnyArray, Array
from swapcal.batch.flat import Fitted, Flat
from swapcal.batch.simplex import MOST_STEPS

try:
    import onnx
except ModuleNotFoundError:
    raise ModuleNotFoundError('an ONNX graph needs onnx: pip install "swapcal[onnx]"', name="onnx") from None
from onnx import TensorProto, helper, numpy_helper

OPSETS = {"": 17, "ai.onnx.ml": 3}
IR_VERSION = 8
"""The oldest versions with all that is used, so that old runtimes read the file."""
ARRAY, SCORE, OUTPUT = "X", "score", "p"
"""Names of the input of a model of arrays, of the scores to correct, and of the output."""
INNER = "swapcal:"
"""What the names inside the graph begin with."""


def write_graph(
    path: "str | os.PathLike[str]", models: Sequence[Fitted], *, outcomes: tuple[float, float] = (0.0, 1.0)
) -> None:
    """Write models of one table, one for each of several classes, as one ONNX file.

    Inputs: one per column, of shape (n, 1), doubles or strings, under the columns' names; for a model of arrays, "X" of
    shape (n, columns); "score" of shape (n, 1), or (n, classes), where scores of another model are corrected. Output:
    "p" of shape (n, 1), the probability of the second class or the expected outcome, or (n, classes).
    """
    flats = [Flat.of(model) for model in models]
    for name in (SCORE, OUTPUT):
        if name in _names(flats[0]):
            raise ValueError(f"column {name!r}: given a name the graph needs itself, expected another")
    if not _names(flats[0]) and not flats[0].manifest["scored"]:
        raise ValueError("columns: given none, expected at least one; without any the model is a constant")
    graph = _Graph()
    columns = [_mean(graph, flat, k, len(models)) for k, flat in enumerate(flats)]
    if len(columns) > 1:
        graph("Identity", _to_simplex(graph, graph("Concat", *columns, axis=1)), out=OUTPUT)
    else:
        low, high = outcomes
        graph("Add", graph("Mul", columns[0], graph.real(high - low)), graph.real(low), out=OUTPUT)
    written = graph.model(len(columns)).SerializeToString()
    with replacing(path) as file:
        file.write(written)


class _Graph:
    """Nodes, constants and inputs as they are asked for; calling it adds a node and returns its output's name."""

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

    def whole(self, values: Any) -> str:
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
        made = helper.make_model(graph, opset_imports=opsets, producer_name="swapcal", ir_version=IR_VERSION)
        onnx.checker.check_model(made, full_check=True)
        return made


def _names(flat: Flat) -> list[Any]:
    return [*flat.manifest["numbers"], *(category["name"] for category in flat.manifest["categories"])]


def _mean(graph: _Graph, flat: Flat, number: int, parts: int) -> str:
    """Return the mixture's mean, shape (n, 1); ⟨learner, context⟩ is summed part by part, so no context is made."""
    arrays, manifest = flat.arrays, flat.manifest
    features = {"numbers": _standard_scores(graph, flat), "codes": _indicators(graph, manifest)}
    if manifest["scored"]:
        score = graph("Gather", graph.input(SCORE, TensorProto.DOUBLE, parts), graph.whole([number]), axis=1)
        given = _log_odds(graph, score, manifest["logit_limit"])
    else:
        given = _regress(graph, arrays, "scorer", graph.real([[manifest["base"]]]), features)
    if manifest["opened"]:
        given = _regress(graph, arrays, "opening", given, features)
    better = given
    if manifest["trees"]:
        start = _regress(graph, arrays, "first", given, features)
        better = graph("Add", start, _trees(graph, flat, given))
    corrected = _regress(graph, arrays, "correction", better, features)
    pool = arrays["pool"].T
    terms = [graph.real(0.5 * pool[:1])]
    for place, log_odds in ((1, corrected), (2, given)):
        centred = graph("Tanh", graph("Mul", log_odds, graph.real(0.5)))  # 2p - 1
        weights = arrays["score_sizes"][place - 1] * pool[place : place + 1]
        terms.append(graph("MatMul", centred, graph.real(weights)))
    for kind, found in features.items():
        terms += [graph("MatMul", found, graph.real(arrays[f"place_{kind}"] @ pool))] if found else []
    wishes = graph("Clip", graph.sum(terms), graph.real(0.0), graph.real(1.0))
    least = manifest["least"]
    return graph("Clip", _mixture(graph, arrays, wishes), graph.real(least), graph.real(1.0 - least))


def _to_simplex(graph: _Graph, p: str) -> str:
    """Return probabilities that sum to 1; see `swapcal.batch.simplex.to_simplex`."""
    one, axis = graph.real(1.0), graph.whole([1])
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
    graph.nodes.append(helper.make_node("Loop", [graph.whole(MOST_STEPS), truth, start], [end], body=step))
    found = shifted(graph, end)
    return graph("Div", found, graph("ReduceSum", found, axis))


def _columns(graph: _Graph, names: list[Any]) -> str:
    """Return columns of numbers side by side: inputs of their own, or some of an array's."""
    if isinstance(names[0], str):
        return graph("Concat", *(graph.input(name, TensorProto.DOUBLE, 1) for name in names), axis=1)
    return graph("Gather", graph.input(ARRAY, TensorProto.DOUBLE, None), graph.whole(names), axis=1)


def _raw(graph: _Graph, manifest: dict[str, Any]) -> str | None:
    """Return the numbers, and the offsets of rated texts, side by side."""
    found = [_columns(graph, manifest["numbers"])] if manifest["numbers"] else []
    for rated in manifest["rated"]:
        texts, values = list(rated["offsets"]), [*rated["offsets"].values(), 0.0]
        found.append(graph("Gather", graph.real(values), _codes(graph, rated["name"], texts, len(texts))))
    return graph("Concat", *found, axis=1) if found else None


def _codes(graph: _Graph, name: str, texts: list[str], other: int) -> str:
    return graph(
        "LabelEncoder",
        graph.input(name, TensorProto.STRING, 1),
        domain="ai.onnx.ml",
        keys_strings=texts,
        values_int64s=list(range(len(texts))),
        default_int64=other,
    )


def _standard_scores(graph: _Graph, flat: Flat) -> str | None:
    raw, arrays = _raw(graph, flat.manifest), flat.arrays
    if raw is None:
        return None
    scaled = graph("Div", graph("Sub", raw, graph.real(arrays["centre"])), graph.real(arrays["spread"]))
    missing, zero = graph("IsNaN", raw), graph.real(0.0)
    scores = graph("Where", missing, zero, graph("Clip", scaled, graph.real(-3.0), graph.real(3.0)))
    if not len(arrays["flagged"]):
        return scores
    flagged = graph("Gather", graph.cast(missing, TensorProto.DOUBLE), graph.whole(arrays["flagged"]), axis=1)
    return graph("Concat", scores, graph("Mul", flagged, graph.real(3.0)), axis=1)


def _indicators(graph: _Graph, manifest: dict[str, Any]) -> str | None:
    found = [_indicator(graph, category) for category in manifest["categories"]]
    return graph.cast(graph("Concat", *found, axis=1), TensorProto.DOUBLE) if found else None


def _indicator(graph: _Graph, category: dict[str, Any]) -> str:
    """Return truth values of shape (n, size): which code each row has."""
    name, texts = category["name"], category["texts"]
    if texts:
        codes = _codes(graph, name, texts, category["other"])
        return graph("Equal", codes, graph.whole([range(category["size"])]))
    values, edges = _columns(graph, [name]), category["edges"]
    if not edges:
        return graph("Equal", values, graph.real([category["numbers"]]))
    above = graph("Greater", values, graph.real([[-np.inf, *edges]]))
    return graph("And", above, graph("LessOrEqual", values, graph.real([[*edges, np.inf]])))


def _log_odds(graph: _Graph, score: str, limit: float) -> str:
    against = graph("Log", graph("Sub", graph.real(1.0), score))
    return graph("Clip", graph("Sub", graph("Log", score), against), graph.real(-limit), graph.real(limit))


def _regress(graph: _Graph, arrays: dict[str, Array], name: str, logit: str, features: dict[str, str | None]) -> str:
    """Return corrected log-odds, shape (n, 1); see `swapcal.batch.flat`."""
    constant, slope, centre = arrays[f"{name}.line"]
    terms = [graph.real([[constant]]), graph("Mul", logit, graph.real(slope))]
    if len(arrays[f"{name}.knots"]):
        bends = graph("Relu", graph("Sub", logit, graph.real(arrays[f"{name}.knots"])))
        terms.append(graph("MatMul", bends, graph.real(arrays[f"{name}.hinges"][:, None])))
    for kind, found in features.items():
        terms += [graph("MatMul", found, graph.real(arrays[f"{name}.{kind}"][:, None]))] if found else []
    H, slopes, pairs = features["codes"], arrays[f"{name}.slopes"], arrays[f"{name}.pairs"]
    if H is not None and slopes.any():
        shifted = graph("Sub", logit, graph.real(centre))
        terms.append(graph("Mul", shifted, graph("MatMul", H, graph.real(slopes[:, None]))))
    if H is not None and pairs.any():
        terms.append(graph("ReduceSum", graph("Mul", graph("MatMul", H, graph.real(pairs)), H), graph.whole([1])))
    return graph.sum(terms)


def _trees(graph: _Graph, flat: Flat, given: str) -> str:
    """Return the sum of the leaves every row comes to, shape (n, 1), all trees walking down together."""
    forest = {name.split(".")[1]: array for name, array in flat.arrays.items() if name.startswith("forest.")}
    inputs, bits = _tree_inputs(graph, flat, given, forest["sets"].shape[1] - 1)
    rows = graph("Gather", graph("Shape", inputs), graph.whole([0]))
    shape = graph("Concat", rows, graph.whole([len(forest["root"])]), axis=0)
    place = graph("Expand", graph.whole(forest["root"][None]), shape)
    column, child, threshold = (
        graph.whole(forest["column"]),
        graph.whole(forest["child"]),
        graph.real(forest["threshold"]),
    )
    sets, width = graph.whole(forest["sets"].ravel()), forest["sets"].shape[1]
    which, two = graph.whole(width * forest["which"]), graph.whole(2)
    for _ in range(int(forest["depth"])):
        seen = graph("Gather", column, place)
        value = graph("GatherElements", inputs, seen, axis=1)
        below = graph.cast(graph("LessOrEqual", value, graph("Gather", threshold, place)), TensorProto.INT64)
        bit = graph("GatherElements", bits, seen, axis=1)
        member = graph("Gather", sets, graph("Add", graph("Gather", which, place), bit))
        place = graph("Gather", child, graph("Add", graph("Mul", place, two), graph("Max", below, member)))
    return graph("ReduceSum", graph("Gather", graph.real(forest["value"]), place), graph.whole([1]))


def _tree_inputs(graph: _Graph, flat: Flat, given: str, last: int) -> tuple[str, str]:
    """Return what the trees compare, and where they look codes up in sets."""
    manifest, numbers = flat.manifest, flat.manifest["numbers"]
    parts, places = [given], []
    if numbers:
        raw = _columns(graph, numbers)
        parts.append(graph("Where", graph("IsNaN", raw), graph.real(manifest["least_number"]), raw))
    for category in manifest["categories"]:
        indicator = graph.cast(_indicator(graph, category), TensorProto.INT64)
        numbered = graph("Mul", indicator, graph.whole([range(1, category["size"] + 1)]))
        code = graph("Sub", graph("ReduceSum", numbered, graph.whole([1])), graph.whole(1))
        outside = graph("Or", graph("Less", code, graph.whole(0)), graph("GreaterOrEqual", code, graph.whole(last)))
        places.append(graph("Where", outside, graph.whole(last), code))
        parts.append(graph.cast(code, TensorProto.DOUBLE))
    rows = graph("Gather", graph("Shape", parts[-1]), graph.whole([0]))
    plain = graph("Expand", graph.whole(last), graph("Concat", rows, graph.whole([1 + len(numbers)]), axis=0))
    return graph("Concat", *parts, axis=1), graph("Concat", plain, *places, axis=1)


def _mixture(graph: _Graph, arrays: dict[str, Array], wishes: str) -> str:
    """Return the mean over forecasters; the search is that of `swapcal.batch.standalone`, the walk a Loop."""
    z, members = arrays["z"], arrays["members"]
    ladder = _Ladder(graph, wishes, z, members)
    rows = graph("Gather", graph("Shape", wishes), graph.whole([0]))
    shape = graph("Concat", rows, graph.whole([len(z)]), axis=0)
    last, one = graph("Expand", graph.whole(arrays["counts"][None] - 1), shape), graph.whole(1)
    middle = graph("Div", last, graph.whole(2))
    w, level = ladder.at(graph, middle)
    above = graph("GreaterOrEqual", w, level)
    lo, hi = graph("Where", above, middle, graph.whole(0)), graph("Where", above, last, middle)
    gained = graph("Where", above, graph("Sub", w, level), w)
    room = graph("Where", above, graph("Sub", graph.real(1.0), level), level)
    width = graph.cast(graph("Sub", hi, lo), TensorProto.DOUBLE)
    steps = graph.cast(graph("Mul", graph("Div", gained, room), width), TensorProto.INT64)
    start = graph("Min", graph("Sub", hi, one), graph("Add", lo, steps))
    most = graph.whole(3 * (z.shape[1].bit_length() + 2))  # every third step halves what is left
    ends = [graph.name() for _ in range(3)]
    truth = graph.constant(np.array(True))
    graph.nodes.append(helper.make_node("Loop", [most, truth, lo, hi, start], ends, body=_walk(graph, ladder)))
    k = ends[2]
    (w_low, z_low), (w_high, z_high) = ladder.at(graph, k), ladder.at(graph, graph("Add", k, one))
    u, v = graph("Sub", w_low, z_low), graph("Sub", z_high, w_high)
    positive = graph("Greater", u, graph.real(0.0))
    whole = graph("Where", positive, graph("Add", u, v), graph.real(1.0))
    share = graph("Where", positive, graph("Div", u, whole), graph.real(0.0))
    means = graph("Add", z_low, graph("Mul", share, graph("Sub", z_high, z_low)))
    return graph("ReduceMean", means, axes=[1], keepdims=1)


class _Ladder:
    """Every forecaster's levels and their learners' wishes, to look at by place."""

    def __init__(self, graph: _Graph, wishes: str, z: Array, members: Array) -> None:
        self._wishes, self._z, self._members = wishes, graph.real(z.ravel()), graph.whole(members.ravel())
        self._first = graph.whole(z.shape[1] * np.arange(len(z))[None])

    def at(self, graph: _Graph, k: str) -> tuple[str, str]:
        place = graph("Add", k, self._first)
        member = graph("Gather", self._members, place)
        return graph("GatherElements", self._wishes, member, axis=1), graph("Gather", self._z, place)


def _walk(parent: _Graph, ladder: _Ladder) -> Any:
    """Return one step of the walk: iteration, whether to go on, lo, hi and k in; the last four out."""
    graph = _Graph(parent)
    turn, going, lo, hi, k = (graph.name() for _ in range(5))
    one = graph.whole(1)
    (w_low, z_low), after = ladder.at(graph, k), graph("Add", k, one)
    w_high, z_high = ladder.at(graph, after)
    down = graph("And", graph("Less", w_low, z_low), graph("Greater", k, lo))
    rising = graph("And", graph("Greater", w_high, z_high), graph("Less", after, hi))
    up = graph("And", graph("Not", down), rising)
    low, high = graph("Where", up, after, lo), graph("Where", down, k, hi)
    below = graph("Sub", high, one)
    half = graph("Min", graph("Div", graph("Add", low, high), graph.whole(2)), below)
    third = graph("Equal", graph("Mod", turn, graph.whole(3)), graph.whole(2))
    moving = graph("Or", up, down)
    step = graph("Where", third, half, graph("Where", down, below, low))
    then = graph("Where", moving, step, k)
    moves = graph("ReduceSum", graph.cast(moving, TensorProto.INT64), graph.whole([0, 1]), keepdims=0)
    again = graph("Greater", moves, graph.whole(0))
    return graph.step("walk", [turn, going, lo, hi, k], [again, low, high, then], TensorProto.INT64, None)
