"""The log pane: what was remarked about the run, and the last of the worker's output.

It is foreign text, shown as it is: of all panes only this one may hold characters that are two cells wide.
"""

import re
from collections.abc import Iterator, Sequence

from gradscope.core.text import display_width, visible
from gradscope.core.units import format_number_of
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import Drawn, Look, Pane, chosen, cut, fitted, one_cell
from gradscope.tui.view import LogLine, Remark, RunView

METRICS = ("all", "remarks", "output")
PROBE = re.compile(r".*\bUSDT:.*\bprofiler_(start|stop)\b")
"""What torch's own probes say around each profiled window: nothing that tells anybody of the run."""

WRAPPED_FROM = 8
"""Height from which long lines are wrapped instead of cut."""


def draw(view: RunView, width: int, height: int, look: Look) -> Drawn:
    """Return the newest lines that fit, or those `look.back` lines before."""
    metric = chosen(METRICS, look.metric)
    wrap = height >= WRAPPED_FROM
    remarks = [] if metric == "output" else _remark_rows(view.remarks, width, wrap, look.glyphs)
    output = [] if metric == "remarks" else _output_rows(view.log, width, wrap, look.glyphs)
    if metric == "all":
        keep = max(1, height // 3, height - len(output))
        remarks = remarks[-keep:]
    room = max(0, height - len(remarks)) if output else height
    if not output:
        remarks, output, room = [], remarks, height
    back = min(look.back, max(0, len(output) - room))
    end = len(output) - back
    shown = [*remarks, *output[max(0, end - room) : end]]
    if not shown:
        shown = [(Span(f"nothing yet in {view.path.name}/worker.log", "dim"),)]
    rows = [_filled(row, width) for row in shown[:height]]
    rows += [fitted((), width)] * (height - len(rows))
    lines = sum(line.count for line in view.log)
    figures = [format_number_of(lines, "line"), format_number_of(len(view.remarks), "remark")]
    if back:
        figures.insert(0, f"{back} back")
    return Drawn("log" if metric == "all" else f"log {metric}", tuple(figures), rows)


def meter(view: RunView, width: int, look: Look) -> Row:
    """Return the newest remark or line."""
    if view.remarks:
        remark = view.remarks[-1]
        text, style = _remark_text(remark), "warn"
    elif view.log:
        text, style = view.log[-1].text, ""
    else:
        return fitted((Span("nothing yet", "dim"),), width)
    return fitted((Span(cut(one_cell(text), width, look.glyphs), style),), width)


def scrolled_most(view: RunView) -> int:
    """Return by how many lines it can make sense to scroll back."""
    return len(view.log)


def _remark_text(remark: Remark) -> str:
    text = remark.text.removeprefix("note: ")
    return text if remark.step is None else f"step {remark.step}: {text}"


def _remark_rows(remarks: Sequence[Remark], width: int, wrap: bool, glyphs: Glyphs) -> list[Row]:
    rows: list[Row] = []
    for remark in remarks:
        pieces = _pieces(_remark_text(remark), width - 2, wrap, glyphs)
        rows += [(Span(f"{glyphs.selected} " if at == 0 else "  ", "warn"), Span(piece)) for at, piece in pieces]
    return rows


def _output_rows(log: Sequence[LogLine], width: int, wrap: bool, glyphs: Glyphs) -> list[Row]:
    rows: list[Row] = []
    for line in log:
        count = f" {glyphs.times}{line.count}" if line.count > 1 else ""
        pieces = list(_pieces(line.text, width - len(count), wrap, glyphs))
        style = "dim" if PROBE.match(line.text) else ""
        rows += [(Span(piece, style),) for _, piece in pieces[:-1]]
        rows.append((Span(pieces[-1][1], style), Span(count, "warn")))
    return rows


def _pieces(text: str, width: int, wrap: bool, glyphs: Glyphs) -> Iterator[tuple[int, str]]:
    """Break text by cells, or cut it; at least one piece."""
    rest = visible(text)
    if not glyphs.unicode:
        rest = rest.encode("ascii", "replace").decode()
    number = 0
    while display_width(rest) > width > 2:
        head = _head(rest, width if wrap else width - 1)
        if not wrap:
            rest = head + glyphs.ellipsis
            break
        yield number, head
        number, rest = number + 1, rest[len(head) :]
    yield number, rest


def _head(text: str, width: int) -> str:
    """Return as much of the beginning as fits into `width` cells."""
    used = 0
    for index, char in enumerate(text):
        used += display_width(char)
        if used > width:
            return text[:index]
    return text


def _filled(row: Row, width: int) -> Row:
    """Return a row of exactly `width` cells; a character that would reach over the edge is left out."""
    spans: list[Span] = []
    left = width
    for span in row:
        text = span.text if display_width(span.text) <= left else _head(span.text, left)
        spans.append(Span(text, span.style))
        left -= display_width(text)
    return (*spans, Span(" " * left)) if left else tuple(spans)


PANE = Pane("log", "5", draw, meter, lambda view: METRICS)
