"""The timeline tab: one step's lanes, a cursor in them, and the call under it with its exact times."""

from dataclasses import replace
from typing import Any, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gradscope.core.units import format_number_of, format_pct
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import fitted, one_cell
from gradscope.tui.results import lanes as of
from gradscope.tui.results.lanes import Lanes, Viewport
from gradscope.tui.results.lines import Line, LinesView, prose
from gradscope.tui.results.pane import ResultPane
from gradscope.tui.results.questions import Question
from gradscope.tui.results.table import shortened
from gradscope.tui.widgets.rows import Rows
from gradscope.tui.widgets.styles import role_style

ZOOM = 2.0
PAN = 0.5


class LanesView(Widget, can_focus=True):
    """Lanes with a cursor."""

    BINDING_GROUP_TITLE = "timeline"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign", "zoom(-1)", "in", key_display="+", tooltip="See half the time, around the cursor"),
        Binding("minus,underscore", "zoom(1)", "out", key_display="-", tooltip="See twice the time"),
        Binding("0", "whole", "whole", tooltip="See the whole step"),
        Binding("n", "step(1)", "next", tooltip="Show the next profiled step"),
        Binding("p", "step(-1)", "before", tooltip="Show the profiled step before"),
        Binding("enter", "fit", "fit", key_display="enter", tooltip="Zoom to the call under the cursor"),
        Binding("left", "cursor(-1)", "left", show=False, tooltip="Move the cursor; at the edge the view moves"),
        Binding("right", "cursor(1)", "right", show=False, tooltip="Move the cursor; at the edge the view moves"),
        Binding("up,k", "line(-1)", "line above", show=False),
        Binding("down,j", "line(1)", "line below", show=False),
        Binding("less_than_sign,shift+left", "pan(-1)", "pan left", show=False, key_display="<"),
        Binding("greater_than_sign,shift+right", "pan(1)", "pan right", show=False, key_display=">"),
        Binding(
            "comma", "call(-1)", "call before", show=False, key_display=",", tooltip="To the call before, in its line"
        ),
        Binding(
            "full_stop", "call(1)", "next call", show=False, key_display=".", tooltip="To the next call in its line"
        ),
        Binding("pageup", "line(-10)", "ten lines up", show=False),
        Binding("pagedown", "line(10)", "ten lines down", show=False),
        Binding("home", "edge(-1)", "begin", show=False, tooltip="The cursor to the beginning of the step"),
        Binding("end", "edge(1)", "end", show=False, tooltip="The cursor to the end of the step"),
    ]
    DEFAULT_CSS = """
    LanesView { height: 1fr; }
    """

    class Moved(Message):
        """The cursor is elsewhere."""

    class StepWanted(Message):
        """Another step is to be shown."""

        def __init__(self, direction: int) -> None:
            super().__init__()
            self.direction = direction

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self.lanes: Lanes | None = None
        self.view = Viewport(0, 1)
        self._drawn: list[Row] = []

    def show(self, lanes: Lanes, time_ns: int | None = None) -> None:
        """Show a step; the zoom and the line stay where they were within it."""
        before, share = self.lanes, 1.0
        if before is not None:
            share = self.view.span_ns / before.span_ns
            at = (self.view.cursor_ns - before.start_ns) / before.span_ns
        self.lanes = lanes
        view = of.whole(lanes)
        if before is None:
            view = of.with_row(lanes, view, min(1, len(lanes.rows) - 1), self._height)
            view = of.with_cursor(lanes, view, lanes.start_ns + lanes.span_ns / 2)
        else:
            view = of.with_cursor(lanes, view, lanes.start_ns + at * lanes.span_ns)
            view = of.zoomed(lanes, of.with_row(lanes, view, self.view.row, self._height), share)
        if time_ns is not None:
            view = of.with_cursor(lanes, of.whole(lanes), time_ns)
        self._see(view)

    @property
    def _height(self) -> int:
        return max(1, self.size.height - 1)

    def _see(self, view: Viewport) -> None:
        self.view = view
        self._drawn = []
        self.refresh()
        self.post_message(self.Moved())

    def action_zoom(self, direction: int) -> None:
        """See more or less time."""
        if self.lanes is not None:
            self._see(of.zoomed(self.lanes, self.view, ZOOM**direction))

    def action_whole(self) -> None:
        """See the whole step."""
        if self.lanes is not None:
            self._see(of.zoomed(self.lanes, self.view, float("inf")))

    def action_cursor(self, by: int) -> None:
        """Move the cursor by one cell."""
        if self.lanes is not None:
            per_cell = self.view.span_ns / of.plot_width(self.size.width)
            self._see(of.with_cursor(self.lanes, self.view, self.view.cursor_ns + by * per_cell))

    def action_pan(self, by: int) -> None:
        """Move the view by half of what is seen."""
        if self.lanes is not None:
            self._see(of.panned(self.lanes, self.view, by * PAN))

    def action_line(self, by: int) -> None:
        """Move the cursor to another line."""
        if self.lanes is not None and self.lanes.rows:
            self._see(of.with_row(self.lanes, self.view, self.view.row + by, self._height))

    def action_call(self, by: int) -> None:
        """Move the cursor to the middle of the call before or after."""
        if self.lanes is None or not self.lanes.rows:
            return
        index = of.neighbour(self.lanes, self.view, by)
        if index is not None:
            call = self.lanes.slice(self.view.row, index)
            self._see(of.with_cursor(self.lanes, self.view, call.start_ns + call.dur_ns / 2))

    def action_fit(self) -> None:
        """Zoom so that the call under the cursor takes most of the room."""
        if self.lanes is None or not self.lanes.rows:
            return
        index = self.lanes.at(self.view.row, self.view.cursor_ns)
        if index is not None:
            call = self.lanes.slice(self.view.row, index)
            span = max(of.LEAST_SPAN_NS, min(self.lanes.span_ns, call.dur_ns * 1.25))
            start = call.start_ns - (span - call.dur_ns) / 2
            self._see(of.shown(self.lanes, self.view, start, span))

    def action_edge(self, to: int) -> None:
        """Move the cursor to the beginning or the end."""
        if self.lanes is not None:
            self._see(of.with_cursor(self.lanes, self.view, self.lanes.start_ns if to < 0 else self.lanes.end_ns))

    def action_step(self, direction: int) -> None:
        """Show another step."""
        self.post_message(self.StepWanted(direction))

    def on_resize(self) -> None:
        """Draw for the new size."""
        if self.lanes is not None and self.lanes.rows:
            self.view = of.with_row(self.lanes, self.view, self.view.row, self._height)
        self._drawn = []
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of cells."""
        width, base = self.size.width, self.rich_style
        if not self._drawn and self.lanes is not None:
            self._drawn = of.draw(self.lanes, self.view, width, self.size.height, self._glyphs)
        if y >= len(self._drawn):
            return Strip.blank(width, base)
        segments = [Segment(span.text, base + role_style(span.style, self.app)) for span in self._drawn[y]]
        return Strip(segments).adjust_cell_length(width, base)


def call_rows(lanes: Lanes, view: Viewport, width: int, glyphs: Glyphs) -> list[Row]:
    """Say what is under the cursor: two rows."""
    place = f"{of.exact(view.cursor_ns - lanes.start_ns)} ms into the step"
    index = lanes.at(view.row, view.cursor_ns) if lanes.rows else None
    if index is None:
        return [fitted([Span("nothing here", "axis")], width), fitted([Span(f"cursor at {place}", "axis")], width)]
    call = lanes.slice(view.row, index)
    share = format_pct(100 * call.dur_ns / lanes.span_ns)
    lane = lanes.lanes[lanes.rows[view.row][0]]
    texts = [
        f"{of.exact(call.dur_ns)} ms ({share})",
        f"from {of.exact(call.start_ns - lanes.start_ns)} to {of.exact(call.end_ns - lanes.start_ns)} ms",
        one_cell(lane.label),
    ]
    name = shortened(one_cell(call.name), width, glyphs)
    return [fitted([Span(name, "bold")], width), fitted([Span(f" {glyphs.dot} ".join(texts))], width)]


class TimelinePane(ResultPane):
    """One step at a time."""

    NAME = "timeline"
    BINDING_GROUP_TITLE = "timeline"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "a", "python", "python", show=False, tooltip="Show frames of Python code too, where the trace has them"
        ),
    ]
    DEFAULT_CSS = """
    TimelinePane { padding: 0 1; }
    TimelinePane #call { height: 2; }
    """

    step: int | None = None
    python = False
    _time_ns: int | None = None
    _shown: Any = None

    def compose(self) -> ComposeResult:
        """The lanes, and the call under the cursor."""
        yield LanesView(self.glyphs)
        yield Rows(id="call")
        yield LinesView()

    @property
    def lanes_view(self) -> LanesView:
        """The lanes."""
        return self.query_one(LanesView)

    @property
    def question(self) -> Question:
        """What is shown."""
        return Question("timeline", (self.step, self.python))

    def needed(self) -> tuple[Question, ...]:
        """Ask for the step."""
        return (self.question,)

    def update_shown(self) -> None:
        """Show the step, or why there is none; while another step is laid out, the one before stays."""
        found: Lanes | None = self.answer(self.question)
        if found is None and self.lanes_view.lanes is not None and self.desk.answers:
            return
        there = found is not None and bool(found.rows)
        self.lanes_view.display = self.query_one("#call").display = there
        self.query_one(LinesView).display = not there
        if found is None or not there:
            self.query_one(LinesView).show_lines(self._why)
        elif found is not self._shown or self._time_ns is not None:
            self.lanes_view.show(found, self._time_ns)
            self._shown, self._time_ns = found, None
            self.take_focus()

    def forget(self) -> None:
        """Another trace is asked: nothing of the one before may stay."""
        self.step, self._shown, self._time_ns, self.lanes_view.lanes = None, None, None, None

    def show_step(self, step: int | None, time_ns: int | None) -> None:
        """Show a step, the cursor at a time."""
        self.step, self._time_ns = step, time_ns
        self.opened()

    def _why(self, width: int, height: int) -> list[Line]:
        if self.answer(self.question) is not None:
            return prose("nothing ran in this trace", width, indent=0)
        text, hint = self.why_empty()
        return [*prose(text, width, indent=0), *prose(hint, width, indent=0, style="dim")]

    def take_focus(self) -> None:
        """Keys move in the lanes."""
        if self.has_focus_within or self.display:
            (self.lanes_view if self.lanes_view.display else self.query_one(LinesView)).focus()

    def on_item_list_chosen(self) -> None:
        """Analyse a trace that was not."""
        if self.desk.stopped:
            self.desk.ask(*self.needed())
            self.host.say_doing()

    def on_lanes_view_moved(self) -> None:
        """Say what is under the cursor."""
        self._say()

    def on_resize(self) -> None:
        """Fill the width."""
        self._say()

    def _say(self) -> None:
        lanes = self.lanes_view.lanes
        width = self.size.width - 2
        if lanes is not None and width > 0:
            self.query_one("#call", Rows).show(call_rows(lanes, self.lanes_view.view, width, self.glyphs))

    def on_lanes_view_step_wanted(self, event: LanesView.StepWanted) -> None:
        """Show the next step or the one before."""
        lanes = self.lanes_view.lanes
        if lanes is None or not lanes.steps or lanes.step is None:
            return
        place = lanes.steps.index(lanes.step) + event.direction
        if 0 <= place < len(lanes.steps):
            self.step = lanes.steps[place]
            self.opened()
        else:
            count = format_number_of(len(lanes.steps), "profiled step")
            self.notify(
                f"the trace has {count}, this is the {'first' if place < 0 else 'last'}", markup=False, timeout=3
            )

    def action_python(self) -> None:
        """Show or hide Python frames."""
        self.python = not self.python
        self.opened()

    def copied(self) -> str:
        """Return the call under the cursor with its times."""
        view, lanes = self.lanes_view.view, self.lanes_view.lanes
        if lanes is None:
            return ""
        rows = call_rows(lanes, replace(view), 400, self.glyphs)
        return ", ".join("".join(span.text for span in row).strip() for row in rows)
