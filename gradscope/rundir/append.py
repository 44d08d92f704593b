"""Appending JSON lines: whole lines in one `write`, so that a kill at any moment tears at most the last one."""

import os
from pathlib import Path
from typing import Any

import msgspec


class JsonlWriter:
    """Appends records to a file, one JSON object a line. Several writers may share a file (`control.jsonl`).

    A line torn by a full disk or by a writer that was killed is closed off by the next append, so that it
    costs no other record.
    """

    def __init__(self, path: Path) -> None:
        """Open `path`, making it if it is not there.

        Raises:
            OSError: It cannot be opened for writing.
        """
        self.path = path
        self._encoder = msgspec.json.Encoder()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size_bytes = os.fstat(self._descriptor).st_size
        self._torn = self._size_bytes > 0 and os.pread(self._descriptor, 1, self._size_bytes - 1) != b"\n"

    @property
    def size_bytes(self) -> int:
        """Size of the file as far as this writer knows: what was there when it opened it, and what it has added."""
        return self._size_bytes

    def append(self, *objs: Any) -> int:
        """Add records and return how many bytes that took.

        Raises:
            OSError: They could not be written, or only in part; a later one may well succeed.
        """
        text = b"".join([self._encoder.encode(obj) + b"\n" for obj in objs])
        if self._torn:
            text = b"\n" + text
        written = 0
        try:
            while written < len(text):
                written += os.write(self._descriptor, text[written:] if written else text)
        finally:
            self._size_bytes += written
            if written:
                self._torn = written < len(text)
        return written

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
