"""Which machine this is, and whether a recorded process is still the one that was recorded."""

import os
import socket
from functools import cache
from pathlib import Path

import psutil

from gradscope.core.status import ProcessId


def host_name() -> str:
    """Return this machine's name."""
    return socket.gethostname()


@cache
def boot_id() -> str:
    """Return the kernel's boot id, which changes with every start of the machine; empty where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def parse_proc_stat(content: str) -> tuple[str, int]:
    """Return state and start time (clock ticks since boot) from the content of `/proc/PID/stat` (proc(5)).

    The command's name is in parentheses and may hold parentheses and spaces itself, so fields count from the last `)`.
    """
    fields = content.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def process_id(pid: int | None = None) -> ProcessId | None:
    """Return the identity of a process (this one by default); `None` if it is gone, or only waits to be reaped.

    The start time counts from boot where the kernel tells it (Linux), so that a step of the wall clock changes no
    identity: psutil's `create_time()` moves with the clock.
    """
    pid = os.getpid() if pid is None else pid
    try:
        state, ticks = parse_proc_stat(Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self").exists() else _process_id_without_proc(pid)
    if state in "ZX":
        return None
    return ProcessId(pid=pid, start_time=round(ticks / os.sysconf("SC_CLK_TCK"), 2))


def is_alive(process: ProcessId) -> bool:
    """Tell whether this very process still runs: same number, same start time, not a zombie."""
    return process_id(process.pid) == process


def _process_id_without_proc(pid: int) -> ProcessId | None:
    try:
        found = psutil.Process(pid)
        if found.status() == psutil.STATUS_ZOMBIE:
            return None
        return ProcessId(pid=pid, start_time=round(found.create_time(), 2))
    except psutil.Error:
        return None
