"""Reading a sweep's folder again and again: only runs that changed are read. Blocking; on one thread at a time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from gradscope.analysis.axes import Axis, find_axes
from gradscope.analysis.choices import Contender, contenders
from gradscope.analysis.grid_report import objectives_of
from gradscope.analysis.results import Row, cell_of, missing, row, varying_keys
from gradscope.analysis.summary import load_summary
from gradscope.config.convert import preset_to_dict
from gradscope.config.grid import grid_cells
from gradscope.config.load import load_preset
from gradscope.config.places import preset_path
from gradscope.config.schema import Preset
from gradscope.core.status import ProcessId, StatusRecord
from gradscope.errors import ExitCode, GradscopeError, signal_exit
from gradscope.launch.detached import Ended, started_sweep, sweep_of
from gradscope.rundir.cells import RESULTS, sweep_folder
from gradscope.rundir.handle import RunHandle, is_running
from gradscope.rundir.host import is_alive
from gradscope.rundir.layout import RUN_ID, STATUS, SUMMARY
from gradscope.tui.sweep.view import GOING, SweepView

EXPECTED_ENDS = frozenset({ExitCode.DONE, ExitCode.STOPPED, *(signal_exit(number) for number in (1, 2, 15))})
"""Exit codes of a sweep that need no words: it came to its end, or was stopped."""


class SweepSource(Protocol):
    """What the sweep screen reads from."""

    def read(self) -> SweepView:
        """Return what there is now."""


@dataclass(frozen=True, slots=True)
class _Planned:
    preset: Preset
    cells: list[tuple[str, dict[str, Any]]]
    """Hash and settings of each cell, in order."""
    varying: list[str]


@dataclass(slots=True)
class _Known:
    """A run directory that was looked at."""

    path: Path
    cell: str | None
    """`None` for a run of no cell."""
    created: tuple[int, str]
    stamp: tuple[int, int, str] | None = None
    """Times of its files and its status, when `row` was read."""
    row: Row | None = None
    seconds: float | None = None
    """From its start to its end, once it is over."""


class SweepReader:
    """Reads the folder of one preset's sweep."""

    def __init__(self, out: Path, name: str, now_wall_ns: Callable[[], int] = time.time_ns) -> None:
        """`name`: the preset's name or file; `now_wall_ns`: the wall clock."""
        self._now_wall_ns = now_wall_ns
        self._out = out
        self._name = name
        self._planned: _Planned | None = None
        self._written_ns = -1
        self._known: dict[str, _Known] = {}
        self._process: ProcessId | None = None
        self._rows: tuple[Row, ...] = ()
        self._axes: tuple[Axis, ...] = ()
        self._contenders: tuple[Contender, ...] = ()
        self._objectives: tuple[str, ...] = ()

    def read(self) -> SweepView:
        """Return what there is now."""
        try:
            planned = self._plan()
            rows = tuple(self._read_rows(planned))
        except GradscopeError as error:
            return SweepView(self._name, problem=error.message, hint=error.hint, complete=True)
        except OSError as error:
            return SweepView(self._name, problem=f"the sweep's folder cannot be read: {error.strerror}", complete=True)
        if rows != self._rows:
            self._axes = tuple(find_axes(rows, planned.preset))
            self._objectives = tuple(objectives_of(rows, self._axes))
            self._contenders = tuple(contenders(rows, self._axes, self._objectives))
            self._rows = rows
        view = SweepView(
            self._name,
            preset=planned.preset,
            rows=self._rows,
            axes=self._axes,
            contenders=self._contenders,
            objectives=self._objectives,
            complete=True,
        )
        problem, hint = self._look_at_process(planned, view)
        left = self._seconds_left(view) if view.going or self._process is not None else None
        return replace(view, process=self._process, seconds_left=left, problem=problem, hint=hint)

    def _plan(self) -> _Planned:
        written_ns = preset_path(self._name).stat().st_mtime_ns
        if self._planned is None or written_ns != self._written_ns:
            preset = load_preset(self._name)
            cells = [(cell.hash, preset_to_dict(cell.preset)) for cell in grid_cells(preset)]
            self._planned = _Planned(preset, cells, varying_keys([data for _, data in cells]))
            self._written_ns = written_ns
            for known in self._known.values():
                known.stamp = None  # other axes: other rows
        return self._planned

    def _read_rows(self, planned: _Planned) -> list[Row]:
        newest = self._newest(sweep_folder(self._out, planned.preset.name))
        return [
            self._read(newest[cell], cell, data, planned.varying)
            if cell in newest
            else missing(cell, data, planned.varying)
            for cell, data in planned.cells
        ]

    def _newest(self, folder: Path) -> dict[str, _Known]:
        """Return the newest run of each cell; manifests are read once."""
        names = {path.name: path for path in folder.iterdir() if RUN_ID.match(path.name)} if folder.is_dir() else {}
        self._known = {name: known for name, known in self._known.items() if name in names}
        for name in names.keys() - self._known.keys():
            manifest = RunHandle(names[name]).manifest()
            if manifest is not None:  # else it is just being made
                created = (manifest.created_wall_ns, manifest.run_id)
                self._known[name] = _Known(names[name], cell_of(manifest), created)
        newest: dict[str, _Known] = {}
        for known in sorted(self._known.values(), key=lambda one: one.created):
            if known.cell is not None:
                newest[known.cell] = known
        return newest

    def _read(self, known: _Known, cell: str, settings: dict[str, Any], varying: Sequence[str]) -> Row:
        handle = RunHandle(known.path)
        files = (_written_ns(known.path / STATUS), _written_ns(known.path / SUMMARY))
        if known.row is not None and known.stamp == (*files, known.row.status) and known.row.status in RESULTS:
            return known.row
        status = handle.status()
        stamp = (*files, status.status.value)
        if known.row is not None and known.stamp == stamp:
            return known.row
        known.stamp = stamp
        known.row = self._made(handle, status, cell, settings, varying)
        known.seconds = (status.updated_wall_ns - known.created[0]) / 1e9 if status.status.is_final else None
        return known.row

    def _made(
        self, handle: RunHandle, status: StatusRecord, cell: str, settings: dict[str, Any], varying: Sequence[str]
    ) -> Row:
        path = str(handle.path)
        if status.status.is_final:
            try:
                return row(cell, load_summary(handle.path), status, settings, varying, path=path)
            except OSError:  # it is just being deleted
                return missing(cell, settings, varying)
        return msgspec.structs.replace(
            missing(cell, settings, varying),
            run_id=handle.run_id,
            path=path,
            status=status.status.value,
            reason=status.reason,
        )

    def _look_at_process(self, planned: _Planned, view: SweepView) -> tuple[str, str]:
        """Find the sweep that runs; return what is to be said of one that ended before its time."""
        started = started_sweep(self._out, planned.preset.name)
        if isinstance(started, ProcessId):
            self._process = started
            return "", ""
        if self._process is not None and not is_alive(self._process):
            self._process = None
        if self._process is None and view.running:
            self._process = self._find_process(view)
        if not isinstance(started, Ended) or self._process is not None or not view.left:
            return "", ""
        if started.exit_code in EXPECTED_ENDS or not started.last_line:
            return "", ""
        return f"the sweep ended: {started.last_line}", ""

    def _find_process(self, view: SweepView) -> ProcessId | None:
        for one in view.rows:
            if one.path is None or one.status in RESULTS:
                continue
            status = RunHandle(Path(one.path)).status()
            if is_running(status) and (found := sweep_of(status)) is not None:
                return found
        return None

    def _seconds_left(self, view: SweepView) -> float | None:
        """Return what is left if its cells take as long as others did."""
        over = [known.seconds for known in self._known.values() if known.seconds is not None and known.seconds > 0]
        if not over:
            return None
        mean, now_ns = sum(over) / len(over), self._now_wall_ns()
        going = [known for known in self._known.values() if known.row is not None and known.row.status in GOING]
        spent = sum(min(mean, max(0.0, (now_ns - known.created[0]) / 1e9)) for known in going)
        return max(0.0, view.left * mean - spent) / max(1, view.running)


def _written_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # not there yet
        return 0
