"""The app as tests of screens have it: around one screen, with a clock that stands still."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textual.app import App
from textual.screen import Screen

from gradscope.tui.app import GradscopeApp
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.screens.base import Context
from gradscope.tui.themes import DARK

NOW_WALL_NS = 1_800_000_000 * 10**9
"""2027-01-15 08:00:00 UTC."""

NOW_MONOTONIC_NS = 5_000 * 10**9


class ShownApp(GradscopeApp):
    """An app that starts with the screen under test and writes down where it is asked to go instead of going there."""

    def __init__(self, screen: Screen[Any], context: Context) -> None:
        super().__init__(context)
        self._under_test = screen
        self.theme = DARK.name
        self.asked: list[tuple[Any, ...]] = []
        """Calls of `Front`, such as `("open_run", path)`."""

    def get_default_screen(self) -> Screen[Any]:
        return self._under_test

    def _handle_exception(self, error: Exception) -> None:
        """Let the test fail, where the app itself would survive."""
        App._handle_exception(self, error)

    async def run_action(self, *arguments: Any, **named: Any) -> bool:
        """As above: errors in actions too."""
        return await App.run_action(self, *arguments, **named)

    def open_run(self, path: Path) -> None:
        self.asked.append(("open_run", path))

    def open_live(self, path: Path) -> None:
        self.asked.append(("open_live", path))

    def open_results(self, path: Path) -> None:
        self.asked.append(("open_results", path))

    def open_runs(self) -> None:
        self.asked.append(("open_runs",))

    def open_compare(self, paths: Sequence[Path]) -> None:
        self.asked.append(("open_compare", *paths))

    def open_sweep(self, preset_name: str) -> None:
        self.asked.append(("open_sweep", preset_name))

    def copy_text(self, text: str) -> None:
        self.asked.append(("copy_text", text))
        super().copy_text(text)

    def report_error(self, message: str, hint: str = "") -> None:
        self.asked.append(("report_error", message, hint))
        super().report_error(message, hint)


def make_context(out: Path, *, ascii_only: bool = False, refresh_seconds: float = 0.5) -> Context:
    """Return what an app is started with, at `NOW_WALL_NS`."""
    return Context(
        out=out,
        glyphs=ASCII if ascii_only else UNICODE,
        refresh_seconds=refresh_seconds,
        now_wall_ns=lambda: NOW_WALL_NS,
        now_monotonic_ns=lambda: NOW_MONOTONIC_NS,
    )
