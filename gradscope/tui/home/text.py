"""Text in a number of cells: cut, padded, and numbers short enough for a column."""

import math

from gradscope.core.text import display_width, visible
from gradscope.core.units import BINARY_UNITS, MISSING


def fitted(text: str, width: int, ellipsis: str, *, right: bool = False) -> str:
    """Return foreign text in exactly `width` cells, control characters written out, its end cut where it is longer."""
    if width <= 0:
        return ""
    shown = visible(text)
    if display_width(shown) > width:
        shown = _cut(shown, width - display_width(ellipsis)) + ellipsis
        shown = _cut(shown, width)
    padding = " " * (width - display_width(shown))
    return padding + shown if right else shown + padding


def _cut(text: str, width: int) -> str:
    while display_width(text) > max(0, width):
        text = text[: max(0, min(len(text) - 1, width))] if display_width(text) > 2 * width + 2 else text[:-1]
    return text


def short_seconds(seconds: float | None) -> str:
    """Return a duration in one unit, at most 6 cells: `5.9 s`, `42 s`, `12 min`, `6 h`, `9 days`."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    for unit, unit_seconds in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 1.95 * unit_seconds:
            return f"{seconds / unit_seconds:.0f} {unit}"
    return f"{seconds:.0f} s"


def clock(seconds: float | None) -> str:
    """Return a time left as a clock shows it, always as wide while it runs down an hour: `0:05`, `12:30`, `3:05:00`."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def short_bytes(size_bytes: float | None) -> str:
    """Return a size with two digits, at most 7 cells: `33 MiB`, `4.3 GiB`."""
    if size_bytes is None or not math.isfinite(size_bytes):
        return MISSING
    scaled, step = float(size_bytes), 0
    while step < len(BINARY_UNITS) - 1 and round(scaled) >= 1000:
        scaled, step = scaled / 1024, step + 1
    digits = f"{scaled:.1f}" if 0 < scaled < 9.95 and step else f"{scaled:.0f}"
    return f"{digits} {BINARY_UNITS[step]}"
