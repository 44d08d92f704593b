"""Stacked columns: one column a bin, one fill a category, so that the stack reads without colour.

Use:

    layers = [Layer(role, seen.mean(role), index) for index, role in enumerate(PHASE_ROLES)]
    area = stacked(layers, scale, width, height, glyphs, marks=seen.marks, limit=limit_bytes, cursor=column)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite

from gradscope.tui.charts.bins import Mark
from gradscope.tui.charts.cells import Canvas, Row
from gradscope.tui.charts.scale import Scale
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
    if limit is not None and scale.holds(limit):
        _line(canvas, _row_of(limit, scale, height), "╌" if glyphs.unicode else "-", "limit")
    for column in range(width):
        mark = marks[column] if column < len(marks) else Mark.MEASURED
        for level in levels:
            value = level.values[column] if column < len(level.values) else None
            if value is not None and scale.holds(value):
                canvas.put(column, _row_of(value, scale, height), glyphs.lower_eighths[:1] or "_", level.role)
        stack = [(layer, value) for layer in layers if (value := _value(layer, column)) > 0]
        if stack:
            _column(canvas, column, stack, scale, _Ink(glyphs, mark))
    if cursor is not None:
        for y in range(height):
            canvas.put(cursor, y, glyphs.cursor, "cursor")
    return canvas.rows()


@dataclass(frozen=True, slots=True)
class _Ink:
    """How the cells of one column look."""

    glyphs: Glyphs
    mark: Mark

    def full(self, layer: Layer) -> str:
        if self.mark is Mark.PROFILED:
            return self.glyphs.profiled
        return self.glyphs.fills[layer.fill % len(self.glyphs.fills)]

    def part(self, eighths: int) -> str:
        return self.glyphs.profiled if self.mark is Mark.PROFILED else self.glyphs.lower_eighths[eighths - 1]

    def style(self, layer: Layer) -> str:
        return f"dim {layer.role}" if self.mark is Mark.WARMUP else layer.role


def _value(layer: Layer, column: int) -> float:
    value = layer.values[column] if column < len(layer.values) else None
    return value if value is not None and isfinite(value) else 0.0


def _column(canvas: Canvas, x: int, stack: Sequence[tuple[Layer, float]], scale: Scale, ink: _Ink) -> None:
    """Fill one column from the bottom; each cell shows the layer that is in the middle of what is filled of it."""
    parts = len(ink.glyphs.lower_eighths) + 1
    ends = [
        (round(scale.share(end) * canvas.height * parts), layer)
        for end, (layer, _) in zip(accumulate(value for _, value in stack), stack, strict=True)
    ]
    total, top_layer = ends[-1]
    for row in range(-(-total // parts)):
        lower, upper = row * parts, min((row + 1) * parts, total)
        layer = next(layer for end, layer in ends if 2 * end >= lower + upper)
        char = ink.full(layer) if upper - lower == parts else ink.part(upper - lower)
        canvas.put(x, canvas.height - 1 - row, char, ink.style(layer))
    if sum(value for _, value in stack) > scale.high * (1 + 1e-9):
        canvas.put(x, 0, ink.glyphs.up, ink.style(top_layer))


def _row_of(value: float, scale: Scale, height: int) -> int:
    """Return the row in which a value lies, counted from the top."""
    return min(height - 1, max(0, height - 1 - int(scale.share(value) * height)))


def _line(canvas: Canvas, y: int, char: str, style: str) -> None:
    for x in range(canvas.width):
        canvas.put(x, y, char, style)
