"""The steps and idle tabs: what each profiled step's time went to, and when devices had nothing to do."""

from collections.abc import Iterator

from textual.app import ComposeResult

from gradscope.core.units import MISSING, format_number_of, format_pct
from gradscope.tui.charts.bars import Part, bar, legend, shares
from gradscope.tui.charts.cells import Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.palette import PHASE_ROLES
from gradscope.tui.panes.base import blank as blank_row
from gradscope.tui.panes.base import cut, fitted, one_cell
from gradscope.tui.results.asked import IdleReport, StepRow, StepsReport
from gradscope.tui.results.lines import LABEL, Line, LinesView, blank, heading, prose, row
from gradscope.tui.results.operators import ms
from gradscope.tui.results.pane import ResultPane
from gradscope.tui.results.questions import Question
from gradscope.tui.results.table import Column
from gradscope.tui.results.table_view import TableView
from gradscope.tui.results.text_panes import TextPane
from gradscope.tui.widgets.rows import Rows

STEPS = Question("steps")
IDLE = Question("idle")

PARTS = {
    "compute": ("kernels", "busy"),
    "communication": ("comm.", "clock"),
    "memcpy": ("copies", "h2d"),
    "memset": ("fills", "memory_busy"),
    "runtime": ("runtime", "power"),
    "dataloader": ("data", "data"),
    "cpu": ("operators", "cpu"),
    "other": ("other", "other"),
}
"""Parts of a step by their order, with what they are called and their colour."""
FILLS = {part: number for number, part in enumerate(PARTS)}
LEAST_PCT = 0.05
"""Phases below are not named."""
UNKNOWN = "steps are unknown: the trace holds no ProfilerStep marks (call prof.step() in the loop)"
KIND_ROLES = {"host wait": "bad", "kernel wait": "warn", "other": "other"}


def step_columns(report: StepsReport) -> list[Column]:
    """Return the columns in which some step has something."""
    columns = [
        Column("step", 8, lambda row: row.number, ascending=True),
        Column("time", 10, lambda row: row.dur_ns, lambda row: ms(row.dur_ns)),
    ]
    if report.has_device:
        columns.append(Column("busy", 8, lambda row: row.busy_pct, lambda row: format_pct(row.busy_pct)))
    for part, (title, _) in PARTS.items():
        if part == "other" or any(row.parts.get(part) for row in report.rows):
            columns.append(_part_column(part, title))
    if report.has_device:
        columns.append(Column("kernels", 8, lambda row: row.kernels))
    columns.append(Column("remark", 22, _remark, _remark, ascending=True))
    return columns


def _part_column(part: str, title: str) -> Column:
    return Column(title, 10, lambda row: row.parts.get(part), lambda row: ms(row.parts.get(part)))


def _remark(step: StepRow) -> str:
    if step.lost_kernels:
        return format_number_of(step.lost_kernels, "lost kernel")
    return "" if step.complete else "in no mean"


def mean_parts(report: StepsReport) -> list[Part]:
    """Return what a step's time went to, in the mean."""
    return [
        Part(title, value, role, FILLS[part], ms(value))
        for part, (title, role) in PARTS.items()
        if (value := (report.mean or {}).get(part))
    ]


class StepsPane(ResultPane):
    """The profiled steps."""

    NAME = "steps"
    QUESTIONS = (STEPS,)
    DEFAULT_CSS = """
    StepsPane { padding: 0 1; }
    StepsPane #bars { height: 5; }
    """

    def compose(self) -> ComposeResult:
        """The mean as bars, the steps as a table."""
        yield Rows(id="bars")
        yield TableView(self.glyphs)
        yield LinesView()

    @property
    def table(self) -> TableView:
        """The steps."""
        return self.query_one(TableView)

    def update_shown(self) -> None:
        """Show the steps, or why there are none."""
        found: StepsReport | None = self.answer(STEPS)
        there = found is not None and bool(found.rows)
        self.table.display = there
        self.query_one(LinesView).display = not there
        self.query_one("#bars").display = found is not None and found.mean is not None
        if found is not None and there:
            self.table.show(step_columns(found), found.rows, key=lambda row: (row.number, row.window))
        else:
            self.query_one(LinesView).show_lines(self._why)
        self._draw_bars()

    def _why(self, width: int, height: int) -> list[Line]:
        found: StepsReport | None = self.answer(STEPS)
        if found is not None:
            return prose("nothing was recorded in this trace" if found.known else UNKNOWN, width, indent=0)
        text, hint = self.why_empty()
        return [*prose(text, width, indent=0), *prose(hint, width, indent=0, style="dim")]

    def on_resize(self) -> None:
        """Fill the width."""
        self._draw_bars()

    def _draw_bars(self) -> None:
        found: StepsReport | None = self.answer(STEPS)
        width = self.size.width - 2
        if found is None or found.mean is None or width < 10:
            return
        count = format_number_of(found.of_steps, "step")
        what = f"a step, mean of {count}" if found.of_steps else "the whole trace"
        title = f"{what}, as profiled: what its time went to"
        parts = mean_parts(found)
        rows = [
            fitted([Span(title, "bold")], width),
            shares(parts, width, self.glyphs),
            legend(sorted(parts, key=lambda part: -(part.value or 0)), width, self.glyphs),
        ]
        phases = [
            (name, format_pct(value))  # in words: the fills are those of the bar above
            for name, value in found.phases.items()
            if value is not None and value >= LEAST_PCT and name in PHASE_ROLES
        ]
        if phases:
            words = "  ".join(f"{name} {text}" for name, text in phases)
            rows.append(fitted([Span("phases  ", "dim"), Span(cut(words, width - 8, self.glyphs))], width))
        self.query_one("#bars", Rows).show([*rows, blank_row(width)])

    def take_focus(self) -> None:
        """Keys move in the table."""
        (self.table if self.table.display else self.query_one(LinesView)).focus()

    def on_table_view_chosen(self, event: TableView.Chosen) -> None:
        """Show the step in the timeline."""
        event.stop()
        self.host.open_step(event.row.number)

    def on_item_list_chosen(self) -> None:
        """Analyse a trace that was not."""
        if self.desk.stopped:
            self.desk.ask(*self.needed())
            self.host.say_doing()

    def copied(self) -> str:
        """Return the highlighted step in words."""
        step = self.table.row
        if step is None:
            return ""
        parts = ", ".join(f"{title} {ms(step.parts.get(part))}" for part, (title, _) in PARTS.items())
        return f"step {step.number}: {ms(step.dur_ns)}: {parts}"

    def meaning(self) -> str:
        """Say what the columns are."""
        return "trace.steps"


class IdlePane(TextPane):
    """When devices had nothing to do, and why."""

    NAME = "idle"
    QUESTIONS = (IDLE, STEPS)

    def make(self, width: int, height: int) -> list[Line]:
        """Lay out idle time by kind, then the longest gaps."""
        found: IdleReport | None = self.answer(IDLE)
        if found is None:
            text, hint = self.why_empty()
            return [*prose(text, width, indent=0), *prose(hint, width, indent=0, style="dim")]
        if not found.has_device:
            return list(_host_only(self.answer(STEPS), width, self.glyphs))
        return list(idle_lines(found, width, self.glyphs))

    def choose(self, line: Line) -> None:
        """Show a gap in the timeline."""
        if line.place:
            step, _, time_ns = line.place.partition(":")
            self.host.open_step(int(step) if step else None, int(time_ns))


def _host_only(steps: StepsReport | None, width: int, glyphs: Glyphs) -> Iterator[Line]:
    text = "no device events in this trace: whether a GPU idled is not known. What the host did in a step instead:"
    yield from prose(text, width, indent=0, meaning="trace.idle")
    yield blank()
    if steps is None or steps.mean is None:
        yield from prose(UNKNOWN if steps is not None and not steps.known else "not known", width, indent=0)
        return
    parts = mean_parts(steps)
    total = sum(part.value or 0 for part in parts) or 1
    for part in parts:
        share = (part.value or 0) / total
        figures = f"{format_pct(100 * share):>9}{part.text:>12}"
        meter = bar(share, max(0, width - LABEL - len(figures)), glyphs, part.role, fill=part.fill)
        yield row(f"  {part.label}", *meter, Span(figures), meaning="trace.steps")
    yield blank()
    yield from prose("data and other are the time in which no operator ran", width, indent=0, style="dim")


def idle_lines(found: IdleReport, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """Lay out idle time of devices."""
    meaning = "trace.idle"
    if not found.kinds:
        yield from prose("no device idled within the steps", width, indent=0, meaning=meaning)
    for kind in found.kinds:
        figures = f"{format_pct(kind.step_pct):>9} of the steps{ms(kind.idle_ns):>12}{kind.gaps:>7} gaps"
        role = KIND_ROLES.get(kind.kind, "other")
        fill = list(KIND_ROLES).index(kind.kind) if kind.kind in KIND_ROLES else 3
        meter = bar(kind.step_pct / 100, max(0, width - LABEL - len(figures)), glyphs, role, fill=fill)
        yield row(f"gpu {kind.device} {kind.kind}", *meter, Span(figures), meaning=meaning)
    if found.delay_us is not None:
        yield row("launch delay", f"{found.delay_us:.1f} us median, from launch to kernel", meaning=meaning)
    yield blank()
    yield heading("longest gaps (enter shows one in the timeline)")
    for gap in found.longest:
        where = "" if gap.step is None else f"  step {gap.step}"
        place = f"{'' if gap.step is None else gap.step}:{gap.start_ns}"
        role = KIND_ROLES.get(gap.kind, "")
        head = (Span(f"{ms(gap.dur_ns):>10}  "), Span(f"{gap.kind:<12}", role), Span(f" device {gap.device}{where}"))
        yield Line(head, meaning=meaning, place=place)
        doing = MISSING if gap.host_op is None else f"{gap.host_op} ({format_pct(gap.host_pct)} of it)"
        between = f"{gap.before or 'the beginning'} {glyphs.right} {gap.after or 'the end'}"
        for label, text in (("host was in", doing), ("between", between)):
            shown = one_cell(text)[: max(0, width - 26)]
            yield Line((Span(f"{label:>24}  ", "dim"), Span(shown)), meaning=meaning, place=place, copy=text)
