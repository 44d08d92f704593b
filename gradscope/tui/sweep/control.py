"""What the sweep screen does beside showing: starting and stopping sweeps, writing the report. Blocking."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gradscope.core.status import ProcessId
from gradscope.launch.detached import start_sweep, stop_sweep, sweep_log
from gradscope.rundir.cells import sweep_folder
from gradscope.tui.home.command import sweep_words
from gradscope.tui.sweep.view import SweepView

PAGE = "report.html"


class SweepControl(Protocol):
    """Acts on sweeps of an output root."""

    def obstacle(self, view: SweepView, out: Path) -> tuple[str, str]:
        """Return what is in its way on this machine, and the remedy; empty where nothing is."""

    def start(self, view: SweepView, out: Path, *, retry_failed: bool) -> Path:
        """Start one, or go on with it, as a process of its own; return its log."""

    def stop(self, process: ProcessId) -> None:
        """Ask it to end."""

    def export(self, view: SweepView, out: Path) -> Path:
        """Write the report's page; return where it is."""


class Control:
    """Does it."""

    def obstacle(self, view: SweepView, out: Path) -> tuple[str, str]:
        """Return what is in a sweep's way on this machine, and the remedy; empty where nothing is."""
        from gradscope.analysis.expect import outlook
        from gradscope.analysis.machine_look import look_at_machine

        if view.preset is None:
            return "", ""
        ahead = outlook(view.preset, look_at_machine(), out)
        return ahead.obstacle, ahead.remedy

    def start(self, view: SweepView, out: Path, *, retry_failed: bool) -> Path:
        """Start a sweep, or go on with it, as a process of its own; return its log.

        Raises:
            GradscopeError: It cannot be started.
        """
        name = view.name if view.preset is None else view.preset.name
        words: Sequence[str] = sweep_words(view.name, out, retry_failed=retry_failed)
        start_sweep(words[2:], out, name)
        return sweep_log(out, name)

    def stop(self, process: ProcessId) -> None:
        """Ask a sweep to end.

        Raises:
            GradscopeError: It is somebody else's.
        """
        stop_sweep(process)

    def export(self, view: SweepView, out: Path) -> Path:
        """Write the report's page into the sweep's folder, anew where there is one.

        Raises:
            GradscopeError: The plotting library is missing.
            OSError: The folder cannot be written.
        """
        from gradscope.analysis.curves import read_curve
        from gradscope.analysis.grid_report import report
        from gradscope.export.report_html import write_page

        name = view.name if view.preset is None else view.preset.name
        curves = {row.cell: read_curve(Path(row.path)) for row in view.rows if row.done and row.path is not None}
        found = report(name, view.rows, view.preset, curves=curves)
        return write_page(found, curves, Path(os.path.abspath(sweep_folder(out, name))) / PAGE)  # noqa: PTH100
