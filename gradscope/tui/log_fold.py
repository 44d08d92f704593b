"""Lines of output folded for a screen: bytes in, bounded text out. Nothing here knows files."""

from collections import deque
from itertools import islice

from gradscope.core.text import visible
from gradscope.core.units import format_bytes
from gradscope.tui.view import LogLine

MOST_LINES = 2000
"""Lines that are kept, equal ones counted as one."""

MOST_BYTES = 2000
"""Of one line; what is longer is cut, and says so."""

LONGEST_BLOCK = 4
"""Lines in a block whose repetitions are folded: Python's warnings are two lines each."""


class Pending:
    """A line that is not complete yet, as a terminal would show it: a carriage return lets what follows replace it."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._kept = bytearray()
        self._more_bytes = 0
        self._overwrite = False
        self._skipping = False

    def add(self, piece: bytes) -> None:
        """Take in a part of the line."""
        if self._skipping or not piece:
            return
        body = piece.rstrip(b"\r")
        _, returned, last = body.rpartition(b"\r")
        if last:
            self._overwrite |= bool(returned)
            self._write(last)
        self._overwrite |= len(body) < len(piece)

    def take(self) -> bytes:
        """End the line and return it; empty for one that is passed over."""
        line = bytes(self)
        self._clear()
        return line

    def skip_line(self) -> None:
        """Pass over the rest of this line: its beginning was not seen."""
        self.take()
        self._skipping = True

    def __bytes__(self) -> bytes:
        """The line so far."""
        return bytes(self._kept) + (f" [{format_bytes(self._more_bytes)} more]".encode() if self._more_bytes else b"")

    def _write(self, piece: bytes) -> None:
        if self._overwrite:
            self._clear()
        room = MOST_BYTES - len(self._kept)
        self._kept += piece[:room]
        self._more_bytes += max(0, len(piece) - room)


class Folded:
    """The last lines; equal ones in a row are one with a count, and so are the lines of a block that repeats."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque(maxlen=MOST_LINES)

    def add(self, raw: bytes) -> None:
        """Add a line; an empty one tells nothing and is left out."""
        entries = self._entries
        if entries and entries[-1].raw == raw:
            entries[-1].count += 1
        elif raw and not raw.isspace():
            entries.append(_Entry(raw))
            self._fold_block()

    def lines(self) -> tuple[LogLine, ...]:
        """Return the lines, oldest first."""
        return tuple(entry.line() for entry in self._entries)

    def take_counts(self, other: "Folded") -> None:
        """Where this ends with the lines that `other` ended with, let counts not fall behind what they were there."""
        counts = {entry.raw: entry.count for entry in islice(reversed(other._entries), LONGEST_BLOCK)}
        for entry in islice(reversed(self._entries), LONGEST_BLOCK):
            entry.count = max(entry.count, counts.get(entry.raw, 0))

    def _fold_block(self) -> None:
        """Fold the last lines into those before, if they are the same block again."""
        entries = self._entries
        for length in range(2, min(LONGEST_BLOCK, len(entries) // 2) + 1):
            if all(entries[-back].raw == entries[-back - length].raw for back in range(1, length + 1)):
                for back in range(1, length + 1):
                    entries[-back - length].count += entries[-back].count
                for _ in range(length):
                    entries.pop()
                return


class _Entry:
    __slots__ = ("_line", "count", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.count = 1
        self._line: LogLine | None = None

    def line(self) -> LogLine:
        if self._line is None or self._line.count != self.count:
            self._line = LogLine(text_of(self.raw) if self._line is None else self._line.text, self.count)
        return self._line


def text_of(raw: bytes) -> str:
    """Return a line as text that a terminal shows and does not obey; tabs become spaces."""
    return visible(raw.decode(errors="replace").expandtabs(8))
