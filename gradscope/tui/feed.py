"""What screens read runs through: a feed yields frozen snapshots of one run, whether it is running or over."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from gradscope.tui.reader import RunReader
from gradscope.tui.view import RunView


def never() -> bool:
    """Read to the end."""
    return False


class Feed(Protocol):
    """One run, read again and again. Called on one thread, and never on that of the screen: it may take a while."""

    def read(self, enough: Callable[[], bool] = never) -> RunView:
        """Return the run as it is now; the very same view if nothing has changed since the last call.

        Args:
            enough: Asked now and then; True ends the call early, with what has been read by then (`RunView.partial`).
        """


class RunFeed:
    """The feed of a run directory. It never raises for what it finds there: that is said in `RunView.problems`."""

    def __init__(self, path: Path, *, now_monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - as in `RunHandle`
        self._now_monotonic_ns = now_monotonic_ns
        self._directory: tuple[int, int] | None = None
        self._reader = RunReader(self.path)
        self._view: RunView | None = None
        self._lock = threading.Lock()

    def read(self, enough: Callable[[], bool] = never) -> RunView:
        """Return the run as it is now; see `Feed`. A second thread waits for the first."""
        with self._lock:
            return self._read(enough)

    def _read(self, enough: Callable[[], bool]) -> RunView:
        found = _directory(self.path)
        if found is not None:
            if found != self._directory:
                self._directory, self._reader = found, RunReader(self.path)
            if not self._reader.read(enough):
                self._reader = RunReader(self.path)
                self._reader.read(enough)
        revision = 0 if self._view is None else self._view.revision
        view = self._reader.view(revision=revision, gone=found is None, now_monotonic_ns=self._now_monotonic_ns())
        if self._view is None or view != self._view:
            self._view = replace(view, revision=revision + 1)
        return self._view


def _directory(path: Path) -> tuple[int, int] | None:
    """Tell one folder from another of the same name; `None` where there is none, or none that may be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
