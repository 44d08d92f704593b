"""The app's time in a terminal: however it ends, the terminal is given back, quickly, and runs go on."""

import contextlib
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from typing import Any

from gradscope.errors import signal_exit
from gradscope.launch.wakeup import Wakeup, catching_signals
from gradscope.tui.applog import AppLog
from gradscope.tui.outlet import Outlet

DRAIN_SECONDS = 1.0
"""When leaving by a signal, the terminal has this long to take what is still to be written."""

LEAVE_SECONDS = 3.0
"""After this long, work on other threads is given up; what it writes is replaced atomically or not at all."""

RESET = (
    "\x1b[0m\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[<u"
    "\x1b[2J\x1b[H\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""Undoes every mode that textual sets."""


class Session:
    """Made by `in_terminal`."""

    def __init__(self, outlet: Outlet, wakeup: Wakeup) -> None:
        self.outlet = outlet
        self._streams: dict[int, int] = {}
        self.exit_code: int | None = None
        """Set once the app is to end."""
        self.on_leave: Callable[[int], None] | None = None
        """Asks the app to end with an exit code; called on another thread."""
        self.last_words: Callable[[], None] = lambda: None
        """Writes what the user should read after the app; called when it is given up."""
        self._wakeup = wakeup
        self._over = threading.Event()
        self._attributes = _terminal_attributes()
        self._watcher = threading.Thread(target=self._watch, name="signals", daemon=True)

    def terminal_lost(self) -> None:
        """End the app as SIGHUP would. May be called on any thread, and more than once."""
        self.outlet.lost = True
        self._wakeup.wake(signal.SIGHUP)

    def leaving(self, exit_code: int) -> None:
        """Say that the app ends of its own: from now on it has `LEAVE_SECONDS`."""
        if self.exit_code is None:
            self.exit_code = exit_code
            self._wakeup.wake()

    def start(self, log: AppLog) -> None:
        """Lead stdout and stderr into the log, and listen for signals."""
        self._streams = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
        for descriptor in self._streams:
            os.dup2(log.descriptor, descriptor)
        self._watcher.start()

    def finish(self) -> None:
        """Give stdout and stderr back and stop listening: the app has ended."""
        self._give_streams_back()
        self._over.set()
        self._wakeup.wake()
        self._watcher.join()

    def restore_terminal(self) -> None:
        """Undo what textual did to the terminal, where it had no chance to."""
        self.outlet.write(RESET)
        if self._attributes is not None:
            with contextlib.suppress(termios.error):  # it is gone
                termios.tcsetattr(sys.__stdin__.fileno(), termios.TCSANOW, self._attributes)  # type: ignore[union-attr]

    def _give_streams_back(self) -> None:
        while self._streams:
            descriptor, copy = self._streams.popitem()
            os.dup2(copy, descriptor)
            os.close(copy)

    def _watch(self) -> None:
        while self.exit_code is None and not self._over.is_set():
            self._wakeup.wait(3600.0)
            for number in self._wakeup.take():
                if self.exit_code is None:
                    self._leave_by(number)
        if not self._over.wait(LEAVE_SECONDS):
            self._give_up(1 if self.exit_code is None else self.exit_code)

    def _leave_by(self, number: int) -> None:
        self.exit_code = signal_exit(number)
        self.outlet.hurry(DRAIN_SECONDS)
        if self.on_leave is not None:
            self.on_leave(self.exit_code)

    def _give_up(self, exit_code: int) -> None:
        """End the process although some thread does not return."""
        self.outlet.hurry(0.0)
        self.restore_terminal()
        self._give_streams_back()
        self.last_words()
        os._exit(exit_code)


@contextlib.contextmanager
def in_terminal(log: AppLog) -> Iterator[Session]:
    """Keep the terminal for the app alone; main thread only.

    stdout and stderr of this process and of its children lead into the log meanwhile: native libraries and children
    write past Python's streams, and nothing but the app may write over its screen.

    Raises:
        OSError: stderr cannot be used.
    """
    outlet = Outlet(2)
    with catching_signals(keep_ignored=True) as wakeup, _errors_of_threads(log):
        session = Session(outlet, wakeup)
        session.start(log)
        try:
            yield session
        finally:
            session.finish()
    outlet.close()


@contextlib.contextmanager
def _errors_of_threads(log: AppLog) -> Iterator[None]:
    """Write to the log what Python itself would print: errors of threads and of finalizers."""

    def of_thread(happened: threading.ExceptHookArgs) -> None:
        if happened.exc_value is not None:
            log.exception(happened.exc_value)

    def of_finalizer(happened: Any) -> None:
        if happened.exc_value is not None:
            log.exception(happened.exc_value)

    before = threading.excepthook, sys.unraisablehook
    threading.excepthook, sys.unraisablehook = of_thread, of_finalizer
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = before


def _terminal_attributes() -> "list[Any] | None":
    """Return the terminal's attributes, once this process is in the foreground: setting them stops it until then."""
    try:
        descriptor = sys.__stdin__.fileno()  # type: ignore[union-attr]
        attributes = termios.tcgetattr(descriptor)
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
        return attributes
    except (termios.error, ValueError, AttributeError):
        return None
