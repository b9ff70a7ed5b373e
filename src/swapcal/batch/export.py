"""Export: a small file of arrays, and beside it the script that predicts from it with numpy alone."""

import json
import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from swapcal.archive.files import put_text, replacing
from swapcal.arrays import AnyArray
from swapcal.batch import standalone
from swapcal.batch.columns import Texts
from swapcal.batch.flat import Fitted, Flat, flatten
from swapcal.version import __version__

SCRIPT = "swapcal_predict.py"
"""Name of the copy of `swapcal.batch.standalone` beside an exported file."""

VERSION = 3
"""Of the file's layout; the script refuses others."""

SCORED = "none, or no probabilities", "those of the model it corrects"
UNSCORED = "some", "none: it was fitted without scores"
"""What scores are given and expected where they are refused."""

UPRIGHT = ("centre", "spread", "at_least", "at_most", "threshold", "turns", "knots", "floors", "ends")
"""Arrays with an axis for the rows of a table behind their own."""


def export(
    path: "str | os.PathLike[str]",
    models: Sequence[Fitted],
    *,
    classes: Sequence[Any] | None = None,
    outcomes: tuple[float, float] = (0.0, 1.0),
) -> Path:
    """Write models of one table, one for each of several classes, to `path`, and `swapcal_predict.py` beside it.

    The same models give the same bytes. The mean of the mixture is what the file predicts; the draws of modes "hash"
    and "sample" stay with swapcal.
    """
    columns, flats = flatten(models)
    parts = [_arrays(flat, len(columns) + k) for k, flat in enumerate(flats)]
    manifest = {
        "format": "swapcal-export",
        "version": VERSION,
        "made_by": f"swapcal {__version__}",
        "classes": None if classes is None else [_plain(value) for value in classes],
        "low": outcomes[0],
        "span": outcomes[1] - outcomes[0],
        "range": [models[0].least, 1.0 - models[0].least],
        "scored": flats[0].scored,
        "scores": SCORED if flats[0].scored else UNSCORED,
        "names": columns.names,
        "numbers": columns.numbers,
        "finite": len(columns.finite),
        "texts": [_spelt(texts) for texts in columns.texts],
        "parts": [{name: f"{k}.{name}" for name in part} for k, part in enumerate(parts)],
    }
    arrays = {f"{k}.{name}": array for k, part in enumerate(parts) for name, array in part.items()}
    room = BytesIO()
    np.savez_compressed(room, manifest=np.array(json.dumps(manifest)), **arrays)  # type: ignore[arg-type]
    target = Path(path)
    source = Path(standalone.__file__).read_text(encoding="utf-8")
    with replacing(target) as file:
        file.write(room.getvalue())
    put_text(target.with_name(SCRIPT), source)
    return target


def _arrays(flat: Flat, odds: int) -> dict[str, AnyArray]:
    """Return what the script needs, given the row of the scores' odds, if there are any."""
    arrays = flat.arrays | flat.questions.by_leaves() | {"odds": np.array([odds] if flat.scored else [], np.int64)}
    return {name: array[..., None] if name in UPRIGHT else array for name, array in arrays.items()}


def _spelt(texts: Texts) -> tuple[Any, dict[str, float], float]:
    keys = ("missing" if text is None else f"text {text}" for text in texts.numbers)
    return texts.name, dict(zip(keys, texts.numbers.values(), strict=True)), texts.other


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
