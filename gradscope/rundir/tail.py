"""Following a file of JSON lines while it grows: following a running run and reading a finished one are one code."""

import os
import stat
from collections.abc import Generator
from io import BufferedReader
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from gradscope.rundir.files import DAMAGED

T = TypeVar("T")

BATCH_BYTES = 128 * 1024
"""How much of a file is held, and decoded without a pause, at a time: its records fit into a processor's cache."""

LARGEST_LINE_BYTES = 128 * BATCH_BYTES
"""A longer line is none of ours: it is passed over, and never held."""

HEAD_BYTES = 256
"""How much of a file's beginning tells it from another one of the same name."""


class JsonlTail(Generic[T]):
    """Reads the complete lines that came since the last call; a torn last line waits for its end.

    Lines that are no record of `type` never raise: unknown kinds are counted in `unknown`, the rest in `malformed`.
    A file that is replaced by another one, or has become shorter, is read from its beginning.
    """

    def __init__(self, path: Path, type: Any) -> None:  # noqa: A002 - msgspec's own name; may be a union
        self.path = path
        self.unknown = 0
        """Lines of a kind this version does not know."""
        self.malformed = 0
        """Lines that are not JSON, or lack what their kind must have."""
        self.restarts = 0
        """How often reading began again at the beginning, after records had been read."""
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(type)
        self._inode = 0
        self._begin()

    def _begin(self) -> None:
        self._offset = 0
        self._head = b""
        self._rest: list[bytes] = []
        self._skipping = False
        """Within a line that is too long."""

    @property
    def torn(self) -> bool:
        """Whether the file, as far as it was read, ends within a line."""
        return bool(self._rest) or self._skipping

    def read(self) -> list[T]:
        """Return the new records; `[]` if the file is missing or has not grown.

        Raises:
            OSError: The file is there but cannot be read.
        """
        return [record for batch in self.batches() for record in batch]

    def batches(self) -> Generator[list[T], None, None]:
        """Yield the new records in parts of about `BATCH_BYTES`; what is not asked for comes at the next call.

        Raises:
            OSError: The file is there but cannot be read.
        """
        try:
            found = os.stat(self.path)  # noqa: PTH116 - on the path of every training step: half the cost of Path.stat
        except (FileNotFoundError, NotADirectoryError):
            return
        if (found.st_ino == self._inode and found.st_size == self._offset) or not stat.S_ISREG(found.st_mode):
            return
        with self.path.open("rb") as file:
            if found.st_size < self._offset or not self._continues(file):
                self.restarts += 1
                self._begin()
            self._inode = found.st_ino
            file.seek(self._offset)
            while chunk := file.read(BATCH_BYTES):
                if len(self._head) < HEAD_BYTES and self._offset == len(self._head):
                    self._head = (self._head + chunk)[:HEAD_BYTES]
                self._offset += len(chunk)
                complete = self._complete(chunk)
                if complete:
                    yield self._decode(complete)

    def _continues(self, file: BufferedReader) -> bool:
        """Whether this is the file that was read before, going by its beginning and not by its number.

        A folder that is synchronised from another machine gets new files with the old content, some network file
        systems change the numbers of theirs, and a new file often gets the number of the one just removed.
        """
        return file.read(len(self._head)) == self._head

    def _complete(self, chunk: bytes) -> bytes:
        """Take in what follows in the file and return the lines that are complete now."""
        if self._skipping:
            _, newline, chunk = chunk.partition(b"\n")
            if not newline:
                return b""
            self._skipping = False
        lines, newline, rest = chunk.rpartition(b"\n")
        if newline:
            lines = b"".join([*self._rest, lines])
            self._rest = []
        if rest:
            self._rest.append(rest)
        if sum(map(len, self._rest)) > LARGEST_LINE_BYTES:
            self._rest, self._skipping = [], True
            self.malformed += 1
        return lines

    def _decode(self, lines: bytes) -> list[T]:
        try:
            return self._decoder.decode_lines(lines)
        except DAMAGED:
            pass  # some line is damaged: take them one by one, which counts it
        records: list[T] = []
        for line in lines.split(b"\n"):
            if not line.strip():
                continue
            try:
                records.append(self._decoder.decode(line))
            except msgspec.ValidationError as error:
                if str(error).startswith("Invalid value") and str(error).endswith("`$.kind`"):
                    self.unknown += 1
                else:
                    self.malformed += 1
            except DAMAGED:
                self.malformed += 1
        return records
