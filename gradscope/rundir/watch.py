"""A run directory that is looked at again and again: what has not been replaced since is not read again."""

import os
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from gradscope.core.status import SCHEMA_VERSION, StatusRecord
from gradscope.rundir.files import DAMAGED, read_bytes
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import MANIFEST, STATUS
from gradscope.rundir.manifest import Manifest

T = TypeVar("T")


class Versioned(msgspec.Struct, frozen=True):
    """What every version's whole files have."""

    schema: int = SCHEMA_VERSION


class WatchedFile(Generic[T]):
    """One JSON file that is always replaced as a whole."""

    def __init__(self, path: Path, type: type[T]) -> None:  # noqa: A002 - msgspec's own name for it
        self.path = path
        self.schema: int | None = None
        """Version of what was read last, also of what could not be understood."""
        self._type = type
        self._seen: tuple[int, int, int] | None = None
        self._content: T | None = None

    def read(self) -> T | None:
        """Return the content; `None` if it is missing, torn, or not of the type.

        Raises:
            OSError: The file is there but cannot be read.
        """
        try:
            found = os.stat(self.path)  # noqa: PTH116 - as in `tail`
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self._content, self.schema = None, None, None
            return None
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen != self._seen:
            self._take(read_bytes(self.path) or b"")
            self._seen = seen
        return self._content

    def _take(self, content: bytes) -> None:
        try:
            self._content = msgspec.json.decode(content, type=self._type)
        except DAMAGED:
            self._content = None
        try:
            self.schema = msgspec.json.decode(content, type=Versioned).schema
        except DAMAGED:
            self.schema = None


class WatchedRun(RunHandle):
    """A run directory of which every call costs a few `stat`s where nothing is new."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._manifest = WatchedFile(self.path / MANIFEST, Manifest)
        self._status = WatchedFile(self.path / STATUS, StatusRecord)

    def manifest(self) -> Manifest | None:
        """Return the manifest; `None` if it is missing or damaged."""
        return self._manifest.read()

    def recorded_status(self) -> StatusRecord | None:
        """Return `status.json` as it stands; `None` if it is missing or damaged."""
        return self._status.read()

    @property
    def newest_schema(self) -> int:
        """Version of the manifest or the status as last read, whichever is newer."""
        return max(self._manifest.schema or 0, self._status.schema or 0)
