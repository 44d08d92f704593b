"""Plain-text tables: aligned columns, a rule under the head, no colour and no markup."""

from collections.abc import Iterable, Sequence

from gradscope.core.text import display_width, visible

GAP = "  "


def format_table(headers: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """Lay out rows as a table; cells may hold anything, control characters are written out.

    Args:
        headers: One text per column; with none but empty ones, the table has no head.
        rows: As many cells each as there are headers.
        align: One letter per column, `l` or `r`; columns beyond it are left-aligned.

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
    lines = [_line(row, widths, sides) for row in body]
    if any(head):
        lines[:0] = [_line(head, widths, sides), _line(["-" * width for width in widths], widths, sides)]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], sides: str) -> str:
    padded = []
    for cell, width, side in zip(cells, widths, sides, strict=False):
        padding = " " * (width - display_width(cell))
        padded.append(padding + cell if side == "r" else cell + padding)
    return GAP.join(padded).rstrip()
