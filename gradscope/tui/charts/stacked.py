"""Stacked columns: one column a bin, one fill a category, so that the stack reads without colour.

Use:

    layers = [Layer(role, seen.mean(role), index) for index, role in enumerate(PHASE_ROLES)]
    area = stacked(layers, scale, width, height, glyphs, marks=seen.marks, limit=limit_bytes, cursor=column)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import isfinite

from gradscope.tui.charts.cells import Canvas, Row
from gradscope.tui.charts.scale import Scale
from gradscope.tui.charts.spread import Mark
from gradscope.tui.glyphs import Glyphs


@dataclass(frozen=True, slots=True)
class Layer:
    """One category of a stack."""

    role: str
    """Of the palette."""
    values: Sequence[float | None]
    """One a column, in the unit of the scale's quantity; `None` where it is missing."""
    fill: int
    """Index into `Glyphs.fills`."""


@dataclass(frozen=True, slots=True)
class Level:
    """A value a column that is drawn as a short line and not stacked: a peak, what is reserved."""

    role: str
    values: Sequence[float | None]


def stacked(
    layers: Sequence[Layer],
    scale: Scale,
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    marks: Sequence[Mark] = (),
    levels: Sequence[Level] = (),
    limit: float | None = None,
    cursor: int | None = None,
) -> list[Row]:
    """Return `height` rows, each `width` wide; the upper edge of the uppermost one is the scale's end.

    Args:
        layers: From the bottom to the top.
        scale: Linear, from 0.
        width: Columns; values beyond are left out.
        height: Rows.
        glyphs: Characters to draw with.
        marks: By column: profiled ones are hatched, warm-up is dimmed.
        levels: Drawn above the stack where there is room.
        limit: Drawn as a line over the whole width where the scale reaches it.
        cursor: Column to draw a vertical line at.
    """
    canvas = Canvas(width, height)
    eighths = height * (len(glyphs.lower_eighths) + 1)
    if limit is not None and scale.holds(limit):
        _line(canvas, _row_of(limit, scale, height), "╌" if glyphs.unicode else "-", "limit")
    for column in range(width):
        mark = marks[column] if column < len(marks) else Mark.MEASURED
        for level in levels:
            value = level.values[column] if column < len(level.values) else None
            if value is not None and scale.holds(value):
                canvas.put(column, _row_of(value, scale, height), glyphs.lower_eighths[:1] or "_", level.role)
        stack = [(layer, value) for layer in layers if (value := _value(layer, column)) > 0]
        if not stack:
            continue
        tops = list(accumulate(value for _, value in stack))
        ends = tuple(round(scale.share(top) * eighths) for top in tops)
        cells = _column(ends, tuple((layer.role, layer.fill) for layer, _ in stack), glyphs, mark)
        for y, (char, style) in enumerate(cells, 1):
            canvas.put(column, height - y, char, style)
        if cells and tops[-1] > scale.high * (1 + 1e-9):
            canvas.put(column, 0, glyphs.up, cells[-1][1])
    if cursor is not None:
        for y in range(height):
            canvas.put(cursor, y, glyphs.cursor, "cursor")
    return canvas.rows()


def _value(layer: Layer, column: int) -> float:
    value = layer.values[column] if column < len(layer.values) else None
    return value if value is not None and isfinite(value) else 0.0


@lru_cache(4096)
def _column(
    ends: tuple[int, ...], layers: tuple[tuple[str, int], ...], glyphs: Glyphs, mark: Mark
) -> tuple[tuple[str, str], ...]:
    """Return the cells of one column from its bottom: characters and styles.

    Each shows the layer that is in the middle of what is filled of it. Columns are alike, and the same in every frame.

    Args:
        ends: Where each layer ends, in eighths of a cell, or in cells where there are no eighths.
        layers: Role and fill of each.
        glyphs: Characters to draw with.
        mark: What kind of steps it is of.
    """
    parts = len(glyphs.lower_eighths) + 1
    cells = []
    for lower in range(0, ends[-1], parts):
        upper = min(lower + parts, ends[-1])
        role, fill = layers[next(index for index, end in enumerate(ends) if 2 * end >= lower + upper)]
        if mark is Mark.PROFILED:
            char = glyphs.profiled
        elif upper - lower < parts:
            char = glyphs.lower_eighths[upper - lower - 1]
        else:
            char = glyphs.fills[fill % len(glyphs.fills)]
        cells.append((char, f"dim {role}" if mark is Mark.WARMUP else role))
    return tuple(cells)


def _row_of(value: float, scale: Scale, height: int) -> int:
    """Return the row in which a value lies, counted from the top."""
    return min(height - 1, max(0, height - 1 - int(scale.share(value) * height)))


def _line(canvas: Canvas, y: int, char: str, style: str) -> None:
    for x in range(canvas.width):
        canvas.put(x, y, char, style)
