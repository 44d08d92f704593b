"""Runs as rows of cells: which columns have room, and how wide each is. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradscope.core.text import display_width, visible
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.text import fitted
from gradscope.tui.runs.columns import COLUMNS, DISPENSABLE, USUAL, Column
from gradscope.tui.runs.view import Entry

MARGIN = 2
"""Cells before the first column: where the highlight is, and what is marked."""

WIDE_GAP = 2
"""Cells between columns where there is room."""

MARK = "*"


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns stand side by side."""

    places: tuple[tuple[Column, int], ...]
    """Columns and their cells, from left to right."""
    gap: int
    """Cells between them."""
    width: int
    """Cells of a whole line."""


def widths_of(entries: Sequence[Entry]) -> dict[str, int]:
    """Return how wide each column would be to show every run whole, by its name; those with nothing to show are out.

    Of all runs, not of those that are listed: the columns stand still while somebody filters.
    """
    found: dict[str, int] = {}
    for column in COLUMNS:
        if column.extra and all(column.value(entry, 0) is None for entry in entries):
            continue
        if column.is_text and column.short is None:
            texts = {column.text(entry, 0) for entry in entries}
            longest = max((display_width(visible(text)) for text in texts), default=0)
            found[column.name] = max(len(column.name), min(column.width, longest))
        else:
            found[column.name] = column.width
    return found


def laid_out(widths: Mapping[str, int], width: int, sorted_by: Column) -> Layout:
    """Return the columns that fit side by side in `width` cells.

    Texts are cut before a column goes; the one that runs are sorted by stays, but for their age: their order shows it.
    """
    shown = [column for column in COLUMNS if column.name in widths]
    going = [name for name in DISPENSABLE if name != sorted_by.name or sorted_by is USUAL]
    for name in (*going, None):
        least = sum(_least(column, widths) for column in shown) + len(shown) - 1 + MARGIN
        if least <= width or name is None:
            break
        shown = [column for column in shown if column.name != name]
    spare = width - MARGIN - sum(_least(column, widths) for column in shown) - (len(shown) - 1)
    cells = {}
    for column in shown:
        more = min(max(0, spare), widths[column.name] - _least(column, widths))
        cells[column.name] = _least(column, widths) + more
        spare -= more
    gap = WIDE_GAP if spare >= len(shown) - 1 else 1
    return Layout(tuple((column, cells[column.name]) for column in shown), gap, width)


def head(layout: Layout, glyphs: Glyphs, sorted_by: Column, *, up: bool) -> Row:
    """Return the titles, an arrow before the one that runs are sorted by."""
    arrow = glyphs.up if up else glyphs.down
    spans: list[Span] = [Span(" " * (MARGIN - layout.gap))]
    for column, cells in layout.places:
        text = " " * layout.gap + fitted(column.name, cells, glyphs.ellipsis, right=not column.is_text)
        style = "axis"
        if column is sorted_by:
            name = text.lstrip()
            text, style = " " * (len(text) - len(name) - 1) + arrow + name, "bold"
        spans.append(Span(text, style))
    return _filled(spans, layout.width)


def line(
    entry: Entry, layout: Layout, glyphs: Glyphs, now_wall_ns: int, *, highlighted: bool = False, marked: bool = False
) -> Row:
    """Return one run."""
    spans: list[Span] = [Span(glyphs.selected if highlighted else " "), Span(MARK if marked else " ", "bold")]
    for index, (column, cells) in enumerate(layout.places):
        short = column.short if cells < column.width else None
        whole = short(entry) if short is not None else column.text(entry, now_wall_ns)
        text = fitted(whole, cells, glyphs.ellipsis, right=not column.is_text)
        spans.append(Span((" " * layout.gap if index else "") + text, column.style(entry)))
    return _filled(spans, layout.width)


def _least(column: Column, widths: Mapping[str, int]) -> int:
    return min(widths[column.name], column.least or widths[column.name])


def _filled(spans: Sequence[Span], width: int) -> Row:
    """Fill a row up to the width; what is too long is cut by the widget."""
    used = sum(display_width(span.text) for span in spans)
    return (*spans, Span(" " * max(0, width - used)))
