"""The Pareto front of a sweep as a list, beside the heat map or in its place. Pure."""

from gradscope.tui.charts.cells import Row as Line
from gradscope.tui.charts.cells import Span
from gradscope.tui.charts.heat import LEAST_CELL, MOST_CELL, ON_FRONT, HeatTable
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.text import fitted
from gradscope.tui.sweep.lines import SHORT_NAMES
from gradscope.tui.sweep.table import metric_text
from gradscope.tui.sweep.view import SweepView

LEAST_SIDE, MOST_SIDE = 44, 60
"""Columns of the list beside the map."""


def side_width(table: HeatTable, width: int) -> int:
    """Return how many columns the list has beside a map; 0 where it takes turns with that."""
    labels = sum(len(name) + 4 for name in table.down)
    columns = max(1, len(table.heads))
    left = width - labels - columns * MOST_CELL
    if left < LEAST_SIDE and width - LEAST_SIDE >= labels + columns * (LEAST_CELL + 1):
        left = LEAST_SIDE
    return min(MOST_SIDE, left) if left >= LEAST_SIDE else 0


def front_lines(view: SweepView, here: str, width: int, glyphs: Glyphs) -> list[Line]:
    """Return the Pareto front as a list: under each model its cells, with what they are good in.

    Args:
        view: The sweep.
        here: Hash of the cell under the cursor.
        width: Cells across.
        glyphs: What to draw with.
    """
    objectives = list(view.objectives)
    members = [one for one in view.contenders if one.on_front]
    columns = [
        [metric_text(name, one.values.get(name)) for one in members] for name in objectives
    ]  # as wide as their widest, so that they stand below each other
    widths = [
        max([len(SHORT_NAMES.get(name, name)), *map(len, column)]) + 2
        for name, column in zip(objectives, columns, strict=True)
    ]
    while widths and width - 4 - sum(widths) < 10:
        widths.pop()
    room = max(0, width - 4 - sum(widths))
    heads = "".join(SHORT_NAMES.get(name, name).rjust(cells) for name, cells in zip(objectives, widths, strict=False))
    lines: list[Line] = [(Span(fitted(f"{'':{room + 4}}{heads}", width, glyphs.ellipsis), "axis"),)]
    if not members:
        return [(Span(fitted("no cell is done yet", width, glyphs.ellipsis), "axis"),)]
    group = None
    for place, one in enumerate(members):
        if one.group != group:
            group = one.group
            lines.append((Span(fitted(one.group or view.name, width, glyphs.ellipsis), "bold"),))
        lead = glyphs.selected if here in one.cells else " "
        figures = "".join(column[place].rjust(cells) for column, cells in zip(columns, widths, strict=False))
        text = f"{lead} {ON_FRONT} {fitted(one.name or 'base', room, glyphs.ellipsis)}{figures}"
        lines.append((Span(fitted(text, width, glyphs.ellipsis), "reverse" if here in one.cells else ""),))
    return lines


def front_cells(view: SweepView) -> list[str]:
    """Return a cell of each member of the front, in the order of the list."""
    return [one.cells[0] for one in view.contenders if one.on_front]


def windowed(lines: list[Line], top: int, width: int, height: int, glyphs: Glyphs) -> tuple[int, list[Line]]:
    """Return the part of a list that is shown below its heads, with the highlighted line in it.

    Args:
        lines: The list, heads first.
        top: The first line shown so far, not counting the heads.
        width: Cells across.
        height: Rows.
        glyphs: What to draw with.

    Returns:
        The first line shown now, and the rows.
    """
    body, count = max(1, height - 1), len(lines) - 1
    place = next((y for y, line in enumerate(lines) if line and line[0].style == "reverse"), None)
    if place is not None:
        top = max(min(top, place - 2), place - body + (place < count))
    top = max(0, min(top, count - body))
    shown = [lines[0], *lines[1 + top : 1 + top + body]]
    below = count - top - body
    if below > 0 and body > 1:
        shown[-1] = (Span(fitted(f"{glyphs.down} {below + 1} more", width, glyphs.ellipsis), "axis"),)
    return top, shown
