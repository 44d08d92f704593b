"""The table beside a chart: what each fill means, with its exact number."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradscope.tui.charts.bars import Part, shares
from gradscope.tui.charts.bars import legend as bar_legend
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import cut, filled_up, fitted, in_ascii

LEGEND = 30
LEAST_CHART = 24
"""Columns a chart keeps; a legend that leaves it fewer is not drawn."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a mark in its colour, a name, a number."""

    name: str
    value: str = ""
    mark: str = ""
    """One character, or empty for a line without one."""
    style: str = ""
    """Role of the mark."""
    value_style: str = ""


def legend(entries: Sequence[Entry], width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """Draw entries below each other; numbers end in one column. What does not fit below is left out."""
    rows = []
    for entry in entries[:height]:
        value = in_ascii(entry.value, glyphs)
        room = width - 3 - len(value) - (1 if value else 0)
        name = cut(in_ascii(entry.name, glyphs), max(0, room), glyphs)
        name_style = "" if entry.mark or entry.value else "dim"
        rows.append(
            (
                Span(f" {entry.mark or ' '}", entry.style),
                Span(" "),
                Span(name.ljust(max(0, room)), name_style),
                Span(f" {value}" if value else "", entry.value_style),
            )
        )
    return filled_up(rows, width, height)


def width_beside(cells: int) -> int:
    """Return the width of the legend in a pane of `cells` columns; 0 where the chart needs the room.

    It is the same for all panes, so that charts below each other end in the same column.
    """
    return LEGEND if cells - LEGEND >= LEAST_CHART else 0


def shares_in_line(value: str, parts: Sequence[Part], width: int, glyphs: Glyphs) -> Row:
    """Return a total, one bar of its parts, and the larger parts by name, each with its share; for a single line.

    A part that has a text of its own is told with that.
    """
    whole = sum(part.value or 0.0 for part in parts)
    named = [
        replace(part, text=part.text or f"{100 * part.value / whole:.0f} %")
        for part in parts
        if part.value is not None and part.value / whole >= LEAST_SHARE
    ]
    head = f"{value:>8}  "
    names = sum(len(part.label) + len(part.text) + 5 for part in named)
    bar = min(MOST_BAR, width - len(head) - names)
    if bar < LEAST_BAR:
        bar = 0
    drawn = shares(parts, bar, glyphs) if bar else ()
    gap = Span("  " if bar else "")
    return fitted((Span(head), *drawn, gap, *bar_legend(named, max(0, width - len(head) - bar), glyphs)), width)


LEAST_SHARE = 0.03
"""Of a part that is named in a line."""
LEAST_BAR = 8
MOST_BAR = 40
