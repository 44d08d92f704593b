"""Starting a run from a screen: on a thread, one at a time, with every outcome said."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from textual.message import Message
from textual.worker import Worker, WorkerState

from gradscope.config.convert import preset_from_dict
from gradscope.config.resolve import without_grid
from gradscope.config.schema import Preset
from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.launch.spawn import launch
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import short_id
from gradscope.tui.screens.base import GradscopeScreen

LAUNCHING = "launch"
"""Group of the workers that start runs."""


class Launcher(Protocol):
    """Starts a run and returns at once, as `gradscope.launch.spawn.launch` does."""

    def __call__(self, preset: Preset, *, out: Path, argv: Sequence[str] = ()) -> RunHandle:
        """Start it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to be started."""

    preset: Preset
    argv: tuple[str, ...]
    """The command line that would do the same."""
    detached: bool = False
    """Stay here instead of watching it."""


def settings_of_run(path: Path) -> tuple[Preset, tuple[str, ...]]:
    """Return what a run was started with: its preset and its command line.

    Raises:
        GradscopeError: Its manifest is missing, damaged, or of another version.
    """
    try:
        manifest = RunHandle(path).manifest()
    except OSError as error:
        raise GradscopeError(
            f"the settings of {path.name} are not known", f"its manifest.json cannot be read: {error.strerror}"
        ) from error
    if manifest is None:
        raise GradscopeError(f"the settings of {path.name} are not known", "its manifest.json is missing or damaged")
    return preset_from_dict(manifest.preset), tuple(manifest.argv)


class LaunchingScreen(GradscopeScreen):
    """A screen that can start runs."""

    @dataclass
    class Launched(Message):
        """A run was started."""

        path: Path
        launch: Launch

    @dataclass
    class LaunchFailed(Message):
        """It was not."""

        message: str
        hint: str

    def __init__(self, launcher: Launcher = launch) -> None:
        super().__init__()
        self._launcher = launcher
        self._starting = ""

    @property
    def starting(self) -> str:
        """Name of the preset that is being started; empty if none is."""
        return self._starting

    def start(self, wanted: Launch) -> None:
        """Start a run, unless one is just being started; a grid's base settings once."""
        if self._starting:
            return
        self._starting = wanted.preset.name
        self.starting_changed()
        if wanted.preset.sweep is not None:
            self.notify(
                f"{visible(wanted.preset.name)} describes a grid; this runs its base settings once",
                markup=False,
            )
        self.run_worker(self._work(wanted), thread=True, group=LAUNCHING)

    def _work(self, wanted: Launch) -> Callable[[], None]:
        out = self.context.out

        def work() -> None:
            outcome: Message
            try:
                handle = self._launcher(without_grid(wanted.preset), out=out, argv=wanted.argv)
                outcome = self.Launched(handle.path, wanted)
            except GradscopeError as error:
                outcome = self.LaunchFailed(error.message, error.hint)
            except OSError as error:
                outcome = self.LaunchFailed(f"the run could not be started: {error.strerror or error}", "")
            self.post_message(outcome)

        return work

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """After an error nobody foresaw, which the app tells, another run can be started."""
        if event.worker.group == LAUNCHING and event.state is WorkerState.ERROR:
            self._starting = ""
            self.starting_changed()

    def starting_changed(self) -> None:
        """Show whether something is being started."""

    def launched(self, path: Path, wanted: Launch) -> None:
        """Go where the user wants to be once the run is there."""

    def on_launching_screen_launched(self, event: Launched) -> None:
        """Open the run, or say where it is."""
        event.stop()
        self._starting = ""
        self.starting_changed()
        if event.launch.detached:
            name = visible(event.launch.preset.name)
            self.notify(
                f"gradscope attach {short_id(event.path.name)}", title=f"{name} runs in the background", markup=False
            )
        self.launched(event.path, event.launch)

    def on_launching_screen_launch_failed(self, event: LaunchFailed) -> None:
        """Say why."""
        event.stop()
        self._starting = ""
        self.starting_changed()
        self.front.report_error(event.message, event.hint)
