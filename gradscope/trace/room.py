"""Whether a trace still fits into memory: better one clear error than a machine that swaps or a kill without a word."""

import psutil

from gradscope.core.units import format_bytes, format_count
from gradscope.errors import ExitCode, GradscopeError
from gradscope.sampling.cgroup import memory_allowance, memory_groups

RESERVE_BYTES = 192 << 20
"""What the pieces being read, and whatever else runs, may still need."""
JOIN_SHARE = 0.35
"""Of the bytes of a frame, what its unusable rows' removal and its first questions take beside it."""


class Room:
    """Looks at the memory that is left, as the host and the control groups around this process have it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._groups = memory_groups()

    def require(self, frame_bytes: int, events: int) -> None:
        """See that there is room to go on.

        Args:
            frame_bytes: Of what was loaded so far.
            events: How many that is, for the message.

        Raises:
            GradscopeError: There is not.
        """
        available = psutil.virtual_memory().available
        if (allowance := memory_allowance(self._groups)) is not None:
            available = min(available, allowance.available_bytes)
        if available < RESERVE_BYTES + JOIN_SHARE * frame_bytes:
            raise GradscopeError(
                f"{self._name} is too large for the memory that is left ({format_bytes(available)})"
                f" after {format_count(events)} events",
                "cut it to a few steps: gradscope trace FILE --cut-steps FIRST:LAST --out SMALLER.json.gz",
                exit_code=ExitCode.ENVIRONMENT,
            )
