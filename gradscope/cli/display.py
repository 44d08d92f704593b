"""Progress on stderr: one line that is rewritten in a terminal, plain lines everywhere else."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from gradscope.core.text import visible

REWRITE_SECONDS = 0.25
"""In a terminal, the line changes at most four times a second, whatever the step rate: the link may be slow."""

PLAIN_SECONDS = 10.0
"""Elsewhere a line comes at each change of stage, and this long after the last."""

FALLBACK_COLUMNS = 80

CLEAR = "\r\x1b[K"
TAB = "\t"


def is_terminal(stream: TextIO) -> bool:
    """Whether escape sequences make sense there."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


def columns_of(stream: TextIO) -> int | None:
    """Return the width of the terminal that a stream leads to; `None` where it leads to none."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or FALLBACK_COLUMNS
    except (OSError, ValueError):
        return FALLBACK_COLUMNS


class Display:
    """Writes notes and a progress line; goes silent when its stream is gone (the terminal was closed)."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._now = now
        self._rewrites = is_terminal(self._stream)
        self._shown = False
        self._last_at: float | None = None
        self._last_word = ""

    def note(self, text: str) -> None:
        """Write one line, unless quiet."""
        if not self._quiet:
            self.say(text)

    def say(self, text: str) -> None:
        """Write one line, quiet or not; control characters in it are written out, tabs aside."""
        self.clear()
        self._write(f"{visible(text, keep=TAB)}\n")

    def progress(self, line: str) -> None:
        """Show where the run stands; its first word is its stage. Called as often as one likes."""
        if self._quiet:
            return
        now, word = self._now(), line.partition(" ")[0]
        waited = PLAIN_SECONDS if self._last_at is None else now - self._last_at
        if self._rewrites:
            if waited >= REWRITE_SECONDS:
                self._last_at = now
                self._write(f"{CLEAR}{line[: self.columns]}")
                self._shown = True
        elif word != self._last_word or waited >= PLAIN_SECONDS:
            self._last_at, self._last_word = now, word
            self._write(f"{line}\n")

    @property
    def rewrites(self) -> bool:
        """Whether progress is one line that is rewritten."""
        return self._rewrites

    @property
    def columns(self) -> int | None:
        """Columns that a progress line may take; `None` for as many as it likes. stdout may lead elsewhere."""
        width = columns_of(self._stream) if self._rewrites else None
        return None if width is None else width - 1

    def clear(self) -> None:
        """Take the progress line away."""
        if self._shown:
            self._shown = False
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone, or the stream closed: nobody reads this
            self._stream.write(text)
            self._stream.flush()
