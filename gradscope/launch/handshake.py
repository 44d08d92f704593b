"""How a supervisor tells whoever started it that the run has begun, or why not: a few bytes through a pipe."""

import contextlib
import os
import select
import time

READY = b"ready"
"""The worker runs. Anything else is a message, and after a line break a hint."""


def tell(ready_fd: int | None, content: bytes) -> None:
    """Send `content` and close the pipe; `None` is a supervisor that nobody waits for."""
    if ready_fd is not None:
        with contextlib.suppress(OSError):  # whoever started us has gone; the run does not need them
            os.write(ready_fd, content)
            os.close(ready_fd)


def hear(descriptor: int, seconds: float) -> bytes | None:
    """Return what a supervisor said, once it has closed its end; `None` if it has not after `seconds`."""
    deadline = time.monotonic() + seconds
    content = b""
    while select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(descriptor, 4096)
        if not chunk:
            return content
        content += chunk
    return None


def hear_line(descriptor: int, seconds: float) -> bytes | None:
    """Return the next line of a process that says one at a time; empty if it ended, `None` if it takes too long."""
    deadline = time.monotonic() + seconds
    content = b""
    while select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(descriptor, 1 << 16)
        content += chunk
        if not chunk:
            return b""
        if content.endswith(b"\n"):
            return content
    return None
