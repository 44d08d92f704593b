"""The answer to a query as a table: whole where it goes to a file, as wide as the terminal where there is one."""

import polars as pl

from gradscope.cli.trace_layout import shortened
from gradscope.core.table import GAP, format_table
from gradscope.core.text import display_width, visible

LEAST_CELLS = 6
"""Columns that a text keeps, however narrow the terminal."""


def as_table(answer: pl.DataFrame, width: int | None) -> str:
    """Lay out all rows of a frame.

    Args:
        answer: Short: every row is printed.
        width: Columns there are: the longest texts lose their middle where the table would be wider. `None`: as many
            as it takes.
    """
    sides = "".join("r" if kind.is_numeric() else "l" for kind in answer.schema.values())
    text = answer.with_columns(pl.col(pl.Categorical).cast(pl.String))
    cells = [["null" if cell is None else visible(str(cell)) for cell in row] for row in text.iter_rows()]
    heads = [visible(name) for name in answer.columns]
    if width is None:
        return format_table(heads, cells, sides)
    columns = [list(column) for column in zip(heads, *cells, strict=True)]
    rooms = _rooms([max(map(display_width, column)) for column in columns], sides, width - len(GAP) * (len(heads) - 1))
    fitted = [[shortened(cell, room) for cell in column] for column, room in zip(columns, rooms, strict=True)]
    head, *body = zip(*fitted, strict=True) if fitted else [()]
    return format_table(head, body, sides)


def _rooms(widths: list[int], sides: str, room: int) -> list[int]:
    """Share `room` out: numbers stay whole, texts get what they take or an equal part of what is left."""
    left = room - sum(width for width, side in zip(widths, sides, strict=True) if side == "r")
    rooms = dict(enumerate(widths))
    texts = sorted((width, place) for place, (width, side) in enumerate(zip(widths, sides, strict=True)) if side == "l")
    for number, (width, place) in enumerate(texts):
        rooms[place] = min(width, max(LEAST_CELLS, left // (len(texts) - number)))
        left -= rooms[place]
    return list(rooms.values())
