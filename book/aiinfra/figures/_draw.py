"""Numbers, scales and text for the figures' static pictures.

Every function here has a twin of the same name (in camelCase) in ``js/common.js``. The
picture in a PDF and the picture on a page are then the same string for the same state,
which the tests assert; so a change here is a change there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def pow10(exponent: int) -> float:
    """10^exponent, parsed from text: exactly the same double in every language."""
    return float(f"1e{exponent}")


def exponent10(value: float) -> int:
    """Decimal exponent of a non-zero number: 2 for 123.0, -3 for 0.00123."""
    return int(f"{abs(value):.16e}".split("e")[1])


def fixed(value: float) -> str:
    """A coordinate in px with at most one decimal; ties go up, as in JavaScript."""
    tenths = math.floor(value * 10 + 0.500001)
    return f"{tenths / 10:.1f}".removesuffix(".0") if tenths else "0"


def _decimal(value: float, decimals: int) -> str:
    """A number with that many decimals, thousands separated by commas."""
    digits = str(math.floor(abs(value) * pow10(decimals) + 0.5)).zfill(decimals + 1)
    whole, part = digits[: len(digits) - decimals], digits[len(digits) - decimals :]
    text = f"{int(whole):,}" + (f".{part}" if part else "")
    return f"−{text}" if value < 0 and digits.strip("0") else text


def _significant(value: float, digits: int, strip: bool) -> str:
    if value == 0:
        return "0"
    exponent = exponent10(value)
    if exponent < -3 or exponent > 6:
        mantissa = _significant(value / pow10(exponent), digits, strip)
        return f"{mantissa}×10{str(exponent).translate(_SUPERSCRIPT)}"
    text = _decimal(value, max(0, digits - 1 - exponent))
    return text.rstrip("0").rstrip(".") if strip and "." in text else text


def reading(value: float) -> str:
    """A value read off a curve: three significant digits, integers kept whole."""
    return _significant(value, 3, False) if math.isfinite(value) else "–"


def num(value: float) -> str:
    """A stated value (tick, slider): up to four significant digits, no zeros after."""
    if not math.isfinite(value):
        return "–"
    if value == math.floor(value) and abs(value) < 1e7:
        return _decimal(value, 0)
    return _significant(value, 4, True)


def with_unit(text: str, unit: str) -> str:
    """``12 ms``; just ``12`` where there is no unit."""
    return f"{text} {unit}" if unit else text


def linear_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round values from ``low`` to ``high``, about ``most`` at most, with labels."""
    raw = (high - low) / max(1, most)
    base = pow10(exponent10(raw))
    lead = raw / base
    times = 1 if lead <= 1 else 2 if lead <= 2 else 5 if lead <= 5 else 10
    step = times * base
    decimals = max(0, -exponent10(step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = [i * step for i in range(first, last + 1)]
    if exponent10(max(abs(low), abs(high))) > 6 or decimals > 4:
        return [(v, num(v)) for v in ticks]
    return [(v, _decimal(v, decimals)) for v in ticks]


def log_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Powers of ten from ``low`` to ``high``; 2 and 5 between where room allows."""
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    stride = math.ceil((last - first + 1) / max(1, most))
    ticks = []
    if stride <= 1 and (last - first + 2) * 3 <= most + 2:
        for exponent in range(first - 1, last + 1):
            for lead in (1, 2, 5):
                value = lead * pow10(exponent)
                if low * (1 - 1e-9) <= value <= high * (1 + 1e-9):
                    ticks.append((value, num(value)))
        if len(ticks) < 2:
            return linear_ticks(low, high, most)
        return ticks
    for exponent in range(first, last + 1, max(1, stride)):
        plain = -3 <= exponent <= 4
        label = (
            num(pow10(exponent))
            if plain
            else "10" + str(exponent).translate(_SUPERSCRIPT)
        )
        ticks.append((pow10(exponent), label))
    return ticks if len(ticks) > 1 else linear_ticks(low, high, most)


def position(
    value: float, low: float, high: float, start: float, end: float, log: bool
) -> float:
    """Where ``value`` lies in px on an axis from ``start`` to ``end``."""
    if log:
        value, low, high = math.log10(value), math.log10(low), math.log10(high)
    return start + (end - start) * ((value - low) / (high - low))


def text_width(text: str, size: float = 12) -> float:
    """Estimated width of a text in px, a little generous, the same everywhere."""
    em = 0.0
    for char in text:
        if char in "iljtfrI.,:;'|!()[] -–·":
            em += 0.36
        elif char in "mwMW%@—→":
            em += 0.96
        elif char.isascii() and (char.isupper() or char.isdigit()):
            em += 0.64
        else:
            em += 0.6
    return em * size


def shorten(text: str, width: float, size: float = 12) -> str:
    """The text, or its beginning with an ellipsis, within ``width`` px."""
    if text_width(text, size) <= width:
        return text
    kept = ""
    for char in text:
        if text_width(kept + char + "…", size) > width:
            break
        kept += char
    return kept.rstrip(" ") + "…"


def wrap(text: str, width: float, size: float = 12) -> list[str]:
    """The text broken into lines of at most ``width`` px (estimated)."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def esc(text: str) -> str:
    """Text made safe inside SVG."""
    return (
        text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
    )


def label(
    x: float,
    y: float,
    text: str,
    size: float = 12,
    anchor: str = "start",
    extra: str = "",
) -> str:
    """One ``<text>`` in the colour of the page's text."""
    return (
        f'<text x="{fixed(x)}" y="{fixed(y)}" font-size="{fixed(size)}"'
        f' text-anchor="{anchor}"{extra}>{esc(text)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, extra: str = "") -> str:
    """One straight ``<path>`` in the colour of the page's text."""
    return (
        f'<path d="M{fixed(x1)} {fixed(y1)}L{fixed(x2)} {fixed(y2)}"'
        f' stroke="currentColor"{extra}/>'
    )


def rect(x: float, y: float, w: float, h: float, extra: str) -> str:
    """One ``<rect>``."""
    return (
        f'<rect x="{fixed(x)}" y="{fixed(y)}" width="{fixed(w)}"'
        f' height="{fixed(h)}"{extra}/>'
    )


def picture(
    width: float, height: float, alt: str, state: str, parts: Sequence[str]
) -> str:
    """The ``<svg>``: named by its alt text, described by its present values."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {fixed(width)}'
        f' {fixed(height)}" width="{fixed(width)}" height="{fixed(height)}"'
        f' style="max-width:100%;height:auto" role="img" aria-label="{esc(alt)}"'
        f' font-family="{FONT}" fill="currentColor"><title>{esc(state)}</title>'
        + "".join(parts)
        + "</svg>"
    )
