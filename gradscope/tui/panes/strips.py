"""Thin charts below each other, each with a scale of its own and its exact figure beside it; and one bar a core."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.tui.charts.axis import inner_size, joined, label_cells, x_axis
from gradscope.tui.charts.bars import meter as bar_meter
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.charts.scale import Quantity, highest
from gradscope.tui.charts.stacked import Layer, stacked
from gradscope.tui.panes.base import Look, cut, fitted, in_ascii
from gradscope.tui.panes.chart import Line, Numbers, cursor_column, numbers_of, spread_in
from gradscope.tui.panes.legend import width_beside
from gradscope.tui.view import RunView

CORE_CELLS = 14
"""Least cells of one core's bar and figure."""


@dataclass(frozen=True, slots=True)
class Strip:
    """One thin chart."""

    name: str
    short: str
    """In at most 4 characters, for a narrow pane."""
    line: Line
    quantity: Quantity
    top: float | None
    """Where its scale ends; `None` grows with the values."""
    value: str
    details: tuple[str, ...] = ()
    """Told below each other where there is room, the most important first; else in one line."""
    warning: bool = False
    marked: Line | None = None
    """Columns in which this is above 0 are hatched."""


def draw_strips(view: RunView, strips: Sequence[Strip], size: tuple[int, int], look: Look) -> list[Row]:
    """Draw strips below each other, and the line of steps where there is a row for it."""
    width, height = size
    beside = width_beside(width)
    chart_width = width - beside
    spread = spread_in(view, chart_width, look)
    axis_rows = 1 if height > len(strips) else 0
    rows: list[Row] = []
    for number, strip in enumerate(strips):
        tall = (height - axis_rows) * (number + 1) // len(strips) - (height - axis_rows) * number // len(strips)
        rows += _strip(view, strip, (chart_width, beside, tall), look)
    if axis_rows:
        seen = look.kept.steps(view).view(spread)
        cells = label_cells(chart_width)
        line = x_axis(chart_width - cells, look.glyphs, spread=spread, marks=seen.marks, profiled=seen.profiled)
        rows.append(joined(fitted((), cells), line, fitted((), beside)))
    return rows


def _strip(view: RunView, strip: Strip, size: tuple[int, int, int], look: Look) -> list[Row]:
    width, beside, height = size
    glyphs = look.glyphs
    cells, inner = label_cells(width), inner_size(width, 2)[0]
    spread = spread_in(view, width, look)
    numbers = numbers_of(view, strip.line, spread, 1, look)
    scale = look.kept.scale(f"strip {strip.name}", strip.quantity).cover(
        highest([numbers]) if strip.top is None else strip.top / FULL
    )
    gap = 1 if height >= TALL else 0
    marks = [] if strip.marked is None else numbers_of(view, strip.marked, spread, 1, look)
    column = cursor_column(spread, look)
    area = stacked(_layers(strip, numbers, marks), scale, inner, height - gap, glyphs, cursor=column)
    known = strip.top is not None or any(numbers)
    top = strip.short if not beside else scale.label(scale.high, unit=True) if known else ""
    rows: list[Row] = []
    for number in range(height):
        first = number == gap
        label = in_ascii(top, glyphs)[: max(0, cells - 1)] if first else ""
        edge = glyphs.tick if first else glyphs.vertical
        axis = (Span(f"{label:>{cells - 1}}{edge}", "axis"),) if cells else ()
        plot = area[number - gap] if number >= gap else fitted((), inner)
        rows.append(joined(axis, plot, _words(strip, (number - gap, height - gap), beside, look)))
    return rows


FULL = 1.02
"""A scale leaves this much room above what it covers: 100 % ends at 100 %."""

TALL = 4
"""Height from which a strip leaves its first row blank, so that strips at their top do not touch."""


def _layers(strip: Strip, numbers: Numbers, marks: Numbers) -> list[Layer]:
    if not any(marks):
        return [Layer(strip.line.role, numbers, 0)]
    pairs = list(zip(numbers, marks, strict=True))
    return [
        Layer(strip.line.role, [None if mark else number for number, mark in pairs], 0),
        Layer("limit", [number if mark else None for number, mark in pairs], 2),
    ]


def _words(strip: Strip, place: tuple[int, int], width: int, look: Look) -> Row:
    """Return what stands beside one row of a strip; `place` is the row and how many there are."""
    row, rows = place
    if not width:
        return ()
    glyphs = look.glyphs
    if row == 0:
        value = in_ascii(strip.value, glyphs)
        name = cut(strip.name, width - 4 - len(value), glyphs)
        return fitted((Span("   "), Span(name.ljust(width - 4 - len(value))), Span(f" {value}")), width)
    details = strip.details if len(strip.details) < rows else (", ".join(strip.details),)
    if 0 < row <= len(details):
        detail = cut(in_ascii(details[row - 1], glyphs), width - 3, glyphs)
        return fitted((Span("   "), Span(detail, "warn" if strip.warning and row == 1 else "dim")), width)
    return fitted((), width)


def draw_cores(busy_pct: Sequence[float], width: int, look: Look) -> list[Row]:
    """Draw a bar a core where two lines hold them; else a block a core."""
    if not busy_pct:
        return []
    glyphs = look.glyphs
    in_line = max(1, width // CORE_CELLS)
    if len(busy_pct) <= 2 * in_line:
        lines = -(-len(busy_pct) // in_line)
        in_line = -(-len(busy_pct) // lines)
        rows = []
        for start in range(0, len(busy_pct), in_line):
            spans: list[Span] = []
            for number, busy in enumerate(busy_pct[start : start + in_line], start):
                cell = bar_meter(
                    f"core {number}", busy / 100, f"{busy:3.0f} %", width // in_line - 2, glyphs, role="cpu"
                )
                spans += [*cell, Span("  ")]
            rows.append(fitted(spans, width))
        return rows
    levels = f" {glyphs.lower_eighths}{glyphs.full}" if glyphs.unicode else "0123456789"
    blocks = "".join(levels[min(len(levels) - 1, int(busy / 100 * len(levels)))] for busy in busy_pct)
    label = f"{len(busy_pct)} cores "
    room = max(1, width - len(label))
    pieces = [blocks[start : start + room] for start in range(0, len(blocks), room)]
    return [
        fitted((Span(label if number == 0 else " " * len(label), "dim"), Span(piece, "cpu")), width)
        for number, piece in enumerate(pieces)
    ]
