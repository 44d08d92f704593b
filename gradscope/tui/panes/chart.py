"""Charts over the steps of a run, with axes and the cursor: what the memory, time and loss panes have in common."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gradscope.tui.charts.axis import framed, inner_size, joined
from gradscope.tui.charts.bins import Bins
from gradscope.tui.charts.cells import Row
from gradscope.tui.charts.lines import Curve, dots_per_cell, lines
from gradscope.tui.charts.scale import GrowingScale, highest, lowest, stacked_tops, usual_top
from gradscope.tui.charts.spread import Mark, Spread
from gradscope.tui.charts.stacked import Layer, Level, stacked
from gradscope.tui.panes.base import Look, message
from gradscope.tui.panes.kept import spread_of
from gradscope.tui.view import RunView

Numbers = Sequence[float | None]


def spread_in(view: RunView, width: int, look: Look) -> Spread:
    """Return how steps lie on a chart that is `width` cells wide, labels included."""
    return spread_of(view, look.kept.steps(view), max(1, inner_size(width, 2)[0]), look.window)


def cursor_column(spread: Spread, look: Look) -> int | None:
    """Return where the cursor stands; `None` where it is out of sight."""
    step = look.cursor
    return spread.column_of(step) if step is not None and spread.first <= step < spread.first + spread.span else None


def of_samples(spread: Spread) -> Spread:
    """Return the same columns for bins of samples, in which step n stands at n - 1."""
    return Spread(spread.first - 1, spread.span, spread.columns)


def carried(values: Numbers, used: int) -> list[float | None]:
    """Fill gaps up to column `used` with what comes after them: a sample stands for the time before it.

    Behind the last sample, with that one.
    """
    last = next((value for value in reversed(values) if value is not None), None)
    filled: list[float | None] = []
    for column, value in reversed(list(enumerate(values))):
        last = value if value is not None else last
        filled.append(last if column < used else None)
    return filled[::-1]


def stack_over_steps(
    view: RunView,
    layers: Mapping[str, Numbers],
    roles: Sequence[str],
    scale: GrowingScale,
    *,
    size: tuple[int, int],
    look: Look,
    levels: Sequence[Level] = (),
    limit: float | None = None,
    distorted: bool = True,
) -> list[Row]:
    """Return a chart of stacked columns.

    Args:
        view: The run.
        layers: Numbers by role, one a column of `spread_in`.
        roles: Roles from the bottom up; their index is that of the fill.
        scale: The axis, which grows as needed.
        size: Cells and rows, labels and the line of steps included.
        look: Cursor and window.
        levels: Numbers drawn as short lines above the stack.
        limit: A line across.
        distorted: Whether the profiler and the warm-up distort these numbers: then they are hatched and dimmed.
    """
    width, height = size
    inner_width, inner_height = inner_size(width, height)
    if inner_width < 1 or inner_height < 1:
        return message("", width, height, look.glyphs)
    spread = spread_in(view, width, look)
    seen = look.kept.steps(view).view(spread)
    shown = [Layer(role, layers[role], fill) for fill, role in enumerate(roles) if role in layers]
    tops = stacked_tops([layer.values for layer in shown]) if shown else []
    top = usual_top(tops) if distorted else highest([tops])
    axis = scale.cover(highest([[top], *(level.values for level in levels)]))
    marks = seen.marks if distorted else [Mark.MEASURED] * spread.columns
    column = cursor_column(spread, look)
    area = stacked(
        shown, axis, inner_width, inner_height, look.glyphs, marks=marks, levels=levels, limit=limit, cursor=column
    )
    return framed(area, axis, look.glyphs, width=width, spread=spread, marks=seen.marks, profiled=seen.profiled)


@dataclass(frozen=True, slots=True)
class Line:
    """One curve over steps."""

    role: str
    column: str
    """Of the bins."""
    bins: Callable[[RunView], Bins]
    samples: bool = False
    """Whether the bins are of samples, which stand at the step that was over, and which short steps share."""
    name: str = ""
    """One character at its end."""
    scaled: Callable[[Numbers, Numbers], list[float | None]] | None = None
    """Makes the curve's numbers from the column's and the steps' times in ms."""


def curves_over_steps(
    view: RunView,
    curves: Sequence[Line],
    scale: GrowingScale,
    *,
    size: tuple[int, int],
    look: Look,
    limit: float | None = None,
) -> list[Row]:
    """Return a chart of curves; see `stack_over_steps`. The axis reaches up to `limit` where that is given."""
    width, height = size
    inner_width, inner_height = inner_size(width, height)
    if inner_width < 1 or inner_height < 1:
        return message("", width, height, look.glyphs)
    spread = spread_in(view, width, look)
    of_steps = look.kept.steps(view)
    seen = of_steps.view(spread)
    dots = dots_per_cell(look.glyphs)
    drawn = [Curve(curve.role, numbers_of(view, curve, spread, dots, look), curve.name) for curve in curves]
    values = [curve.values for curve in drawn]
    low = lowest(values, above=0.0) if scale.log else lowest(values)
    axis = scale.cover(highest([*values, [limit]]), low)
    area = lines(drawn, axis, inner_width, inner_height, look.glyphs, limit=limit, cursor=cursor_column(spread, look))
    return framed(area, axis, look.glyphs, width=width, spread=spread, marks=seen.marks, profiled=seen.profiled)


def numbers_of(view: RunView, curve: Line, spread: Spread, dots: int, look: Look) -> Numbers:
    """Return a curve's numbers, `dots` for each column of the spread."""
    of_steps = look.kept.steps(view).view(spread, dots).mean("wall_ms")
    bins = curve.bins(view)
    if curve.samples:
        used = len(of_steps) - next((gap for gap, value in enumerate(reversed(of_steps)) if value is not None), 0)
        numbers: Numbers = carried(bins.view(of_samples(spread), dots).mean(curve.column), used)
    else:
        numbers = bins.view(spread, dots).mean(curve.column)
    return numbers if curve.scaled is None else curve.scaled(numbers, of_steps)


def side_by_side(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    """Return two blocks of equal height beside each other."""
    return [joined(one, other) for one, other in zip(left, right, strict=True)]
