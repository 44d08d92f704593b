"""The supervisor of a cell, or of one of a command's runs: forked from a warm process, as its worker and finisher are.

It is what `gradscope.launch.supervisor` is to a single run, and does the same by the same code. torch is imported in
it, since it was forked from where that is so, but it never calls it. Imported by name in the warm process, with all
that a finisher needs.
"""

import contextlib
import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import gradscope.analysis.summary
import gradscope.export.chrome
import gradscope.export.tensorboard_protos  # noqa: F401  for the finisher, like the two before
from gradscope.core.text import visible
from gradscope.launch.drain import BoundedLog, Drain
from gradscope.launch.finish import finish, leave_with
from gradscope.launch.finisher import finisher_command, open_log, run_finisher, see_finished
from gradscope.launch.fork import ForkedProcess, fork, restore_signals
from gradscope.launch.supervisor import Hands, see_through
from gradscope.launch.warm import KEEP, LARGEST_MESSAGE, WORKER_ENDED, CellRequest
from gradscope.launch.workerprocess import WorkerProcess
from gradscope.rundir.layout import WORKER_LOG

FINISHER_NICENESS = 5
"""The finisher works beside the next cell, which is to have the cores first."""

Work = Callable[[Path, int], int]
"""The whole of a worker's life, as `python -m gradscope.worker` runs it; needs torch, which the caller has."""


def supervise_cell(message: bytes, descriptors: Sequence[int], work: Work) -> int:
    """See one cell through, in a process forked for it; return the run's exit code.

    Args:
        message: A `CellRequest` as JSON.
        descriptors: The socket to the sweep, whose other end only that holds; and the cell's lock, if it has one, which
            is held here too, so that a sweep that is resumed at once does not start the cell beside a worker that is
            still ending.
        work: What the worker does.
    """
    request = msgspec.json.decode(message, type=CellRequest)
    run_dir = Path(request.run_dir)
    restore_signals()
    os.environ |= request.env
    with (run_dir / WORKER_LOG).open("ab") as log:
        os.dup2(log.fileno(), 2)
    sys.argv = ["gradscope.launch.supervisor", str(run_dir)]
    with socket.socket(fileno=descriptors[0]) as sweep:

        def say(content: bytes) -> None:
            with contextlib.suppress(OSError):  # the sweep is gone: `is_wanted` notices
                sweep.send(content)

        hands = Hands(
            start_worker=lambda path, parent_fd: fork_worker(path, parent_fd, work),
            finish=finish_forked,
            is_wanted=Wanted(sweep),
            worker_ended=lambda: say(WORKER_ENDED),
            time_limit_seconds=request.time_limit_seconds,
        )
        return see_through(run_dir, hands, say)


class Wanted:
    """Whether a run is wanted: as long as whoever asked for it lives, or, once told to `KEEP` on, for good."""

    def __init__(self, asker: socket.socket) -> None:
        self._asker = asker
        self._kept = False

    def __call__(self) -> bool:
        """Ask, without waiting."""
        if not self._kept and select.select([self._asker], [], [], 0)[0]:
            try:
                self._kept = self._asker.recv(LARGEST_MESSAGE) == KEEP
            except ConnectionError:
                return False
            return self._kept
        return True


def fork_worker(run_dir: Path, parent_fd: int, work: Work) -> WorkerProcess:
    """Fork a worker and start its drain.

    Raises:
        OSError: There is no memory, or no room for one more process.
    """
    read_end, write_end = os.pipe()
    argv = ["gradscope.worker", str(run_dir), "--parent-fd", str(parent_fd)]
    try:
        process = fork(
            lambda: work(run_dir, parent_fd), keep=(parent_fd,), stdout=write_end, stderr=write_end, argv=argv
        )
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    log = BoundedLog(run_dir / WORKER_LOG)
    return WorkerProcess(process, log, Drain(read_end, log))


def finish_forked(run_dir: Path, parent_fd: int, is_over: Callable[[], bool]) -> list[str]:
    """Write a run up in a forked process, as `run_finisher` does in a new one; return notes."""
    if threading.active_count() > 1:  # a sampler or drain that hangs: not to be forked beside
        return run_finisher(run_dir, finisher_command(run_dir, parent_fd), parent_fd, is_over)
    read_end, write_end = os.pipe()

    def work() -> int:
        os.nice(FINISHER_NICENESS)
        leave_with(parent_fd)
        said = os.fdopen(write_end, "w")
        for event in finish(run_dir):
            print(json.dumps(event), file=said, flush=True)
        return 0

    process: ForkedProcess
    try:
        with open_log(run_dir) as log:
            process = fork(
                work,
                keep=(parent_fd, write_end),
                stdout=log.fileno(),
                stderr=log.fileno(),
                argv=["gradscope.launch.finish", str(run_dir)],
            )
    except OSError as error:
        os.close(read_end)
        return [visible(f"the run could not be written up: {error.strerror}")]
    finally:
        os.close(write_end)
    with os.fdopen(read_end, "rb") as said:
        return see_finished(process, said, is_over)
