"""A slow reading on a clock and a thread of its own, so that it holds up no other."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from gradscope.sampling.backoff import Backoff
from gradscope.sampling.gate import Say

MOST_CPU_SHARE = 0.01
"""A lane slows down so that its reading takes no more of a core than this."""


class Lane:
    """Calls `read` about every `period_s`; `take` hands each result over once.

    A failing reading is said once and tried again with back-off. `stop` does not wait for a call that hangs in a
    driver: the thread is a daemon.
    """

    def __init__(self, name: str, read: Callable[[], Mapping[str, Any]], period_s: float, say: Say) -> None:
        self.name = name
        self.cpu_seconds = 0.0
        """CPU time spent in the thread."""
        self._read = read
        self._period_s = period_s
        self._say = say
        self._said_slow = False
        self._stop = threading.Event()
        self._fresh: Mapping[str, Any] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"gradscope-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread; the first reading begins at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after the reading under way."""
        self._stop.set()

    def ended(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for the thread's end; return whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def take(self) -> Mapping[str, Any]:
        """Return the last result if it was not taken before, else nothing."""
        with self._lock:
            fresh, self._fresh = self._fresh, None
        return fresh or {}

    def _run(self) -> None:
        backoff = Backoff()
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            begun, cpu_before = time.monotonic(), time.thread_time()
            if backoff.ready(time.monotonic_ns()):
                self._once(backoff)
            took, spent = time.monotonic() - begun, time.thread_time() - cpu_before
            self.cpu_seconds += spent
            if took > self._period_s and not self._said_slow:
                self._said_slow = True
                self._say(f"{self.name}: one reading took {took:.1f} s, it is taken as often as it can be")
            wait_s = max(self._period_s - took, spent / MOST_CPU_SHARE - took, 0.0)

    def _once(self, backoff: Backoff) -> None:
        try:
            result = self._read()
        except Exception as error:  # sampling never ends a run, whatever a driver or /proc comes up with
            backoff.failed(time.monotonic_ns())
            self._say(f"{self.name}: {type(error).__name__}: {error}")
            return
        backoff.succeeded()
        with self._lock:
            self._fresh = result
