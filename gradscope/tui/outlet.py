"""The way to the terminal: it gives up on one that is gone, and when leaving on one that has stopped taking anything.

A terminal that hung up raises on every write, and one whose link is stuck blocks them for ever. Neither may keep the
app from ending.
"""

import contextlib
import os
import select
import time

GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL

BLOCKING_CHUNK_BYTES = 256
"""Written at once where the terminal could not be opened anew: a write that may block is kept short."""

CHUNK_BYTES = 16 * 1024


class Outlet:
    """A text stream to a terminal, used by textual's output thread only, `hurry` and `close` aside."""

    def __init__(self, descriptor: int) -> None:
        """Open the terminal behind `descriptor` anew, so that not blocking stays a matter of this process alone.

        Raises:
            OSError: The descriptor cannot be used.
        """
        try:
            flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
            self._descriptor = os.open(os.ttyname(descriptor), flags)
            self._chunk = CHUNK_BYTES
        except OSError:  # its name is unknown in this container, or belongs to another user (su)
            self._descriptor = os.dup(descriptor)
            self._chunk = BLOCKING_CHUNK_BYTES
        self._woken, self._waker = os.pipe()
        self._deadline: float | None = None
        self._closed = False
        self.lost = False
        """Whether the terminal is gone; all that is written from then on is dropped."""

    def write(self, text: str) -> int:
        """Write text, or drop it where the terminal is gone or the time to leave is over."""
        data = memoryview(text.encode("utf-8", "replace"))
        while data and not self.lost and not self._closed:
            if not self._wait():
                break
            try:
                data = data[os.write(self._descriptor, data[: self._chunk]) :]
            except BlockingIOError:
                continue
            except OSError:
                self.lost = True
        return len(text)

    def _wait(self) -> bool:
        """Wait until the terminal takes something; `False` if it will not in time."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        if self._deadline is None:
            poll.register(self._woken, select.POLLIN)
            timeout_ms = None
        else:
            timeout_ms = 1000 * (self._deadline - time.monotonic())
            if timeout_ms <= 0:
                return False
        for descriptor, happened in poll.poll(timeout_ms):
            if descriptor == self._descriptor:
                if happened & GONE:
                    self.lost = True
                    return False
                return True
        return self._deadline is not None and self._wait()

    def hurry(self, seconds: float) -> None:
        """Drop what the terminal has not taken in so many seconds from now. Safe in a signal handler."""
        if self._deadline is None:
            self._deadline = time.monotonic() + seconds
            with contextlib.suppress(OSError):  # closed already
                os.write(self._waker, b"!")

    def flush(self) -> None:
        """Nothing is held back."""

    def fileno(self) -> int:
        """Return the descriptor of the terminal."""
        return self._descriptor

    def close(self) -> None:
        """Let the terminal go."""
        self._closed = True
        for descriptor in (self._descriptor, self._woken, self._waker):
            os.close(descriptor)
