"""The app's own log: tracebacks and whatever would have been printed over the screen. Bounded, shared by all apps."""

import os
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from gradscope.core.text import visible
from gradscope.errors import GradscopeError

LIMIT_BYTES = 4 * 1024 * 1024
"""A log that has grown beyond this is started anew when an app starts."""


class AppLog:
    """Appends to a file; where that cannot be written, `path` is `None` and nothing is kept."""

    def __init__(self, path: Path) -> None:
        """Open `path` for appending, and make its folder."""
        self.path: Path | None = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self.descriptor = os.open(path, flags, 0o600)
            if os.fstat(self.descriptor).st_size > LIMIT_BYTES:
                os.ftruncate(self.descriptor, 0)
        except OSError:  # a home that is full or may not be written: the app works without
            self.path = None
            self.descriptor = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def write(self, text: str) -> None:
        """Add text, stamped with the time and this process; a full disk loses it."""
        head = f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] "
        try:
            os.write(self.descriptor, f"{head}{visible(text, keep=chr(10)).rstrip()}\n".encode("utf-8", "replace"))
        except OSError:
            self.path = None

    def exception(self, error: BaseException) -> None:
        """Add an error with its traceback."""
        self.write("".join(traceback.format_exception(error)))

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


def describe(error: BaseException) -> tuple[str, str]:
    """Return what went wrong in a line, and the remedy, if any: no traceback, no place in the code."""
    if isinstance(error, GradscopeError):
        return error.message, error.hint
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{where}{error.strerror}", ""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__, ""


def detail_lines(path: Path | None) -> Sequence[str]:
    """Return where to read more, as lines for a panel."""
    return (f"details: {path}",) if path is not None else ("no details: the log could not be written",)
