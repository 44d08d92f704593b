"""A run that is over: what it came to, and everything its trace can be asked."""

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Footer

from gradscope.tui.charts.cells import Span
from gradscope.tui.panes.base import cut, fitted, one_cell, wrapped
from gradscope.tui.results.desk import Answered, DeskMessage, Failed, MakeReader, Progressed, Settled, TraceDesk
from gradscope.tui.results.dialogs import ChooseWindow
from gradscope.tui.results.meanings import MEANINGS
from gradscope.tui.results.outside import SAID_SECONDS, Outside
from gradscope.tui.results.pane import ResultPane
from gradscope.tui.results.report import RunReport, read_report
from gradscope.tui.results.tabs import TABS, tab_bar, title_row
from gradscope.tui.results.timeline import TimelinePane
from gradscope.tui.widgets.item_list import ItemList
from gradscope.tui.widgets.rows import Rows

MEANING_ROWS = 4


class ResultsScreen(Outside):
    """One run in tabs."""

    AUTO_FOCUS = ""
    HELP = (
        "Everything about one run. The summary says, in this order: did it work, what did it cost, where did time and "
        "memory go, what to do about it, is the training right. The other tabs ask the trace of its profiled steps; "
        "escape stops that. i says what the highlighted number means."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(
                tab.key, f"tab('{tab.name}')", tab.name, id=f"results.{tab.name}", show=False, tooltip="Open this tab"
            )
            for tab in TABS
        ),
        Binding("right_square_bracket", "turn(1)", "next tab", id="results.next", key_display="]", show=False),
        Binding("left_square_bracket", "turn(-1)", "tab before", id="results.previous", key_display="[", show=False),
        Binding("i", "meaning", "meaning", id="results.meaning", tooltip="What the highlighted number means"),
        Binding("x", "export", "export", id="results.export", tooltip="Write this run as CSV, Parquet, Markdown, ..."),
        Binding(
            "t",
            "tensorboard",
            "tensorboard",
            show=False,
            id="results.tensorboard",
            tooltip="Start TensorBoard, or stop it",
        ),
        Binding("w", "windows", "windows", id="results.windows", tooltip="Choose which of several traces is asked"),
        Binding(
            "l", "live", "curves", show=False, id="results.live", tooltip="All steps of the run, as when it was watched"
        ),
        Binding("R", "read_again", "read again", id="results.read", show=False, tooltip="Read the folder once more"),
        Binding(
            "y",
            "copy",
            "copy",
            show=False,
            id="results.copy",
            tooltip="Copy what is highlighted; in summary, the run's path",
        ),
        Binding("escape", "leave", "back", id="results.leave", show=False, tooltip="Stop the analysis, or go back"),
    ]
    DEFAULT_CSS = """
    ResultsScreen { layout: vertical; }
    ResultsScreen #title, ResultsScreen #tabs, ResultsScreen #doing { height: 1; }
    ResultsScreen #body { height: 1fr; }
    ResultsScreen #meaning { height: 4; padding: 0 1; border-top: solid $border-blurred; }
    ResultsScreen.-ascii #meaning { border-top: ascii $border-blurred; }
    """

    class Read(Message):
        """The folder was read."""

        bubble = False

        def __init__(self, report: RunReport) -> None:
            super().__init__()
            self.report = report

    def __init__(self, path: Path, *, make_reader: MakeReader | None = None) -> None:
        """`path` is a run directory, or any folder with traces; `make_reader` makes what answers questions to them."""
        super().__init__()
        self.path = path
        self.desk = TraceDesk(self) if make_reader is None else TraceDesk(self, make_reader)
        self.active = TABS[0].name
        """Name of the tab that is shown."""
        self.explains = False
        """Whether meanings are shown."""
        self.window = 0
        """Which trace is asked, counted from 1; 0 is all of them."""

    def compose(self) -> ComposeResult:
        """Title, tabs, the open tab, what numbers mean, what is being done."""
        yield Rows(id="title")
        yield Rows(id="tabs")
        yield Vertical(id="body")
        yield Rows(id="meaning")
        yield Rows(id="doing")
        yield Footer(show_command_palette=False)

    async def on_mount(self) -> None:
        """Read the folder on a thread."""
        self.set_class(not self.context.glyphs.unicode, "-ascii")
        self.query_one("#meaning").display = self.query_one("#doing").display = False
        await self._show_tab(TABS[0].name)
        self.action_read_again()

    def on_resize(self) -> None:
        """Fill the width."""
        self._say_head()
        self._say_meaning()
        self.say_doing()

    # reading

    @property
    def run_path(self) -> Path:
        """The run's folder."""
        return self.report.path if self.report is not None else self.path

    def action_read_again(self) -> None:
        """Read the folder."""
        self.run_worker(self._read, thread=True, group="report", exclusive=True)

    def _read(self) -> None:
        self.post_message(self.Read(read_report(self.path)))

    def on_results_screen_read(self, message: Read) -> None:
        """Show what the folder says, and ask its trace."""
        before, self.report = self.report, message.report
        with self.app.batch_update():
            if before is None or before.traces != message.report.traces:
                self.window = 0
                self._open_traces()
            self._say_head()
            self.pane.opened()
            self.refresh_bindings()

    def _open_traces(self) -> None:
        report = self.report
        if report is not None:
            chosen = report.traces if not self.window else report.traces[self.window - 1 : self.window]
            self.desk.open(chosen, report.run_id)
            for pane in self.query(TimelinePane):
                pane.forget()

    def on_answered(self, message: Answered) -> None:
        """Show an answer."""
        self._take(message)

    def on_failed(self, message: Failed) -> None:
        """Show why there is no answer."""
        self._take(message)

    def on_progressed(self, message: Progressed) -> None:
        """Say what is being done."""
        if self.desk.take(message):
            self.say_doing()

    def on_settled(self, message: Settled) -> None:
        """Go on with what was asked meanwhile."""
        self.desk.take(message)

    def _take(self, message: DeskMessage) -> None:
        if self.desk.take(message):
            with self.app.batch_update():
                self.pane.update_shown()
                if not isinstance(self.focused, ItemList) or not self.focused.display:
                    self._focus_again()
                self._say_head()
                self._say_meaning()

    def _focus_again(self) -> None:
        """Give the focus to what is shown now, where it lies in something that is not."""
        focused = self.focused
        if focused is None or not focused.display:
            self.pane.take_focus()

    def say_doing(self) -> None:
        """Show what is being done, in a line that is there only meanwhile."""
        line, text = self.query_one("#doing", Rows), self.desk.doing
        line.display = bool(text)
        hint = f" {self.context.glyphs.dot} escape stops"
        room = max(0, self.size.width - 1 - len(hint))
        line.show(
            [
                fitted(
                    [Span(" "), Span(cut(one_cell(text), room, self.context.glyphs), "bold"), Span(hint, "axis")],
                    self.size.width,
                )
            ]
        )

    # tabs

    @property
    def pane(self) -> ResultPane:
        """The open tab."""
        return self.query_one(f"#pane-{self.active}", ResultPane)

    async def _show_tab(self, name: str) -> None:
        body, glyphs = self.query_one("#body"), self.context.glyphs
        kind = next(tab.pane for tab in TABS if tab.name == name)
        if not self.query(f"#pane-{name}"):
            await body.mount(kind(self, glyphs))
        self.active = name
        shown = self.pane
        for pane in self.query(ResultPane):
            pane.display = pane is shown
        self._say_head()
        self.pane.opened()
        self._say_meaning()
        self.refresh_bindings()

    async def action_tab(self, name: str) -> None:
        """Open a tab."""
        with self.app.batch_update():
            await self._show_tab(name)

    async def action_turn(self, by: int) -> None:
        """Open the next tab or the one before."""
        names = [tab.name for tab in TABS]
        await self.action_tab(names[(names.index(self.active) + by) % len(names)])

    def open_tab(self, name: str) -> None:
        """Show another tab."""
        self.call_later(self.action_tab, name)

    def open_step(self, step: int | None, time_ns: int | None = None) -> None:
        """Show a step in the timeline, the cursor at a time."""
        self.call_later(self._open_step, step, time_ns)

    async def _open_step(self, step: int | None, time_ns: int | None) -> None:
        await self.action_tab("timeline")
        self.query_one(TimelinePane).show_step(step, time_ns)

    def _say_head(self) -> None:
        width = self.size.width
        self.query_one("#title", Rows).show(
            [title_row(self.report, self.path, self.window, width, self.context.glyphs)]
        )
        self.query_one("#tabs", Rows).show([tab_bar(self.active, width)])

    # meanings

    def action_meaning(self) -> None:
        """Show or hide what the highlighted number means."""
        self.explains = not self.explains
        self._say_meaning()

    def on_item_list_highlighted(self) -> None:
        """Explain the line that is highlighted now."""
        self._say_meaning()

    def _say_meaning(self) -> None:
        strip = self.query_one("#meaning", Rows)
        strip.display = self.explains
        if self.explains:
            found = MEANINGS.get(self.pane.meaning())
            width = max(1, self.size.width - 2)
            title = found.title if found else "meaning"
            text = found.text if found else "nothing to explain here; move to a number"
            lines = wrapped(text, width - 2)[: MEANING_ROWS - 1]
            strip.border_title = title
            strip.show([fitted([Span(line)], width) for line in lines])

    # leaving

    def action_leave(self) -> None:
        """Close the meanings, else what is open in the tab, else stop the analysis, else go back."""
        if self.explains:
            self.action_meaning()
            return
        if self.pane.closed():
            return
        if self.desk.stop():
            self.say_doing()
            self.pane.update_shown()
            self.notify("the analysis was stopped; enter starts it again", markup=False, timeout=SAID_SECONDS)
            return
        self.front.go_back()

    def action_live(self) -> None:
        """Show all steps of the run."""
        self.front.open_live(self.path)

    def action_copy(self) -> None:
        """Copy what is highlighted, or the run's path."""
        text = "" if self.active == "summary" else self.pane.copied()
        self.front.copy_text(text or str(self.run_path))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Choosing among traces needs several."""
        return action != "windows" or (self.report is not None and len(self.report.traces) > 1)

    # windows

    def action_windows(self) -> None:
        """Choose which traces are asked."""
        if self.report is not None:
            self.app.push_screen(ChooseWindow(self.report.traces), self._choose_window)

    def _choose_window(self, number: int | None) -> None:
        if number is not None and number != self.window:
            self.window = number
            self._open_traces()
            self._say_head()
            self.pane.opened()
