"""The end of a worker's output as lines for a screen, whatever bytes it is made of, and however fast it comes."""

import os
import stat
from pathlib import Path

from gradscope.core.units import format_bytes
from gradscope.tui.log_fold import Folded, Pending, text_of
from gradscope.tui.view import LogLine

OPENING_BYTES = 256 * 1024
"""How much of a file's end is read where reading begins in its middle."""

BATCH_BYTES = 1024 * 1024

MOST_BEHIND_BYTES = 4 * BATCH_BYTES
"""What lies further ahead of the reader than this is passed over: nobody could have read it."""


class LogTail:
    """Follows one log; memory is bounded however long the file and its lines are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: tuple[LogLine, ...] = ()
        """What there is, oldest first; the last one may be incomplete."""
        self._folded = Folded()
        self._pending = Pending()
        self._offset = 0
        self._shorter = False

    def read(self) -> bool:
        """Take in what came since the last call and return whether `lines` is different now.

        Raises:
            OSError: The file is there but cannot be read.
        """
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if found.st_size == self._offset or not stat.S_ISREG(found.st_mode):
            return False
        shorter, self._shorter = self._shorter, found.st_size < self._offset
        if self._shorter and not shorter:
            return False  # the supervisor is cutting out the middle of a long log: its end comes in a moment
        with self.path.open("rb", buffering=0) as file:
            if self._shorter:
                self._begin_again(file.fileno(), found.st_size)
            elif found.st_size - self._offset > (MOST_BEHIND_BYTES if self._offset else OPENING_BYTES):
                self._pass_over(found.st_size - OPENING_BYTES)
            file.seek(self._offset)
            while chunk := file.read(min(BATCH_BYTES, found.st_size - self._offset)):
                self._offset += len(chunk)
                self._take(chunk)
        before, self.lines = self.lines, self._shown()
        return self.lines != before

    def _take(self, chunk: bytes) -> None:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            self._pending.add(line)
            self._folded.add(self._pending.take())
        self._pending.add(rest)

    def _pass_over(self, target: int) -> None:
        """Go on further ahead, and say how much was not looked at."""
        self._pending.skip_line()
        left_out = format_bytes(target - self._offset)
        self._folded.add(f"[{left_out} of output before this: see {self.path.name}]".encode())
        self._offset = target

    def _begin_again(self, descriptor: int, size: int) -> None:
        """Begin with the end of a file that was cut; a line that is repeated without end keeps its count."""
        before, self._folded, self._pending = self._folded, Folded(), Pending()
        start = max(0, size - OPENING_BYTES)
        if start:
            self._pending.skip_line()
        self._take(os.pread(descriptor, size - start, start))
        self._offset = size
        self._folded.take_counts(before)

    def _shown(self) -> tuple[LogLine, ...]:
        incomplete = bytes(self._pending)
        lines = self._folded.lines()
        return lines if not incomplete.strip() else (*lines, LogLine(text_of(incomplete)))
