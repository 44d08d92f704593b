"""What every screen shares: the app it runs in, as far as screens may know it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from textual.screen import Screen

from gradscope.tui.glyphs import Glyphs


@dataclass(frozen=True, slots=True)
class Context:
    """What the app was started with."""

    out: Path
    """The output root."""
    glyphs: Glyphs
    refresh_seconds: float
    """Time between looks at a running run."""
    now_wall_ns: Callable[[], int]
    now_monotonic_ns: Callable[[], int]


class Front(Protocol):
    """What screens ask of the app. Every way from one screen to another goes through here."""

    context: Context

    def open_run(self, path: Path) -> None:
        """Show a run: live while it runs, its results when it is over."""

    def open_live(self, path: Path) -> None:
        """Show the live screen of a run, running or over."""

    def open_results(self, path: Path) -> None:
        """Show the results of a run that is over."""

    def open_runs(self) -> None:
        """Show the list of all runs."""

    def open_compare(self, paths: Sequence[Path]) -> None:
        """Compare 2 to 6 runs; the first is the baseline."""

    def open_sweep(self, preset_name: str) -> None:
        """Show the sweep of a preset: its grid, filling while it runs."""

    def go_back(self) -> None:
        """Return to the screen before this one."""

    def copy_text(self, text: str) -> None:
        """Put text on the user's clipboard by OSC 52, which works over SSH, and say so."""

    def report_error(self, message: str, hint: str = "") -> None:
        """Show an error that the user can do something about, as literal text."""


class GradscopeScreen(Screen[None]):
    """Base of all screens."""

    @property
    def front(self) -> Front:
        """The app."""
        return cast("Front", self.app)

    @property
    def context(self) -> Context:
        """What the app was started with."""
        return self.front.context
