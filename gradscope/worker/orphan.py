"""The kernel ends a process whose parent is gone: a loader process, and the worker while it imports torch.

An import holds the interpreter for seconds, and a `Lifeline`, which lets a worker say its last words, needs torch.
"""

import ctypes
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal this process gets when the thread that started it ends."""


def die_with_supervisor(parent_fd: int) -> None:
    """End this process at once if the supervisor is gone, and from now on whenever it goes.

    Args:
        parent_fd: Read end of a pipe whose write end only the supervisor holds.
    """
    set_death_signal(signal.SIGKILL)
    if select.select([parent_fd], [], [], 0)[0]:  # nothing is ever written: readable means that it died before that
        os._exit(1)


def outlive_supervisor() -> None:
    """Leave it to the `Lifeline` from here on."""
    set_death_signal(0)


def set_death_signal(number: int) -> None:
    """Let the kernel send this process a signal when its parent is gone, 0 for none; does nothing but on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
