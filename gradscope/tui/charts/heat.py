"""A heat map: a number a cell, in a shade of its own, with symbols where there is no number.

Shades are fills first and colours second, so that the map can be read without any. They rank the cells of one group
(rows that compete with each other), the densest being the best: one cell that is far off takes no shades from the rest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, groupby

from gradscope.tui.charts.cells import Canvas, Row
from gradscope.tui.glyphs import Glyphs

SHADES = 5

STATES: dict[str, str] = {
    "running": "good",
    "waiting": "dim",
    "oom": "bad",
    "failed": "bad",
    "stopped": "warn",
}
"""What a cell without a number may be, and its role."""

NUMBER_CELLS = 6
MARKS = 2
"""Cells after a number: best, and on the Pareto front."""
LEAST_CELL = NUMBER_CELLS + MARKS + 2
"""The cursor, a shade, the number, marks."""
MOST_CELL = 16

TITLE_GAP = 2

BEST, BEST_OF_ROW, ON_FRONT, MARKED = "*", "<", "+", "o"
"""Marks, the same in all terminals."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One cell of the map."""

    value: float | None = None
    text: str = ""
    """The value as text in at most `NUMBER_CELLS`, or what is the matter in a word."""
    state: str = ""
    """One of `STATES`; empty where there is a number."""
    best: bool = False
    """Whether it is the best of its group."""
    on_front: bool = False
    marked: bool = False


@dataclass(frozen=True, kw_only=True)
class HeatTable:
    """What is drawn."""

    down: Sequence[str]
    """What the axes down are called."""
    labels: Sequence[Sequence[str]]
    """For each row, its value on each of them."""
    heads: Sequence[str]
    entries: Sequence[Sequence[Entry | None]]
    """By row and column; `None` where there is no such cell."""
    groups: Sequence[int]
    """For each row, which group it competes in; rows of one group stand together."""
    lower_is_better: bool = True

    @cached_property
    def levels(self) -> "dict[Place, int]":
        """The shade of each number."""
        return shades(self)


@dataclass(frozen=True, slots=True)
class Fit:
    """How much of a table a rectangle shows."""

    label_widths: tuple[int, ...]
    cell: int
    """Width of a cell."""
    columns: int
    rows: int
    spaced: bool
    """Whether there is a blank line between groups."""
    ruled: bool
    """Whether there is a line with the heads."""

    @property
    def labels_width(self) -> int:
        """Columns that the labels take."""
        return sum(self.label_widths)


Place = tuple[int, int]
"""Row and column."""


def fit(table: HeatTable, width: int, height: int) -> Fit:
    """Return how a table is laid out in a rectangle."""
    heads = max(1, len(table.heads))
    widths = _label_widths(table, width - LEAST_CELL * min(2, heads))
    room = max(0, width - sum(widths))
    columns = max(1, min(heads, room // LEAST_CELL))
    cell = max(1, min(MOST_CELL, room // columns))
    rows = len(table.labels)
    gaps = max(0, len(set(table.groups)) - 1)
    spaced = rows + gaps + 1 <= height
    return Fit(widths, cell, columns, max(1, min(rows, height - 1)), spaced, height > 1)


def _label_widths(table: HeatTable, room: int) -> tuple[int, ...]:
    """Give each axis what its longest label takes; the last ones give way where there is too little room."""
    widest = [
        max((len(text) for text in (name, *(label[axis] for label in table.labels))), default=0) + TITLE_GAP
        for axis, name in enumerate(table.down)
    ]
    while sum(widest) > room and max(widest, default=0) > 1:
        widest[widest.index(max(widest))] -= 1
    return tuple(widest)


def corner_for(fitted: Fit, cursor: Place, corner: Place) -> Place:
    """Return the first row and column to show so that the cursor is seen, moving as little as can be."""
    return (
        max(min(corner[0], cursor[0]), cursor[0] - fitted.rows + 1),
        max(min(corner[1], cursor[1]), cursor[1] - fitted.columns + 1),
    )


def heat(
    table: HeatTable, width: int, height: int, glyphs: Glyphs, *, cursor: Place | None = None, corner: Place = (0, 0)
) -> list[Row]:
    """Draw a table.

    Args:
        table: What.
        width: Cells across.
        height: Rows.
        glyphs: What to draw with.
        cursor: The highlighted row and column.
        corner: The first row and column that are shown.
    """
    sheet = _Sheet(Canvas(width, height), table, fit(table, width, height), cursor, glyphs)
    fitted = sheet.fitted
    columns = range(corner[1], min(len(table.heads), corner[1] + fitted.columns))
    if fitted.ruled:
        sheet.heads(columns)
    y, before = int(fitted.ruled), None
    for row in range(corner[0], min(len(table.labels), corner[0] + fitted.rows)):
        if fitted.spaced and before is not None and table.groups[row] != table.groups[before]:
            y += 1
        sheet.label(y, row, before)
        best = best_of_row(table, row)
        for x, column in zip(count(fitted.labels_width, fitted.cell), columns, strict=False):
            entry = table.entries[row][column]
            if entry is not None:
                first = BEST if entry.best else BEST_OF_ROW if best is not None and entry.value == best else " "
                marks = first + (ON_FRONT if entry.on_front else " ")
                sheet.entry((x, y), entry, table.levels.get((row, column)), marks, here=cursor == (row, column))
        y, before = y + 1, row
    return sheet.canvas.rows()


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A canvas with what is drawn on it."""

    canvas: Canvas
    table: HeatTable
    fitted: Fit
    cursor: Place | None
    glyphs: Glyphs

    def heads(self, columns: range) -> None:
        """Name the axes down, and the columns; arrows where there are more of these."""
        x, glyphs, cell = 0, self.glyphs, self.fitted.cell
        for name, width in zip(self.table.down, self.fitted.label_widths, strict=True):
            self.canvas.text(x, 0, _cut(name, width - 1, glyphs), "axis")
            x += width
        for place, column in enumerate(columns):
            text = self.table.heads[column]
            if place == 0 and column > 0:
                text = f"{glyphs.left} {text}"
            if column == columns[-1] and column < len(self.table.heads) - 1:
                text = f"{text} {glyphs.right}"
            text = _cut(text, cell - 1, glyphs)
            left = x + place * cell
            start = max(left + 1, left + cell - MARKS - len(text))  # it ends where the numbers below it end
            here = self.cursor is not None and self.cursor[1] == column
            self.canvas.text(start, 0, text, "bold" if here else "axis")

    def label(self, y: int, row: int, before: int | None) -> None:
        """Write a row's labels; those that the row above has too are left out, but for the last."""
        labels = self.table.labels
        x, repeated = 0, before is not None
        for axis, width in enumerate(self.fitted.label_widths):
            text = labels[row][axis]
            repeated = repeated and before is not None and labels[before][axis] == text
            if not repeated or axis == len(self.fitted.label_widths) - 1:
                here = self.cursor is not None and self.cursor[0] == row
                self.canvas.text(x, y, _cut(text, width - 1, self.glyphs), "bold" if here else "")
            x += width

    def entry(self, at: tuple[int, int], entry: Entry, level: int | None, marks: str, *, here: bool) -> None:
        """Draw one cell: the cursor or the user's mark, a bar in its shade, the number, marks."""
        x, y = at
        inner = self.fitted.cell - 1
        lead = self.glyphs.selected if here else MARKED if entry.marked else " "
        self.canvas.put(x, y, lead, "bold")
        if entry.state:
            role = STATES[entry.state]
            text = _cut(f"{symbol(entry.state, self.glyphs)} {entry.text}".rstrip(), inner, self.glyphs)
            room = inner - MARKS
            shown = text.ljust(room) if entry.text else text.rjust(room)
            self.canvas.text(x + 1, y, shown, f"reverse {role}" if here else role)
            return
        number = entry.text.rjust(min(NUMBER_CELLS, inner))[:inner]
        bar = max(0, inner - len(number) - MARKS)
        if level is not None:
            self.canvas.text(x + 1, y, fills(self.glyphs)[level] * bar, f"heat_{level}")
        reverse = "reverse" if here else ""
        digits = f"{reverse} bold underline".strip() if marks[0] != " " else reverse
        start, blanks = x + 1 + bar, len(number) - len(number.lstrip())
        self.canvas.text(start, y, number[:blanks], reverse)
        self.canvas.text(start + blanks, y, number[blanks:], digits)
        self.canvas.text(start + len(number), y, marks[: max(0, inner - bar - len(number))], reverse)


def best_of_row(table: HeatTable, row: int) -> float | None:
    """Return the best value of a row; `None` where it has fewer than two."""
    values = [entry.value for entry in table.entries[row] if entry is not None and entry.value is not None]
    if len(values) < 2:
        return None
    return min(values) if table.lower_is_better else max(values)


def shades(table: HeatTable) -> dict[Place, int]:
    """Return each number's shade, 0 (the worst of its group) to `SHADES` - 1; equal values have equal shades."""
    found: dict[Place, int] = {}
    for _, members in groupby(range(len(table.labels)), key=lambda row: table.groups[row]):
        values = dict(_values(table, members))
        order = sorted(set(values.values()), reverse=table.lower_is_better)
        place = {value: rank for rank, value in enumerate(order)}
        steps = len(order) - 1
        for at, value in values.items():
            found[at] = round(place[value] * (SHADES - 1) / steps) if steps else SHADES - 1
    return found


def _values(table: HeatTable, rows: Iterator[int] | Sequence[int]) -> Iterator[tuple[Place, float]]:
    for row in rows:
        for column, entry in enumerate(table.entries[row]):
            if entry is not None and entry.value is not None:
                yield (row, column), entry.value


def fills(glyphs: Glyphs) -> tuple[str, ...]:
    """Return the fills of the shades, the worst first."""
    dense, thick, thin, light = glyphs.fills[:4]
    return (glyphs.fills[7], light, thin, thick, dense)


def symbol(state: str, glyphs: Glyphs) -> str:
    """Return the symbol of a cell without a number."""
    symbols = {
        "running": glyphs.running,
        "waiting": glyphs.dot,
        "oom": glyphs.failed,
        "failed": "!",
        "stopped": glyphs.horizontal,
    }
    return symbols[state]


def _cut(text: str, width: int, glyphs: Glyphs) -> str:
    if len(text) <= width:
        return text
    return text[: max(0, width - 1)] + glyphs.ellipsis if width > 0 else ""
