"""Recorded behaviour: forecasts, findings, the public interface and saved files are what they were.

A change that is meant to alter them says so and records them anew; see `make golden` in CONTRIBUTING.md.
"""

import json
from typing import Any

import numpy as np
import pytest

from tests.golden import api, saved
from tests.golden.cases import CASES, NEEDS, missing, versions
from tests.golden.record import API, DIGESTS, TEXTS, VALUES, digest, fingerprint
from tests.golden.trees import Flat

TOLERANCE = 1e-6
LOOSER = {"weight": 1e-4, "certificate": 1e-5}
"""Elsewhere: a weight is a mean's place between two levels some hundredths apart; psmcal_1 adds up square roots."""
PREFIX = {"forecaster_blum_mansour_ons_fast": 40, "forecaster_ons_fast_sine": 150}
"""Elsewhere: rows compared of streams on which a last bit grows from row to row; nothing else of them is compared."""
UNSTABLE = ("witnesses[].curve[]",)
"""Elsewhere not compared: how many points a witness's curve has can depend on a last bit."""
RECORDED: dict[str, Any] = json.loads(DIGESTS.read_text(encoding="utf-8"))
WORDS: dict[str, Any] = json.loads(TEXTS.read_text(encoding="utf-8"))
INTERFACE: dict[str, Any] = json.loads(API.read_text(encoding="utf-8"))
MOST_SHOWN = 60

assert saved.SAVED, "the import lists the continuations of saved files among the cases"


def recorded_arrays(name: str) -> dict[str, Any]:
    with np.load(VALUES) as file:
        values = file[name]
    found, start = {}, 0
    for array, shape in json.loads(RECORDED["cases"][name]["shapes"]).items():
        size = int(np.prod(shape))
        found[array], start = values[start : start + size].reshape(shape), start + size
    return found


def number_faults(name: str, found: Flat, *, exact: bool) -> list[str]:
    """Return a line for each array that differs: its name, the first row that does, and both values.

    On the recording machine bits must agree (`exact`); elsewhere numbers, up to a tolerance.
    """
    recorded, lines = recorded_arrays(name), []
    for array in sorted({*recorded, *found.numbers}):
        if array not in found.numbers or array not in recorded:
            lines.append(f"{name}: {array}: {'missing now' if array in recorded else 'not recorded'}")
            continue
        old, new = recorded[array], found.numbers[array]
        if not exact:
            if any(part in array for part in UNSTABLE) or (name in PREFIX and len(old) <= PREFIX[name]):
                continue
            old, new = old[: PREFIX.get(name)], new[: PREFIX.get(name)]
        if old.shape != new.shape:
            lines.append(f"{name}: {array}: shape {new.shape}, recorded {old.shape}")
            continue
        same = _same_bits(old, new) if exact else _close(array, old, new)
        if not same.all():
            at = tuple(int(k) for k in np.argwhere(~same)[0])
            lines.append(
                f"{name}: {array}: first differs in row {at[0] if len(at) == 1 else at} of {len(old)}: "
                f"{float(new[at])!r}, recorded {float(old[at])!r}; {np.count_nonzero(~same)} values differ"
            )
    return lines


def _close(array: str, old: Any, new: Any) -> Any:
    allowed = max([TOLERANCE, *(each for part, each in LOOSER.items() if part in array)])
    return np.isclose(new, old, rtol=allowed, atol=allowed, equal_nan=True)


def _same_bits(old: Any, new: Any) -> Any:
    return (np.isnan(old) & np.isnan(new)) | (old.view(np.uint64) == np.ascontiguousarray(new).view(np.uint64))


def text_faults(name: str, found: Flat) -> list[str]:
    recorded, lines = WORDS.get(name, {}), []
    for path in sorted({*recorded, *found.texts}):
        old, new = recorded.get(path, []), found.texts.get(path, [])
        for row in range(max(len(old), len(new))):
            before, after = (each[row] if row < len(each) else "(none)" for each in (old, new))
            if before != after:
                lines.append(f"{name}: {path}: first differs in row {row}: {after!r}, recorded {before!r}")
                break
    return lines


def check_interface(recorded: Any, found: Any) -> None:
    lines = api.differences(recorded, found)
    more = [f"… and {len(lines) - MOST_SHOWN} more lines"] if len(lines) > MOST_SHOWN else []
    heading = "the public interface differs from api.json, which `make golden PARTS=api` records anew"
    assert not lines, "\n".join([f"{heading}:", *lines[:MOST_SHOWN], *more])


@pytest.mark.parametrize("name", sorted(CASES))
def test_forecasts_and_findings_are_as_recorded(name: str) -> None:
    if (package := missing(name)) is not None:
        pytest.skip(f"needs {package}")
    assert name in RECORDED["cases"], f"{name}: not recorded; make golden"
    here = versions()
    others = [each for each in NEEDS[name] if here.get(each) != RECORDED["versions"].get(each)]
    if others:
        pytest.skip(f"recorded with another version of {', '.join(others)}")
    found = CASES[name]()
    exact = fingerprint() == RECORDED["fingerprint"]
    lines = number_faults(name, found, exact=exact) + text_faults(name, found)
    assert not lines, "\n".join(lines)
    if exact:
        assert digest(found) == RECORDED["cases"][name]["sha256"], f"{name}: the digest differs"


def test_no_recorded_case_is_lost() -> None:
    assert sorted(RECORDED["cases"]) == sorted(CASES)
    unlisted = {*INTERFACE["names"]} - {*api.LISTED, *api.NAMED}
    assert not unlisted, f"recorded in api.json, and no longer compared: {unlisted}"
    assert sorted(path.name for path in saved.FOLDER.iterdir()) == sorted(f"{name}.gz" for name in saved.SAVED)


def test_the_public_names_are_as_recorded() -> None:
    found = {module: api.described(module, names) for module, names in _importable().items()}
    check_interface({module: INTERFACE["names"][module] for module in found}, found)
    check_interface(INTERFACE["returned"], json.loads(json.dumps(api.returned())))


def _importable() -> dict[str, Any]:
    """Return the names of the modules that were recorded and can be imported here."""
    listed = {module: (None, needs) for module, needs in api.LISTED.items()} | api.NAMED
    return {
        module: api.exported(module) if names is None else names
        for module, (names, needs) in listed.items()
        if api.installed(needs) and module in INTERFACE["names"]
    }


def test_the_commands_are_as_recorded() -> None:
    for package in ("typer", "rich", "pyarrow"):
        pytest.importorskip(package)
    check_interface(INTERFACE["commands"], json.loads(json.dumps(api.commands())))


def test_the_messages_of_the_service_are_as_recorded() -> None:
    for package in api.SERVICE:
        pytest.importorskip(package)
    check_interface(INTERFACE["service"], api.service())


def test_the_keys_of_findings_are_as_recorded() -> None:
    check_interface(INTERFACE["findings"], api.findings())


# ------------------------------------------------------------------------------- the checks themselves see a difference


def test_a_changed_last_bit_is_named() -> None:
    found = Flat().add(**recorded_arrays("forecaster_run"))
    assert number_faults("forecaster_run", found, exact=True) == []
    assert digest(found) == RECORDED["cases"]["forecaster_run"]["sha256"]
    found.numbers["mean"][17] = np.nextafter(found.numbers["mean"][17], 1.0)
    (line,) = number_faults("forecaster_run", found, exact=True)
    assert line.startswith("forecaster_run: mean: first differs in row 17 of 1200: ")
    assert digest(found) != RECORDED["cases"]["forecaster_run"]["sha256"]
    assert number_faults("forecaster_run", found, exact=False) == []
    found.numbers["mean"][17] += 1e-5
    assert len(number_faults("forecaster_run", found, exact=False)) == 1
    del found.numbers["p"]
    assert number_faults("forecaster_run", found, exact=False)[-1] == "forecaster_run: p: missing now"


def test_a_changed_word_and_a_changed_default_are_named() -> None:
    found = Flat()
    found.texts = {path: list(words) for path, words in WORDS["monitor"].items()}
    assert text_faults("monitor", found) == []
    path = sorted(found.texts)[0]
    found.texts[path][0] += "!"
    assert text_faults("monitor", found)[0].startswith(f"monitor: {path}: first differs in row 0: ")
    other = json.loads(json.dumps(INTERFACE["names"]["swapcal"]))
    other["Live"]["signature"] = other["Live"]["signature"].replace("kappa=0.05", "kappa=0.06")
    del other["Audit"]["members"]["save"]
    with pytest.raises(AssertionError, match=r"kappa=0\.06"):
        check_interface(INTERFACE["names"]["swapcal"], other)
    assert any(
        line.startswith("- Audit > members > save") for line in api.differences(INTERFACE["names"]["swapcal"], other)
    )
