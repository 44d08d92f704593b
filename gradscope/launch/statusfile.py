"""Writing `status.json`, on a full disk too."""

import contextlib
import errno
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradscope.core.status import ProcessId, Status, StatusRecord
from gradscope.rundir.files import write_json
from gradscope.rundir.host import boot_id, host_name
from gradscope.rundir.layout import RESERVE, STATUS

RESERVE_BYTES = 256 * 1024

LAST_BYTES = 64 * 1024
"""What of it is held back for the final status while the rest serves the summary."""

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a write raises where a disk, a quota or a file size limit is at its end."""


class StatusFile:
    """The supervisor's pen for `status.json`. Holds a reserve of space, so that a run's end can always be written."""

    def __init__(self, run_dir: Path, supervisor: ProcessId | None) -> None:
        self.disk_full = False
        """Whether a write failed for lack of space."""
        self.notes: list[str] = []
        self._run_dir = run_dir
        self._fields: dict[str, Any] = {"supervisor": supervisor, "host": host_name(), "boot_id": boot_id()}

    def hold_reserve(self) -> None:
        """Take space for the end of the run; random bytes, since some file systems compress."""
        try:
            (self._run_dir / RESERVE).write_bytes(os.urandom(RESERVE_BYTES))
        except OSError as error:
            self.note(f"no space could be set aside for the end of the run: {error.strerror}")
            self.disk_full = self.disk_full or error.errno in NO_SPACE

    def release_reserve(self, *, keep_bytes: int = 0) -> None:
        """Give the space back, all but `keep_bytes` of it."""
        path = self._run_dir / RESERVE
        with contextlib.suppress(OSError):  # on a read-only disk it stays; what matters is written, or fails, by itself
            if keep_bytes:
                os.truncate(path, keep_bytes)
            else:
                path.unlink(missing_ok=True)

    def trouble(self, name: str, error: OSError) -> None:
        """Note that a file of the run directory could not be written, and whether that was for lack of space."""
        self.disk_full = self.disk_full or error.errno in NO_SPACE
        self.note(f"{name} could not always be written: {error.strerror}")

    def note(self, text: str) -> None:
        """Add something that did not decide the status; it is written with the next status."""
        if text not in self.notes:
            self.notes.append(text)

    def write(self, status: Status, **fields: Any) -> bool:
        """Replace `status.json`. Fields of the record that were given before stay until they are given anew.

        Returns:
            Whether it could be written; what failed is in `notes` and `disk_full`.
        """
        self._fields |= fields
        record = StatusRecord(
            status=status,
            updated_wall_ns=time.time_ns(),
            updated_monotonic_ns=time.monotonic_ns(),
            notes=tuple(self.notes),
            **self._fields,
        )
        try:
            write_json(self._run_dir / STATUS, record)
        except OSError as error:
            self.trouble(STATUS, error)
            return False
        return True


def says_full(lines: Iterable[str]) -> bool:
    """Whether a worker's last words are those of a full disk or quota; it may have met it before we did."""
    return any(os.strerror(number) in line for line in lines for number in (errno.ENOSPC, errno.EDQUOT))
