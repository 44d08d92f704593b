"""A grid's report for a terminal: tables of at most `width` columns, no colour, ASCII where stdout has no more."""

import sys
import textwrap

from gradscope.analysis.grid_report import GridReport
from gradscope.core.table import format_table
from gradscope.core.text import display_width, takes_unicode, visible
from gradscope.export.report_tables import Section, Table, heading, sections

WIDTH = 80
LEAST_WIDTH = 60


def render(report: GridReport, width: int = WIDTH, *, unicode: bool | None = None) -> str:
    """Lay out a report; returns lines without a trailing newline.

    Args:
        report: What to tell.
        width: Columns there are.
        unicode: Whether the text may hold more than ASCII; by default, whether stdout's encoding can.
    """
    width = max(LEAST_WIDTH, width)
    blocks = [[line for text in heading(report) for line in _wrapped(text, width, "  ")]]
    blocks += [_section(section, width) for section in sections(report)]
    found = "\n\n".join("\n".join(lines) for lines in blocks)
    if takes_unicode(sys.stdout) if unicode is None else unicode:
        return found
    return found.replace("±", "+-").encode("ascii", "backslashreplace").decode()


def _wrapped(text: str, width: int, rest: str) -> list[str]:
    return textwrap.wrap(visible(text), width, subsequent_indent=rest, break_on_hyphens=False) or [""]


def _section(section: Section, width: int) -> list[str]:
    lines = _wrapped(section.title, width, "  ")
    if section.table is not None:
        lines += _stacked(section.table, width) if section.code == "claims" else _table(section.table, width)
    for note in section.notes:
        lines += [f"  {line}" for line in _wrapped(note, width - 2, "")]
    return lines


def _table(table: Table, width: int) -> list[str]:
    """Lay out a table, indented where there is room; where it is too wide, its last columns go below its first."""
    sides = "l" * table.left + "r" * (len(table.head) - table.left)
    wraps = table.tail or table.left == len(table.head)
    if table.tail:
        sides = sides[:-1] + "l"
    for indent in (2, 0):
        room = width - indent
        lines = format_table(table.head, table.rows, sides, room if wraps else None).splitlines()
        if all(display_width(line) <= room for line in lines):
            return [f"{' ' * indent}{line}".rstrip() for line in lines]
    kept = table.left + (len(table.head) - table.left) // 2
    if kept == table.left or wraps:
        return lines
    first = Table(table.head[:kept], [row[:kept] for row in table.rows], table.left)
    names, below = table.head[: table.left], [[*row[: table.left], *row[kept:]] for row in table.rows]
    return [*_table(first, width), "", *_table(Table([*names, *table.head[kept:]], below, table.left), width)]


def _stacked(table: Table, width: int) -> list[str]:
    """Lay out rows of long texts below each other: the first cell leads, the others follow."""
    lead = max((display_width(visible(row[0])) for row in table.rows), default=0) + 2
    lines = []
    for first, *others in table.rows:
        for place, text in enumerate(others):
            shown = _wrapped(text, width - lead - 2, "")
            lines += [
                f"  {(visible(first) if place == 0 and number == 0 else '').ljust(lead)}{line}".rstrip()
                for number, line in enumerate(shown)
            ]
    return lines
