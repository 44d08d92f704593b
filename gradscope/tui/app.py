"""The app: one screen at a time, the keys that work everywhere, and the ways from one screen to another."""

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from gradscope.core.text import visible
from gradscope.rundir.handle import RunHandle
from gradscope.tui.glyphs import UNICODE
from gradscope.tui.screens.base import Context, GradscopeScreen


class GradscopeApp(App[None]):
    """Implements `Front`. Screens are imported when they are opened."""

    TITLE = "gradscope"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "show_help", "help", id="app.help", key_display="?", tooltip="Keys of this screen"),
        Binding("escape", "go_back", "back", id="app.back", show=False, tooltip="The screen before this one"),
        Binding("q", "quit", "quit", id="app.quit", show=False, tooltip="Leave; runs go on"),
    ]

    def __init__(self, context: Context, *, run: Path | None = None) -> None:
        """`run` is shown at once, above the home screen."""
        super().__init__()
        self.context = context
        self._first_run = run

    def get_default_screen(self) -> Screen[Any]:
        """Start with the home screen."""
        return _screen("home", "HomeScreen")

    def on_mount(self) -> None:
        """Open the run that was asked for."""
        if self._first_run is not None:
            self.open_run(self._first_run)

    # Front: the ways from one screen to another

    def open_run(self, path: Path) -> None:
        """Show a run: live while it runs, its results when it is over."""
        if RunHandle(path).status().status.is_final:
            self.open_results(path)
        else:
            self.open_live(path)

    def open_live(self, path: Path) -> None:
        """Show the live screen of a run, running or over."""
        feed = import_module("gradscope.tui.feed").RunFeed(path)
        self.push_screen(_screen("live", "LiveScreen", feed))

    def open_results(self, path: Path) -> None:
        """Show the results of a run that is over."""
        self.push_screen(_screen("results", "ResultsScreen", path))

    def open_runs(self) -> None:
        """Show the list of all runs."""
        self.push_screen(_screen("runs", "RunsScreen"))

    def open_compare(self, paths: Sequence[Path]) -> None:
        """Compare 2 to 6 runs; the first is the baseline."""
        self.push_screen(_screen("compare", "CompareScreen", tuple(paths)))

    def go_back(self) -> None:
        """Return to the screen before this one; the first one stays."""
        if len(self.screen_stack) > 1:
            self.pop_screen()

    def copy_text(self, text: str) -> None:
        """Put text on the user's clipboard by OSC 52, which works over SSH, and say so."""
        self.copy_to_clipboard(text)
        self.notify(visible(text), title="copied", markup=False, timeout=3)

    def report_error(self, message: str, hint: str = "") -> None:
        """Show an error that the user can do something about, as literal text."""
        text = visible(message) + (f"\n{visible(hint)}" if hint else "")
        self.notify(text, title="", severity="error", markup=False, timeout=10)

    def action_go_back(self) -> None:
        """Return to the screen before this one."""
        self.go_back()


def _screen(module: str, name: str, *arguments: Any) -> Screen[Any]:
    """Make a screen; one whose module is not there yet is a line that says so."""
    try:
        screen: Screen[Any] = getattr(import_module(f"gradscope.tui.screens.{module}"), name)(*arguments)
    except ModuleNotFoundError:
        return _Missing(module)
    return screen


class _Missing(GradscopeScreen):
    """Stands for a screen that is still to be built."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self._module = module

    def compose(self) -> ComposeResult:
        """One line."""
        yield Static(f"gradscope: the screen {self._module} is still to come; q leaves", markup=False)


def run_app(out: Path, *, refresh_seconds: float = 0.5, run: Path | None = None) -> int:
    """Run the app in this terminal.

    Args:
        out: The output root.
        refresh_seconds: Time between looks at a running run.
        run: A run to show at once.

    Returns:
        The exit code.
    """
    context = Context(
        out=out,
        glyphs=UNICODE,
        refresh_seconds=refresh_seconds,
        now_wall_ns=time.time_ns,
        now_monotonic_ns=time.monotonic_ns,
    )
    app = GradscopeApp(context, run=run)
    app.run()
    return app.return_code or 0
