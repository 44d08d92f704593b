"""Children of a process that has all it needs imported: forked, with what a new process would have, and no more."""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from gradscope.launch.wakeup import STOP_SIGNALS

OPEN_FILES = Path("/proc/self/fd")

POLL_SECONDS = (0.001, 0.02)
"""Between two looks at a child that is waited for: first, and at most."""


class ForkedProcess:
    """A forked child, in the manner of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._returncode: int | None = None

    @property
    def pid(self) -> int:
        """Its process id, which is also its process group's."""
        return self._pid

    def poll(self) -> int | None:
        """Return its exit code (negative: the signal that ended it); `None` while it runs."""
        if self._returncode is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._returncode = os.waitstatus_to_exitcode(status)
        return self._returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: It has not after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause, longest = POLL_SECONDS
        while (returncode := self.poll()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired([f"process {self._pid}"], timeout or 0.0)
            time.sleep(pause)
            pause = min(2 * pause, longest)
        return returncode

    def send_signal(self, sig: int, /) -> None:
        """Send it a signal; nothing happens if it is gone."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, sig)


def fork(work: Callable[[], int], *, keep: Iterable[int], stdout: int, stderr: int, argv: list[str]) -> ForkedProcess:
    """Run `work` in a child, in a process group of its own; its return value is the exit code.

    The child starts as a new process would: signals have their default effects, no descriptor is open but the three
    standard ones and `keep`, and nothing that its parents registered is run at its exit. Only for a process that has
    one thread: no other would be in the child, and what it held locked stayed so.

    Args:
        work: What the child does.
        keep: Descriptors that it keeps.
        stdout: Descriptor that becomes its standard output.
        stderr: The same for standard error.
        argv: Its `sys.argv`.
    """
    kept = {0, 1, 2, *keep}
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # it has done so itself already, or is gone
            os.setpgid(pid, pid)
        return ForkedProcess(pid)
    code = 1
    try:
        os.setpgid(0, 0)
        restore_signals()
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        close_all_but(kept)
        atexit._clear()
        sys.argv = argv
        code = work()
        atexit._run_exitfuncs()
    except BaseException:  # there is nobody above us: the frames there are the parent's
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def restore_signals() -> None:
    """Give signals the effects that they have in a new Python process."""
    signal.set_wakeup_fd(-1)
    for number in (*STOP_SIGNALS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def close_all_but(kept: set[int]) -> None:
    """Close every descriptor that is not in `kept`: the parent's pipes tell others of its life, not of ours."""
    for entry in list(OPEN_FILES.iterdir()):
        if int(entry.name) not in kept:
            with contextlib.suppress(OSError):  # the one by which the folder was read
                os.close(int(entry.name))
