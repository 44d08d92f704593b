"""A grid's report in GitHub's Markdown, fit to paste into an issue. Foreign text is escaped: no tag, link, mention."""

from collections.abc import Sequence

from gradscope.analysis.grid_report import GridReport
from gradscope.core.text import visible
from gradscope.export.report_tables import INDENT, Section, heading, sections


def render(report: GridReport) -> str:
    """Return a report as Markdown that ends in a newline."""
    first, *others = heading(report)
    lines = [f"## {escaped(first)}", ""]
    lines += [f"- {escaped(line)}" for line in others]
    for section in sections(report):
        lines += ["", *_section(section)]
    return "\n".join(lines) + "\n"


def _section(section: Section) -> list[str]:
    lines = [f"### {escaped(section.title)}", ""]
    if (table := section.table) is not None:
        right = len(table.head) - table.left - table.tail
        rule = ["---"] * table.left + ["---:"] * right + ["---"] * table.tail
        lines += [_row([escaped(cell) for cell in table.head]), _row(rule)]
        lines += [_row([_cell(cell) for cell in row]) for row in table.rows]
    for note in section.notes:
        lines += ["", escaped(note)]
    return lines


def _cell(text: str) -> str:
    """Return a cell; one that stands below a heading keeps its indentation."""
    return ("&emsp;" if text.startswith(INDENT) else "") + escaped(text.strip())


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Return foreign text that stays text."""
    shown = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    for char in "\\`*_[]|~":
        shown = shown.replace(char, f"\\{char}")
    return shown
