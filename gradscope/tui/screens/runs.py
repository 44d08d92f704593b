"""Runs: all of them below the output root, and running ones elsewhere; to filter, sort, compare, open and delete."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Footer, Input, Static
from textual.worker import Worker, WorkerState

from gradscope.core.units import format_bytes, format_number_of
from gradscope.errors import GradscopeError
from gradscope.launch.spawn import launch
from gradscope.tui.home.command import run_words
from gradscope.tui.home.launching import Launch, Launcher, LaunchingScreen, settings_of_run
from gradscope.tui.home.text import fitted
from gradscope.tui.runs.about import about
from gradscope.tui.runs.deleting import Outcome, Weighed, consequences, delete_all, question, weigh
from gradscope.tui.runs.filter import EXAMPLE, read_filter
from gradscope.tui.runs.reader import LIST_SECONDS, RunsReader, RunsSource
from gradscope.tui.runs.table import RunTable
from gradscope.tui.runs.view import Entry, RunsView
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.widgets.foreign import literal
from gradscope.tui.widgets.quiet import say
from gradscope.tui.widgets.rows import Rows

READING, DELETING = "runs", "delete"
"""Groups of the workers that read, and that delete."""

FEWEST, MOST = 2, 6
"""Runs that can be compared."""

LOW = 11
"""Rows below which all about the highlighted run gives its room to the list."""


class FilterInput(Input):
    """What the runs that are listed must have."""

    BINDING_GROUP_TITLE = "filter"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,down", "leave(True)", "to the list", key_display="enter", tooltip="Go to the runs that fit"),
        Binding("escape", "leave(False)", "all runs", tooltip="List all runs again"),
    ]

    def action_leave(self, keep: bool) -> None:
        """Go to the list."""
        if not keep:
            self.value = ""
        self.screen.query_one(RunTable).focus()


class RunsScreen(LaunchingScreen):
    """All runs."""

    AUTO_FOCUS = "RunTable"
    HELP = (
        "Every run below the output root, and those that are running elsewhere. / filters as you type: words look in "
        "preset, model, optimizer, strategy, device, status and id; status:oom looks in one column; loss<2, "
        "step<200ms, peak>1GiB, age<2d compare numbers; a - before any of them means not. s sorts by the next "
        "column, 1 to 9 by that column, S turns the order around. Space marks runs: to compare 2 to 6 of them, the "
        "first marked being the baseline, or to delete several."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "compare", "compare", tooltip="Compare the marked runs, 2 to 6; the first marked is the baseline"),
        Binding("slash", "filter", "filter", key_display="/", tooltip="List only runs that have what you write"),
        Binding("a", "launch_again", "again", tooltip="Start the highlighted run once more, with its own settings"),
        Binding("x,delete", "delete", "delete", tooltip="Delete the marked runs, or the highlighted one; asks first"),
        Binding("y", "copy", "copy", tooltip="Copy the path of the highlighted run"),
    ]
    DEFAULT_CSS = """
    RunsScreen { layout: vertical; }
    RunsScreen #title { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    RunsScreen #search { height: 1; padding: 0 1; }
    RunsScreen #search Static { width: auto; height: 1; }
    RunsScreen FilterInput { height: 1; width: 1fr; border: none; padding: 0; }
    RunsScreen FilterInput:focus { border: none; }
    RunsScreen #about { height: 4; border-top: solid $border-blurred; padding: 0 1; }
    RunsScreen.-ascii #about { border-top: ascii $border-blurred; }
    """

    @dataclass
    class Seen(Message):
        """What is there was read."""

        view: RunsView

        def can_replace(self, message: Message) -> bool:
            """A newer look makes an older one worthless."""
            return isinstance(message, RunsScreen.Seen)

    @dataclass
    class Found(Message):
        """What is to be deleted was looked at."""

        weighed: Weighed

    @dataclass
    class Deleted(Message):
        """Runs were deleted, or could not be."""

        outcome: Outcome

    def __init__(self, source: RunsSource | None = None, launcher: Launcher = launch) -> None:
        """`source` reads the disk where it is not given."""
        super().__init__(launcher)
        self._source = source
        self.view: RunsView | None = None
        """What is shown; `None` until it was read."""
        self.deleting = 0
        """How many runs are being deleted."""
        self._weighing = False
        self._reading = False
        self._anew = False
        self._asleep = False
        self._next_look: Timer | None = None

    def compose(self) -> ComposeResult:
        """What is listed, the filter, the list, and all about the highlighted run."""
        yield Static(id="title")
        with Horizontal(id="search"):
            yield Static(literal("/ "))
            yield FilterInput(placeholder=EXAMPLE)
        yield RunTable(self.context.glyphs)
        yield Rows(id="about")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Read for the first time."""
        self.set_class(not self.context.glyphs.unicode, "-ascii")
        self._source = self._source or RunsReader(self.context.out)
        self._say()
        self._look()

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was open."""
        if self._asleep:
            self._asleep = False
            self._look()

    def on_screen_suspend(self) -> None:
        """Read nothing while another screen is open."""
        self._asleep = True

    def on_resize(self, event: events.Resize) -> None:
        """Leave the list as much room as it needs."""
        self.query_one("#about").display = event.size.height >= LOW
        self.call_after_refresh(self._say)

    # reading

    @property
    def table(self) -> RunTable:
        """The list."""
        return self.query_one(RunTable)

    def _look(self, *, anew: bool = False) -> None:
        if self._next_look is not None:
            self._next_look.stop()
            self._next_look = None
        self._anew = self._anew or anew
        if not self._reading and self.is_attached:
            self._reading = True
            wanted, self._anew = self._anew, False
            self.run_worker(partial(self._read, wanted), thread=True, group=READING)

    def _read(self, anew: bool) -> None:
        if self._source is not None:
            self.post_message(self.Seen(self._source.read(anew=anew)))

    def on_runs_screen_seen(self, event: Seen) -> None:
        """Show it, and look again after a while; not while another screen is open."""
        self._reading = False
        before, self.view = self.view, event.view
        with self.app.batch_update():
            self.table.empty = self._nothing()
            if before is None or before.entries != event.view.entries:
                self.table.show(event.view.entries, self.context.now_wall_ns())
            else:
                self.table.grow_older(self.context.now_wall_ns())
            self._say()
        if self._anew or not event.view.complete:
            self._look()
        elif not self._asleep:
            refresh = self.context.refresh_seconds
            wait = refresh if event.view.running else max(LIST_SECONDS, refresh)
            self._next_look = self.set_timer(wait, self._look)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """After an error nobody foresaw, which the app tells, go on."""
        super().on_worker_state_changed(event)
        if event.state is WorkerState.ERROR and event.worker.group == READING:
            self._reading = False
        if event.state is WorkerState.ERROR and event.worker.group == DELETING:
            self.deleting, self._weighing = 0, False

    # showing

    def _nothing(self) -> str:
        if self.view is None:
            return f"reading runs {self.context.glyphs.ellipsis}"
        if self.view.entries:
            return "no run fits the filter; escape in it lists all again"
        if self.view.unreadable:
            return self.view.unreadable
        return "no runs here yet: escape, then enter on quick starts one"

    def _say(self) -> None:
        if not self.is_attached:
            return
        glyphs, table = self.context.glyphs, self.table
        table.empty = self._nothing()
        line = fitted(f"runs  {self._title()}", self.size.width - 2, glyphs.ellipsis)
        say(self.query_one("#title", Static), literal(line))
        panel = self.query_one("#about", Rows)
        panel.show(about(table.entry, self.context.now_wall_ns(), max(1, self.size.width - 2), glyphs))

    def _title(self) -> str:
        view, table, glyphs = self.view, self.table, self.context.glyphs
        if self.deleting:
            return f"deleting {format_number_of(self.deleting, 'run')} {glyphs.ellipsis}"
        if self.starting:
            return f"starting {self.starting} {glyphs.ellipsis}"
        if view is None:
            return f"reading {self.context.out} {glyphs.ellipsis}"
        problem = read_filter(self.query_one(FilterInput).value).problem
        if problem:
            return problem
        listed, known = len(table.entries), len(view.entries)
        count = f"{known}" if listed == known else f"{listed} of {known}"
        parts = [count if view.complete else f"{count} read of {view.total}"]
        if view.running:
            parts.append(f"{view.running} running")
        if table.marked:
            parts.append(f"{len(table.marked)} marked")
        parts.append(view.unreadable or f"in {self.context.out}")
        return f" {glyphs.dot} ".join(parts)

    def on_run_table_changed(self) -> None:
        """Tell of the run that is now the one keys act on."""
        self._say()

    def on_input_changed(self, event: Input.Changed) -> None:
        """List what fits what is written so far."""
        with self.app.batch_update():
            self.table.filter(read_filter(event.value))
            self._say()

    # keys

    def on_run_table_chosen(self, event: RunTable.Chosen) -> None:
        """Watch the run, or see its results."""
        self.front.open_run(event.entry.path)

    def action_filter(self) -> None:
        """Write in the filter."""
        self.query_one(FilterInput).focus()

    def action_copy(self) -> None:
        """Copy a path."""
        if self.table.entry is not None:
            self.front.copy_text(str(self.table.entry.path))

    def action_compare(self) -> None:
        """Compare the marked runs; with one marked, that and the highlighted one."""
        entries = self.table.marked_entries
        here = self.table.entry
        if len(entries) == 1 and here is not None and here not in entries:
            entries.append(here)
        if FEWEST <= len(entries) <= MOST:
            self.front.open_compare([entry.path for entry in entries])
            return
        marked = f"{format_number_of(len(entries), 'run')} marked" if entries else "no runs are marked"
        self.front.report_error(marked, f"space marks; compare takes {FEWEST} to {MOST}")

    def action_launch_again(self) -> None:
        """Start the highlighted run once more."""
        entry = self.table.entry
        if entry is None:
            return
        try:
            preset, argv = settings_of_run(entry.path)
        except GradscopeError as error:
            self.front.report_error(error.message, error.hint)
            return
        except OSError as error:
            self.front.report_error(f"the settings of {entry.row.run_id} cannot be read: {error.strerror}")
            return
        self.start(Launch(preset, argv or tuple(run_words(preset.name, (), self.context.out))))

    def starting_changed(self) -> None:
        """Say in the title what is being started."""
        self._say()

    def launched(self, path: Path, wanted: Launch) -> None:
        """Watch the run."""
        self.front.open_live(path)

    # deleting

    def action_delete(self) -> None:
        """Look at what is to go, then ask."""
        entries = self.table.marked_entries or ([self.table.entry] if self.table.entry is not None else [])
        if entries and not self.deleting and not self._weighing:
            self._weighing = True
            self.run_worker(partial(self._weigh, tuple(entries)), thread=True, group=DELETING)

    def _weigh(self, entries: Sequence[Entry]) -> None:
        self.post_message(self.Found(weigh(entries)))

    def on_runs_screen_found(self, event: Found) -> None:
        """Ask; say why where nothing may go."""
        self._weighing = False
        weighed = event.weighed
        if not weighed.allowed:
            error = weighed.refused[0][1]
            self.front.report_error(error.message, error.hint)
            return
        detail = consequences(weighed, self.table.entries, self.context.now_wall_ns())

        def answered(yes: bool | None) -> None:
            if yes:
                self.deleting = len(weighed.allowed)
                self._say()
                self.run_worker(partial(self._delete, weighed.allowed), thread=True, group=DELETING)

        several = len(weighed.allowed) > 1
        yes = f"delete all {len(weighed.allowed)}" if several else "delete"
        self.app.push_screen(ConfirmScreen(question(weighed), detail, yes=yes, no="keep", firm=several), answered)

    def _delete(self, entries: Sequence[Entry]) -> None:
        self.post_message(self.Deleted(delete_all(entries, self.context.out)))

    def on_runs_screen_deleted(self, event: Deleted) -> None:
        """Say what came of it, and read anew."""
        self.deleting = 0
        outcome = event.outcome
        if outcome.errors:
            error, more = outcome.errors[0], len(outcome.errors) - 1
            self.front.report_error(error.message, error.hint + (f"\nand {more} more like it" if more else ""))
        if outcome.runs:
            freed = format_bytes(outcome.freed_bytes)
            self.notify(f"{format_number_of(outcome.runs, 'run')} deleted, {freed} freed", markup=False)
        self._look(anew=True)
        self._say()
