"""Export: a small file of arrays, and beside it the script that predicts from it with numpy alone."""

import json
import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from swapcal.archive.files import put_text, replacing
from swapcal.batch import standalone
from swapcal.batch.flat import Fitted, Flat
from swapcal.version import __version__

SCRIPT = "swapcal_predict.py"
"""Name of the copy of `swapcal.batch.standalone` beside an exported file."""

VERSION = 2
"""Of the file's layout; the script refuses others."""


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
    flats = [Flat.of(model) for model in models]
    manifest = {
        "format": "swapcal-export",
        "version": VERSION,
        "made_by": f"swapcal {__version__}",
        "classes": None if classes is None else [_plain(value) for value in classes],
        "low": outcomes[0],
        "span": outcomes[1] - outcomes[0],
        "scored": flats[0].scored,
        "columns": list(dict.fromkeys(name for flat in flats for name in flat.names)),
        "parts": [flat.manifest for flat in flats],
    }
    arrays = {f"{k}.{name}": array for k, flat in enumerate(flats) for name, array in flat.arrays.items()}
    room = BytesIO()
    np.savez_compressed(room, manifest=np.array(json.dumps(manifest)), **arrays)  # type: ignore[arg-type]
    target = Path(path)
    source = Path(standalone.__file__).read_text(encoding="utf-8")
    with replacing(target) as file:
        file.write(room.getvalue())
    put_text(target.with_name(SCRIPT), source)
    return target


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
