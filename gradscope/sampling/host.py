"""The host and the run's process tree: CPU, memory, disk.

psutil is quick enough: it takes 17 us for a process's CPU time and 12 us for its memory (measured on a 2-core virtual
machine), so that 8 processes at 10 Hz cost 0.3 % of a core. Finding children costs 20 us for every process on the host:
hence its slower clock.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from gradscope.core.samples import HostSample
from gradscope.sampling.cgroup import memory_allowance, memory_groups

GONE = (psutil.NoSuchProcess, psutil.AccessDenied)
"""What reading a process raises once it has ended (zombies included) or has become somebody else's."""


@dataclass(slots=True)
class _Member:
    process: psutil.Process
    cpu_seconds: float | None = None


class TreeReader:
    """CPU time and resident memory of a process and its descendants. `read` and `renew` may run in two threads."""

    def __init__(self, root_pid: int) -> None:
        self.root_pid = root_pid
        self.pids: frozenset[int] = frozenset({root_pid})
        """The tree as last seen."""
        self._members: dict[int, _Member] = {}
        self._last_ns: int | None = None
        self._found: list[psutil.Process] = []
        try:
            self._root: psutil.Process | None = psutil.Process(root_pid)
            self._found = [self._root]
        except GONE:
            self._root = None

    def renew(self) -> list[psutil.Process]:
        """Look for children that came and went, and return the tree. Its cost grows with the host's process count."""
        found: list[psutil.Process] = []
        if self._root is not None:
            try:
                found = [self._root, *self._root.children(recursive=True)]
            except GONE:
                found = []
        self._found = found
        self.pids = frozenset(process.pid for process in found) or frozenset({self.root_pid})
        return found

    def read(self, now_ns: int) -> dict[str, Any]:
        """Return `tree_cpu_pct` (100 = one core) and `tree_` and `worker_resident_bytes`, empty once the tree is gone.

        A process counts from when it was first read: what it used before that is in no figure.
        """
        found = self._found
        members = {process.pid: self._member(process) for process in found}
        spent = resident = 0.0
        own_resident: int | None = None
        alive = 0
        for member in members.values():
            try:
                with member.process.oneshot():
                    times, memory = member.process.cpu_times(), member.process.memory_info()
            except GONE:
                continue
            if memory.rss == 0:  # a zombie: nobody has waited for it yet
                continue
            total = times.user + times.system
            if member.cpu_seconds is not None:
                spent += max(0.0, total - member.cpu_seconds)
            member.cpu_seconds = total
            resident += memory.rss
            alive += 1
            if member.process.pid == self.root_pid:
                own_resident = memory.rss
        elapsed = None if self._last_ns is None else (now_ns - self._last_ns) / 1e9
        self._members, self._last_ns = members, now_ns
        if not alive:
            return {}
        figures: dict[str, Any] = {"tree_resident_bytes": int(resident), "worker_resident_bytes": own_resident}
        if elapsed:
            figures["tree_cpu_pct"] = round(100 * spent / elapsed, 2)
        return figures

    def _member(self, process: psutil.Process) -> _Member:
        known = self._members.get(process.pid)
        # psutil compares start times too, so that a pid used again is another process
        return known if known is not None and known.process == process else _Member(process)


class TrafficReader:
    """Bytes that a process tree read from and wrote to storage, those of processes that ended included."""

    def __init__(self) -> None:
        self._last: dict[psutil.Process, tuple[int, int]] = {}

    def read(self, processes: Iterable[psutil.Process]) -> dict[str, Any]:
        """Return `disk_read_bytes` and `disk_write_bytes`, empty where the system does not say."""
        for process in processes if hasattr(psutil.Process, "io_counters") else ():
            try:
                counters = process.io_counters()
            except GONE:
                continue
            self._last[process] = (counters.read_bytes, counters.write_bytes)
        if not self._last:
            return {}
        return {
            "disk_read_bytes": sum(read for read, _ in self._last.values()),
            "disk_write_bytes": sum(written for _, written in self._last.values()),
        }


class CoreReader:
    """Busy share of each logical processor between two calls."""

    def __init__(self) -> None:
        self._last: list[tuple[float, float]] = []

    def read(self) -> dict[str, Any]:
        """Return `core_busy_pct`, empty at the first call and where the kernel's clock (10 ms) has not moved since."""
        now = [(sum(times[:8]), times.idle + getattr(times, "iowait", 0.0)) for times in psutil.cpu_times(percpu=True)]
        before = self._last
        if len(before) != len(now):  # the first call, or a processor came or went
            self._last = now
            return {}
        passed = [(total - t0, idle - i0) for (total, idle), (t0, i0) in zip(now, before, strict=True)]
        if any(total <= 0 for total, _ in passed):
            return {}
        self._last = now
        return {"core_busy_pct": [_busy_pct(total, idle) for total, idle in passed]}


def _busy_pct(total: float, idle: float) -> float:
    """Share that was not idle, bounded since the kernel's counter of idle time may step back a little."""
    return round(100 * min(1.0, max(0.0, 1 - idle / total)), 1)


class HostReader:
    """Host figures in two parts: `read` for every sample, `read_slow` for about once a second, in its own thread."""

    def __init__(self, root_pid: int, disk_path: Path) -> None:
        self.tree = TreeReader(root_pid)
        self._disk_path = disk_path
        self._groups = memory_groups()
        self._traffic = TrafficReader()
        self._cores = CoreReader()

    def read(self, now_ns: int) -> dict[str, Any]:
        """Return the tree's CPU and memory, and the memory that is available."""
        figures = self.tree.read(now_ns)
        available = psutil.virtual_memory().available
        allowance = memory_allowance(self._groups)
        if allowance is not None:
            available = min(available, allowance.available_bytes)
            figures["memory_limit_bytes"] = allowance.limit_bytes
        return {**figures, "available_bytes": available}

    def read_slow(self) -> dict[str, Any]:
        """Renew the tree; return cores, disk space and traffic."""
        processes = self.tree.renew()
        return {**self._cores.read(), **self._disk(), **self._traffic.read(processes)}

    def _disk(self) -> dict[str, Any]:
        try:
            state = os.statvfs(self._disk_path)
        except OSError:  # the folder was removed, or its server does not answer: no figure
            return {}
        return {"disk_free_bytes": state.f_bavail * state.f_frsize}


def host_sample(figures: dict[str, Any]) -> HostSample | None:
    """Return figures as a record, `None` where there are none."""
    return HostSample(**figures) if figures else None
