"""What the file of a `Live` holds, and how its parts fit together."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from swapcal._validate import LEAST_RIDGE, MOST_RIDGE
from swapcal.archive import (
    OBJECT,
    TEXTS,
    TRUTH,
    Arrays,
    Field,
    Kind,
    Settings,
    State,
    addition,
    below,
    between,
    floats,
    integers,
    keys,
    octets,
    optional,
    part,
    real,
    rule_faults,
    whole,
)
from swapcal.engine import forecaster
from swapcal.features import contexts
from swapcal.kernels.encode import ENTRIES
from swapcal.kernels.experts import SAID
from swapcal.kernels.state import (
    CODES_ADAPTIVE,
    LEVELS,
    T_HIGH,
    T_LOW,
    T_RECENT,
    T_RECENT_HIGH,
    T_RECENT_LOW,
    T_SLOT_HIGH,
    T_SLOT_LOW,
    T_WEIGHT,
    TICKET,
    WINDOW,
    first_bad_context,
)
from swapcal.live import experts
from swapcal.live.experts import EXPERT_WEIGHT, expert_weights
from swapcal.live.validation import is_id, unpacked

OPEN_FORECASTS: dict[str, Field] = {
    "open.ticket": floats("open", "ticket"),
    "open.x": floats("open", "coordinates"),
    "open.keys": keys("open", "entries"),
    "open.values": floats("open", "entries"),
    "open.memory": floats("open", "memory"),
    "open.judged": floats("open", "experts"),
    "open.widths": integers("open"),
    "open.issued": integers("open"),
    "open.fingerprint": keys("open"),
    "open.since": integers("open"),
    "open.arrived": integers("open"),
    "open.time": floats("open", finite=False),
    "open.matures": floats("open", finite=False),
    "open.due": floats("open", finite=False),
    "open.y": floats("open", finite=False),
    "open.ids": octets("open names"),
    "labelled.ids": octets("labelled names"),
    "labelled.y": floats("labelled"),
    "expired.ids": octets("expired names"),
}
RULES = {
    "engine": OBJECT,
    "models": TEXTS,
    "limits": OBJECT,
    "patience": optional(whole(1)),
    "ledger": OBJECT,
    "contexts": OBJECT,
    "experts": OBJECT,
    "forecaster": optional(OBJECT),
    "watched": addition(TRUTH),
}
WATCHED: dict[str, Field] = {"monitor.state": octets("monitor"), "monitor.rows": octets("watched")}
ENGINE = {"ridge": between(LEAST_RIDGE, MOST_RIDGE), "kappa": real(0, above=True), "window": optional(real(1))}
LIMITS = {"max_open": whole(1), "expires": optional(whole(1)), "lifetime": optional(real(0, above=True))}
COUNTS = {
    "forecasts": whole(),
    "labels": whole(),
    "expiries": whole(),
    "delay": real(0),
    "wait": real(),
    "waits": whole(),
    "clock": optional(real()),
    "dated": optional(TRUTH),
}


def fields(settings: Settings) -> dict[str, Field]:
    """Return the arrays of all parts; before the first record there is no engine."""
    parts = below("contexts", contexts.FIELDS) | below("experts", experts.FIELDS) | OPEN_FORECASTS
    parts |= WATCHED if settings.get("watched") else {}
    own = settings["forecaster"]
    return parts if own is None else parts | below("forecaster", forecaster.FILE.fields(own))


def faults(arrays: Arrays, settings: Settings) -> Iterator[str]:
    """Yield what is wrong with a part, then what is wrong between them."""
    for rules, name in ((ENGINE, "engine"), (LIMITS, "limits"), (COUNTS, "ledger")):
        yield from rule_faults(rules, settings[name])
    whole_state = State(dict(arrays), dict(settings))
    yield from contexts.faults(*part(whole_state, "contexts"))
    yield from experts.faults(*part(whole_state, "experts"))
    own, models = settings["contexts"]["settings"], settings["models"]
    if len(own["scores"]) + len(models) != settings["experts"]["scores"]:
        yield f"scores: given {settings['experts']['scores']}, expected one for each score and model"
    reserved = expert_weights() | dict.fromkeys(models, EXPERT_WEIGHT)
    if own["reserved"] != [[*pair] for pair in reserved.items()]:
        yield "reserved: given other coordinates than the experts' and models', expected those"
    if settings["forecaster"] is not None:
        yield from _engine_faults(part(whole_state, "forecaster").arrays, settings)
    elif len(arrays["open.ticket"]):
        yield "forecaster: given none, expected the one that issued the open forecasts"
    yield from _id_faults(arrays, settings)
    yield from _open_faults(arrays, settings)


def _engine_faults(arrays: Arrays, settings: Settings) -> Iterator[str]:
    own = settings["forecaster"]
    yield from rule_faults(forecaster.RULES, own)
    if (own["learner"], own["mixing"]) != ("ridge", "hedge"):
        yield f"forecaster: given {own['learner']} and {own['mixing']}, expected ridge and hedge"
    if own["dim"] > len(settings["contexts"]["names"]):
        yield f"dim: given {own['dim']}, expected at most {len(settings['contexts']['names'])} coordinates"
    yield from forecaster.faults(arrays, own)
    if arrays["codes"][CODES_ADAPTIVE] != 1:
        yield "forecaster: given fixed levels, expected adaptive ones"
    if arrays["knobs"][WINDOW] != (settings["engine"]["window"] or 0.0):
        yield f"window: given {arrays['knobs'][WINDOW]:g}, expected {settings['engine']['window']}, that of the engine"


def _id_faults(arrays: Arrays, settings: Settings) -> Iterator[str]:
    ids: dict[str, list[Any]] = {name: unpacked(arrays[f"{name}.ids"]) for name in ("open", "labelled", "expired")}
    every = [id for names in ids.values() for id in names]
    if not all(map(is_id, every)) or len(set(every)) != len(every):
        yield "ids: given what is no id, or one twice, expected each once"
    if len(ids["open"]) != len(arrays["open.ticket"]) or len(ids["labelled"]) != len(arrays["labelled.y"]):
        yield "ids: given more or fewer than forecasts, expected one for each"
    if ((arrays["labelled.y"] < 0.0) | (arrays["labelled.y"] > 1.0)).any():
        yield "labelled.y: given a label outside [0, 1]"
    counts = settings["ledger"]
    if counts["labels"] + counts["expiries"] + len(ids["open"]) != counts["forecasts"]:
        yield f"ledger: given {counts}, expected forecasts to be labelled, expired or among the {len(ids['open'])} open"


def _open_faults(arrays: Arrays, settings: Settings) -> Iterator[str]:
    tickets, x, widths = arrays["open.ticket"], arrays["open.x"], arrays["open.widths"]
    if not len(tickets):
        return
    bank = arrays["experts.weights"].shape[1] + SAID
    judged = len(expert_weights()) + len(settings["models"])
    if (tickets.shape[1], arrays["open.memory"].shape[1], arrays["open.judged"].shape[1]) != (TICKET, bank, judged):
        yield "open: given tickets of another width, expected those of this engine"
    if arrays["open.keys"].shape[1] % ENTRIES or x.shape[1] > settings["forecaster"]["dim"]:
        yield "open: given more coordinates than the engine has, or half a column"
    if (widths < 1).any() or (widths > x.shape[1]).any() or first_bad_context(x) >= 0:
        yield "open.x: given what is no context, expected x_1 = ½ and ‖x‖ ≤ 1"
    issued = arrays["open.issued"]
    if issued[0] < 0 or issued[-1] >= settings["ledger"]["forecasts"] or (np.diff(issued) <= 0).any():
        yield "open.issued: given out of order, expected the order of forecasts"
    yield from _ticket_faults(tickets, arrays["forecaster.counts"], arrays["forecaster.z"])
    for name in ("time", "matures", "due"):
        if np.isinf(arrays[f"open.{name}"]).any():
            yield f"open.{name}: given an infinite time"
    y = arrays["open.y"]
    if ((y < 0.0) | (y > 1.0)).any():
        yield "open.y: given a label outside [0, 1]"
    yield from _turn_faults(arrays, settings["patience"], settings["ledger"]["forecasts"])


def _turn_faults(arrays: Arrays, patience: int | None, forecasts: int) -> Iterator[str]:
    arrived, since, matures = arrays["open.arrived"], arrays["open.since"], arrays["open.matures"]
    if not np.isin(arrived, (0, 1)).all() or np.isnan(arrays["open.y"][arrived == 1]).any():
        yield "open.arrived: given a label that came and is not there, expected 0 or 1, and a label with 1"
    if patience is None and np.isnan(matures[arrived == 1]).any():
        yield "open.matures: given none for a label that is held, expected when it matures"
    if (since < -1).any() or (since >= forecasts).any() or np.isnan(matures[since == -1]).any():
        yield "open.since: given what is no forecast, expected the one from which the age counts, or -1"


def _ticket_faults(tickets: Any, counts: Any, z: Any) -> Iterator[str]:
    n = int(counts[LEVELS])
    for slot, level in ((T_SLOT_LOW, T_LOW), (T_SLOT_HIGH, T_HIGH)):
        places = tickets[:, slot]
        if (places < 0.0).any() or (places >= n).any() or (places != np.floor(places)).any():
            yield f"open.ticket: given a level that does not exist, expected one of {n}"
            return
        if (z[places.astype(np.int64)] != tickets[:, level]).any():
            yield "open.ticket: given levels that the engine has elsewhere"
    chances = tickets[:, [T_WEIGHT, T_RECENT, T_RECENT_LOW, T_RECENT_HIGH]]
    if ((chances < 0.0) | (chances > 1.0)).any():
        yield "open.ticket: given a probability outside [0, 1]"


FILE = Kind("live", 6, RULES, fields, faults)
