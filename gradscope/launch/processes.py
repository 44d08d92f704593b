"""Ending all processes of a run: the worker's group, and whatever else descends from it."""

import contextlib
import ctypes
import os
import signal
import sys
import time

import psutil

PR_SET_CHILD_SUBREAPER = 36
"""prctl(2): orphaned descendants of this process become its children, not init's."""


def adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants: it then finds those that left the worker's group."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_group(group: int) -> None:
    """SIGKILL a process group; nothing happens if it has no members."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def kill_descendants(seconds: float = 1.0) -> None:
    """SIGKILL every descendant of this process and wait until they are gone.

    Asked again and again for `seconds`, since a process may start another one while it is being looked for.
    """
    deadline = time.monotonic() + seconds
    while True:
        alive = [child for child in psutil.Process().children(recursive=True) if _is_running(child)]
        if not alive or time.monotonic() > deadline:
            return
        for child in alive:
            with contextlib.suppress(psutil.Error):  # it ended by itself
                child.kill()
        psutil.wait_procs(alive, timeout=0.1)


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
