"""The contents of the file of a `Live`, with the bounds that keep the kernels inside its arrays."""

import numpy as np

from swapcal._validate import LEAST_RIDGE, MOST_RIDGE
from swapcal.archive import (
    MOST_COUNT,
    OBJECT,
    TEXTS,
    TRUTH,
    ArchiveError,
    Field,
    Kind,
    Rule,
    Settings,
    Shapes,
    addition,
    below,
    between,
    check,
    counts,
    floats,
    inside,
    integers,
    keys,
    listed,
    octets,
    one_of,
    optional,
    parted,
    real,
    whole,
)
from swapcal.engine import forecaster, groups
from swapcal.features import contexts
from swapcal.kernels.encode import ENTRIES
from swapcal.kernels.experts import BESIDE, EXPERTS, ISSUED
from swapcal.kernels.state import T_SLOT_HIGH, T_SLOT_LOW, TICKET
from swapcal.live import experts
from swapcal.live.experts import FULL, SMALL, expert_weights
from swapcal.live.validation import LEAST_WEIGHT, MOST_WEIGHT

COUNT = whole(0, MOST_COUNT)
UNWEIGHTED = 4  # sums of each score in files from before they were by weight
ENGINE = {"ridge": between(LEAST_RIDGE, MOST_RIDGE), "kappa": real(0, above=True), "window": optional(real(1))}
LIMITS = {"max_open": whole(1), "expires": optional(whole(1)), "lifetime": optional(real(0, above=True))}
MATURITY = {
    "matures": optional(real(0)),
    "silence": optional(between(0, 1)),
    "burst": addition(optional(whole(1))),
    "in_seconds": addition(TRUTH),
}
LEDGER = {
    "forecasts": COUNT,
    "labels": COUNT,
    "expiries": COUNT,
    "delay": real(0),
    "wait": real(),
    "waits": COUNT,
    "clock": optional(real()),
    "dated": optional(TRUTH),
    "zoned": addition(optional(TRUTH)),
    "silences": addition(COUNT),
    "corrections": addition(COUNT),
    "ones": addition(real(0)),
    "weighted": addition(COUNT),
    "pairs": addition(listed(COUNT, 2, 2)),
    "unseen": addition(listed(real(0), 3, 3)),
}
FORECASTER = parted(forecaster.RULES | {"learner": one_of("ridge"), "mixing": one_of("hedge")})
GROUPS = parted(groups.RULES)
EITHER = Rule(f"{FORECASTER.expected}, or {GROUPS.expected}", lambda v: FORECASTER.holds(v) or GROUPS.holds(v))
HASHED = listed(Rule("one or two names of columns", lambda v: TEXTS.holds(v) and 1 <= len(v) <= 2), least=1)
ENDS = listed(real(), 2, 2)
RANGE = Rule("two numbers in increasing order", lambda v: ENDS.holds(v) and 0.0 < float(v[1]) - float(v[0]) < np.inf)
RULES = {
    "engine": parted(ENGINE),
    "models": TEXTS,
    "limits": parted(LIMITS),
    "maturity": addition(parted(MATURITY)),
    "belief": addition(OBJECT),
    "range": addition(RANGE),
    "patience": optional(whole(1)),
    "ledger": parted(LEDGER),
    "contexts": OBJECT,
    "experts": parted({"scores": COUNT}),
    "forecaster": optional(EITHER),
    "watched": addition(TRUTH),
    "compared": addition(TRUTH),
    "hashed": addition(HASHED),
    "size": addition(one_of(SMALL)),
}


def fields(settings: Settings, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of all parts; before the first record there is no engine, and nothing open."""
    encoded, engine, scores = settings["contexts"], settings["forecaster"], settings["experts"]["scores"]
    parts = below("contexts", contexts.fields(encoded))
    _check_sizes(settings)
    parts |= below("experts", experts.file_fields(scores, settings.get("size", FULL), inside("experts", shapes)))
    if engine is not None:
        own = forecaster if "hashed" not in settings else groups
        parts |= below("forecaster", own.fields(engine, inside("forecaster", shapes)))
    if "silences" in settings["ledger"]:
        parts |= {
            "silent.ids": octets("silent names"),
            "reports.ids": octets("report names"),
            "reports.of": floats("reports", 3),
            "delays.seen": counts("delays"),
            "delays.lost": counts("delays"),
            "delays.longest": counts("delays"),
            "pairs.halves": floats("pairs", 3, finite=False),
        }
    if settings.get("compared"):
        parts["score_sums"] = floats(scores, BESIDE if shapes["score_sums"][1:] == (BESIDE,) else UNWEIGHTED)
    if settings.get("watched"):
        parts |= {"monitor.state": octets("monitor"), "monitor.rows": octets("watched")}
    judged = len(expert_weights()) + len(settings["models"])
    if "weighted" in settings["ledger"]:
        open = 0 if engine is None else shapes["open.ticket"][0]
        parts["open.weight"] = floats(open, least=LEAST_WEIGHT, most=MOST_WEIGHT)
    dim = 0 if engine is None else engine.get("dim", len(encoded["names"]))
    if dim and "size" in settings:  # the engine of a small one does not see all coordinates
        dim = len(encoded["names"])
    last: str | int = "forecaster.levels"
    if "hashed" in settings:
        last = inside("forecaster", shapes)["z"][0] - 1
        parts["open.groups"] = keys(shapes["open.ticket"][0] if dim else 0, len(settings["hashed"]))
    return parts | _open_fields(shapes, dim, len(encoded["columns"]), scores, judged, last)


def _check_sizes(settings: Settings) -> None:
    """Refuse parts that are not about as many experts, models, scores and coordinates."""
    own, models, engine = settings["contexts"]["settings"], len(settings["models"]), settings["forecaster"]
    reserved = len(expert_weights(settings.get("size", FULL))) + models
    scores = len(own["scores"]) + models
    if engine is not None and ("hashed" in settings) == ("dim" in engine):
        raise ArchiveError("forecaster: given another engine than the settings name, expected the one saved")
    dim = 1 if engine is None else engine.get("dim", 1)
    if "hashed" in settings:
        columns = {*own["groups"], *own["categorical"]}
        sizes = {"columns": len(settings["hashed"]), "scores": 1 + scores}
        if [*settings.get("range", (0, 1))] != [0, 1]:
            raise ArchiveError("range: given with hashed groups, expected outcomes in [0, 1]")
        if not columns >= {name for names in settings["hashed"] for name in names} or (
            engine is not None and any(engine[name] != size for name, size in sizes.items())
        ):
            raise ArchiveError("hashed: given columns that are no groups, or not those of the engine, expected both")
    expected = {
        "reserved": whole(reserved, reserved),
        "scores": whole(scores, scores),
        "dim": whole(1, len(settings["contexts"]["names"])),
    }
    check(expected, {"reserved": len(own["reserved"]), "scores": settings["experts"]["scores"], "dim": dim})


def _open_fields(
    shapes: Shapes, dim: int, columns: int, scores: int, judged: int, last: "str | int"
) -> dict[str, Field]:
    """Return the arrays of open forecasts; the slots on their tickets are levels of the engine, up to the `last`."""
    open = shapes["open.ticket"][0] if dim else 0
    wide, entries = min(shapes["open.x"][1], dim), min(shapes["open.keys"][1], ENTRIES * columns)
    slots = {T_SLOT_LOW: last, T_SLOT_HIGH: last} if dim else {}
    return {
        "open.ticket": floats(
            open,
            TICKET,
            least=[0 if k in slots else -np.inf for k in range(TICKET)],
            most=[slots.get(k, np.inf) for k in range(TICKET)],
        ),
        "open.x": floats(open, wide),
        "open.keys": keys(open, entries),
        "open.values": floats(open, entries),
        "open.memory": floats(open, 1 + EXPERTS + scores + ISSUED),
        "open.judged": floats(open, judged),
        "open.widths": integers(open, least=1, most=wide),
        "open.issued": counts(open, rises=True),
        "open.fingerprint": keys(open),
        "open.since": counts(open, least=-1),
        "open.arrived": integers(open, least=0, most=1),
        "open.time": floats(open, finite=False),
        "open.matures": floats(open, finite=False),
        "open.due": floats(open, finite=False),
        "open.y": floats(open, finite=False),
        "open.ids": octets("open names"),
        "labelled.ids": octets("labelled names"),
        "labelled.y": floats("labelled", least=0, most=1),
        "expired.ids": octets("expired names"),
    }


FILE = Kind("live", 6, RULES, fields)
