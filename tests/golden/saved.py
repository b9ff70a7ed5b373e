"""Files as the recorded code saved them, and how each is continued: later code must load them and go on alike."""

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from swapcal import Audit, Contexts, Forecaster, Live, Monitor
from tests.golden.cases import CASES, NEEDS, SERVICE, certified, issued, labels_of, served, stacked
from tests.golden.inputs import contexts, events, predictions, uniforms
from tests.golden.trees import Flat, plain

FOLDER = Path(__file__).parent / "saved"


class Saved(NamedTuple):
    make: Callable[[Path], None]
    go_on: Callable[[Path], Flat]


SAVED: dict[str, Saved] = {}


def kept(name: str) -> Path:
    return FOLDER / f"{name}.gz"


def pack(name: str) -> None:
    """Save anew, compressed without a time."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        SAVED[name].make(path)
        kept(name).write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))


@contextmanager
def unpacked(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(gzip.decompress(kept(name).read_bytes()))
        yield path


def saved(name: str, make: Callable[[Path], None], go_on: Callable[[Path], Flat], *needs: str) -> None:
    """List a saved file, and its continuation as a case."""

    def run() -> Flat:
        with unpacked(name) as path:
            return go_on(path)

    SAVED[name] = Saved(make, go_on)
    CASES[f"saved_{name}"] = run
    NEEDS[f"saved_{name}"] = needs


# ---------------------------------------------------------------------------------------------------------- Forecaster


def _forecaster(**options: Any) -> tuple[Callable[[Path], None], Callable[[Path], Flat]]:
    X, y = contexts(70, 220, 3)

    def make(path: Path) -> None:
        forecaster = Forecaster(dim=3, **options)
        forecaster.run(X[:200], y[:200])
        forecaster.save(path)

    def go_on(path: Path) -> Flat:
        forecaster = Forecaster.load(path)
        found = Flat().add(rounds=forecaster.rounds, **issued(forecaster.run(X[200:], y[200:])))
        return found.add(levels=forecaster.levels, **certified(forecaster.certificate()))

    return make, go_on


saved("forecaster", *_forecaster())
saved("forecaster_window", *_forecaster(window=50))
saved("forecaster_paper", *_forecaster(learner="ons", mixing="blum-mansour", levels=5))


def _baseline(name: str) -> tuple[Callable[[Path], None], Callable[[Path], Flat]]:
    from swapcal.baselines import ONLINE

    X, y = contexts(71, 120, 3)

    def make(path: Path) -> None:
        made = ONLINE[name](3, horizon=120)
        made.run(X[:100], y[:100])
        made.save(path)

    def go_on(path: Path) -> Flat:
        answer = ONLINE[name].load(path).run(X[100:], y[100:])
        return Flat().add(p=answer.p, mean=answer.mean)

    return make, go_on


saved("baseline_garg_ito", *_baseline("garg-ito"))
saved("baseline_foster_hart", *_baseline("foster-hart"))


# ---------------------------------------------------------------------------------------------------------------- Live


def _shop(rows: int) -> tuple[list[dict[str, Any]], Any, Any]:
    given = events(72, rows)
    names = ("price", "city", "channel")
    return [{name: record[name] for name in names} for record in given.records], given.y, given.time


def make_live(path: Path) -> None:
    records, y, _ = _shop(90)
    live = Live(groups=["city"], monitor=Monitor(["channel"], level_ranges=False))
    live.run(records[:50], y[:50])
    live.forecast_many(records[50:70], [f"open {k}" for k in range(50, 70)])
    live.label("open 60", y[60])
    live.save(path)


def continue_live(path: Path) -> Flat:
    records, y, _ = _shop(90)
    live = Live.load(path)
    found = Flat().add(explained=live.explain("open 51").to_dict(), repeated=live.label("open 60", y[60]))
    for k in range(50, 60):
        live.label(f"open {k}", y[k])
    out = []
    for k in range(70, 90):
        out.append(live.forecast(records[k], id=f"new {k}"))
        live.label(f"new {k}", y[k])
    assert live.monitor is not None
    found.add(**stacked(out), status=labels_of(live), sizes=live.monitor.sizes(), settings=live.settings)
    return found.add(**certified(live.certificate()))


def make_live_held(path: Path) -> None:
    records, y, time = _shop(60)
    live = Live(scores=[], order="issue", patience=30, lifetime=40.0)
    numbers = [{"price": record["price"]} for record in records]
    for k in range(40):
        live.forecast(numbers[k], id=k, time=float(time[k]), matures=float(time[k] + 8.0) if k % 3 else None)
        if k >= 4 and k % 2:
            live.label(k - 3, y[k - 3], time=float(time[k]))
    live.save(path)


def continue_live_held(path: Path) -> Flat:
    records, y, time = _shop(60)
    live, out = Live.load(path), []
    for k in range(40, 60):
        out.append(live.forecast({"price": records[k]["price"]}, id=k, time=float(time[k])))
        if live.is_open(k - 5):
            live.label_many([k - 5], [y[k - 5]], time=float(time[k]))
    return Flat().add(**stacked(out), status=labels_of(live), **certified(live.certificate()))


saved("live", make_live, continue_live)
saved("live_held", make_live_held, continue_live_held)


def make_refit(path: Path) -> None:
    from sklearn.tree import DecisionTreeClassifier

    from swapcal.live import Refit

    records, y, _ = _shop(80)
    refit = Refit(DecisionTreeClassifier(max_depth=2, random_state=0), first=30, growth=1.5)
    Live(models={"trees": refit}).run(records[:60], y[:60])
    refit.save(path)


def continue_refit(path: Path) -> Flat:
    from sklearn.tree import DecisionTreeClassifier

    from swapcal.live import Refit

    records, y, _ = _shop(80)
    refit = Refit.load(path, DecisionTreeClassifier(max_depth=2, random_state=0))
    out = []
    for k in range(60, 80):
        out.append(refit.forecast(records[k]))
        refit.learn(records[k], None, None, y[k])
    return Flat().add(forecast=np.array(out), labels=refit.labels, fits=refit.status().fits)


saved("refit", make_refit, continue_refit, "sklearn")


def make_contexts(path: Path) -> None:
    records, _, _ = _shop(60)
    made = Contexts(groups=["city"], products=[("city", "channel")], fourier=2)
    made(records[:40])
    state = made.to_state()
    manifest = np.frombuffer(json.dumps(state.manifest).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, __manifest__=manifest, **state.arrays)


def continue_contexts(path: Path) -> Flat:
    records, _, _ = _shop(60)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    manifest = json.loads(arrays.pop("__manifest__").tobytes())
    made = Contexts.from_state(type(Contexts().to_state())(arrays, manifest))
    return Flat().add(x=made(records[40:]), names=list(made.names))


saved("contexts", make_contexts, continue_contexts)


# -------------------------------------------------------------------------------------------------------------- tables


def _table() -> tuple[Any, Any]:
    u = uniforms(73, 620, 5)
    X = np.round(np.column_stack([2 * u[:, 0] - 1, u[:, 1] * u[:, 1], np.floor(3 * u[:, 2])]), 4)
    return X, (u[:, 3] < 0.15 + 0.1 * u[:, 0] + 0.6 * ((X[:, 0] > 0.0) == (u[:, 1] > 0.5))).astype(int)


def _model(correction: str) -> tuple[Callable[[Path], None], Callable[[Path], Flat]]:
    def make(path: Path) -> None:
        from swapcal import SwapClassifier

        X, y = _table()
        fitted = SwapClassifier(groups=[2], random_state=0, correction=correction, snapshots=3).fit(X[:600], y[:600])
        fitted.model_.save(path)

    def go_on(path: Path) -> Flat:
        from swapcal import SwapClassifier

        X, y = _table()
        kind = type(SwapClassifier(random_state=0, correction="linear", snapshots=1).fit(X[:40], y[:40]).model_)
        model = kind.load(path)
        levels = model.issue(X[600:])
        return Flat().add(mean=model.mean(X[600:]), p=levels.p, **certified(model.certificate))

    return make, go_on


saved("model", *_model("linear"), "sklearn")
saved("model_trees", *_model("trees"), "sklearn", "lightgbm")


# ------------------------------------------------------------------------------------------------------ audit, monitor


def make_audit(path: Path) -> None:
    given = predictions(74, 200)
    rows = _of(given, slice(0, 180))
    Audit.from_features(**rows, levels=8, title="Kept", intersections=2).save(path)


def continue_audit(path: Path) -> Flat:
    audit = Audit.load(path)
    audit.add(**_of(predictions(74, 200), slice(180, 200)))
    return Flat().add(findings=plain(audit.to_json()))


def _of(given: dict[str, Any], part: slice) -> dict[str, Any]:
    features = {name: given["features"][name][part] for name in ("age", "city")}
    groups = {name: column[part] for name, column in given["groups"].items()}
    return {"p": given["p"][part], "y": given["y"][part], "features": features, "groups": groups}


saved("audit", make_audit, continue_audit)


def make_monitor(path: Path) -> None:
    given = predictions(75, 620)
    groups = {name: column[:600] for name, column in given["groups"].items()}
    monitor = Monitor(["shift", "region"], products=[("shift", "region")], run_length=2000)
    monitor.add(groups, given["p"][:600] * 0.8, given["y"][:600], given["time"][:600]).save(path)


def continue_monitor(path: Path) -> Flat:
    given = predictions(75, 620)
    groups = {name: column[600:] for name, column in given["groups"].items()}
    monitor = Monitor.load(path).add(groups, given["p"][600:], given["y"][600:], given["time"][600:])
    return Flat().add(summary=monitor.summary())


saved("monitor", make_monitor, continue_monitor)


# ------------------------------------------------------------------------------------------------------------- service


def make_service(path: Path) -> None:
    from swapcal import Client

    records, y, _ = _shop(70)
    with served(path) as url, Client(url) as client:
        client.create("shop", groups=["city"])
        for k in range(50):
            client.forecast("shop", records[k], id=f"o{k}")
            if k % 5:
                client.outcome("shop", f"o{k}", y[k])


def continue_service(path: Path) -> Flat:
    from swapcal import Client

    records, y, _ = _shop(70)
    out = []
    with served(path) as url, Client(url) as client:
        became = [client.outcome("shop", f"o{k}", y[k]) for k in range(0, 50, 5)]
        for k in range(50, 70):
            out.append(client.forecast("shop", records[k], id=f"o{k}"))
            client.outcome("shop", f"o{k}", y[k])
    return Flat().add(**stacked(out), became=became)


saved("service", make_service, continue_service, *SERVICE)
