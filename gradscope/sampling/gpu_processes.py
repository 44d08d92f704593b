"""How much device memory a process tree holds, where NVML's process ids are ours."""

import os
from collections.abc import Callable, Sequence

import psutil

from gradscope.sampling.nvml import GpuProcess


def process_exists(pid: int) -> bool:
    """Whether a process has this id in our own namespace; it may belong to anybody."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def foreign(listed: Sequence[GpuProcess], exists: Callable[[int], bool] = process_exists) -> bool:
    """Whether NVML lists processes that do not exist here, as it does in a container: its ids are the host's then."""
    return not all(exists(process.pid) for process in listed)


def tree_bytes(
    listed: Sequence[GpuProcess], pids: frozenset[int], exists: Callable[[int], bool] = process_exists
) -> int | None:
    """Return the bytes that the processes `pids` hold on a card, of all that NVML lists.

    In a container the driver may list the host's ids, and a number of ours among them is then a neighbour's: so if any
    listed process does not exist here, or none of ours is listed, or the driver does not say what one of ours holds, it
    is `None`.
    """
    ours = [process for process in listed if process.pid in pids]
    if not ours or foreign(listed, exists):
        return None
    sizes = [process.used_bytes for process in ours]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def strangers(
    listed: Sequence[GpuProcess], pids: frozenset[int], exists: Callable[[int], bool] = process_exists
) -> list[str]:
    """Return who computes on a card beside `pids`, as `PID NAME`; nobody where none of `pids` is listed.

    As with `tree_bytes`: the ids may be another namespace's, and nothing tells a neighbour from one of `pids` then.
    """
    if foreign(listed, exists) or not any(process.pid in pids for process in listed):
        return []
    return [called(process.pid) for process in listed if process.compute and process.pid not in pids]


def called(pid: int) -> str:
    """Return a process's id and, where it can be told, its name."""
    try:
        return f"{pid} {psutil.Process(pid).name()}"
    except psutil.Error:
        return str(pid)
