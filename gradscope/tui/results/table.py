"""Tables as plain data: columns that know how to sort and show a row, and their layout in a number of cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradscope.core.units import MISSING
from gradscope.tui.charts.bars import bar
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import fitted, in_ascii, one_cell

GAP = 1
LEAST_NAME = 18
"""Cells that the growing column keeps; others are left out before."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    title: str
    width: int
    """Cells; of the growing one, the most it takes to be whole is all there is."""
    value: Callable[[Any], Any]
    """What it is sorted by; `None` comes last."""
    text: Callable[[Any], str] | None = None
    """What is shown; by default, the value."""
    grows: bool = False
    """Holds names, on the left, and takes the room that the others leave. One a table."""
    share: str = ""
    """A role: the value is a share (0 to 1) and is drawn as a bar in it, before its text."""
    ascending: bool = False
    """How it is sorted at first."""
    style: Callable[[Any], str] | None = None

    def shown(self, row: Any) -> str:
        """Return what stands in a cell."""
        if self.text is not None:
            return self.text(row)
        value = self.value(row)
        return MISSING if value is None else str(value)


def sorted_rows(rows: Sequence[Any], column: Column, *, reverse: bool = False) -> list[Any]:
    """Sort rows by a column, as it is sorted at first or the other way; rows without a value come last."""
    ascending = column.ascending != reverse
    there = [row for row in rows if column.value(row) is not None]
    missing = [row for row in rows if column.value(row) is None]
    return sorted(there, key=column.value, reverse=not ascending) + missing


def matching(rows: Sequence[Any], columns: Sequence[Column], words: str) -> list[Any]:
    """Return the rows whose names hold all words, whatever their case."""
    wanted = words.lower().split()
    names = next((column for column in columns if column.grows), columns[0])
    return [row for row in rows if all(word in names.shown(row).lower() for word in wanted)] if wanted else list(rows)


def layout(columns: Sequence[Column], width: int, kept: int = -1) -> list[tuple[Column, int]]:
    """Return the columns that have room in `width` cells, and the width of each.

    Args:
        columns: In their order; later ones are left out first.
        width: Cells.
        kept: Index of one that is shown in any case where it can be: that by which rows are sorted.
    """
    growing = next((column for column in columns if column.grows), None)
    least = min(LEAST_NAME, growing.width) if growing else 0
    chosen = [growing] if growing else []
    left = width - least
    order = sorted(range(len(columns)), key=lambda index: (index != kept, index))
    for index in order:
        column = columns[index]
        if column is growing or column.width + GAP > left:
            continue
        chosen.append(column)
        left -= column.width + GAP
    shown = [column for column in columns if any(column is one for one in chosen)]
    return [(column, min(width, least + max(0, left)) if column is growing else column.width) for column in shown]


def head(places: Sequence[tuple[Column, int]], width: int, glyphs: Glyphs, mark: Column | None, *, up: bool) -> Row:
    """Return the titles, an arrow at the one that rows are sorted by."""
    spans: list[Span] = []
    for index, (column, cells) in enumerate(places):
        arrow = (glyphs.up if up else glyphs.down) if column is mark else ""
        text = _cell(column.title + arrow, cells, left=column.grows)
        spans += [Span(" " * GAP if index else ""), Span(text, "bold" if column is mark else "axis")]
    return fitted(spans, width)


def line(row: Any, places: Sequence[tuple[Column, int]], width: int, glyphs: Glyphs) -> Row:
    """Return one row as cells."""
    spans: list[Span] = []
    for index, (column, cells) in enumerate(places):
        if index:
            spans.append(Span(" " * GAP))
        text = in_ascii(one_cell(column.shown(row)), glyphs)
        if column.share and cells > len(text) + 3:
            spans += bar(column.value(row), cells - 8, glyphs, column.share)
            spans.append(Span(_cell(text, 8, left=False)))
            continue
        style = column.style(row) if column.style else ""
        spans.append(Span(shortened(text, cells, glyphs) if column.grows else _cell(text, cells, left=False), style))
    return fitted(spans, width)


def shortened(text: str, cells: int, glyphs: Glyphs) -> str:
    """Return a name in exactly `cells` cells; what is too long loses its middle: both ends tell it apart."""
    if len(text) <= cells:
        return text + " " * (cells - len(text))
    if cells < 3:
        return text[:cells]
    tail = (cells - 1) // 2
    return text[: cells - 1 - tail] + glyphs.ellipsis + text[len(text) - tail :]


def _cell(text: str, cells: int, *, left: bool) -> str:
    return f"{text[:cells]:<{cells}}" if left else f"{text[:cells]:>{cells}}"
