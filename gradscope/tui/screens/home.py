"""Home: what runs, what can be run, and what was run. Everything starts here."""

import shlex
from collections.abc import Callable, Sequence
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
from textual.widgets import Footer, Static
from textual.worker import Worker, WorkerState

from gradscope.analysis.expect import outlook
from gradscope.core.status import ProcessId
from gradscope.core.text import visible
from gradscope.core.units import format_number_of
from gradscope.errors import GradscopeError
from gradscope.launch.detached import start_sweep, started_sweep, sweep_log
from gradscope.launch.estimate import Estimator
from gradscope.launch.spawn import launch
from gradscope.tui.home.command import attach_line, run_line, run_words, show_line, sweep_line, sweep_words
from gradscope.tui.home.edits import Edits
from gradscope.tui.home.facts import Fact, laid_out, preset_facts, run_facts, running_facts
from gradscope.tui.home.foretelling import ForetellingScreen, MemoryEstimator, foretold_text
from gradscope.tui.home.form import Form, open_form
from gradscope.tui.home.launching import Launch, Launcher, settings_of_run
from gradscope.tui.home.layout import heights
from gradscope.tui.home.lists import HomeList, PresetList, RecentList, RunningList, nothing_yet, preset_items
from gradscope.tui.home.reader import HomeReader, HomeSource
from gradscope.tui.home.rows import recent_row, running_row
from gradscope.tui.home.text import fitted
from gradscope.tui.home.view import FIRST, HomeView, PresetItem
from gradscope.tui.results.dialogs import TensorBoardScreen
from gradscope.tui.results.server import server_of, stop_if
from gradscope.tui.screens.confirm import ConfirmScreen
from gradscope.tui.screens.edit import EditScreen
from gradscope.tui.widgets.foreign import literal
from gradscope.tui.widgets.item_list import Item, ItemList
from gradscope.tui.widgets.quiet import entitle, say
from gradscope.tui.widgets.rows import Rows

IDLE_SECONDS = 2.0
"""Between looks while nothing runs: a run started elsewhere shows up this soon."""

READING = "home"
"""Group of the workers that read."""

NARROW = 64
"""Columns below which the facts give their room to the list."""

Sweeper = Callable[[Sequence[str], Path, str], ProcessId | None]
"""Starts a sweep, as `gradscope.launch.detached.start_sweep` does."""

LISTS = ("running", "presets", "recent")
"""From top to bottom."""


class HomeScreen(ForetellingScreen):
    """Running runs, presets, recent runs."""

    AUTO_FOCUS = "#presets"
    HELP = (
        "Presets are ready-made training benchmarks: a model, an optimizer and a memory strategy. Times and memory are "
        "those of the last run of the same preset on this machine; ~ marks a rough figure, from the model's size. "
        "Enter on a grid opens its sweep: all its runs in one map. "
        "Up and down go through all three lists; tab jumps from one to the next."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "launch_detached", "detached", tooltip="Start the highlighted preset, or grid, and stay here"),
        Binding("a", "launch_again", "again", tooltip="Start the highlighted run, or the last one, with its settings"),
        Binding("e", "edit", "edit", tooltip="Change the highlighted preset's settings before starting it"),
        Binding(
            "m", "foretell", "foretell", show=False, tooltip="Foretell the highlighted preset's memory, not running it"
        ),
        Binding("y", "copy", "copy", tooltip="Copy the command line at the bottom"),
        Binding("l", "runs", "all runs", tooltip="List every run: filter, sort, compare"),
        Binding("t", "tensorboard", "tensorboard", tooltip="Where the TensorBoard that you started answers; stop it"),
    ]
    DEFAULT_CSS = """
    HomeScreen { layout: vertical; }
    HomeScreen #title { height: 1; padding: 0 1; }
    HomeScreen ItemList, HomeScreen #facts { border-top: solid $border-blurred; padding: 0 1; }
    HomeScreen ItemList:focus { border-top: solid $border; }
    HomeScreen #presets { width: 11fr; height: 100%; }
    HomeScreen #facts { width: 9fr; height: 100%; }
    HomeScreen #command { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    HomeScreen.-ascii ItemList, HomeScreen.-ascii #facts { border-top: ascii $border-blurred; }
    """

    @dataclass
    class Seen(Message):
        """What is there was read."""

        view: HomeView

        def can_replace(self, message: Message) -> bool:
            """A newer look makes an older one worthless."""
            return isinstance(message, HomeScreen.Seen)

    def __init__(
        self,
        source: HomeSource | None = None,
        launcher: Launcher = launch,
        sweeper: Sweeper = start_sweep,
        estimator: Callable[[], MemoryEstimator] = Estimator,
    ) -> None:
        """`source` reads the disk where it is not given; `sweeper` starts sweeps."""
        super().__init__(launcher, estimator)
        self._sweeper = sweeper
        self._source = source
        self.view = HomeView()
        """What is shown."""
        self._reading = False
        self._asleep = False
        self._next_look: Timer | None = None
        self._edits = Edits()
        self._said: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """Three lists, what is known of the highlighted item, and the command line."""
        yield Static(id="title")
        yield RunningList("running", id="running")
        with Horizontal(id="middle"):
            yield PresetList("presets", id="presets")
            yield Rows(id="facts")
        yield RecentList("recent", id="recent")
        yield Static(id="command")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Read for the first time."""
        self.set_class(not self.context.glyphs.unicode, "-ascii")
        self._source = self._source or HomeReader(self.context.out)
        self._show(self.view)
        self._look()

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was open."""
        if self._asleep:
            self._asleep = False
            self.refresh_bindings()
            self._look()

    def on_screen_suspend(self) -> None:
        """Read nothing while another screen is open."""
        self._asleep = True

    def on_resize(self, event: events.Resize) -> None:
        """Give each list its part of the room."""
        self._lay_out(event.size.width, event.size.height)

    # reading

    def _look(self) -> None:
        if self._next_look is not None:
            self._next_look.stop()
            self._next_look = None
        if not self._reading and self.is_attached:
            self._reading = True
            self.run_worker(self._read, thread=True, group=READING)

    def _read(self) -> None:
        if self._source is not None:
            self.post_message(self.Seen(self._source.read()))

    def on_home_screen_seen(self, event: Seen) -> None:
        """Show it, and look again after a while; not while another screen is open."""
        self._reading = False
        view = event.view
        if view != self.view:
            with self.app.batch_update():
                self._show(view)
        if not self._asleep:
            refresh = self.context.refresh_seconds
            wait = refresh if view.running else max(IDLE_SECONDS, refresh)
            self._next_look = self.set_timer(0.01 if view.machine is None else wait, self._look)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """After an error nobody foresaw, which the app tells, look again when the screen is opened again."""
        super().on_worker_state_changed(event)
        if event.worker.group == READING and event.state is WorkerState.ERROR:
            self._reading = False

    # showing

    def _show(self, view: HomeView) -> None:
        first = bool(view.presets) and not self.view.presets
        self.view = view
        glyphs, now = self.context.glyphs, self.context.now_wall_ns()
        self._list("running").show([Item(str(run.path), partial(running_row, run, glyphs)) for run in view.running])
        self._list("presets").show(preset_items(view, glyphs, self._edits.marked(view)))
        runs = [Item(run.row.path, partial(recent_row, run, now, glyphs)) for run in view.recent]
        self._list("recent").show(runs or [Item("", partial(nothing_yet, view, glyphs), heading=True)])
        self._list("recent").can_focus = bool(runs)
        if first:
            self._list("presets").highlight(FIRST)
        self._lay_out(self.size.width, self.size.height)
        self._show_title()
        if isinstance(self.focused, ItemList) and self.focused.highlighted is None:
            self.set_focus(self._list("presets"))
        self._show_highlighted()

    def _lay_out(self, width: int, height: int) -> None:
        presets = len(self._list("presets").items)
        shares = heights(height, len(self.view.running), presets, max(1, len(self.view.recent)))
        for name, rows in (("running", shares.running), ("middle", shares.presets), ("recent", shares.recent)):
            area = self.query_one(f"#{name}")
            area.display = rows > 0
            area.styles.height = rows
        self.query_one("#facts").display = width >= NARROW

    def _show_title(self) -> None:
        view = self.view
        running = f"{len(view.running)} running, " if view.running else ""
        runs = f"{running}{format_number_of(view.total, 'run')} in {visible(str(self.context.out))}"
        text = f"starting {visible(self.starting)} {self.context.glyphs.ellipsis}" if self.starting else runs
        room = self.size.width - 2 - len("gradscope ")
        line = literal("gradscope " + fitted(text, room, self.context.glyphs.ellipsis, right=True))
        say(self.query_one("#title", Static), line)

    def _show_highlighted(self) -> None:
        facts = self.query_one("#facts", Rows)
        entitle(facts, literal(self._title_of_facts()))
        facts.show(laid_out(self._facts(), max(10, facts.size.width or 36), self.context.glyphs))
        say(self.query_one("#command", Static), literal(f"$ {self.command}"))

    def _title_of_facts(self) -> str:
        item = self._preset()
        return item.name if item is not None and self._active() == "presets" else ""

    def _facts(self) -> list[Fact]:
        active, key = self._active(), self._list(self._active()).highlighted
        if active == "running":
            return next((running_facts(run) for run in self.view.running if str(run.path) == key), [])
        if active == "recent":
            now = self.context.now_wall_ns()
            return next((run_facts(run, now) for run in self.view.recent if run.row.path == key), [])
        item = self._preset()
        if item is None:
            return [Fact("", self.view.problem or f"reading presets {self.context.glyphs.ellipsis}", "axis")]
        facts = preset_facts(item, self.view.machine, self.context.glyphs)
        found = self.foretold(item.preset)
        if found is not None:
            place = next((number for number, fact in enumerate(facts, 1) if fact.label == "expected"), 0)
            facts.insert(place, Fact("", foretold_text(found, self.context.glyphs), found.role))
        return facts

    @property
    def command(self) -> str:
        """The command line that does what enter does."""
        active, out = self._active(), self.context.out
        path = self._list(active).highlighted
        if active == "presets":
            item = self._preset()
            if item is not None and item.cells is not None:
                return sweep_line(item.name, out)
            if item is not None and (form := self._edits.form(item)) is not None:
                return run_line(item.name, form.overrides, out)
            return run_line(item.name if item is not None else FIRST, (), out)
        if not path:
            return run_line(FIRST, (), out)
        return attach_line(Path(path).name) if active == "running" else show_line(Path(path).name, out)

    # what the keys act on

    def _list(self, name: str) -> ItemList:
        return self.query_one(f"#{name}", ItemList)

    def _active(self) -> str:
        """Return the list with the focus."""
        return str(self.focused.id) if isinstance(self.focused, ItemList) else "presets"

    def _preset(self) -> PresetItem | None:
        key = self._list("presets").highlighted
        return next((item for item in self.view.presets if item.name == key), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that act on presets are away while a list of runs has the focus."""
        if action == "tensorboard":
            return server_of(self.app).address is not None
        return action not in ("launch_detached", "edit", "foretell") or self._active() == "presets"

    def on_descendant_focus(self) -> None:
        """Tell of the item that is now the one keys act on."""
        if self.is_mounted:
            self.refresh_bindings()
            self._show_highlighted()

    def on_item_list_highlighted(self, event: ItemList.Highlighted) -> None:
        """Tell of the highlighted item."""
        if event.list.has_focus:
            self._show_highlighted()

    def on_item_list_left(self, event: ItemList.Left) -> None:
        """Go on in the next list that has something to highlight."""
        place = LISTS.index(str(event.list.id)) + event.direction
        while 0 <= place < len(LISTS):
            neighbour = self._list(LISTS[place])
            if neighbour.display and neighbour.highlighted is not None:
                neighbour.highlight_edge(-event.direction)
                self.set_focus(neighbour)
                return
            place += event.direction

    def on_home_list_ended(self, event: HomeList.Ended) -> None:
        """Go to the first or the last line of all lists."""
        for name in LISTS[:: -event.direction]:
            found = self._list(name)
            if found.display and found.highlighted is not None:
                found.highlight_edge(event.direction)
                self.set_focus(found)
                return

    def on_item_list_chosen(self, event: ItemList.Chosen) -> None:
        """Run a preset, watch or open a run."""
        if event.list.id == "presets":
            self._run_preset(detached=False)
        elif event.list.id == "running":
            self.front.open_live(Path(event.key))
        else:
            self.front.open_run(Path(event.key))

    def action_launch_detached(self) -> None:
        """Start the highlighted preset and stay."""
        self._run_preset(detached=True)

    def action_launch_again(self) -> None:
        """Start the highlighted run, or the last one, once more."""
        path = self._run_to_repeat()
        if path is None:
            self.front.report_error("there is no run yet to start again", "enter starts the highlighted preset")
            return
        try:
            preset, argv = settings_of_run(path)
        except GradscopeError as error:
            self.front.report_error(error.message, error.hint)
            return
        self.start(Launch(preset, argv or tuple(run_words(preset.name, (), self.context.out))))

    def _run_to_repeat(self) -> Path | None:
        active = self._active()
        if active != "presets" and self._list(active).highlighted:
            return Path(str(self._list(active).highlighted))
        paths = [run.path for run in self.view.running if not run.elsewhere]
        paths += [Path(run.row.path) for run in self.view.recent[:1]]
        return max(paths, key=lambda path: path.name, default=None)

    def action_foretell(self) -> None:
        """Foretell the memory of the highlighted preset; of a grid, of its base settings."""
        item = self._preset()
        if item is not None and self._usable(item) and item.preset is not None:
            self.foretell(item.preset)

    def foretelling_changed(self) -> None:
        """Show it among the facts."""
        self._show_highlighted()

    def action_edit(self) -> None:
        """Open the form of the highlighted preset."""
        item = self._preset()
        if item is None or not self._usable(item):
            return
        try:
            form = open_form(item.name, self._edits.of(item.name))
        except GradscopeError as error:  # its file was just changed
            self.front.report_error(error.message, error.hint)
            return
        self.app.push_screen(
            EditScreen(
                form,
                machine=self.view.machine,
                keep=self._keep_form,
                known=item.outlook,
                launcher=self._launcher,
                estimator=self._make_estimator,
            )
        )

    def _keep_form(self, form: Form) -> None:
        self._edits.keep(form)
        self._show(self.view)

    def action_copy(self) -> None:
        """Copy the command line."""
        self.front.copy_text(self.command)

    def action_tensorboard(self) -> None:
        """Say where TensorBoard answers, and offer to stop it."""
        server = server_of(self.app)
        if server.address is not None:
            self.app.push_screen(TensorBoardScreen(server.address), partial(stop_if, server))

    def action_runs(self) -> None:
        """List all runs."""
        self.front.open_runs()

    # starting runs

    def _run_preset(self, *, detached: bool) -> None:
        item = self._preset()
        if item is None or not self._usable(item) or item.preset is None:
            return
        if item.cells is not None and not detached:
            self.front.open_sweep(item.name)
            return
        form = self._edits.form(item)
        if form is not None and form.error is not None:
            self.front.report_error(form.error.message, form.error.hint)
            return
        preset, overrides = (item.preset, ()) if form is None else (form.preset, form.overrides)
        wanted = Launch(preset, tuple(run_words(item.name, overrides, self.context.out)), detached)
        start = partial(self.start, wanted) if item.cells is None else partial(self._start_sweep, item)
        ahead, machine = item.outlook, self.view.machine
        if form is not None:
            ahead = None if machine is None else outlook(preset, machine, None)
        if ahead is None or not ahead.obstacle:
            start()
            return
        detail = f"it {ahead.obstacle}\n{ahead.remedy}".strip()

        def answered(yes: bool | None) -> None:
            if yes:
                start()

        self.app.push_screen(
            ConfirmScreen(f"start {item.name} all the same?", detail, yes="start", firm=True), answered
        )

    def _start_sweep(self, item: PresetItem) -> None:
        """Start a grid's sweep as a process of its own, and say how to follow it."""
        name = item.name if item.preset is None else item.preset.name
        out = self.context.out
        running = started_sweep(out, name)
        if isinstance(running, ProcessId):
            self.front.report_error(f"the sweep runs already (process {running.pid})", "enter opens it")
            return
        try:
            self._sweeper(sweep_words(item.name, out)[2:], out, name)
        except GradscopeError as error:
            self.front.report_error(error.message, error.hint)
            return
        title = f"{visible(name)} runs in the background"
        self.notify(f"tail -f {shlex.quote(str(sweep_log(out, name)))}", title=title, markup=False)
        self._look()

    def _usable(self, item: PresetItem) -> bool:
        if item.preset is None:
            self.front.report_error(item.message, item.hint)
        return item.preset is not None

    def starting_changed(self) -> None:
        """Say in the title what is being started."""
        self._show_title()

    def launched(self, path: Path, wanted: Launch) -> None:
        """Watch the run; detached ones show up in the list above."""
        if wanted.detached:
            self._look()
        else:
            self.front.open_live(path)
