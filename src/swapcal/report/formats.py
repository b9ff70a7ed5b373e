"""Formats: how a number, a rate, a p-value or a symbol is written on the page."""

import math
import re
from collections.abc import Iterable

from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import Findings

DASH = "–"
"""Shown for a figure that does not exist."""
LARGEST = 1e300
"""Figures beyond this are treated as missing, so that differences of two figures stay finite."""
THIN = "\u202f"
"""Narrow space that does not break, between a number and its unit."""

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_IRREGULAR = {"quantity": "quantities", "loss": "losses", "smaller error": "smaller errors"}
_SYMBOL = re.compile(r"\b([A-Z][A-Za-z]*)_(\d|res)(?:\^(lin|aff))?(?!\w)")


def finite(value: float | None) -> float | None:
    """Return a usable figure, or None for None, NaN and anything too large to draw.

    >>> finite(2), finite(float("nan")), finite(None)
    (2.0, None, None)
    """
    if value is None or not math.isfinite(value) or abs(value) > LARGEST:
        return None
    return float(value)


def all_finite(values: Iterable[float | None]) -> list[float]:
    """Keep the usable figures.

    >>> all_finite([1, None, float("inf")])
    [1.0]
    """
    return [x for x in map(finite, values) if x is not None]


def clip(text: str, length: int) -> str:
    """Shorten a text that would swamp the page.

    >>> clip("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= length else text[: length - 1] + "…"


def clip_middle(text: str, length: int) -> str:
    """Shorten a long name so that both its ends, which tell names apart, stay.

    >>> clip_middle("feature = a very long value 17", 15)
    'feature…alue 17'
    """
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[: length - 1 - half]}…{text[-half:]}"


def counted(findings: Findings) -> str:
    """Return what is counted: rows, or their weight."""
    identity = findings["identity"]
    return "Rows" if identity["total_weight"] == identity["n"] else "Weight"


def count(value: float | None) -> str:
    """Write a number of rows, or a total weight.

    >>> count(61035), count(12.25), count(None)
    ('61,035', '12.2', '–')
    """
    x = finite(value)
    if x is None:
        return DASH
    if abs(x) >= 1e15:
        return figure(x)
    return f"{x:,.0f}" if x == round(x) or abs(x) >= 1000 else f"{x:,.1f}"


def figure(value: float | None, digits: int = 3) -> str:
    """Write a quantity with `digits` significant digits.

    >>> figure(0.012345), figure(12345.6), figure(-2.5), figure(3.2e-7), figure(0)
    ('0.0123', '12,346', '−2.50', '3.20 × 10⁻⁷', '0')
    """
    x = finite(value)
    if x is None:
        return DASH
    if x == 0:
        return "0"
    exponent = int(f"{x:.{digits - 1}e}".split("e")[1])
    if not -4 <= exponent < 9:
        return _scientific(x, digits)
    return minus(f"{x:,.{max(0, digits - 1 - exponent)}f}")


def _scientific(x: float, digits: int) -> str:
    mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
    return minus(f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}")


def minus(text: str) -> str:
    """Write a leading hyphen as a minus sign; nothing is minus zero.

    >>> minus("-0.5"), minus("-0.0")
    ('−0.5', '0.0')
    """
    return text.replace("-", "−" if re.search("[1-9]", text) else "", 1)


def decimals(rates: Iterable[float | None]) -> int:
    """Decimals that suit a column of percentages, from its largest rate.

    >>> decimals([0.5, 0.01]), decimals([0.004]), decimals([])
    (1, 2, 1)
    """
    largest = max(map(abs, all_finite(rates)), default=0.0)
    return 1 if largest == 0 or largest >= 0.05 else min(6, -math.floor(math.log10(largest)) - 1)


def axis_decimals(span: float) -> int:
    """Decimals that keep the percentages of neighbouring ticks apart, of five.

    >>> axis_decimals(1.0), axis_decimals(0.02), axis_decimals(0.0)
    (0, 1, 9)
    """
    return max(0, math.ceil(-math.log10(max(100 * span / 5, 1e-9)) - 1e-9))


def tick(value: float, step: float) -> str:
    """Write an axis label with the decimals its step needs.

    >>> tick(0.1, 0.05), tick(0.0, 0.05), tick(2000.0, 1000.0), tick(4e-7, 2e-7)
    ('0.10', '0', '2,000', '4.00 × 10⁻⁷')
    """
    if value == 0:
        return "0"
    if not 1e-5 <= step < 1e9:
        return figure(value)
    return minus(f"{value:,.{max(0, math.ceil(-math.log10(step) - 1e-9))}f}")


def percent(rate: float | None, places: int = 1) -> str:
    """Write a rate as a percentage.

    >>> percent(0.4964), percent(0.0048, 2), percent(None)
    ('49.6\u202f%', '0.48\u202f%', '–')
    """
    x = finite(rate)
    return DASH if x is None else minus(f"{100 * x:,.{places}f}") + THIN + "%"


def points(gap: float | None, places: int = 1) -> str:
    """Write a signed difference of rates in percentage points.

    >>> points(0.031), points(-0.0204, 2), points(0.0)
    ('+3.1', '−2.04', '0.0')
    """
    x = finite(gap)
    if x is None:
        return DASH
    text = f"{100 * x:+,.{places}f}"
    return minus(text) if re.search("[1-9]", text) else text.lstrip("+-")


def p_value(value: float | None) -> str:
    """Write a p-value; the tails are bounds, not digits.

    >>> p_value(0.0002), p_value(0.0412), p_value(0.62), p_value(1.0)
    ('< 0.001', '0.041', '0.62', '> 0.99')
    """
    x = finite(value)
    if x is None:
        return DASH
    if x < 0.001:
        return "< 0.001"
    if x > 0.99:
        return "> 0.99"
    return f"{x:.3f}" if x < 0.0995 else f"{x:.2f}"


def symbol(name: str) -> Html:
    """Set the symbols of the theory with true sub- and superscripts.

    >>> symbol("SMCal_2 over F_1^lin")
    'SMCal<sub>2</sub> over F<sub>1</sub><sup>lin</sup>'
    """
    pieces: list[str] = []
    end = 0
    for match in _SYMBOL.finditer(name):
        base, low, high = match.groups()
        pieces += [name[end : match.start()], base, tag("sub", low), tag("sup", high) if high else ""]
        end = match.end()
    return join([*pieces, name[end:]])


def drawn_symbol(name: str) -> Html:
    """Set symbols inside a drawing, where sub- and superscripts are shifted pieces of text.

    >>> drawn_symbol("Cal_2 ·")
    'Cal<tspan dy="3" class="script">2</tspan><tspan dy="-3"> ·</tspan>'
    """
    pieces: list[str] = []
    end, shift = 0, 0
    for match in _SYMBOL.finditer(name):
        base, low, high = match.groups()
        pieces += [_shifted(name[end : match.start()] + base, -shift), _shifted(low, 3, "script")]
        pieces += [_shifted(high, -8, "script")] if high else []
        end, shift = match.end(), 3 - (8 if high else 0)
    return join([*pieces, _shifted(name[end:], -shift)])


def _shifted(text: str, dy: int, style: str | None = None) -> str:
    return tag("tspan", text, dy=dy, class_=style) if text and dy else text


def plain_symbol(name: str) -> str:
    """Write a symbol where no markup fits.

    >>> plain_symbol("SMCal_2")
    'SMCal₂'
    """
    return _SYMBOL.sub(lambda m: m[1] + m[2].translate(_SUBSCRIPTS) + (m[3] or ""), name)


def plural(number: float, noun: str) -> str:
    """Write a count with its noun.

    >>> plural(1, "group"), plural(1200, "group"), plural(2, "quantity")
    ('1 group', '1,200 groups', '2 quantities')
    """
    return f"{count(number)} {noun if number == 1 else _IRREGULAR.get(noun, noun + 's')}"
