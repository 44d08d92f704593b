"""Curves of several runs over each other, by step or by time."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.tui.charts.axis import framed, inner_size
from gradscope.tui.charts.cells import Row
from gradscope.tui.charts.lines import Curve, dots_per_cell, lines
from gradscope.tui.charts.scale import Quantity, highest, lowest, scale_for, usual_top
from gradscope.tui.charts.spread import Spread
from gradscope.tui.compare.reading import Series
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import message


@dataclass(frozen=True, slots=True)
class Kind:
    """What is drawn over what."""

    title: str
    values: str
    """Attribute of `Series`."""
    over: str
    """Attribute of `Series`."""
    quantity: Quantity


KINDS = (
    Kind("loss by step", "loss", "step", "number"),
    Kind("loss by time", "loss", "seconds", "number"),
    Kind("step time by step", "wall_ms", "step", "ms"),
    Kind("step time by time", "wall_ms", "seconds", "ms"),
)

FINE_SECONDS = 20.0
"""Below so many seconds the axis counts milliseconds."""


def overlaid(
    series: Sequence[Series],
    letters: str,
    kind: Kind,
    *,
    size: tuple[int, int],
    glyphs: Glyphs,
    logarithmic: bool = False,
) -> list[Row]:
    """Return a chart, exactly as large as asked for; each curve ends in its run's letter.

    Args:
        series: One a run.
        letters: One a run.
        kind: What to draw.
        size: Cells and rows.
        glyphs: Characters to draw with.
        logarithmic: Of the values' axis; for losses.
    """
    width, height = size
    inner_width, inner_height = inner_size(width, height)
    longest = max((getattr(one, kind.over)[-1] for one in series if len(one.step)), default=0.0)
    if inner_width < 4 or inner_height < 2 or longest <= 0:
        return message("no measured step to draw" if longest <= 0 else "", width, height, glyphs)
    by_time = kind.over == "seconds"
    unit = 1000.0 if by_time and longest < FINE_SECONDS else 1.0
    caption = ("ms" if unit > 1 else "s") if by_time else "step"
    spread = Spread(0 if by_time else 1, max(1, math.ceil(longest * unit)), inner_width)
    dots = spread.wider(dots_per_cell(glyphs))
    columns = [binned(getattr(one, kind.over), getattr(one, kind.values), dots, unit) for one in series]
    curves = [
        Curve(f"curve_{index}", values, letter)
        for index, (values, letter) in enumerate(zip(columns, letters, strict=True))
    ]
    log = logarithmic and kind.values == "loss"
    top = highest(columns) if kind.values == "loss" else highest([[usual_top(values) for values in columns]])
    low = lowest(columns, above=0.0) if log else lowest(columns)
    scale = scale_for(low, top, kind.quantity, log=log, from_zero=kind.values != "loss")
    area = lines(curves, scale, inner_width, inner_height, glyphs)
    return framed(area, scale, glyphs, width=width, spread=spread, caption=caption)


def binned(over: Sequence[float], values: Sequence[float], spread: Spread, unit: float) -> list[float | None]:
    """Return the mean of the values in each column; where a column has none, the value before it."""
    found: list[float | None] = []
    start = 0
    before: float | None = None
    for column in range(spread.columns):
        if start >= len(over):
            found.append(None)
            continue
        end = bisect_right(over, _end(spread, column) / unit)
        there = [value for value in values[start:end] if not math.isnan(value)]
        if there:
            before = math.fsum(there) / len(there)
        found.append(before)
        start = end
    return found


def _end(spread: Spread, column: int) -> float:
    """Return the last place on the axis that a column covers."""
    last = spread.first + (column + 1) * spread.span / spread.columns
    return last - (1 if spread.first else 0) + 1e-9
