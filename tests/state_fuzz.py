"""Saved states of every kind with entries replaced at random, a right checksum, and what becomes of them.

``python -m tests.state_fuzz forecaster 0 1000`` loads 1,000 of them and uses what loads, in this process, which dies if
compiled code reads where it should not or does not come back in time. It prints what happened how often.
"""

import copy
import faulthandler
import io
import json
import math
import random
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from swapcal import Audit, Forecaster, Live, Monitor, OracleForecaster
from swapcal.archive import ArchiveError, pack
from swapcal.engine.log_loss import LogForecaster
from swapcal.engine.sparse import SparseForecaster
from swapcal.oracles import Fourier
from tests.checks import stream

SECONDS = 30
"""For one state: it is loaded, used and saved."""
MORE_MEMORY = 600_000
"""kB that a process may take beyond what the sound state took."""
REFUSED = (ValueError, ArithmeticError)
"""What using a silly state may raise; any other exception counts as a crash."""


class Case(NamedTuple):
    make: Callable[[Path], Any]
    """saves a sound state"""
    use: Callable[[Path], Any]
    """loads, uses and saves it"""
    inside: tuple[str, ...] = ()
    """arrays of bytes that are state files themselves"""


# The kinds.


def _forecaster(**options: Any) -> Case:
    X, y = stream(60, 3)

    def make(path: Path) -> None:
        made = Forecaster(3, **options)
        made.run(X[:40], y[:40])
        made.save(path)

    def use(path: Path) -> None:
        loaded = Forecaster.load(path)
        loaded.save(path)
        loaded.run(X[40:], y[40:])
        loaded.update(loaded.predict(X[0]), 1)
        loaded.grow(6)
        loaded.certificate()

    return Case(make, use)


def _oracles(**options: Any) -> Case:
    X, y = stream(60, 3)

    def kernel(level: float) -> Fourier:
        return Fourier(level, 3, features=4)

    def make(path: Path) -> None:
        made = OracleForecaster(kernel, **options)
        made.run(X[:40], y[:40])
        made.save(path)

    def use(path: Path) -> None:
        loaded = OracleForecaster.load(path, kernel)
        loaded.save(path)
        loaded.run(X[40:], y[40:], weight=np.resize([1.0, 2.0], 20))
        str(loaded.certificate())

    return Case(make, use)


def _baseline(name: str) -> Case:
    from swapcal.baselines import ONLINE

    X, y = stream(60, 3)

    def make(path: Path) -> None:
        made = ONLINE[name](3, horizon=60)
        made.run(X[:40], y[:40])
        made.save(path)

    def use(path: Path) -> None:
        loaded = ONLINE[name].load(path)
        loaded.save(path)
        loaded.run(X[40:], y[40:])
        loaded.update(loaded.predict(X[0]), 1)

    return Case(make, use)


RECORDS = [{"g": "ab"[k % 2], "v": float(k % 5), "p": 0.1 + 0.05 * (k % 9), "c": "xyz"[k % 3]} for k in range(60)]
LABELS = [float(k % 3 == 0) for k in range(60)]


def _make_live(path: Path) -> None:
    live = Live(groups=["g"], scores=["p"], products=[("g", "v")], fourier=2, expires=50)
    live.run(RECORDS, LABELS, ids=range(60), time=range(60))
    live.forecast(RECORDS[0], id="open", time=60)
    live.forecast(RECORDS[1] | {"later": 2.0}, id=61, time=61)
    live.run(RECORDS[:2], [0, 1], time=[62, 63], label_time=[70, 71])
    live.save(path)


def _make_held(path: Path) -> None:
    live = Live(order="issue", patience=30, lifetime=40.0, window=20, monitor=Monitor(["g"], level_ranges=False))
    for k in range(40):
        live.forecast(RECORDS[k], id=k, time=float(k), matures=k + 8.0 if k % 3 else None)
        if k >= 4 and k % 2:
            live.label(k - 3, LABELS[k - 3], time=float(k))
    live.save(path)


def _use_live(path: Path) -> None:
    live = Live.load(path)
    live.save(path)
    later = range(10**6, 10**6 + 6)
    live.run([*RECORDS[:5], {"g": "new", "v": None, "p": 0.3, "c": "y", "more": "a"}], LABELS[:6], time=later)
    for id in ("open", 61, 38):
        if live.is_open(id):
            live.explain(id)
            live.label(id, 1)
    live.forecast(RECORDS[7], id="last", time=10**6 + 7)
    live.label("last", 0)
    live.status()
    live.certificate()
    live.save(path)


def _make_refit(path: Path) -> None:
    from sklearn.tree import DecisionTreeClassifier

    from swapcal.live import Refit

    refit = Refit(DecisionTreeClassifier(max_depth=2, random_state=0), first=20, growth=1.5, last=40)
    for record, y in zip(RECORDS, LABELS, strict=True):
        refit.learn(record, None, None, y)
    refit.save(path)


def _use_refit(path: Path) -> None:
    from sklearn.tree import DecisionTreeClassifier

    from swapcal.live import Refit

    refit = Refit.load(path, DecisionTreeClassifier(max_depth=2, random_state=0))
    refit.save(path)
    for record, y in zip(RECORDS[:30], LABELS[:30], strict=True):
        refit.forecast(record)
        refit.learn(record, None, None, y)


def _table() -> Any:
    from swapcal.tables.frame import Table

    rng = np.random.default_rng(0)
    v, w, g = rng.normal(size=800), rng.normal(size=800), rng.choice(["a", "b"], 800)
    w[rng.random(800) < 0.1] = np.nan
    y = (rng.random(800) < np.where((v > 0) & (w > 0) & (g == "a"), 0.95, 0.2)).astype(float)
    columns = {"v": v, "w": w, "g": g, "h": rng.choice([1.0, 2.0], 800)}
    few = Table({name: column[:3] for name, column in columns.items()})
    return Table(columns), few, y, rng.uniform(0.2, 0.8, 800)


def _model(correction: str, scored: bool, log: bool = False) -> Case:
    from swapcal.batch.model import Model
    from swapcal.batch.settings import FitSettings

    table, few, y, scores = _table()
    given, few_given = (scores, scores[:3]) if scored else (None, None)

    def make(path: Path) -> None:
        settings = FitSettings(correction=correction, snapshots=3, log=log)
        Model.fit(table, y, given, groups=["g", "h"], settings=settings).save(path)

    def use(path: Path) -> None:
        model = Model.load(path)
        model.save(path)
        model.mean(table, given)
        model.issue(table, given)
        model.mean(few, few_given)
        if model.history is not None:
            model.history.mean(model.contexts(few, few_given)[:, : model.dim])
            model.history.shares(model.contexts(few, few_given)[:, : model.dim])
            model.history.snapshots(3, np.random.default_rng(0)).mean(model.contexts(few, few_given))

    return Case(make, use)


def _audited(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    p = rng.choice([0.1, 0.4, 0.4 + 1e-9, 0.9], n)
    return {
        "p": p,
        "y": (rng.random(n) < p).astype(float),
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 10, n)),
        "town": rng.choice(["Rome", "Bari", "Ōta"], n),
        "sex": rng.choice(["f", "m"], n),
        "w": rng.choice([0.3, 1.0, 7.0], n),
        "t": np.datetime64("2024-01-01") + np.sort(rng.integers(0, 10**6, n)) * np.timedelta64(1, "s"),
        "low": 0.9 * p,
        "high": 0.1 + 0.9 * p,
        "share": p,  # of which p is the mean
    }


def _make_audit(path: Path) -> None:
    named: dict[str, Any] = {"prob": "p", "target": "y", "features": ["age"], "groups": ["sex", "town"]}
    named |= {"weights": "w", "time": "t", "issued": ("low", "high", "share"), "intersections": 2}
    Audit.from_frame(_audited(60, 0), **named).save(path)


def _use_audit(path: Path) -> None:
    audit = Audit.load(path)
    audit.save(path)
    audit.add(_audited(40, 1))
    both = audit + Audit.load(path)
    both.verdict()
    both.theory.psmcal()


def _make_ranges(path: Path) -> None:
    rng = np.random.default_rng(0)
    Audit(rng.random(60), rng.random(60), groups=rng.choice(list("ab"), 60), time=rng.random(60)).save(path)


def _use_ranges(path: Path) -> None:
    rng = np.random.default_rng(1)
    audit = Audit.load(path)
    audit.add(p=rng.random(20), y=rng.random(20), groups=rng.choice(list("abc"), 20), time=rng.random(20))
    audit.verdict()
    audit.save(path)


def _rows(n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return {"a": rng.choice(["x", "y"], n), "b": rng.choice(["u", "v", "w"], n)}, rng.random(n), rng.random(n) < 0.6


def _make_monitor(path: Path) -> None:
    Monitor(["a", "b"], products=[("a", "b")], run_length=2000).add(*_rows(600, 0), np.arange(600.0)).save(path)


def _use_monitor(path: Path) -> None:
    monitor = Monitor.load(path)
    monitor.save(path)
    monitor.add(*_rows(80, 1), np.arange(10.0**6, 10.0**6 + 80))
    monitor.summary()
    (monitor + Monitor.load(path)).alarms()
    repr(monitor)


def _asked(id: str, record: dict[str, Any]) -> Any:
    from msgspec import Raw

    from swapcal.service.messages import ForecastIn

    return ForecastIn(id, Raw(json.dumps(record).encode()))


def _make_ward(path: Path) -> None:
    from swapcal.service.hosted import HostedForecaster
    from swapcal.service.messages import OutcomeRowIn
    from swapcal.service.settings import Settings
    from swapcal.service.snapshots import Still

    hosted = HostedForecaster(Settings(name="shop", groups=["g"]))
    hosted.seq, hosted.now = 1, 12.0
    hosted.forecast([_asked(f"o{k}", RECORDS[k]) for k in range(20)], now=10.0)
    hosted.outcome([OutcomeRowIn(f"o{k}", LABELS[k]) for k in range(15)], now=12.0)
    hosted.park("early", 12.0)
    path.write_bytes(Still(hosted).to_bytes())


def _use_ward(path: Path) -> None:
    from swapcal.service.messages import OutcomeRowIn
    from swapcal.service.snapshots import Still, restored

    hosted = restored(path.read_bytes())
    hosted.forecast([_asked("new", RECORDS[0])], now=1e6)
    hosted.outcome([OutcomeRowIn("new", 1.0), OutcomeRowIn("o17", 0.0)], now=1e6)
    hosted.figures.curve()
    hosted.figures.over_time()
    path.write_bytes(Still(hosted).to_bytes())


def _many_groups(path: Path) -> None:
    forecaster = Forecaster.sparse(2, scores=1, levels=5)
    forecaster.run(np.arange(60).reshape(30, 2) % 7, np.arange(30) % 2, scores=np.full(30, 0.4))
    forecaster.save(path)


def _use_many_groups(path: Path) -> None:
    forecaster = SparseForecaster.load(path)
    forecaster.run(np.arange(80).reshape(40, 2) % 11, np.arange(40) % 2, scores=np.full(40, 0.3))
    forecaster.certificate()
    forecaster.save(path)


def _log_loss(path: Path) -> None:
    forecaster = Forecaster.log_loss(2, levels=5)
    forecaster.run(np.full((30, 2), 0.3), np.arange(30) % 2)
    forecaster.save(path)


def _use_log_loss(path: Path) -> None:
    forecaster = LogForecaster.load(path)
    forecaster.run(np.full((20, 2), 0.6), np.arange(20) % 2)
    forecaster.certificate()
    forecaster.save(path)


CASES: dict[str, Callable[[], Case]] = {
    "sparse": lambda: Case(_many_groups, _use_many_groups),
    "log_loss": lambda: Case(_log_loss, _use_log_loss),
    "forecaster": _forecaster,
    "forecaster_window": lambda: _forecaster(window=20),
    "forecaster_vaw": lambda: _forecaster(learner="vaw"),
    "forecaster_paper": lambda: _forecaster(learner="ons", mixing="blum-mansour", levels=5),
    "oracles": lambda: _oracles(levels="adaptive"),
    "oracles_chain": lambda: _oracles(levels=4, mixing="blum-mansour"),
    **{
        f"baseline_{name}": lambda name=name: _baseline(name)  # type: ignore[misc]
        for name in ("foster-vohra", "foster-hart", "fishelson", "luo-kl", "garg-ito", "groups", "okoroafor", "hu-luo")
    },
    "live": lambda: Case(_make_live, _use_live),
    "live_held": lambda: Case(_make_held, _use_live, ("monitor.state",)),
    "refit": lambda: Case(_make_refit, _use_refit),
    "model": lambda: _model("linear", True),
    "model_log": lambda: _model("none", True, log=True),
    "model_trees": lambda: _model("trees", False),
    "audit": lambda: Case(_make_audit, _use_audit),
    "audit_ranges": lambda: Case(_make_ranges, _use_ranges),
    "monitor": lambda: Case(_make_monitor, _use_monitor),
    "ward": lambda: Case(_make_ward, _use_ward, ("live", "monitor")),
}


# What is replaced.

NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-308, 5e-324, 1e18, 1e-9]
WHOLE = [0, 1, 2, -1, -2, 7, 99, 255, 256, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, -(2**63)]
WILD = [None, True, False, -1, 0, 1, 2, 40, 10**9, 2**63, 2**70, 0.5, -0.5, 1e300, math.nan, math.inf, "", "x", "a",
        "\ud800", [], {}, [1], [[]], ["a"], [["a", 1]], {"a": 1}]  # fmt: skip


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where the values of nested objects and lists are."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(leaf for key, inside in items for leaf in leaves(inside, (*path, key)))]


def parts(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a state file's manifest and arrays."""
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("manifest").tobytes()), arrays


def packed(manifest: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """Return a state file with a right checksum."""
    out = io.BytesIO()
    pack(out, manifest["kind"], manifest["version"], arrays, manifest["settings"])
    return out.getvalue()


def replace_entry(rng: random.Random, arrays: dict[str, Any]) -> str:
    """Replace an entry of an array."""
    name = rng.choice([name for name in arrays if arrays[name].size])
    flat = arrays[name].reshape(-1)
    place = rng.choice([rng.randrange(flat.size), 0, flat.size - 1])
    old = flat[place]
    near = [old + 1, old - 1, -old, 2 * old, flat[rng.randrange(flat.size)], *arrays[name].shape, flat.size]
    value = rng.choice([rng.choice(NUMBERS if flat.dtype.kind == "f" else WHOLE), rng.choice(near)])
    with np.errstate(all="ignore"):
        flat[place] = np.array(value).astype(flat.dtype)
    return f"{name}[{place}] = {flat[place]!r}"


def reshape_array(rng: random.Random, arrays: dict[str, Any]) -> str:
    """Make an array longer, shorter, empty, or of another shape."""
    name = rng.choice(sorted(arrays))
    old = arrays[name]
    axis = rng.randrange(old.ndim) if old.ndim else 0
    ways: list[Callable[[], Any]] = [
        lambda: old[..., :-1],
        lambda: old[:-1],
        lambda: np.concatenate([old, old[:1]], axis=0),
        lambda: np.concatenate([old, old], axis=axis),
        lambda: old.take([], axis=axis),
        lambda: old.reshape(-1),
        lambda: old[None],
        lambda: old.astype(rng.choice(["f8", "i8", "u8", "f4", "u1"])),
    ]
    with np.errstate(all="ignore"):
        try:
            arrays[name] = np.ascontiguousarray(rng.choice(ways)())
        except (IndexError, ValueError):
            return f"{name} as it is"
    return f"{name}: {old.dtype} {old.shape} to {arrays[name].dtype} {arrays[name].shape}"


def replace_setting(rng: random.Random, settings: dict[str, Any]) -> str:
    """Replace, drop or repeat a part of the settings."""
    if not settings:
        return "no settings left"
    *steps, last = rng.choice([path for path in leaves(settings) if path])
    place: Any = settings
    for step in steps:
        place = place[step]
    old = place[last]
    way = rng.randrange(6)
    if way == 0 and isinstance(place, list):
        place.append(copy.deepcopy(old))
    elif way == 1:
        del place[last]
    elif way == 2 and isinstance(old, int | float) and not isinstance(old, bool):
        place[last] = rng.choice([old + 1, old - 1, -old, 2 * old])
    elif way == 3 and steps:
        other = rng.choice([path for path in leaves(settings) if path])
        found: Any = settings
        for step in other:
            found = found[step] if not isinstance(found, dict) or step in found else None
        place[last] = copy.deepcopy(found)
    else:
        place[last] = copy.deepcopy(rng.choice(WILD))
    return f"settings {[*steps, last]}: {old!r:.60} to {place[last] if way != 1 else 'nothing'!r:.60}"


def spoilt(rng: random.Random, content: bytes, inside: tuple[str, ...]) -> tuple[bytes, str]:
    """Return a state file of which some parts were replaced, and which."""
    manifest, arrays = parts(content)
    nested = [name for name in inside if name in arrays]
    if nested and rng.random() < 0.6:
        name = rng.choice(nested)
        within, said = spoilt(rng, arrays[name].tobytes(), ())
        arrays[name] = np.frombuffer(within, np.uint8).copy()
        return packed(manifest, arrays), f"{name}: {said}"
    said_of = []
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        draw = rng.random()
        if draw < 0.55:
            said_of.append(replace_entry(rng, arrays))
        elif draw < 0.65:
            said_of.append(reshape_array(rng, arrays))
        else:
            said_of.append(replace_setting(rng, manifest["settings"]))
    return packed(manifest, arrays), "; ".join(said_of)


def run(kind: str, seed: int, count: int, first: int = 0) -> Counter[str]:
    """Load and use so many spoilt states; say on stderr which one is in use, and count what happened."""
    case, found = CASES[kind](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        path = Path(folder) / "state"
        case.make(path)
        content = path.read_bytes()
        case.use(path)
        usual = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for k in range(first, first + count):
            wrong, said = spoilt(random.Random(f"{kind} {seed} {k}"), content, case.inside)
            path.write_bytes(wrong)
            print(f"{kind} {seed} {k}: {said}", file=sys.stderr)
            sys.stderr.flush()
            signal.alarm(SECONDS)
            try:
                case.use(path)
                found["used"] += 1
            except ArchiveError:
                found["refused"] += 1
            except REFUSED as error:
                found[f"used until {type(error).__name__}"] += 1
            except TypeError as error:
                if "expected numbers" not in str(error):  # of a table whose column is not what the state says
                    raise
                found["used until another table"] += 1
            signal.alarm(0)
            more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - usual
            if more > MORE_MEMORY:
                raise MemoryError(f"{more:,} kB more than the sound state")
    return found


if __name__ == "__main__":
    faulthandler.enable()
    kinds, seed, count, *rest = sys.argv[1:]
    for kind in kinds.split(","):
        print(kind, dict(run(kind, int(seed), int(count), *map(int, rest))))
