"""The app: one screen at a time, the keys that work everywhere, and the ways from one screen to another."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from textual import events
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter, Monochrome, NoColor
from textual.message import Message
from textual.screen import Screen

from gradscope.core.text import visible
from gradscope.errors import ExitCode
from gradscope.rundir.handle import RunHandle, is_running
from gradscope.tui.applog import AppLog, describe, detail_lines
from gradscope.tui.commands import ScreenCommands
from gradscope.tui.delta import ThriftyApp
from gradscope.tui.fallback import AsciiFilter
from gradscope.tui.faults import Fault, Faults
from gradscope.tui.screens.base import Context
from gradscope.tui.screens.error import ErrorScreen
from gradscope.tui.screens.help import HelpScreen
from gradscope.tui.screens.too_small import TooSmallScreen
from gradscope.tui.settings import Settings, app_folder, read_settings, write_settings
from gradscope.tui.terminal import too_small
from gradscope.tui.themes import THEMES, first_theme, next_theme

ERROR_SECONDS = 8.0
COPIED_SECONDS = 3.0

MULTIPLEXERS = {"tmux": "TMUX", "screen": "STY"}
"""Programs that keep OSC 52 to themselves unless they are told otherwise, and the variables that tell of them."""

IN_A_SMALL_WINDOW = ("quit", "suspend", "simulate_key")
"""Actions of the app that work while the screens are covered."""


class GradscopeApp(ThriftyApp):
    """Implements `Front`. Screens are imported when they are opened."""

    TITLE = "gradscope"
    COMMANDS: ClassVar[set[Any]] = {ScreenCommands}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "question_mark", "show_help", "help", id="app.help", key_display="?", tooltip="All keys of this screen"
        ),
        Binding("escape", "go_back", "back", id="app.back", show=False, tooltip="To the screen before this one"),
        Binding("q", "quit", "quit", id="app.quit", show=False, tooltip="Leave gradscope; runs go on"),
        Binding("ctrl+t", "next_theme", "theme", id="app.theme", show=False, tooltip="Change how the app looks"),
        Binding("ctrl+l", "redraw", "redraw", id="app.redraw", show=False, tooltip="Send the whole screen again"),
        Binding("ctrl+z", "suspend", "suspend", id="app.suspend", show=False, tooltip="To the shell; fg returns"),
    ]
    DEFAULT_CSS = """
    CommandPalette SearchIcon { display: none; }
    Tab.-active:nocolor { text-style: bold reverse; }
    Button:focus:nocolor { text-style: bold reverse; }
    """

    def __init__(
        self,
        context: Context,
        *,
        run: Path | None = None,
        log: AppLog | None = None,
        driver_class: type[Driver] | None = None,
    ) -> None:
        """Make the app.

        Args:
            context: What it is started with.
            run: A run to show at once, above the home screen.
            log: Where tracebacks go; by default, the app's own log.
            driver_class: How to talk to the terminal; by default, as textual does.
        """
        self.context = context
        super().__init__(driver_class=driver_class)
        self._first_run = run
        self._errors = log or AppLog(app_folder() / "app.log")
        self._faults = Faults()
        self._places: WeakKeyDictionary[Screen[Any], str] = WeakKeyDictionary()
        self.last_fault = ""
        """What made the app end, in a line; empty if it ended as it should."""
        self.on_exit_asked: list[Any] = []
        """Called with the exit code when the app is to end."""
        for theme in THEMES.values():
            self.register_theme(theme)
        saved = "" if self.is_headless else read_settings().theme
        self.theme = first_theme(saved, colour_system=self.console.color_system, no_color=self.no_color)

    def get_default_screen(self) -> Screen[Any]:
        """Start with the home screen."""
        from gradscope.tui.screens.home import HomeScreen

        return HomeScreen()

    def on_mount(self) -> None:
        """Open the run that was asked for."""
        self.begin_capture_print(self)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the shell wrote over the screen
        if self._first_run is not None:
            self.open_run(self._first_run)

    # Front: the ways from one screen to another

    def open_run(self, path: Path) -> None:
        """Show a run: live while it runs, its results when it is over."""
        try:
            running = is_running(RunHandle(path).status())
        except OSError:  # closed to this user, or going: the results say what there is to say
            running = False
        if running:
            self.open_live(path)
        else:
            self.open_results(path)

    def open_live(self, path: Path) -> None:
        """Show the live screen of a run, running or over."""
        from gradscope.tui.feed import RunFeed
        from gradscope.tui.screens.live import LiveScreen

        self._open(f"live {path}", lambda: LiveScreen(RunFeed(path)))

    def open_results(self, path: Path) -> None:
        """Show the results of a run that is over."""
        from gradscope.tui.screens.results import ResultsScreen

        self._open(f"results {path}", lambda: ResultsScreen(path))

    def open_runs(self) -> None:
        """Show the list of all runs."""
        from gradscope.tui.screens.runs import RunsScreen

        self._open("runs", RunsScreen)

    def open_compare(self, paths: Sequence[Path]) -> None:
        """Compare 2 to 6 runs; the first is the baseline."""
        from gradscope.tui.screens.compare import CompareScreen

        self._open(f"compare {paths}", lambda: CompareScreen(tuple(paths)))

    def open_sweep(self, preset_name: str) -> None:
        """Show the sweep of a preset: its grid, filling while it runs."""
        from gradscope.tui.screens.sweep import SweepScreen

        self._open(f"sweep {preset_name}", lambda: SweepScreen(preset_name))

    def _open(self, place: str, make: Callable[[], Screen[Any]]) -> None:
        """Go to a place: back to its screen where it is open already, so that going in circles piles up nothing."""
        for screen in self.screen_stack:
            if self._places.get(screen) == place:
                while self.screen is not screen:
                    self.pop_screen()
                return
        screen = make()
        self._places[screen] = place
        self.push_screen(screen)

    def go_back(self) -> None:
        """Return to the screen before this one; the first one stays."""
        if len(self.screen_stack) > 1:
            self.pop_screen()

    def copy_text(self, text: str) -> None:
        """Put text on the user's clipboard by OSC 52, which works over SSH, and say so."""
        self.copy_to_clipboard(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        inside = next((name for name, variable in MULTIPLEXERS.items() if os.environ.get(variable)), None)
        title = "copied" if inside is None else f"copied, if {inside} passes it on"
        self.notify(visible(text), title=title, markup=False, timeout=COPIED_SECONDS)

    def report_error(self, message: str, hint: str = "") -> None:
        """Show an error that the user can do something about, as literal text."""
        text = visible(message) + (f"\n{visible(hint)}" if hint else "")
        self.notify(text, severity="error", markup=False, timeout=ERROR_SECONDS)

    # Keys that work everywhere

    def action_show_help(self) -> None:
        """List the keys of the current screen."""
        self.push_screen(HelpScreen(self.screen))

    def action_go_back(self) -> None:
        """Return to the screen before this one."""
        self.go_back()

    def action_help_quit(self) -> None:
        """Answer Ctrl-C, which ends nothing here."""
        self.notify("q leaves gradscope; runs go on", markup=False, timeout=COPIED_SECONDS)

    def action_next_theme(self) -> None:
        """Change how the app looks."""
        self.theme = next_theme(self.theme)
        self.clear_notifications()  # of the theme before
        self.notify(f"theme {self.theme}", markup=False, timeout=COPIED_SECONDS)

    def action_suspend(self) -> None:
        """Go to the background, where a shell is there that can bring the app back."""
        if os.getsid(0) != os.getpid() and os.getsid(os.getppid()) == os.getsid(0):
            os.kill(os.getpid(), signal.SIGTSTP)
        else:
            self.notify("there is no shell to return to here", markup=False)

    # The look

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Take colours away where none are wanted, and characters that the terminal cannot show."""
        filters = [kept for kept in super().get_line_filters() if not isinstance(kept, Monochrome | NoColor)]
        if self.no_color:
            filters.append(NoColor())
        if not self.context.glyphs.unicode:
            filters.append(AsciiFilter())
        return filters

    def watch_theme(self, name: str) -> None:
        """Keep the user's choice for the next start."""
        if self._is_mounted and not self.is_headless and name in THEMES:
            save = partial(write_settings, Settings(theme=name))
            self.run_worker(save, thread=True, exit_on_error=False)

    def on_resize(self, event: events.Resize) -> None:
        """Cover the screens while the window is too small for them."""
        covered = any(isinstance(screen, TooSmallScreen) for screen in self.screen_stack)
        if too_small(event.size.width, event.size.height) and not covered:
            self.push_screen(TooSmallScreen())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys of the app wait while the screens are covered."""
        covered = bool(self.screen_stack) and isinstance(self.screen_stack[-1], TooSmallScreen)
        return not covered or action in IN_A_SMALL_WINDOW

    def on_print(self, event: events.Print) -> None:
        """Keep what code prints, warnings above all: the screen is not the place for it."""
        if event.text.strip():
            self._errors.write(event.text)

    # Errors

    async def run_action(
        self,
        action: Any,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key asks for. An error in it ends nothing else."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:  # whatever it is, it is reported in a panel and in the log
            self._report(error, harmless=True)
            return True

    async def _dispatch_message(self, message: Message) -> None:
        """Handle a message to the app itself, which has to outlive errors in it."""
        try:
            await super()._dispatch_message(message)
        except Exception as error:  # as above
            self._handle_exception(error)

    def _handle_exception(self, error: Exception) -> None:
        """Called by textual with what nobody caught."""
        self._report(error, harmless=False)

    def _report(self, error: BaseException, *, harmless: bool) -> None:
        if self._exit:
            return  # screens that are taken apart halfway find no widgets: nothing to tell anybody
        self._errors.exception(getattr(error, "error", error))
        fault = self._faults.judge(self, error, harmless=harmless)
        if fault is None or not self._running:
            self._fail(error)
        else:
            self.call_later(self._show_fault, fault)

    def _fail(self, error: BaseException) -> None:
        """End the app: it cannot go on."""
        self.last_fault = describe(getattr(error, "error", error))[0]
        self.exit(return_code=ExitCode.FAILED)

    def _show_fault(self, fault: Fault) -> None:
        message, hint = describe(fault.error)
        lines = [hint] if hint else []
        damaged = fault.screen
        if damaged is not None:
            if damaged not in self.screen_stack:
                return  # it is closed already, and what it says is in the log
            lines.append("this screen was closed; runs go on")
            first = damaged is self.screen_stack[0]
            while len(self.screen_stack) > 1 and damaged in self.screen_stack:
                self.pop_screen()
            if first:
                damaged._push_result_callback(damaged, None)  # textual takes one off, and gave the first screen none
                self.switch_screen(self.get_default_screen())
        if not isinstance(self.screen, ErrorScreen):
            path = self._errors.path
            lines.extend(detail_lines(path))
            self.push_screen(ErrorScreen(message, "\n".join(lines), copied="" if path is None else str(path)))

    def exit(self, result: None = None, return_code: int = 0, message: Any = None) -> None:
        """End the app; runs go on."""
        for tell in self.on_exit_asked:
            tell(return_code)
        super().exit(result, return_code, message)
