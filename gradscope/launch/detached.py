"""Sweeps as processes of their own: starting one that outlives who started it, finding and stopping one that runs."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from gradscope.core.status import ProcessId, StatusRecord
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.drain import last_lines
from gradscope.rundir.cells import sweep_folder
from gradscope.rundir.host import is_alive, process_id

SWEEP_LOG = "sweep.log"
"""In a sweep's folder: what a sweep without a terminal had to say."""

COMMAND = "sweep"

WARM_MODULE = "gradscope.worker.warm"

LOG_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """A sweep that this process started, and that is over."""

    exit_code: int
    last_line: str
    """Of its log."""


_started: dict[Path, subprocess.Popen[bytes]] = {}
"""Sweeps that this process started, by their folders: a front end may be left and opened again meanwhile."""


def sweep_log(out: Path, preset_name: str) -> Path:
    """Return where a detached sweep of a preset writes what it has to say."""
    return sweep_folder(out, preset_name).absolute() / SWEEP_LOG


def start_sweep(words: Sequence[str], out: Path, preset_name: str) -> ProcessId | None:
    """Start `gradscope sweep` in a session of its own and return at once; it goes on whatever becomes of this process.

    Args:
        words: What comes after `gradscope sweep`.
        out: Output root, which `words` name too unless it is the usual one.
        preset_name: The preset's name, which names the folder.

    Returns:
        The process; `None` if it is over already.

    Raises:
        GradscopeError: The folder cannot be written, or no process can be started.
    """
    log = sweep_log(out, preset_name)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gradscope", COMMAND, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    except OSError as error:
        raise GradscopeError(
            f"the sweep could not be started: {error.strerror or error}",
            f"see whether {log.parent} can be written, and whether the system has room for one more process",
            exit_code=ExitCode.ENVIRONMENT,
        ) from error
    _started[log.parent] = process
    return process_id(process.pid)


def started_sweep(out: Path, preset_name: str) -> ProcessId | Ended | None:
    """Return the sweep of a folder that this process started last: running, or what became of it."""
    log = sweep_log(out, preset_name)
    process = _started.get(log.parent)
    if process is None:
        return None
    code = process.poll()
    if code is None:
        return process_id(process.pid)
    return Ended(code if code >= 0 else 128 - code, _last_line(log))


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_BYTES))
            lines = last_lines(file.read(), 1)
    except OSError:  # its folder is gone
        return ""
    return lines[-1].strip() if lines else ""


def sweep_of(record: StatusRecord) -> ProcessId | None:
    """Return the sweep that runs a cell, given that cell's status; `None` for a run by itself, or one that is over.

    A cell's supervisor was forked from a warm process, which the sweep started.
    """
    if record.supervisor is None or not is_alive(record.supervisor):
        return None
    with contextlib.suppress(psutil.Error):  # any of them may end meanwhile
        warm = psutil.Process(record.supervisor.pid).parent()
        sweep = None if warm is None else warm.parent()
        if warm is not None and sweep is not None and WARM_MODULE in warm.cmdline():
            return process_id(sweep.pid)
    return None


def stop_sweep(process: ProcessId) -> None:
    """Ask a sweep to end: it stops the cells that run, and starts no other. Nothing happens if it is over.

    Raises:
        GradscopeError: It is somebody else's.
    """
    if not is_alive(process):
        return
    try:
        os.kill(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise GradscopeError(
            f"the sweep (process {process.pid}) belongs to another user", "only that user can stop it"
        ) from error
