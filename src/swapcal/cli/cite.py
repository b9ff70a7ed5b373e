"""`swapcal cite`: BibTeX for the methods used."""

import re
from functools import cache
from importlib.resources import files
from typing import Annotated

import typer

from swapcal import __version__

USES: dict[str, tuple[str, ...]] = {
    "engine": ("swapcal", "luo2025improved"),
    "audit": ("swapcal", "luo2025improved", "hebert2018multicalibration"),
    "batch": ("swapcal", "luo2025improved", "gopalan2023swap"),
    "decide": ("swapcal", "luo2025improved", "okoroafor2025near"),
    "blum-mansour-ons": ("luo2025improved", "blum2007external", "hazan2007logarithmic"),
    "foster-vohra": ("foster1998asymptotic",),
    "foster-hart": ("foster2021forecast",),
    "fishelson": ("fishelson2025full",),
    "luo-kl": ("luo2025simultaneous",),
    "garg-ito": ("garg2024oracle", "ito2020tight"),
    "groups": ("gupta2022online", "noarov2023high", "ghuge2025improved"),
    "okoroafor": ("okoroafor2025near",),
    "hu-luo": ("hu2026efficient",),
    "hkrr": ("hebert2018multicalibration",),
    "gopalan": ("gopalan2023swap",),
    "lsboost": ("globus2023multicalibration",),
    "collaboration": ("collina2025collaborative",),
    "lower-bound": ("collina2026optimal",),
}


def cite(
    used: Annotated[
        list[str] | None, typer.Argument(help=f"Methods used ({', '.join(USES)}), or all; default: engine.")
    ] = None,
) -> None:
    """Print BibTeX entries for the methods used."""
    names = used or ["engine"]
    unknown = [name for name in names if name not in USES and name != "all"]
    if unknown:
        typer.echo(f"swapcal cite: given {unknown[0]!r}, expected all or any of {', '.join(USES)}", err=True)
        raise typer.Exit(2)
    wanted = [key for name in (USES if "all" in names else names) for key in USES[name]]
    typer.echo("\n\n".join(entry(key) for key in dict.fromkeys(wanted)))


def entry(key: str) -> str:
    """Return one BibTeX entry.

    Examples
    --------
    >>> print(entry("swapcal").splitlines()[0])
    @software{swapcal,
    """
    return bibliography()[key]


@cache
def bibliography() -> dict[str, str]:
    """Return every entry of citations.bib by its key."""
    text = (files("swapcal") / "citations.bib").read_text(encoding="utf-8").replace("{VERSION}", f"{{{__version__}}}")
    return {re.split("[{,]", each)[1]: each for each in text.strip().split("\n\n")}
