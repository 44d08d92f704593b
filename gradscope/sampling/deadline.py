"""A rhythm without drift: deadlines are multiples of the interval, and those that passed unused are skipped."""

from dataclasses import dataclass


@dataclass(slots=True)
class Deadline:
    """Deadlines at `start_ns`, `start_ns + interval_ns`, ... on the monotonic clock."""

    start_ns: int
    interval_ns: int
    missed: int = 0
    """Deadlines skipped so far."""
    _next: int = 0

    def wait_seconds(self, now_ns: int) -> float:
        """Return how long it is until the next deadline, 0 where it has passed."""
        return max(0, self.start_ns + self._next * self.interval_ns - now_ns) / 1e9

    def taken(self, now_ns: int) -> None:
        """Note that the next deadline was used and all is done by `now_ns`; the one after is the first still ahead."""
        ahead = (now_ns - self.start_ns) // self.interval_ns + 1
        following = max(self._next + 1, ahead)
        self.missed += following - self._next - 1
        self._next = following
