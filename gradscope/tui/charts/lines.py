"""Curves in braille, two values a cell; in ASCII one value a cell and a character of its own for each curve.

Use:

    seen = bins.view(spread, dots_per_cell(glyphs))
    area = lines([Curve("loss", seen.mean("loss"))], scale, width, height, glyphs, cursor=column)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan

from gradscope.tui.charts.cells import Canvas, Row
from gradscope.tui.charts.scale import Scale
from gradscope.tui.glyphs import Glyphs

BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character, by row from the top and by column."""

ASCII_CURVES = "*+ox#@"
"""Characters of curves where there is no braille."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve."""

    role: str
    """Of the palette."""
    values: Sequence[float | None]
    """`dots_per_cell` a column; `None` leaves a gap."""
    name: str = ""
    """One character that stands at the curve's end, where several curves must be told apart without colour."""


def dots_per_cell(glyphs: Glyphs) -> int:
    """Return how many values a curve has for each column."""
    return 2 if glyphs.unicode else 1


def lines(
    curves: Sequence[Curve],
    scale: Scale,
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    limit: float | None = None,
    cursor: int | None = None,
) -> list[Row]:
    """Return `height` rows, each `width` wide.

    Args:
        curves: The last one is drawn on top.
        scale: Linear or logarithmic; values beyond it run along its edge.
        width: Columns.
        height: Rows.
        glyphs: Characters to draw with.
        limit: A value to draw a line at, where the scale reaches it.
        cursor: Column to draw a vertical line at.
    """
    canvas = Canvas(width, height)
    if width < 1 or height < 1:
        return canvas.rows()
    if limit is not None and scale.holds(limit):
        y = (height * 4 - 1 - round(scale.share(limit) * (height * 4 - 1))) // 4
        for x in range(width):
            canvas.put(x, y, "╌" if glyphs.unicode else "-", "limit")
    if cursor is not None:
        for y in range(height):
            canvas.put(cursor, y, glyphs.cursor, "cursor")
    if glyphs.unicode:
        _braille(canvas, curves, scale)
    else:
        _ascii(canvas, curves, scale)
    for index, curve in enumerate(curves):
        if curve.name:
            _name(canvas, curve, scale, dots_per_cell(glyphs), index)
    return canvas.rows()


def _braille(canvas: Canvas, curves: Sequence[Curve], scale: Scale) -> None:
    bits: dict[tuple[int, int], int] = {}
    for curve in curves:
        for dot, low, high in _strokes(curve.values, scale, canvas.height * 4, canvas.width * 2):
            for y in range(low, high + 1):
                cell = (dot // 2, y // 4)
                bits[cell] = bits.get(cell, 0) | DOTS[y % 4][dot % 2]
                canvas.put(*cell, chr(BRAILLE + bits[cell]), curve.role)


def _ascii(canvas: Canvas, curves: Sequence[Curve], scale: Scale) -> None:
    for index, curve in enumerate(curves):
        char = ASCII_CURVES[index % len(ASCII_CURVES)]
        for x, low, high in _strokes(curve.values, scale, canvas.height, canvas.width):
            for y in range(low, high + 1):
                canvas.put(x, y, char, curve.role)


def _strokes(values: Sequence[float | None], scale: Scale, height: int, width: int) -> list[tuple[int, int, int]]:
    """Return, for each value, the column and the rows that it covers: to halfway of both neighbours, without gaps."""
    at = [
        None if value is None or isnan(value) else height - 1 - round(scale.share(value) * (height - 1))
        for value in values[:width]
    ]
    low = {x: y for x, y in enumerate(at) if y is not None}
    high = dict(low)
    for left, right in pairwise(range(len(at))):
        before, after = at[left], at[right]
        if before is None or after is None or abs(before - after) < 2:
            continue
        middle = (before + after) // 2
        if after > before:
            high[left], low[right] = max(high[left], middle), min(low[right], middle + 1)
        else:
            low[left], high[right] = min(low[left], middle + 1), max(high[right], middle)
    return [(x, low[x], high[x]) for x in low]


def _name(canvas: Canvas, curve: Curve, scale: Scale, dots: int, index: int) -> None:
    """Put a curve's character into the cell after its last value."""
    there = [i for i, value in enumerate(curve.values[: canvas.width * dots]) if value is not None]
    if not there:
        return
    value = curve.values[there[-1]]
    if value is None:
        return
    x = min(canvas.width - 1, there[-1] // dots + 1)
    y = canvas.height - 1 - round(scale.share(value) * (canvas.height - 1))
    canvas.put(x, y, curve.name[:1], f"bold {curve.role}")
