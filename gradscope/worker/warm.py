"""`python -m gradscope.worker.warm`: has torch, transformers and the worker imported, and forks a process a cell.

Started by a sweep. It never runs a tensor operation: torch's threads would not be in its children, which would wait for
them for ever. What a child does is told by name on the command line: the supervisor of one run, whose own child is the
worker.
"""

import argparse
import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from gradscope.worker.orphan import die_with_supervisor, set_death_signal

READY = b"ready"

NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""Lets torch look for CUDA devices without starting CUDA, which no fork would survive."""

LARGEST_MESSAGE = 1 << 20

REAP_SECONDS = 1.0

Work = Callable[[Path, int], int]
Supervise = Callable[[bytes, Sequence[int], Work], int]


def main() -> int:
    """Import everything, say so, and serve until the sweep closes its end or dies."""
    parser = argparse.ArgumentParser(prog="gradscope.worker.warm", description="Fork workers (started by a sweep).")
    parser.add_argument("--fd", type=int, required=True, help="a Unix socket, one message a cell")
    parser.add_argument("--parent", type=int, required=True, help="process id of the sweep")
    parser.add_argument("--supervisor", required=True, metavar="MODULE:FUNCTION", help="what a child does")
    arguments = parser.parse_args()
    set_death_signal(signal.SIGKILL)
    if os.getppid() != arguments.parent:
        return 1
    import_worker()
    module, _, name = arguments.supervisor.partition(":")
    supervise: Supervise = getattr(import_module(module), name)
    with socket.socket(fileno=arguments.fd) as requests:
        serve(requests, supervise)
    return 0


def import_worker() -> None:
    """Import all that a worker imports by itself: torch, transformers, and every module of this package but programs.

    A module of a data set or model that lacks its optional library is left to the run that asks for it.
    """
    from gradscope.worker import preload

    preload.import_all()
    gc.collect()
    gc.freeze()  # else a collection in a child would copy every page that holds an object


def serve(requests: socket.socket, supervise: Supervise) -> None:
    """Say that all is ready, then fork a child for each message until the other end is closed."""
    requests.send(READY)
    requests.settimeout(REAP_SECONDS)
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(requests, LARGEST_MESSAGE, 2)
        except TimeoutError:
            reap()
            continue
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            requests.close()
            be_child(message, descriptors, supervise)
        for descriptor in descriptors:
            os.close(descriptor)
        reap()


def be_child(message: bytes, descriptors: Sequence[int], supervise: Supervise) -> None:
    """Do what a child does, and leave."""
    code = 1
    try:
        os.setsid()
        code = supervise(message, descriptors, work_warm)
    except BaseException:  # whatever it is: the frames above are the parent's
        traceback.print_exc()
    finally:
        os._exit(code)


def work_warm(run_dir: Path, parent_fd: int) -> int:
    """Be a worker: what `python -m gradscope.worker` does, with nothing left to import."""
    os.environ.pop(NVML_CHECK, None)
    die_with_supervisor(parent_fd)
    from gradscope.worker.main import work

    return work(run_dir, parent_fd, 0.0)


def reap() -> None:
    """Let children that have ended go."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    sys.exit(main())
