"""The worker as the supervisor sees it: a process group with drained output, tied to our life by a pipe."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gradscope.launch.drain import BoundedLog, Drain
from gradscope.launch.processes import kill_group
from gradscope.rundir.layout import WORKER_LOG

ProcessCommand = Callable[[Path, int], Sequence[str]]
"""Makes a worker's or finisher's command line from the run directory and the descriptor of the pipe's read end."""

DRAIN_SECONDS = 1.0
"""How long the pipe of a dead worker may stay open."""


def worker_command(run_dir: Path, parent_fd: int) -> list[str]:
    """Return the real worker's command line.

    faulthandler leaves a Python stack in the log when native code crashes. `-P` keeps a `random.py` in the user's
    working directory from breaking torch's imports; a model of the user's own is looked for there all the same.
    """
    module = ["-X", "faulthandler", "-P", "-m", "gradscope.worker"]
    return [sys.executable, *module, str(run_dir), "--parent-fd", str(parent_fd)]


class Process(Protocol):
    """A child of this process, however it was started."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def poll(self) -> int | None:
        """Return its exit code (negative: the signal that ended it); `None` while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: It has not after `timeout` seconds.
        """

    def send_signal(self, sig: int, /) -> None:
        """Send it a signal; nothing happens if it is gone."""


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A started worker."""

    process: Process
    log: BoundedLog
    drain: Drain

    @property
    def pid(self) -> int:
        """Its process id, which is also its process group's."""
        return self.process.pid

    def returncode(self) -> int | None:
        """Return its exit code (negative: the signal that ended it); `None` while it runs."""
        return self.process.poll()

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the worker alone: its loader processes are its own to end."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL its whole process group; `returncode` says when it is gone."""
        kill_group(self.pid)


def start_worker(run_dir: Path, command: Sequence[str], parent_fd: int) -> WorkerProcess:
    """Start a worker and its drain.

    Raises:
        OSError: The process could not be started.
    """
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            process_group=0,
            pass_fds=(parent_fd,),
        )
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    log = BoundedLog(run_dir / WORKER_LOG)
    return WorkerProcess(process, log, Drain(read_end, log))
