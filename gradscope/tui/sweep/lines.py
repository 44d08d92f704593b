"""Lines around the heat map: progress, the cell under the cursor, the legend. Pure."""

from collections.abc import Sequence

from gradscope.analysis.pivot import better, figure
from gradscope.analysis.results import MISSING, Row
from gradscope.core.text import display_width, visible
from gradscope.tui.charts.bars import bar
from gradscope.tui.charts.cells import Row as Line
from gradscope.tui.charts.cells import Span
from gradscope.tui.charts.heat import BEST, BEST_OF_ROW, ON_FRONT, STATES, fills, symbol
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.text import clock, fitted
from gradscope.tui.sweep.table import FIRST_METRICS, metric_label, metric_text
from gradscope.tui.sweep.view import SweepView, state_of

BAR_CELLS = 16
SHORT_NAMES = {
    "loss_last": "loss",
    "step_time_ms": "step",
    "ms_per_sample": "sample",
    "peak_memory_bytes": "peak",
    "energy_per_step_j": "energy",
    "energy_per_sample_j": "energy",
}


def progress_line(view: SweepView, width: int, glyphs: Glyphs) -> Line:
    """Return how far the sweep is: `12/60 done, 1 oom, 1 running, 12:30 left`, a bar before it where there is room."""
    if not view.rows:
        return (Span(fitted(_nothing(view, glyphs), width, glyphs.ellipsis), "bad" if view.problem else "axis"),)
    if view.problem:
        return (Span(fitted(f"{glyphs.failed} {view.problem}", width, glyphs.ellipsis), "bad"),)
    total = len(view.rows)
    parts = [f"{view.done}/{total} done", *(f"{number} {word}" for word, number in view.bad.items())]
    if view.running:
        parts.append(f"{view.running} running")
    if view.going:
        left = "importing torch" if not view.running and view.left else "time left unknown"
        parts.append(f"{clock(view.seconds_left)} left" if view.seconds_left is not None and view.running else left)
        if not view.left:
            parts[-1] = "ending"
    elif view.left:
        parts.append("r starts it" if view.left == total else f"{view.left} to run, r goes on")
    text = f" {glyphs.dot} ".join(parts)
    lead = f"{glyphs.running} " if view.going else ""
    spans: list[Span] = [Span(lead, "good")] if lead else []
    room = width - len(lead)
    if room >= display_width(text) + BAR_CELLS + 2:
        share = (total - view.left) / total
        spans += [*bar(share, BAR_CELLS, glyphs, "good" if not view.bad else "warn"), Span("  ")]
        room -= BAR_CELLS + 2
    return (*spans, Span(fitted(text, room, glyphs.ellipsis)))


def _nothing(view: SweepView, glyphs: Glyphs) -> str:
    if view.problem:
        return f"{glyphs.failed} {view.problem}"
    return "the sweep has no cells" if view.complete else f"reading {glyphs.ellipsis}"


def title_words(view: SweepView, metric: str, unit: str, glyphs: Glyphs) -> str:
    """Return what the map shows: `peak memory, MiB, lower is better`."""
    of = f", {unit}" if unit else ""
    return f"{metric_label(metric)}{of} {glyphs.dot} {better(metric)} is better"


def cell_name(row: Row, view: SweepView, glyphs: Glyphs) -> str:
    """Return what a cell is called: its value on each axis."""
    return f" {glyphs.dot} ".join(axis.label_of(row) for axis in view.axes) or view.name


def about_cell(repeats: Sequence[Row], view: SweepView, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Return what is known of the cell under the cursor: its name and state, its numbers, why it has none."""
    if not repeats:
        return [(Span(fitted("the grid has no such cell" if view.rows else "", width, glyphs.ellipsis), "axis"),)]
    row = next((one for one in repeats if state_of(one) == "running"), repeats[0])
    state = state_of(row)
    word = "waiting" if row.status == MISSING else row.status
    mark = f"{symbol(state, glyphs)} " if state else ""
    times = f" {glyphs.dot} {sum(one.done for one in repeats)} of {len(repeats)} repeats" if len(repeats) > 1 else ""
    status = f"{mark}{word}{times}"
    name = fitted(cell_name(row, view, glyphs), max(0, width - display_width(status) - 1), glyphs.ellipsis)
    lines: list[Line] = [(Span(name, "bold"), Span(f" {status}"[: max(0, width)], STATES.get(state, "good")))]
    done = next((one for one in repeats if one.done), None)
    if done is not None:
        values = [
            f"{SHORT_NAMES[name]} {metric_text(name, value)}"
            for name in FIRST_METRICS
            if (value := figure(repeats, name).value) is not None
        ]
        notes = []
        if done.contaminated:
            notes.append("others were on the card")
        if done.accumulation_mode == "grow":
            notes.append("sees more samples an update")
        if done.audit_passed is False:
            notes.append("gradient audit failed")
        lines.append((Span(fitted(f" {glyphs.dot} ".join([*values, *notes]), width, glyphs.ellipsis)),))
    elif row.reason:
        lines.append((Span(fitted(row.reason, width, glyphs.ellipsis), STATES.get(state, "")),))
    elif state == "running":
        lines.append((Span(fitted("enter watches it", width, glyphs.ellipsis), "axis"),))
    return lines[: max(0, height)]


def legend_line(view: SweepView, width: int, glyphs: Glyphs) -> Line:
    """Return what shades, marks and symbols mean, as much of it as there is room for."""
    words = " ".join(visible(axis.title) for axis in view.axes if axis.decides_loss)
    of = f" of its {words}" if words else ""
    shades = fills(glyphs)
    parts = [
        (f"{shades[-1]} best", "heat_4"),
        (f"{shades[0]} worst{of}", "heat_0"),
        (f"{BEST} best", ""),
        (f"{BEST_OF_ROW} best of row", ""),
        (f"{ON_FRONT} Pareto front", ""),
    ]
    if any(state_of(row) == "waiting" for row in view.rows):  # the other states say their name
        parts.append((f"{symbol('waiting', glyphs)} waiting", STATES["waiting"]))
    spans: list[Span] = []
    used = 0
    for text, role in parts:
        shown = text if not spans else f"  {text}"
        if used + len(shown) > width:
            break
        spans.append(Span(shown, role))
        used += len(shown)
    return (*spans, Span(" " * (width - used)))
