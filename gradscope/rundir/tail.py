"""Following a file of JSON lines while it grows: following a running run and reading a finished one are one code."""

import os
import stat
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from gradscope.rundir.files import DAMAGED

T = TypeVar("T")

CHUNK_BYTES = 8 * 1024 * 1024


class JsonlTail(Generic[T]):
    """Reads the complete lines that came since the last call; a torn last line waits for its end.

    Lines that are no record of `type` never raise: unknown kinds are counted in `unknown`, the rest in `malformed`.
    """

    def __init__(self, path: Path, type: Any) -> None:  # noqa: A002 - msgspec's own name; may be a union
        self.path = path
        self.unknown = 0
        """Lines of a kind this version does not know."""
        self.malformed = 0
        """Lines that are not JSON, or lack what their kind must have."""
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(type)
        self._offset = 0
        self._rest = b""

    def read(self) -> list[T]:
        """Return the new records; `[]` if the file is missing or has not grown.

        Raises:
            OSError: The file is there but cannot be read.
        """
        try:
            found = os.stat(self.path)  # noqa: PTH116 - on the path of every training step: half the cost of Path.stat
        except (FileNotFoundError, NotADirectoryError):
            return []
        if found.st_size == self._offset or not stat.S_ISREG(found.st_mode):
            return []
        if found.st_size < self._offset:  # replaced by a shorter file: begin again
            self._offset, self._rest = 0, b""
        records: list[T] = []
        with self.path.open("rb") as file:
            file.seek(self._offset)
            while chunk := file.read(CHUNK_BYTES):
                self._offset += len(chunk)
                complete, newline, rest = (self._rest + chunk).rpartition(b"\n")
                self._rest = rest
                if newline:
                    records += self._decode(complete)
        return records

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
