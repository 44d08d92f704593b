"""Following the runs that are going on: their events are read as they come. Blocking; for one thread at a time."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from gradscope.analysis.listing import RunRow, strategy_words
from gradscope.analysis.progress import Progress
from gradscope.config.convert import preset_from_dict
from gradscope.config.resolve import micro_steps
from gradscope.config.schema import Preset
from gradscope.core.events import AnyEvent
from gradscope.core.status import Status
from gradscope.errors import GradscopeError
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import created_wall_ns
from gradscope.rundir.registry import running
from gradscope.rundir.tail import JsonlTail
from gradscope.tui.home.view import RunningRun


class RunningRuns:
    """This user's running runs on this host, and those of an output root."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._followed: dict[Path, _Followed] = {}

    def read(self, going: Iterable[RunHandle]) -> tuple[RunningRun, ...]:
        """Return where they stand.

        Args:
            going: Those that are known to be running below the output root; others are found wherever they write.
        """
        handles = {handle.path.resolve(): handle for handle in (*running(), *going)}
        self._followed = {path: self._followed.get(path) or _Followed(handle) for path, handle in handles.items()}
        root = self._out.resolve()
        followed = self._followed.items()
        return tuple(one.read(elsewhere=not path.is_relative_to(root)) for path, one in followed)


class _Followed:
    """A running run, its events read as they come."""

    def __init__(self, handle: RunHandle) -> None:
        self._handle = handle
        self._tail = handle.event_tail()
        manifest = handle.manifest()
        self._preset = None if manifest is None else _preset_of(manifest.preset)
        self._name = handle.preset_name
        self._progress = Progress(self._preset)

    def read(self, *, elsewhere: bool) -> RunningRun:
        for event in _new(self._tail):
            self._progress.take(event)
        preset, progress, status = self._preset, self._progress, self._status()
        return RunningRun(
            path=self._handle.path,
            run_id=self._handle.run_id,
            preset=self._name,
            optimizer=None if preset is None else preset.optimizer.name,
            strategy="" if preset is None else _strategy(preset),
            standing=progress.standing(status),
            loss=progress.loss,
            elsewhere=elsewhere,
            row=self._row(status),
        )

    def _row(self, status: Status) -> RunRow:
        preset = self._preset
        row = RunRow(
            run_id=self._handle.run_id,
            path=str(self._handle.path),
            preset=self._name,
            status=status,
            loss=self._progress.loss,
            step_ms=self._progress.step_ms,
            created_wall_ns=created_wall_ns(self._handle.run_id),
        )
        if preset is None:
            return row
        return msgspec.structs.replace(
            row,
            model=preset.model.name,
            optimizer=preset.optimizer.name,
            strategy=preset.memory.strategy,
            accumulate=micro_steps(preset),
            mode=preset.memory.mode,
            device=self._progress.device,
            precision=preset.run.precision,
        )

    def _status(self) -> Status:
        try:
            return self._handle.status().status
        except OSError:  # the folder is just going
            return Status.UNKNOWN


def _new(tail: JsonlTail[AnyEvent]) -> list[AnyEvent]:
    try:
        return tail.read()
    except OSError:  # the folder is just going
        return []


def _preset_of(data: dict[str, Any]) -> Preset | None:
    try:
        return preset_from_dict(data)
    except GradscopeError:  # of another version: the row says less
        return None


def _strategy(preset: Preset) -> str:
    return strategy_words(preset.memory.strategy, micro_steps(preset), preset.memory.mode)
