"""The worker's ties to the outside: the pipe its supervisor holds, signals, and requests in `control.jsonl`."""

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType

from gradscope.core.events import WorkerEnded
from gradscope.rundir.control import CaptureRequested, ControlReader, SnapshotRequested, StopRequested
from gradscope.worker.failures import StopTraining
from gradscope.worker.orphan import outlive_supervisor
from gradscope.worker.record import EventLog

ORPHAN_GRACE_SECONDS = 2.0
"""How long an orphaned worker may take to come to the end of its micro-step."""


class Lifeline:
    """Ends the worker when its supervisor is gone: at the next micro-step, and after 2 s whatever the step is doing."""

    def __init__(self, parent_fd: int, log: EventLog) -> None:
        """`parent_fd`: read end of a pipe whose write end only the supervisor holds."""
        self.is_cut = False
        self._log = log
        self._over = threading.Event()
        threading.Thread(target=self._watch, args=(parent_fd,), name="lifeline", daemon=True).start()
        outlive_supervisor()

    def finished(self) -> None:
        """The worker is at its end: from here on it leaves by itself."""
        self._over.set()

    def _watch(self, parent_fd: int) -> None:
        while os.read(parent_fd, 1):
            pass
        self.is_cut = True
        if self._over.wait(ORPHAN_GRACE_SECONDS):
            return
        try:
            self._log.emit(WorkerEnded, reason="orphaned")
        finally:
            os.killpg(os.getpgid(0), signal.SIGKILL)


POLL_SECONDS = 0.02
"""Least time between two looks at `control.jsonl`: a `stat` amid training takes 15 to 35 µs, which short steps feel."""


class Requests:
    """What the outside wants of the loop. `check` is called once a micro-step."""

    def __init__(self, run_dir: Path, lifeline: Lifeline | None = None) -> None:
        self._control = ControlReader(run_dir)
        self._lifeline = lifeline
        self._next_poll = 0.0
        self._stop = False
        self.capture_steps = 0
        """Steps asked for by `gradscope capture`, until the loop takes them."""
        self.wants_snapshot = False

    def install_signal_handlers(self) -> None:
        """Let SIGTERM and SIGINT stop training at the next micro-step; only the main thread may call this."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def check(self) -> None:
        """Read new requests.

        Raises:
            StopTraining: Training is to end here.
        """
        if self._lifeline is not None and self._lifeline.is_cut:
            raise StopTraining("orphaned")
        now = time.monotonic()
        if now >= self._next_poll:
            self._next_poll = now + POLL_SECONDS
            self._poll()
        if self._stop:
            raise StopTraining("stopped")

    def _poll(self) -> None:
        for request in self._control.poll():
            match request:
                case StopRequested():
                    self._stop = True
                case CaptureRequested(steps=steps):
                    self.capture_steps = max(self.capture_steps, steps)
                case SnapshotRequested():
                    self.wants_snapshot = True

    def take_capture(self) -> int:
        """Return the steps asked for, once."""
        steps, self.capture_steps = self.capture_steps, 0
        return steps

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._stop = True
