"""Time: monotonic nanoseconds for measuring, and pairs that tie them to the wall clock.

Everything a run records carries monotonic nanoseconds, which no NTP step or suspended laptop moves. A trace of
torch.profiler and TensorBoard's scalars carry wall time; a `ClockPair` taken close to an event converts between them.
"""

import time
from datetime import UTC, datetime

import msgspec


class ClockPair(msgspec.Struct, frozen=True):
    """The same instant on both clocks, in nanoseconds."""

    wall_ns: int
    monotonic_ns: int

    def to_wall_ns(self, monotonic_ns: int) -> int:
        """Convert a monotonic reading to wall time as the wall clock stood when the pair was taken."""
        return self.wall_ns + (monotonic_ns - self.monotonic_ns)

    def to_monotonic_ns(self, wall_ns: int) -> int:
        """Convert a wall time to the monotonic clock."""
        return self.monotonic_ns + (wall_ns - self.wall_ns)


def clock_pair() -> ClockPair:
    """Read both clocks; of three tries the one with the least time between its readings."""

    def reading() -> tuple[int, ClockPair]:
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        return after - before, ClockPair(wall, (before + after) // 2)

    return min((reading() for _ in range(3)), key=lambda pair: pair[0])[1]


def utc_stamp(wall_ns: int) -> str:
    """Format a wall time as a sortable folder-name stamp, e.g. `20261130T150749Z`."""
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
