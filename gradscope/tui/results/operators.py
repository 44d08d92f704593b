"""The operators tab: a table to sort and filter, by name, shape or stack; kernels beside; all about one on enter."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from gradscope.core.units import MISSING, format_bytes, format_count, format_ms, format_pct
from gradscope.tui.charts.cells import Span
from gradscope.tui.panes.base import fitted, one_cell
from gradscope.tui.results.asked import KernelRow, OperatorDetail, OperatorRow
from gradscope.tui.results.lines import Line, LinesView, blank, heading, prose, row
from gradscope.tui.results.pane import ResultPane
from gradscope.tui.results.questions import GROUPINGS, Question
from gradscope.tui.results.table import Column
from gradscope.tui.results.table_view import TableView
from gradscope.tui.widgets.rows import Rows

KERNELS = Question("kernels")
MOST_SHAPES = 12
MOST_STACKS = 8
MOST_FRAMES = 30


def ms(time_ns: float | None) -> str:
    """Format nanoseconds."""
    return format_ms(None if time_ns is None else time_ns / 1e6)


def pct(share: float | None) -> str:
    """Format a share."""
    return MISSING if share is None else format_pct(100 * share)


def operator_columns(rows: Sequence[OperatorRow]) -> list[Column]:
    """Return the columns for which there is something to show."""
    columns = [
        Column("operator", 60, lambda row: row.label.lower(), lambda row: row.label, grows=True, ascending=True),
        Column("self host", 10, lambda row: row.self_host_ns, lambda row: ms(row.self_host_ns)),
        Column("share", 8, lambda row: row.share, lambda row: pct(row.share)),
        Column("host", 10, lambda row: row.host_ns, lambda row: ms(row.host_ns)),
        Column("calls", 7, lambda row: row.calls),
    ]
    if any(row.self_device_ns is not None for row in rows):
        columns.insert(3, Column("device", 10, lambda row: row.self_device_ns, lambda row: ms(row.self_device_ns)))
    if any(row.self_memory_bytes is not None for row in rows):
        columns.append(
            Column("memory", 10, lambda row: row.self_memory_bytes, lambda row: format_bytes(row.self_memory_bytes))
        )
    if any(row.flops for row in rows):
        columns.append(Column("FLOP", 8, lambda row: row.flops, lambda row: format_count(row.flops)))
    columns.append(Column("mean", 10, lambda row: row.host_ns / row.calls, lambda row: ms(row.host_ns / row.calls)))
    return columns


KERNEL_COLUMNS = [
    Column("kernel", 60, lambda row: row.name.lower(), lambda row: row.name, grows=True, ascending=True),
    Column("time", 10, lambda row: row.total_ns, lambda row: ms(row.total_ns)),
    Column("share", 8, lambda row: row.share, lambda row: pct(row.share)),
    Column("calls", 7, lambda row: row.calls),
    Column("mean", 10, lambda row: row.mean_ns, lambda row: ms(row.mean_ns)),
    Column(
        "TC",
        4,
        lambda row: row.tensor_cores,
        lambda row: {True: "yes", False: "no", None: ""}[row.tensor_cores],
    ),
    Column("occup.", 8, lambda row: row.occupancy_pct, lambda row: format_pct(row.occupancy_pct)),
    Column("longest", 10, lambda row: row.max_ns, lambda row: ms(row.max_ns)),
]


class FilterInput(Input):
    """Words that names must have."""

    BINDING_GROUP_TITLE = "filter"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,down", "leave(True)", "to the table", key_display="enter", tooltip="Go to what was found"),
        Binding("escape", "leave(False)", "all rows", tooltip="List all rows again"),
    ]

    def action_leave(self, keep: bool) -> None:
        """Go to the table."""
        pane = next(node for node in self.ancestors if isinstance(node, OperatorsPane))
        pane.end_filter(keep=keep)


class OperatorsPane(ResultPane):
    """Operators or kernels."""

    NAME = "operators"
    BINDING_GROUP_TITLE = "operators"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", key_display="/", tooltip="List only rows whose names hold some words"),
        Binding("g", "group", "group", tooltip="A row is a name; a name and its shapes; a name and where it is called"),
        Binding("v", "kernels", "kernels", tooltip="Change between operators of the host and kernels of the device"),
    ]
    DEFAULT_CSS = """
    OperatorsPane { padding: 0 1; }
    OperatorsPane #about { height: 1; }
    OperatorsPane FilterInput { height: 1; border: none; padding: 0; }
    """

    grouping = 0
    kernels = False
    _about: OperatorRow | KernelRow | None = None
    """What is shown whole."""

    def compose(self) -> ComposeResult:
        """What is listed, the filter, the table, and all about one row."""
        yield Rows(id="about")
        filter_input = FilterInput(placeholder="words that the name must have")
        filter_input.display = False
        yield filter_input
        yield TableView(self.glyphs)
        detail = LinesView()
        detail.display = False
        yield detail

    @property
    def table(self) -> TableView:
        """The table."""
        return self.query_one(TableView)

    @property
    def question(self) -> Question:
        """What is listed."""
        return KERNELS if self.kernels else Question("operators", GROUPINGS[self.grouping])

    def needed(self) -> tuple[Question, ...]:
        """Ask for what is listed."""
        return (self.question,)

    def update_shown(self) -> None:
        """Show the table, or why there is none."""
        rows = self.answer(self.question)
        empty = not rows
        detail = self.query_one(LinesView)
        self.table.display = not empty and self._about is None
        detail.display = empty or self._about is not None
        if empty:
            detail.show_lines(self._why)
        elif self._about is not None:
            detail.show_lines(self._detail_lines)
        if rows:
            columns = KERNEL_COLUMNS if self.kernels else operator_columns(rows)
            self.table.show(columns, rows, sorted_by=1, key=_key)
        self._say()

    def _why(self, width: int, height: int) -> list[Line]:
        if self.answer(self.question) is not None:
            kind = "no work of a device in this trace" if self.kernels else "no operators in this trace"
            hint = "v goes back to the host's operators" if self.kernels else ""
        else:
            kind, hint = self.why_empty()
        return [*prose(kind, width, indent=0), *(prose(hint, width, indent=0, style="dim") if hint else [])]

    def _say(self) -> None:
        listed, there = len(self.table.rows), len(self.table.all_rows)
        what = "kernels, copies and fills" if self.kernels else f"operators by {GROUPINGS[self.grouping]}"
        count = f"{listed}" if listed == there else f"{listed} of {there}"
        words = f" with {self.table.words}" if self.table.words else ""
        if not self.answer(self.question):
            count = ""
        spans = [Span(what, "bold"), Span(f"  {count}{one_cell(words)}", "axis")]
        self.query_one("#about", Rows).show([fitted(spans, max(1, self.size.width - 2))])

    def on_resize(self) -> None:
        """Fill the line above."""
        self._say()

    def take_focus(self) -> None:
        """Keys move in the table."""
        (self.table if self.table.display else self.query_one(LinesView)).focus()

    # keys

    def action_group(self) -> None:
        """Group by the next of name, shape, stack."""
        self.kernels = False
        self.grouping = (self.grouping + 1) % len(GROUPINGS)
        self._about = None
        self.opened()

    def action_kernels(self) -> None:
        """Change between operators and kernels."""
        self.kernels = not self.kernels
        self._about = None
        self.opened()

    def action_filter(self) -> None:
        """Type words."""
        if self._about is None and self.table.display:
            self.query_one(FilterInput).display = True
            self.query_one(FilterInput).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        event.stop()
        self.table.filter(event.value)
        self._say()

    def end_filter(self, *, keep: bool) -> None:
        """Go to the table, with the filter or without it."""
        box = self.query_one(FilterInput)
        if not keep:
            box.value = ""
            self.table.filter("")
        box.display = bool(box.value)
        self.table.focus()
        self._say()

    def on_table_view_chosen(self, event: TableView.Chosen) -> None:
        """Show all about a row."""
        event.stop()
        self._about = event.row
        if isinstance(event.row, OperatorRow):
            self.desk.ask(_detail_of(event.row))
        self.update_shown()
        self.take_focus()

    def on_item_list_chosen(self) -> None:
        """Close what is open; where a trace was not analysed, analyse it."""
        if not self.closed() and self.desk.stopped:
            self.desk.ask(*self.needed())
            self.host.say_doing()

    def closed(self) -> bool:
        """Go back to the table."""
        if self._about is None:
            box = self.query_one(FilterInput)
            if box.value:
                self.end_filter(keep=False)
                return True
            return False
        self._about = None
        self.update_shown()
        self.take_focus()
        return True

    def copied(self) -> str:
        """Return the highlighted row's name, or the highlighted line."""
        if self._about is not None:
            line = self.query_one(LinesView).line
            return "" if line is None else line.copy or line.text
        chosen = self.table.row
        return "" if chosen is None else str(chosen.label if isinstance(chosen, OperatorRow) else chosen.name)

    def meaning(self) -> str:
        """Say what the columns are."""
        return "trace.kernels" if self.kernels else "trace.operators"

    # all about one

    def _detail_lines(self, width: int, height: int) -> list[Line]:
        about = self._about
        if not isinstance(about, OperatorRow):
            return [] if about is None else list(kernel_lines(about, width))
        found = self.answer(_detail_of(about))
        if found is None:
            text, hint = self.why_empty(_detail_of(about))
            return [*prose(about.name, width, indent=0), *prose(text, width, indent=0), *prose(hint, width, indent=0)]
        return list(detail_lines(found, about.name, width))


def _detail_of(operator: OperatorRow) -> Question:
    return Question("detail", (operator.name, operator.kind))


def _key(row: Any) -> Any:
    return row.key if isinstance(row, OperatorRow) else (row.name, row.kind)


def detail_lines(found: OperatorDetail, name: str, width: int) -> Iterator[Line]:
    """Lay out all about one operator: its figures, its shapes, its stacks, its kernels."""
    for line in prose(name, width, indent=0, style="bold", copy=name):
        yield line
    one = found.row
    if one is not None:
        yield row("self", f"{ms(one.self_host_ns)} on the host, {pct(one.share)} of it, {one.calls} calls")
        yield row("with all inside", f"{ms(one.host_ns)}, {ms(one.host_ns / one.calls)} a call")
        if one.device_ns is not None:
            yield row("device", f"{ms(one.self_device_ns)} caused itself, {ms(one.device_ns)} with all inside")
        if one.self_memory_bytes is not None:
            yield row("memory", f"{format_bytes(one.self_memory_bytes)} allocated less released, itself")
    yield blank()
    yield heading("shapes of its inputs, by self time")
    shapes = [shape for shape in found.shapes if shape.shapes not in (None, "[]")]
    if not shapes:
        yield from prose("none were recorded: -s profile.shapes=true", width, indent=2, style="dim")
    for shape in shapes[:MOST_SHAPES]:
        figures = f"{ms(shape.self_host_ns):>10} {shape.calls:>6} calls  "
        for number, line in enumerate(prose(shape.shapes or "", width - len(figures), indent=0)):
            yield Line((Span(figures if not number else " " * len(figures)), *line.spans), copy=shape.shapes or "")
    yield from _more(len(shapes) - MOST_SHAPES, "shapes", width)
    yield blank()
    yield heading("where it is called, innermost first")
    if not found.stacks:
        text = "no stacks in this trace: -s profile.stacks=true records them, with many times the events"
        yield from prose(text, width, indent=2, style="dim")
    for stack in found.stacks[:MOST_STACKS]:
        yield row("", f"{ms(stack.self_host_ns)} in {stack.calls} calls", style="bold")
        for frame in (stack.stack or ())[:MOST_FRAMES]:
            yield Line((Span(f"  {one_cell(frame)}"),), copy=frame)
    yield from _more(len(found.stacks) - MOST_STACKS, "stacks", width)
    if found.kernels:
        yield blank()
        yield heading("kernels that it launches")
        for kernel in found.kernels[:MOST_SHAPES]:
            figures = f"{ms(kernel.total_ns):>10} {kernel.calls:>6} calls  "
            yield Line((Span(figures), Span(one_cell(kernel.name)[: max(0, width - len(figures))])), copy=kernel.name)
        yield from _more(len(found.kernels) - MOST_SHAPES, "kernels", width)


def kernel_lines(kernel: KernelRow, width: int) -> Iterator[Line]:
    """Lay out all about one kernel."""
    yield from prose(kernel.name, width, indent=0, style="bold", copy=kernel.name)
    yield row("time", f"{ms(kernel.total_ns)} in {kernel.calls} calls, {pct(kernel.share)} of all device time")
    yield row("a call", f"{ms(kernel.mean_ns)} mean, {ms(kernel.max_ns)} longest")
    if kernel.occupancy_pct is not None:
        yield row("occupancy", f"{format_pct(kernel.occupancy_pct)} estimated")
    cores = {True: "yes, by its name", False: "no, by its name", None: "no kernel"}[kernel.tensor_cores]
    yield row("tensor cores", cores)
    yield blank()
    yield heading("launched by")
    for name in kernel.launched_by or ("not known",):
        yield Line((Span(f"  {one_cell(name)}"),), copy=name)


def _more(count: int, thing: str, width: int) -> list[Line]:
    return prose(f"{count} more {thing}", width, indent=2, style="dim") if count > 0 else []
