"""The memory tab: each device's curve through the trace, and what was alive at the peak."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gradscope.core.units import format_bytes, format_ms
from gradscope.tui.charts.axis import framed, inner_size
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.charts.lines import Curve, dots_per_cell, lines
from gradscope.tui.charts.scale import scale_for
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import filled_up, fitted
from gradscope.tui.results.asked import Alive, MemoryCurve, MemoryReport
from gradscope.tui.results.lines import Line, LinesView, blank, prose
from gradscope.tui.results.pane import ResultPane
from gradscope.tui.results.questions import Question
from gradscope.tui.results.table import Column
from gradscope.tui.results.table_view import TableView
from gradscope.tui.widgets.rows import Rows

MEMORY = Question("memory")
OLDER = "born before the trace: parameters, states and whatever else was there"

COLUMNS = [
    Column(
        "asked for by",
        50,
        lambda one: (one.asked_by or "").lower(),
        lambda one: one.asked_by or "no operator",
        grows=True,
        ascending=True,
    ),
    Column("size", 10, lambda one: one.size_bytes, lambda one: format_bytes(one.size_bytes)),
    Column("blocks", 8, lambda one: one.count),
    Column("allocated in", 24, lambda one: one.operator or "", lambda one: one.operator or "", ascending=True),
]


def draw_curve(curve: MemoryCurve, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """Draw allocated memory over the trace, the peak marked: `height` rows, each `width` wide."""
    inner_width, inner_height = inner_size(width, height)
    if inner_width < 2 or inner_height < 1 or not curve.times_ns:
        return filled_up([], width, height)
    dots = dots_per_cell(glyphs)
    values = resampled(curve.times_ns, curve.allocated_bytes, inner_width * dots)
    scale = scale_for(0.0, max(curve.peak_bytes, 1), "bytes")
    span = max(1, curve.times_ns[-1] - curve.times_ns[0])
    column = min(inner_width - 1, int((curve.peak_ts_ns - curve.times_ns[0]) / span * inner_width))
    area = lines([Curve("activations", values)], scale, inner_width, inner_height, glyphs, cursor=column)
    return framed(area, scale, glyphs, width=width, caption=f"{format_ms(span / 1e6)} of trace")


def resampled(times: Sequence[int], values: Sequence[int], count: int) -> list[float | None]:
    """Return the highest reading in each of `count` equal stretches; where there is none, the one before holds."""
    first, span = times[0], max(1, times[-1] - times[0])
    found: list[float | None] = []
    start = 0
    for number in range(1, count + 1):
        end = bisect_right(times, first + span * number / count)
        found.append(max(values[start:end]) if end > start else values[max(0, start - 1)])
        start = max(start, end)
    return found


def about_curve(curve: MemoryCurve, glyphs: Glyphs) -> list[str]:
    """Say what the peak is, and how much is churned."""
    step = "" if curve.peak_step is None else f" in step {curve.peak_step}"
    peak = f"{curve.device}: peak {format_bytes(curve.peak_bytes)}{step}"
    if curve.reserved_peak_bytes is not None:
        peak += f", reserved {format_bytes(curve.reserved_peak_bytes)}"
    if curve.basis:
        peak += f" ({curve.basis})"
    churn = []
    if curve.allocations_per_step is not None:
        churn.append(f"{curve.allocations_per_step:.0f} allocations a step")
    if curve.turnover is not None:
        churn.append(f"a step allocates {curve.turnover:.1f} times the peak")
    return [peak, f" {glyphs.dot} ".join(churn)]


class MemoryPane(ResultPane):
    """Memory of one device at a time."""

    NAME = "memory"
    QUESTIONS = (MEMORY,)
    BINDING_GROUP_TITLE = "memory"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "device", "next device", tooltip="Show the memory of the next device"),
        Binding("a", "alive", "alive/kept", tooltip="Change between what was alive at the peak and what was not freed"),
    ]
    DEFAULT_CSS = """
    MemoryPane { padding: 0 1; }
    MemoryPane #curve { height: 2fr; min-height: 5; }
    MemoryPane #about { height: 3; }
    MemoryPane TableView { height: 3fr; }
    """

    device = 0
    never_freed = False

    def compose(self) -> ComposeResult:
        """The curve, what it is of, and what was alive."""
        yield Rows(id="curve")
        yield Rows(id="about")
        yield TableView(self.glyphs)
        yield LinesView()

    @property
    def table(self) -> TableView:
        """What was alive."""
        return self.query_one(TableView)

    @property
    def curve(self) -> MemoryCurve | None:
        """What is shown."""
        found: MemoryReport | None = self.answer(MEMORY)
        return found.curves[self.device % len(found.curves)] if found is not None and found.curves else None

    def update_shown(self) -> None:
        """Show a device's memory, or why there is none."""
        curve = self.curve
        for part in ("#curve", "#about", "TableView"):
            self.query_one(part).display = curve is not None
        self.query_one(LinesView).display = curve is None
        if curve is None:
            self.query_one(LinesView).show_lines(self._why)
            return
        alive = list(curve.never_freed if self.never_freed else curve.alive)
        if curve.older_bytes and not self.never_freed:
            alive.append(Alive(OLDER, None, curve.older_bytes, 0))
        self.table.show(COLUMNS, alive, sorted_by=1, key=lambda one: (one.asked_by, one.operator))
        self._draw()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        curve = self.curve
        plot, about = self.query_one("#curve", Rows), self.query_one("#about", Rows)
        if curve is None or plot.size.width < 2:
            return
        plot.show(draw_curve(curve, plot.size.width, plot.size.height, self.glyphs))
        what = "born in the trace and not freed in it" if self.never_freed else "alive at the peak"
        texts = about_curve(curve, self.glyphs)
        rows = [fitted([Span(texts[0], "bold")], about.size.width), fitted([Span(texts[1])], about.size.width)]
        about.show([*rows, fitted([Span(f"{what}, by the operator that asked for it", "axis")], about.size.width)])

    def _why(self, width: int, height: int) -> list[Line]:
        found: MemoryReport | None = self.answer(MEMORY)
        if found is None:
            text, hint = self.why_empty()
        else:
            text, hint = found.missing or "no memory in this trace", "profile.memory=true records every allocation"
        made = [*prose(text, width, indent=0), *prose(hint, width, indent=0, style="dim")]
        report = self.host.report
        if report is not None and report.summary is not None and report.summary.memory.allocated_peak_bytes:
            peak = format_bytes(report.summary.memory.allocated_peak_bytes)
            made += [blank(), *prose(f"the run's own figure: peak {peak}, under summary by category", width, indent=0)]
        return made

    def take_focus(self) -> None:
        """Keys move in the table."""
        (self.table if self.table.display else self.query_one(LinesView)).focus()

    def on_item_list_chosen(self) -> None:
        """Analyse a trace that was not."""
        if self.desk.stopped:
            self.desk.ask(*self.needed())
            self.host.say_doing()

    def action_device(self) -> None:
        """Show the next device."""
        self.device += 1
        self.update_shown()

    def action_alive(self) -> None:
        """Change between alive and never freed."""
        self.never_freed = not self.never_freed
        self.update_shown()

    def copied(self) -> str:
        """Return the highlighted row in words."""
        one: Alive | None = self.table.row
        return "" if one is None else f"{one.asked_by or 'no operator'}: {format_bytes(one.size_bytes)}"

    def meaning(self) -> str:
        """Say what is shown."""
        return "trace.memory"
