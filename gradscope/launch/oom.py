"""Evidence that the kernel killed a worker for lack of memory: nothing else tells such a SIGKILL from any other."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

LOW_MEMORY_SHARE = 0.05
"""Where no counter can be read: a SIGKILL with less of the memory available than this is taken for the kernel's."""

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Counter:
    """A file with a line `oom_kill N`."""

    path: Path

    def read(self) -> int | None:
        """Return N; `None` if the file cannot be read or has no such line."""
        try:
            return parse_oom_kills(self.path.read_text())
        except OSError:
            return None


def parse_oom_kills(content: str) -> int | None:
    """Return N of the line `oom_kill N`; `None` if there is none (kernels before 4.13 do not count)."""
    for line in content.splitlines():
        key, _, value = line.partition(" ")
        if key == "oom_kill" and value.strip().isdecimal():
            return int(value)
    return None


def counter_paths(proc_cgroup: str, root: Path = CGROUPS) -> list[Path]:
    """Return where this process's OOM kills are counted, best first.

    Args:
        proc_cgroup: Content of `/proc/self/cgroup` (cgroups(7)).
        root: Where cgroups are mounted. In a container the own group is mounted as the root, so that is looked at too.
    """
    paths = []
    for line in proc_cgroup.splitlines():
        number, controllers, group = line.split(":", 2)
        group = group.strip("/")
        if number == "0" and not controllers:
            paths += [root / group / "memory.events", root / "memory.events"]
        elif "memory" in controllers.split(","):
            paths += [root / "memory" / group / "memory.oom_control", root / "memory" / "memory.oom_control"]
    return paths


def find_counter() -> Counter | None:
    """Return the counter of this process's cgroup (version 2 or 1), else of the machine; `None` if none is readable."""
    try:
        paths = counter_paths(Path("/proc/self/cgroup").read_text())
    except OSError:
        paths = []
    candidates = (Counter(path) for path in [*paths, Path("/proc/vmstat")])
    return next((counter for counter in candidates if counter.read() is not None), None)


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """Memory when it was last looked at."""

    resident_bytes: int | None = None
    """The worker's."""
    available_bytes: int | None = None
    total_bytes: int | None = None

    @property
    def is_low(self) -> bool:
        """Whether next to nothing was available."""
        if self.available_bytes is None or not self.total_bytes:
            return False
        return self.available_bytes < LOW_MEMORY_SHARE * self.total_bytes


NOTHING_SEEN = MemoryFigures()


class OutOfMemoryWatch:
    """Looks at memory while a worker runs, and afterwards says whether the kernel ended it."""

    def __init__(self) -> None:
        self._counter = find_counter()
        self._before = None if self._counter is None else self._counter.read()
        self.figures = NOTHING_SEEN

    def look(self, worker_pid: int) -> None:
        """Take the figures anew, the worker's as far as it is still there."""
        memory = psutil.virtual_memory()
        self.figures = MemoryFigures(
            resident_bytes=_resident_bytes(worker_pid) or self.figures.resident_bytes,
            available_bytes=memory.available,
            total_bytes=memory.total,
        )

    def kernel_killed(self) -> bool | None:
        """Tell whether the kernel has killed a process of this group since the start; `None` where nobody counts."""
        now = None if self._counter is None else self._counter.read()
        return None if now is None or self._before is None else now > self._before


def _resident_bytes(pid: int) -> int | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
