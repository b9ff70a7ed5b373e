"""`swapcal cite`: BibTeX for what was used."""

from typing import Annotated

import typer

from swapcal import __version__

BIBLIOGRAPHY: dict[str, tuple[str, dict[str, str]]] = {
    "swapcal": (
        "software",
        {
            "author": "{The swapcal authors}",
            "title": "swapcal: probability forecasts that stay calibrated for every subgroup and every decision",
            "version": __version__,
            "year": "2026",
        },
    ),
    "luo2025improved": (
        "article",
        {
            "author": "Luo, Haipeng and Senapati, Spandan and Sharan, Vatsal",
            "title": "Improved Bounds for Swap Multicalibration and Swap Omniprediction",
            "year": "2025",
        },
    ),
    "hazan2007logarithmic": (
        "article",
        {
            "author": "Hazan, Elad and Agarwal, Amit and Kale, Satyen",
            "title": "Logarithmic regret algorithms for online convex optimization",
            "journal": "Machine Learning",
            "volume": "69",
            "number": "2",
            "pages": "169--192",
            "year": "2007",
        },
    ),
    "blum2007external": (
        "article",
        {
            "author": "Blum, Avrim and Mansour, Yishay",
            "title": "From external to internal regret",
            "journal": "Journal of Machine Learning Research",
            "volume": "8",
            "number": "6",
            "year": "2007",
        },
    ),
    "foster1998asymptotic": (
        "article",
        {
            "author": "Foster, Dean P. and Vohra, Rakesh V.",
            "title": "Asymptotic calibration",
            "journal": "Biometrika",
            "volume": "85",
            "number": "2",
            "pages": "379--390",
            "year": "1998",
        },
    ),
    "foster2021forecast": (
        "article",
        {
            "author": "Foster, Dean P. and Hart, Sergiu",
            "title": "Forecast hedging and calibration",
            "journal": "Journal of Political Economy",
            "volume": "129",
            "number": "12",
            "pages": "3447--3490",
            "year": "2021",
        },
    ),
    "fishelson2025full": (
        "inproceedings",
        {
            "author": "Fishelson, M. and Kleinberg, R. and Okoroafor, P. and Leme, R.P. and Schneider, J. and Teng, Y.",
            "title": "Full swap regret and discretized calibration",
            "booktitle": "36th International Conference on Algorithmic Learning Theory",
            "year": "2025",
        },
    ),
    "luo2025simultaneous": (
        "article",
        {
            "author": "Luo, Haipeng and Senapati, Spandan and Sharan, Vatsal",
            "title": "Simultaneous swap regret minimization via {KL}-calibration",
            "journal": "arXiv preprint arXiv:2502.16387",
            "year": "2025",
        },
    ),
    "garg2024oracle": (
        "inproceedings",
        {
            "author": "Garg, Sumegha and Jung, Christopher and Reingold, Omer and Roth, Aaron",
            "title": "Oracle efficient online multicalibration and omniprediction",
            "booktitle": "Proceedings of the 2024 Annual ACM-SIAM Symposium on Discrete Algorithms (SODA)",
            "pages": "2725--2792",
            "year": "2024",
        },
    ),
    "ito2020tight": (
        "article",
        {
            "author": "Ito, Shinji",
            "title": "A tight lower bound and efficient reduction for swap regret",
            "journal": "Advances in Neural Information Processing Systems",
            "volume": "33",
            "pages": "18550--18559",
            "year": "2020",
        },
    ),
    "gupta2022online": (
        "inproceedings",
        {
            "author": "Gupta, Varun and Jung, Christopher and Noarov, Georgy and Pai, Mallesh M. and Roth, Aaron",
            "title": "Online multivalid learning: Means, moments, and prediction intervals",
            "booktitle": "13th Innovations in Theoretical Computer Science Conference (ITCS 2022)",
            "year": "2022",
        },
    ),
    "noarov2023high": (
        "article",
        {
            "author": "Noarov, Georgy and Ramalingam, Ramya and Roth, Aaron and Xie, Stephan",
            "title": "High-dimensional prediction for sequential decision making",
            "journal": "arXiv preprint arXiv:2310.17651",
            "year": "2023",
        },
    ),
    "ghuge2025improved": (
        "article",
        {
            "author": "Ghuge, R. and Muthukumar, V. and Singla, S.",
            "title": r"Improved and oracle-efficient online {$\ell_1$}-multicalibration",
            "year": "2025",
        },
    ),
    "okoroafor2025near": (
        "article",
        {
            "author": "Okoroafor, Princewill and Kleinberg, Robert and Kim, Michael P.",
            "title": "Near-optimal algorithms for omniprediction",
            "journal": "arXiv preprint arXiv:2501.17205",
            "year": "2025",
        },
    ),
    "hebert2018multicalibration": (
        "inproceedings",
        {
            "author": r"H{\'e}bert-Johnson, Ursula and Kim, Michael and Reingold, Omer and Rothblum, Guy",
            "title": "Multicalibration: Calibration for the (computationally-identifiable) masses",
            "booktitle": "International Conference on Machine Learning",
            "pages": "1939--1948",
            "year": "2018",
        },
    ),
    "gopalan2023swap": (
        "inproceedings",
        {
            "author": "Gopalan, Parikshit and Kim, Michael P. and Reingold, Omer",
            "title": "Swap agnostic learning, or characterizing omniprediction via multicalibration",
            "booktitle": "Thirty-seventh Conference on Neural Information Processing Systems",
            "year": "2023",
        },
    ),
    "globus2023multicalibration": (
        "inproceedings",
        {
            "author": "Globus-Harris, I. and Harrison, D. and Kearns, M. and Roth, A. and Sorrell, J.",
            "title": "Multicalibration as boosting for regression",
            "booktitle": "International Conference on Machine Learning",
            "pages": "11459--11492",
            "year": "2023",
        },
    ),
    "collina2025collaborative": (
        "article",
        {
            "author": "Collina, N. and Globus-Harris, I. and Goel, S. and Gupta, V. and Roth, A. and Shi, M.",
            "title": "Collaborative prediction: Tractable information aggregation via agreement",
            "journal": "arXiv preprint arXiv:2504.06075",
            "year": "2025",
        },
    ),
    "collina2026optimal": (
        "article",
        {
            "author": "Collina, N. and Lu, J. and Noarov, G. and Roth, A.",
            "title": "Optimal lower bounds for online multicalibration",
            "journal": "arXiv preprint arXiv:2601.05245",
            "year": "2026",
        },
    ),
}

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
    "hkrr": ("hebert2018multicalibration",),
    "gopalan": ("gopalan2023swap",),
    "lsboost": ("globus2023multicalibration",),
    "collaboration": ("collina2025collaborative",),
    "lower-bound": ("collina2026optimal",),
}


def cite(
    used: Annotated[
        list[str] | None, typer.Argument(help=f"What was used ({', '.join(USES)}), or all; the engine by default.")
    ] = None,
) -> None:
    """Print BibTeX entries for what was used."""
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
    kind, fields = BIBLIOGRAPHY[key]
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
