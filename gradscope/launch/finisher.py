"""The finisher as the supervisor sees it: a process with a time limit, whose troubles become notes."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from gradscope.launch.processes import kill_group
from gradscope.launch.workerprocess import Process
from gradscope.rundir.layout import WORKER_LOG

TICK_SECONDS = 0.05


class Said(msgspec.Struct, frozen=True):
    """One line of the finisher's output."""

    started: str | None = None
    note: str | None = None


def finisher_command(run_dir: Path, parent_fd: int) -> list[str]:
    """Return the command line; `-P` keeps the user's working directory from hiding modules of ours."""
    return [sys.executable, "-P", "-m", "gradscope.launch.finish", str(run_dir), "--parent-fd", str(parent_fd)]


def run_finisher(run_dir: Path, command: Sequence[str], parent_fd: int, is_over: Callable[[], bool]) -> list[str]:
    """Run the finisher to its end, or until `is_over` says that its time is up.

    Args:
        run_dir: The run directory; the finisher's stderr is appended to its log.
        command: The command line.
        parent_fd: Descriptor to hand down: the pipe that tells it of our death.
        is_over: Asked every 50 ms.

    Returns:
        What went wrong, one sentence each.
    """
    try:
        with open_log(run_dir) as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,
                pass_fds=(parent_fd,),
            )
    except OSError as error:
        return [f"the run could not be written up: {error.strerror}"]
    assert process.stdout is not None
    with process.stdout as said:
        return see_finished(process, said, is_over)


def see_finished(process: Process, said: IO[bytes], is_over: Callable[[], bool]) -> list[str]:
    """Wait for a finisher's end, or end it when its time is up; return its notes.

    Args:
        process: The finisher, in a process group of its own.
        said: What it says on stdout.
        is_over: Asked every 50 ms.
    """
    cut = False
    while process.poll() is None and not cut:
        try:
            process.wait(TICK_SECONDS)
        except subprocess.TimeoutExpired:
            cut = is_over()
    kill_group(process.pid)
    output = said.read()  # a few short lines: they fit into the pipe, so they can be read afterwards
    return _notes(output, process.wait(), cut=cut)


def open_log(run_dir: Path) -> IO[bytes]:
    """Open the run's log for what a finisher has to say on stderr."""
    try:
        return (run_dir / WORKER_LOG).open("ab")
    except OSError:
        return Path("/dev/null").open("ab")


def _notes(output: bytes, returncode: int, *, cut: bool) -> list[str]:
    notes: list[str] = []
    step = "anything"
    for line in output.splitlines():
        try:
            said = msgspec.json.decode(line, type=Said)
        except msgspec.DecodeError:
            continue  # torn: it was killed while it wrote
        step = said.started or step
        if said.note is not None:
            notes.append(said.note)
    if cut:
        notes.append(f"writing up the run took too long and was ended while writing {step}")
    elif returncode != 0:
        notes.append(f"writing up the run failed while writing {step} (exit code {returncode}); worker.log says more")
    return notes
