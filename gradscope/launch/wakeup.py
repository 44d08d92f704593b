"""Waiting that a signal ends at once: the clock tick of supervisors and followers."""

import contextlib
import os
import select
import signal
from collections.abc import Iterator, Sequence

STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Wakeup:
    """Collects stop signals, and ends a wait when one comes or when a child process ends."""

    def __init__(self, read_end: int, write_end: int) -> None:
        self._read_end = read_end
        self._write_end = write_end
        self._pending: list[int] = []

    def wait(self, seconds: float, others: Sequence[int] = ()) -> None:
        """Sleep, or return early because of a signal, or because one of `others` (descriptors) can be read."""
        ready, _, _ = select.select([self._read_end, *others], [], [], seconds)
        if self._read_end in ready:
            for number in os.read(self._read_end, 4096):
                if number in STOP_SIGNALS:
                    self._pending.append(number)

    def wake(self, number: int = 0) -> None:
        """End a wait from another thread, as signal `number` would; 0 leaves no trace."""
        with contextlib.suppress(BlockingIOError):  # so much has come already that the wait is over
            os.write(self._write_end, bytes([number]))

    def take(self) -> list[int]:
        """Return the stop signals that came since the last call."""
        taken, self._pending = self._pending, []
        return taken


@contextlib.contextmanager
def catching_signals(*, keep_ignored: bool = False) -> Iterator[Wakeup]:
    """Catch SIGTERM, SIGHUP, SIGINT and SIGCHLD for the time of the context; main thread only.

    Args:
        keep_ignored: Leave alone what this process was started to ignore (`nohup`, a shell's background jobs).
    """
    read_end, write_end = os.pipe()
    for end in (read_end, write_end):
        os.set_blocking(end, False)
    caught = [
        number
        for number in (*STOP_SIGNALS, signal.SIGCHLD)
        if not (keep_ignored and signal.getsignal(number) is signal.SIG_IGN)
    ]
    before = {number: signal.signal(number, _ignore) for number in caught}
    descriptor = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield Wakeup(read_end, write_end)
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_end)
        os.close(write_end)


def _ignore(number: int, frame: object) -> None:
    """Do nothing: that a Python handler is set is what makes the signal's number arrive in the pipe."""
