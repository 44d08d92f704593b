"""Sweep: a grid as a heat map that fills while it runs, with the Pareto front beside it."""

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Footer, Static
from textual.worker import Worker, WorkerState

from gradscope.core.units import format_number_of
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.charts.heat import Place, corner_for, fit, heat
from gradscope.tui.home.command import sweep_line
from gradscope.tui.home.text import fitted
from gradscope.tui.sweep.acting import ActingScreen
from gradscope.tui.sweep.control import Control, SweepControl
from gradscope.tui.sweep.front import front_cells, front_lines, side_width, windowed
from gradscope.tui.sweep.lines import about_cell, legend_line, progress_line, title_words
from gradscope.tui.sweep.reader import SweepReader, SweepSource
from gradscope.tui.sweep.table import SweepTable, first_across, metrics_of, sweep_table
from gradscope.tui.sweep.view import SweepView, path_of, state_of
from gradscope.tui.widgets.foreign import literal
from gradscope.tui.widgets.plot import Plot
from gradscope.tui.widgets.quiet import say
from gradscope.tui.widgets.rows import Rows

READING = "sweep"
"""Group of the workers that read."""

GOING_SECONDS, IDLE_SECONDS = 1.0, 2.0
"""Between looks while a sweep runs, and while none does."""

FEWEST, MOST = 2, 6
"""Runs that can be compared."""

LOW, VERY_LOW = 20, 14
"""Rows below which the command line goes, and all about the highlighted cell."""


class SweepScreen(ActingScreen):
    """One grid."""

    HELP = (
        "One cell is one run of the grid. Fills rank the cells that compete, those of one model: the densest is the "
        "best. * is the best of its model, < the best of its row, + is on the Pareto front: nothing else of its model "
        "is as good in everything. Without a number: > or \N{BLACK RIGHT-POINTING TRIANGLE} runs, - or . waits, X or "
        "\N{BALLOT X} ran out of memory, ! failed. The sweep is a process of its own: leaving this screen or gradscope "
        "stops nothing, and starting it again goes on where it was."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open", key_display="enter", tooltip="Open the highlighted cell's run"),
        Binding("n", "metric(1)", "metric", tooltip="Show the next number: loss, step time, peak memory, energy, ..."),
        Binding("N", "metric(-1)", "metric before", show=False, tooltip="Show the number before this one"),
        Binding("f", "front", "front", tooltip="List the Pareto front, or go back to the map"),
        Binding("r", "start", "run", tooltip="Start the sweep, or go on with it; it outlives gradscope"),
        Binding("R", "retry", "retry", show=False, tooltip="Run the cells again that did not end well"),
        Binding("s", "stop", "stop", tooltip="Stop the sweep; asks first"),
        Binding(
            "space",
            "mark",
            "mark",
            show=False,
            tooltip="Mark the highlighted cell for comparison, or take the mark off",
        ),
        Binding(
            "c", "compare", "compare", tooltip="Compare the marked cells, 2 to 6; the first marked is the baseline"
        ),
        Binding("x", "across", "axes", show=False, tooltip="Put the next axis across"),
        Binding("e", "export", "report", tooltip="Write the report as one HTML page into the sweep's folder"),
        Binding("y", "copy", "copy", show=False, tooltip="Copy the command line at the bottom"),
        Binding("u", "unmark", "unmark", show=False, tooltip="Take all marks off"),
        Binding("up,k", "move(-1, 0)", "up", show=False),
        Binding("down,j", "move(1, 0)", "down", show=False),
        Binding("left,h", "move(0, -1)", "left", show=False),
        Binding("right,l", "move(0, 1)", "right", show=False),
        Binding("pageup", "move(-10, 0)", "a page up", show=False),
        Binding("pagedown", "move(10, 0)", "a page down", show=False),
        Binding("home,g", "move(-100000, -100000)", "first", show=False),
        Binding("end,G", "move(100000, 100000)", "last", show=False),
        Binding("b", "best", "best", show=False, tooltip="Go to the best cell of this model"),
    ]
    DEFAULT_CSS = """
    SweepScreen { layout: vertical; }
    SweepScreen #title, SweepScreen #progress { height: 1; padding: 0 1; }
    SweepScreen #middle { height: 1fr; padding: 0 1; }
    SweepScreen #map { width: 1fr; height: 100%; }
    SweepScreen #front { height: 100%; }
    SweepScreen #front.-beside { border-left: solid $border-blurred; padding: 0 0 0 1; }
    SweepScreen #legend { height: 1; padding: 0 1; }
    SweepScreen #about { height: 3; border-top: solid $border-blurred; padding: 0 1; }
    SweepScreen #command { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    SweepScreen.-ascii #front.-beside { border-left: ascii $border-blurred; }
    SweepScreen.-ascii #about { border-top: ascii $border-blurred; }
    """

    @dataclass
    class Seen(Message):
        """The sweep was read."""

        view: SweepView

        def can_replace(self, message: Message) -> bool:
            """A newer look makes an older one worthless."""
            return isinstance(message, SweepScreen.Seen)

    def __init__(self, name: str, source: SweepSource | None = None, control: SweepControl | None = None) -> None:
        """Make the screen.

        Args:
            name: The preset's name or file.
            source: What to read from; by default the sweep's folder.
            control: What starts and stops sweeps; by default real ones.
        """
        super().__init__(name, control or Control())
        self.metric = "loss_last"
        self.across = 0
        """Place of the axis that lies across."""
        self.cursor: Place = (0, 0)
        self.marked: list[str] = []
        """Hashes of marked cells, the first marked first."""
        self.listing = False
        """Whether the Pareto front has the map's place."""
        self._corner: Place = (0, 0)
        self._top = 0
        self._source = source
        self._table: SweepTable | None = None
        self._reading = False
        self._asleep = False
        self._next_look: Timer | None = None

    def compose(self) -> ComposeResult:
        """Title, progress, map and front, what they mean, all about a cell, the command line."""
        yield Static(id="title")
        yield Rows(id="progress")
        with Horizontal(id="middle"):
            yield Plot(id="map")
            yield Rows(id="front")
        yield Rows(id="legend")
        yield Rows(id="about")
        yield Static(id="command")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Read for the first time."""
        self.set_class(not self.context.glyphs.unicode, "-ascii")
        self._source = self._source or SweepReader(self.context.out, self.preset_name, self.context.now_wall_ns)
        self._lay_out(self.size.width, self.size.height)
        self._draw()
        self.look()

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was open."""
        if self._asleep:
            self._asleep = False
            self.look()

    def on_screen_suspend(self) -> None:
        """Read nothing while another screen is open."""
        self._asleep = True

    def on_resize(self, event: events.Resize) -> None:
        """Give each part its room."""
        self._lay_out(event.size.width, event.size.height)
        self.call_after_refresh(self._draw)

    def on_plot_resized(self) -> None:
        """Fill it."""
        self._draw()

    # reading

    def look(self) -> None:
        """Read the sweep now."""
        if self._next_look is not None:
            self._next_look.stop()
            self._next_look = None
        if not self._reading and self.is_attached:
            self._reading = True
            self.run_worker(self._read, thread=True, group=READING)

    def _read(self) -> None:
        if self._source is not None:
            self.post_message(self.Seen(self._source.read()))

    def on_sweep_screen_seen(self, event: Seen) -> None:
        """Show it, and look again after a while; not while another screen is open."""
        self._reading = False
        view = event.view
        first = bool(view.axes) and not self.view.axes
        if first:
            self.across = first_across(view.axes)
        if view != self.view:
            self.view, self._table = view, None
            with self.app.batch_update():
                if first:
                    self._lay_out(self.size.width, self.size.height)
                self._draw()
        if not self._asleep:
            wait = max(GOING_SECONDS if view.going else IDLE_SECONDS, self.context.refresh_seconds)
            self._next_look = self.set_timer(wait, self.look)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """After an error nobody foresaw, which the app tells, go on."""
        super().on_worker_state_changed(event)
        if event.state is WorkerState.ERROR and event.worker.group == READING:
            self._reading = False

    # showing

    @property
    def table(self) -> SweepTable:
        """What the map shows."""
        if self._table is None:
            self._table = sweep_table(self.view, self.metric, self.across, self.marked)
        return self._table

    @property
    def command(self) -> str:
        """The command line that does what `r` does."""
        return sweep_line(self.preset_name, self.context.out)

    def _lay_out(self, width: int, height: int) -> None:
        side = side_width(self.table.heat, width - 2)
        front = self.query_one("#front", Rows)
        front.display = side > 0 or self.listing
        front.set_class(side > 0 and not self.listing, "-beside")
        front.styles.width = side if side and not self.listing else "1fr"
        self.query_one("#map").display = not self.listing
        self.query_one("#about").display = height >= VERY_LOW
        self.query_one("#legend").display = height >= LOW
        self.query_one("#command").display = height >= LOW

    def _draw(self) -> None:
        if not self.is_attached:
            return
        glyphs, view, table = self.context.glyphs, self.view, self.table
        width = max(1, self.size.width - 2)
        words = title_words(view, self.metric, table.unit, glyphs)
        marked = f" {glyphs.dot} {len(self.marked)} marked" if self.marked else ""
        line = fitted(f"sweep {self.preset_name}   {words}{marked}", width, glyphs.ellipsis)
        say(self.query_one("#title", Static), literal(line))
        self.query_one("#progress", Rows).show([progress_line(view, width, glyphs)])
        self._draw_map()
        self._draw_front()
        self.query_one("#legend", Rows).show([legend_line(view, width, glyphs)])
        self.query_one("#about", Rows).show(about_cell(table.at(self.cursor), view, width, 2, glyphs))
        say(self.query_one("#command", Static), literal(f"$ {self.command}"))

    def _draw_map(self) -> None:
        plot, table = self.query_one("#map", Plot), self.table
        width, height = plot.size
        if width < 1 or height < 1:
            return
        if not self.view.rows:
            plot.show(self._nothing(width))
            return
        rows, columns = len(table.heat.labels), len(table.heat.heads)
        self.cursor = (min(max(0, self.cursor[0]), rows - 1), min(max(0, self.cursor[1]), columns - 1))
        self._corner = corner_for(fit(table.heat, width, height), self.cursor, self._corner)
        glyphs = self.context.glyphs
        plot.show(heat(table.heat, width, height, glyphs, cursor=self.cursor, corner=self._corner))

    def _nothing(self, width: int) -> list[Row]:
        if not self.view.hint:
            return []
        return [(), (Span(fitted(self.view.hint, width, self.context.glyphs.ellipsis), "axis"),)]

    def _draw_front(self) -> None:
        panel = self.query_one("#front", Rows)
        width, height = panel.content_size
        if not panel.display or width < 1 or height < 1:
            return
        here = self.table.at(self.cursor)
        lines = front_lines(self.view, here[0].cell if here else "", width, self.context.glyphs)
        self._top, shown = windowed(lines, self._top, width, height, self.context.glyphs)
        panel.show(shown)

    # keys: moving about

    def action_move(self, rows: int, columns: int) -> None:
        """Highlight another cell; in the front's list, another one of that."""
        if not self.view.rows:
            return
        if self.listing:
            self._move_in_front(rows + columns)
        else:
            heat_table = self.table.heat
            y = min(max(0, self.cursor[0] + rows), len(heat_table.labels) - 1)
            x = min(max(0, self.cursor[1] + columns), len(heat_table.heads) - 1)
            self.cursor = (y, x)
        self._draw()

    def _move_in_front(self, by: int) -> None:
        members = [self.table.places[cell] for cell in front_cells(self.view) if cell in self.table.places]
        if not members:
            return
        at = members.index(self.cursor) if self.cursor in members else -by if by > 0 else by
        self.cursor = members[min(max(0, at + by), len(members) - 1)]

    def action_best(self) -> None:
        """Highlight the best cell of the group that the highlighted one is in."""
        table = self.table.heat
        group = table.groups[self.cursor[0]] if self.cursor[0] < len(table.groups) else None
        for y, entries in enumerate(table.entries):
            for x, entry in enumerate(entries):
                if table.groups[y] == group and entry is not None and entry.best:
                    self.cursor = (y, x)
                    self._draw()
                    return

    def action_metric(self, by: int) -> None:
        """Show another number."""
        names = metrics_of(self.view)
        place = names.index(self.metric) if self.metric in names else -1
        self.metric = names[(place + by) % len(names)]
        self._table = None
        self._draw()

    def action_across(self) -> None:
        """Put the next axis across; the highlight stays with its cell."""
        if len(self.view.axes) < 2:
            return
        here = self.table.at(self.cursor)
        self.across = (self.across + 1) % len(self.view.axes)
        self._table, self._corner = None, (0, 0)
        self.cursor = self.table.places.get(here[0].cell, (0, 0)) if here else (0, 0)
        self._lay_out(self.size.width, self.size.height)
        self.call_after_refresh(self._draw)

    def action_front(self) -> None:
        """Give the map's place to the front, or the other way round; beside each other, go along the front."""
        self.listing = not self.listing
        if self.listing and self.cursor not in [self.table.places.get(cell) for cell in front_cells(self.view)]:
            self._move_in_front(-1)
        self._lay_out(self.size.width, self.size.height)
        self._draw()
        self.call_after_refresh(self._draw)

    # keys: runs

    def action_open(self) -> None:
        """Watch the highlighted cell's run, or see its results."""
        repeats = self.table.at(self.cursor)
        here = next((row for row in repeats if state_of(row) == "running"), None)
        here = here or next((row for row in repeats if row.path is not None), None)
        path = None if here is None else path_of(here)
        if path is not None:
            self.front.open_run(path)
        elif repeats:
            self.front.report_error("this cell has no run yet", "r starts the sweep, or goes on with it")

    def action_mark(self) -> None:
        """Mark the highlighted cell, or take its mark off."""
        cells = [row.cell for row in self.table.at(self.cursor)]
        if not cells:
            return
        if any(cell in self.marked for cell in cells):
            self.marked = [cell for cell in self.marked if cell not in cells]
        else:
            self.marked.append(cells[0])
        self._table = None
        self._draw()

    def action_unmark(self) -> None:
        """Take all marks off."""
        self.marked, self._table = [], None
        self._draw()

    def action_compare(self) -> None:
        """Compare the marked cells; with one marked, that and the highlighted one."""
        rows = {row.cell: row for row in self.view.rows}
        here = self.table.at(self.cursor)
        cells = [cell for cell in self.marked if cell in rows]
        if len(cells) == 1 and here and here[0].cell not in cells:
            cells.append(here[0].cell)
        paths = [path for cell in cells if (path := path_of(rows[cell])) is not None]
        if FEWEST <= len(paths) <= MOST and len(paths) == len(cells):
            self.front.open_compare(paths)
            return
        marked = f"{format_number_of(len(cells), 'cell')} marked" if cells else "no cells are marked"
        if len(paths) < len(cells):
            marked = f"{len(cells) - len(paths)} of the marked cells have no run yet"
        self.front.report_error(marked, f"space marks; compare takes {FEWEST} to {MOST}")

    def action_copy(self) -> None:
        """Copy the command line."""
        self.front.copy_text(self.command)
