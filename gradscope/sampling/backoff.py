"""When to ask again after a failure: later and later, up to a minute."""

from dataclasses import dataclass

FIRST_NS = 1_000_000_000
LAST_NS = 60_000_000_000


@dataclass(slots=True)
class Backoff:
    """Doubles the wait from 1 s to 60 s with each failure in a row."""

    _wait_ns: int = 0
    _until_ns: int = 0

    def ready(self, now_ns: int) -> bool:
        """Whether it is time to try (again)."""
        return now_ns >= self._until_ns

    def failed(self, now_ns: int) -> None:
        """Note a failure at `now_ns`."""
        self._wait_ns = min(max(FIRST_NS, self._wait_ns * 2), LAST_NS)
        self._until_ns = now_ns + self._wait_ns

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self._wait_ns = self._until_ns = 0
