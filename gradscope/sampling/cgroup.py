"""What the control groups around this process leave of the host's memory (Linux; nothing elsewhere)."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

NO_LIMIT_BYTES = 1 << 60
"""Version 1 writes a huge number for no limit."""


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """Files of one control group that has a memory controller."""

    limit: Path
    usage: Path
    stat: Path
    reclaimable: str
    """Key in `stat` of page cache that the kernel would give back."""


@dataclass(frozen=True, slots=True)
class MemoryAllowance:
    """The tightest limit, and the least that any group leaves free."""

    limit_bytes: int
    available_bytes: int


def memory_groups(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> list[MemoryGroup]:
    """Return the groups around this process, versions 1 and 2, that may hold a memory limit."""
    try:
        lines = own.read_text().splitlines()
    except OSError:  # no Linux, or no /proc: there is nothing to look at
        return []
    groups: list[MemoryGroup] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            groups += _version_2(root, path)
        elif "memory" in controllers.split(","):
            groups += _version_1(root / "memory", path)
    return [group for group in groups if group.limit.exists()]


def memory_allowance(groups: Iterable[MemoryGroup]) -> MemoryAllowance | None:
    """Read what the groups leave; `None` where none has a limit. A group that cannot be read has none."""
    found = [pair for pair in map(_allowance, groups) if pair is not None]
    if not found:
        return None
    return MemoryAllowance(min(limit for limit, _ in found), min(free for _, free in found))


def _allowance(group: MemoryGroup) -> tuple[int, int] | None:
    try:
        text = group.limit.read_text().strip()
        if text == "max" or int(text) >= NO_LIMIT_BYTES:
            return None
        limit, usage = int(text), int(group.usage.read_text())
        stat = dict(line.split(maxsplit=1) for line in group.stat.read_text().splitlines())
        return limit, max(0, limit - usage + int(stat.get(group.reclaimable, 0)))
    except (OSError, ValueError):  # the group vanished or its files read otherwise than they should
        return None


def _version_2(root: Path, path: str) -> list[MemoryGroup]:
    return [
        MemoryGroup(folder / "memory.max", folder / "memory.current", folder / "memory.stat", "inactive_file")
        for folder in _folders(root, path)
    ]


def _version_1(root: Path, path: str) -> list[MemoryGroup]:
    return [
        MemoryGroup(
            folder / "memory.limit_in_bytes",
            folder / "memory.usage_in_bytes",
            folder / "memory.stat",
            "total_inactive_file",
        )
        for folder in _folders(root, path)
    ]


def _folders(root: Path, path: str) -> list[Path]:
    """Return the group's folder and those above it, up to the root as this process sees it."""
    parts = PurePosixPath(path).relative_to("/").parts if path.startswith("/") else ()
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1) if ".." not in parts]
