"""Plain-text tables: aligned columns, a rule under the head, no colour and no markup."""

import textwrap
from collections.abc import Iterable, Sequence

from gradscope.core.text import display_width, visible

GAP = "  "

LEAST_WRAPPED = 20
"""Columns below which the last column is not wrapped beside the others, but put below them."""

INDENT = 4
"""Columns before what is put below."""


def format_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], align: str = "", width: int | None = None
) -> str:
    """Lay out rows as a table; cells may hold anything, control characters are written out.

    Args:
        headers: One text per column; with none but empty ones, the table has no head.
        rows: As many cells each as there are headers.
        align: One letter per column, `l` or `r`; columns beyond it are left-aligned.
        width: Columns there are: the last column is wrapped where the table would be wider. `None`: one line a row.

    Returns:
        Lines without a trailing newline, none of them with trailing spaces.

    Raises:
        ValueError: A row has another number of cells than there are headers.
    """
    head = [visible(text) for text in headers]
    body = [[visible(text) for text in row] for row in rows]
    for row in body:
        if len(row) != len(head):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(head)} columns")
    widths = [max(map(display_width, column)) for column in zip(head, *body, strict=True)]
    sides = align.ljust(len(head), "l")
    before = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    wrapped = body
    if width is not None and before + widths[-1] > width:
        wrapped = [line for row in body for line in _wrapped(row, before, width)]
        widths[-1] = min(widths[-1], max(width - before, display_width(head[-1])))
    lines = [_line(row, widths, sides) if len(row) == len(head) else row[0] for row in wrapped]
    if any(head):
        lines[:0] = [_line(head, widths, sides), _line(["-" * cells for cells in widths], widths, sides)]
    return "\n".join(lines)


def _wrapped(row: Sequence[str], before: int, width: int) -> list[list[str]]:
    """Return a row as several with parts of its last cell; as lines below it where there is too little room."""
    *others, last = row
    if before + display_width(last) <= width:
        return [[*others, last]]
    if width - before >= LEAST_WRAPPED:
        first, *more = textwrap.wrap(last, width - before, break_on_hyphens=False) or [""]
        return [[*others, first], *([*("" for _ in others), line] for line in more)]
    lines = textwrap.wrap(last, max(LEAST_WRAPPED, width - INDENT), break_on_hyphens=False)
    return [[*others, ""], *([" " * INDENT + line] for line in lines)]


def _line(cells: Sequence[str], widths: Sequence[int], sides: str) -> str:
    padded = []
    for cell, width, side in zip(cells, widths, sides, strict=False):
        padding = " " * (width - display_width(cell))
        padded.append(padding + cell if side == "r" else cell + padding)
    return GAP.join(padded).rstrip()
