"""Following a run to its end, and what a signal to the follower means. Shared by `run` and `attach`."""

import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from gradscope.analysis.progress import Progress
from gradscope.cli.display import Display
from gradscope.config.schema import Preset
from gradscope.core.status import Status, StatusRecord
from gradscope.errors import ExitCode, GradscopeError, signal_exit
from gradscope.launch.grace import SECOND_SIGNAL_SECONDS
from gradscope.launch.settings import load_settings
from gradscope.launch.stop import ask_to_stop
from gradscope.launch.wakeup import Wakeup
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import WORKER_LOG

POLL_SECONDS = 0.1
LOG_LINES = 12
"""How much of a failed worker's output is shown."""


class Leave(Exception):  # noqa: N818  # not an error
    """The follower ends here; the run may go on."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


OnSignal = Callable[[int], None]
"""What a signal does; may raise `Leave`."""


def follow(handle: RunHandle, display: Display, wakeup: Wakeup, on_signal: OnSignal) -> StatusRecord:
    """Show a run from its beginning, wherever it stands, until it is over; return its final status.

    Raises:
        Leave: A signal ended the follower.
    """
    tail = handle.event_tail()
    progress = Progress(_preset(handle))
    while True:
        record = handle.status()
        for event in tail.read():
            line = progress.take(event)
            if line is not None:
                display.note(line)
        if record.status.is_final or record.status is Status.UNKNOWN:
            display.clear()
            return record
        display.progress(progress.line(record.status, display.columns))
        wakeup.wait(POLL_SECONDS)
        for number in wakeup.take():
            on_signal(number)


def in_terminal(streams: Iterable[TextIO | None] | None = None) -> bool:
    """Whether somebody sits at a terminal: then a hang-up only means that the connection dropped."""
    candidates = (sys.stdin, sys.stdout, sys.stderr) if streams is None else streams
    return any(stream is not None and stream.isatty() for stream in candidates)


class StopPolicy:
    """Signals to `gradscope run`: the first stops the run gracefully, the second kills it, the third leaves at once.

    Signals that come together are one: a wrapper passes on what the terminal has sent already. In a terminal, SIGHUP
    (the connection dropped) ends only the follower.
    """

    def __init__(
        self, handle: RunHandle, display: Display, *, terminal: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._handle = handle
        self._display = display
        self._terminal = terminal
        self._now = now
        self._asked = 0
        self._asked_at = float("-inf")

    def __call__(self, number: int) -> None:
        """Act on one signal."""
        if number == signal.SIGHUP and self._terminal:
            raise Leave(signal_exit(number))
        now = self._now()
        if now - self._asked_at < SECOND_SIGNAL_SECONDS:
            return
        self._asked, self._asked_at = self._asked + 1, now
        if self._asked == 1:
            self._display.note("stopping: what was measured is being written; once more kills the worker")
            ask_to_stop(self._handle, signal=number)
        elif self._asked == 2:
            self._display.note("killing the worker")
            ask_to_stop(self._handle, signal=number, kill=True)
        else:
            self._display.note(f"left; `gradscope show {self._handle.run_id}` says what became of it")
            raise Leave(signal_exit(number))


class DetachPolicy:
    """Signals to `gradscope attach`: each only ends the follower."""

    def __init__(self, handle: RunHandle, display: Display) -> None:
        self._handle = handle
        self._display = display

    def __call__(self, number: int) -> None:
        """Act on one signal."""
        self._display.say(f"run goes on; gradscope attach {self._handle.run_id}")
        raise Leave(ExitCode.DONE if number == signal.SIGINT else signal_exit(number))


def report(handle: RunHandle, record: StatusRecord, display: Display) -> None:
    """Say on stderr what went wrong, and where to read more; nothing for a run that is done."""
    for note in record.notes:
        display.note(f"note: {note}")
    if record.status is Status.DONE:
        return
    display.say(f"{record.status}: {record.reason or 'no reason is known'}")
    if record.hint:
        display.say(f"  {record.hint}")
    if record.status in (Status.FAILED, Status.OOM, Status.KILLED):
        lines = handle.log_tail(LOG_LINES)
        display.say(f"  {handle.path / WORKER_LOG}{':' if lines else ' is empty'}")
        for line in lines:
            display.say(f"  | {line}")


def exit_code_of(record: StatusRecord) -> int:
    """Return what a command that saw this run through leaves with."""
    return ExitCode.FAILED if record.exit_code is None else record.exit_code


def summary_text(run_dir: Path, *, as_json: bool) -> str | None:
    """Return the result for stdout: the table, or one line of JSON. `None` for a table of a run without any step."""
    import msgspec

    from gradscope.analysis.summary import load_summary
    from gradscope.export.summary_text import render

    summary = load_summary(run_dir)
    if as_json:
        return msgspec.json.encode(summary).decode()
    if summary.duration.measured_steps == 0 and summary.status is not Status.DONE:
        return None
    return render(summary, run_dir=run_dir)


def _preset(handle: RunHandle) -> Preset | None:
    try:
        return load_settings(handle.path)
    except GradscopeError:
        return None  # written by another version: the run is followed without a plan
