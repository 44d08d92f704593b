"""What a run that is over came to: one line where all went well; else its reason, its remedy, and its log."""

from gradscope.core.status import Status
from gradscope.core.units import format_bytes, format_ms, format_number, format_number_of
from gradscope.rundir.layout import WORKER_LOG
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import cut, fitted, in_ascii, one_cell, wrapped
from gradscope.tui.panes.header import STATUS_STYLES
from gradscope.tui.panes.memory_stack import peak_bytes
from gradscope.tui.view import RunView

LOG_LINES = 6
WITH_LOG = (Status.FAILED, Status.OOM, Status.KILLED)
WAY_ON = "enter results"


def draw_verdict(view: RunView, width: int, most: int, glyphs: Glyphs) -> list[Row]:
    """Return at most `most` rows; none while the run goes on."""
    if view.running or most < 1:
        return []
    status = view.status.status
    style = STATUS_STYLES.get(status, "")
    room = max(10, width - len(WAY_ON) - 4)
    if status is Status.DONE:
        first, *more = [in_ascii(_came_to(view, room), glyphs)]
    else:
        first, *more = wrapped(one_cell(f"{status}: {_reason(view)}"), room)
    ending = (Span("  "), Span("enter", "bold"), Span(" results"))
    rows = [fitted((Span(" "), Span(first[:room].ljust(room), style), *ending), width)]
    rows += [fitted((Span(" "), Span(line, style)), width) for line in more[:2]]
    hint = view.status.hint or (view.failure.hint if view.failure else None)
    if hint:
        rows += [fitted((Span("   "), Span(line)), width) for line in wrapped(one_cell(hint), width - 4)[:2]]
    if status in WITH_LOG:
        rows += _log(view, width, min(LOG_LINES, most - len(rows) - 1), glyphs)
    return rows[:most]


def _came_to(view: RunView, width: int) -> str:
    """Return as many of the headline numbers as fit."""
    parts = []
    loss = view.measured.last_loss if view.measured is not None else view.steps.last("loss")
    if loss is not None:
        parts.append(f"last loss {format_number(loss)}")
    if view.median_step_ms is not None:
        parts.append(f"median step {format_ms(view.median_step_ms)}")
    peak = peak_bytes(view)
    if peak is not None:
        parts.append(f"peak {format_bytes(peak)}")
    if view.audit is not None and view.audit.passed is not None:
        parts.append(f"gradient audit {'passed' if view.audit.passed else 'FAILED'}")
    if view.windows:
        parts.append(format_number_of(sum(1 for window in view.windows if window.ended and window.ended.file), "trace"))
    while len(parts) > 1 and len("done: " + " · ".join(parts)) > width:
        parts.pop()
    return "done: " + (" · ".join(parts) or "no step was measured")


def _reason(view: RunView) -> str:
    if view.status.reason:
        return view.status.reason
    return f"{view.failure.error_type}: {view.failure.message}" if view.failure else "no reason is known"


def _log(view: RunView, width: int, most: int, glyphs: Glyphs) -> list[Row]:
    path = one_cell(str(view.path / WORKER_LOG))
    rows = [fitted((Span("   "), Span(path if view.log else f"{path} is empty", "dim")), width)]
    for line in view.log[-most:] if most > 0 else ():
        text = cut(in_ascii(one_cell(line.text), glyphs), width - 5, glyphs)
        rows.append(fitted((Span(f"   {glyphs.vertical} ", "dim"), Span(text)), width))
    return rows
