"""The worker's output: read to its end, so that a full pipe can never stop training, and kept within bounds."""

import contextlib
import os
import threading
from pathlib import Path

LIMIT_BYTES = 64 * 1024 * 1024
"""Size of `worker.log` past which its middle is left out."""

HEAD_BYTES = 16 * 1024 * 1024
TAIL_BYTES = 16 * 1024 * 1024
"""What is kept of the beginning and of the end then."""

MEMORY_BYTES = 64 * 1024
"""How much of the end is held in memory, for a verdict on a full disk."""


class BoundedLog:
    """Appends to a file; past its limit, cuts out the middle and says how much. Never raises; see `error`."""

    def __init__(
        self, path: Path, *, limit_bytes: int = LIMIT_BYTES, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        self.end = b""
        """The last output, written or not."""
        self.error: OSError | None = None
        """Why something could not be written, the first time."""
        self._limit_bytes, self._head_bytes, self._tail_bytes = limit_bytes, head_bytes, tail_bytes
        self._left_out_bytes = 0
        self._unwritten = b""
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self.error = error

    def write(self, content: bytes) -> None:
        """Append `content`, together with what could not be written before."""
        self.end = (self.end + content)[-MEMORY_BYTES:]
        self._unwritten += content
        self.flush()

    def flush(self) -> None:
        """Try again to write what could not be written; a full disk may have room by now."""
        try:
            while self._unwritten and self._descriptor >= 0:
                self._unwritten = self._unwritten[os.write(self._descriptor, self._unwritten) :]
            if self._descriptor >= 0 and os.fstat(self._descriptor).st_size > self._limit_bytes:
                self._cut()
        except OSError as error:
            self.error = self.error or error
        if len(self._unwritten) > MEMORY_BYTES:
            self._left_out_bytes += len(self._unwritten) - MEMORY_BYTES
            self._unwritten = self._unwritten[-MEMORY_BYTES:]

    def _cut(self) -> None:
        """Cut out the middle, in place: there may be no space for a second file."""
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, self._tail_bytes, size - self._tail_bytes)
        self._left_out_bytes += size - self._head_bytes - len(tail)
        os.ftruncate(self._descriptor, self._head_bytes)
        self._unwritten = f"\n[gradscope: about {self._left_out_bytes} bytes of output left out here]\n".encode() + tail
        while self._unwritten:
            self._unwritten = self._unwritten[os.write(self._descriptor, self._unwritten) :]

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Drain:
    """Copies a pipe into a log by a thread of its own."""

    def __init__(self, pipe: int, log: BoundedLog) -> None:
        """Start copying; `pipe` is closed at its end."""
        self._pipe = pipe
        self._log = log
        self._thread = threading.Thread(target=self._copy, name="drain", daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        with contextlib.closing(os.fdopen(self._pipe, "rb", buffering=0)) as pipe:
            while content := pipe.read(64 * 1024):
                self._log.write(content)

    def finish(self, seconds: float) -> bool:
        """Wait for the end of the pipe; False if some process still holds it open after `seconds`."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


def last_lines(content: bytes, count: int) -> list[str]:
    """Return the last `count` lines that are not empty, as text whatever the bytes."""
    lines = [line for line in content.decode(errors="replace").splitlines() if line.strip()]
    return lines[-count:]
