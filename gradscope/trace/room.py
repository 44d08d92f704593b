"""Whether a trace still fits into memory: better one clear error than a machine that swaps or a kill without a word."""

import os
import resource

import psutil

from gradscope.core.units import format_bytes, format_count
from gradscope.errors import ExitCode, GradscopeError
from gradscope.sampling.cgroup import MemoryGroup, memory_allowance, memory_groups

RESERVE_BYTES = 192 << 20
"""What the pieces being read, and whatever else runs, may still need."""
JOIN_SHARE = 0.35
"""Of the bytes of a frame, what its unusable rows' removal and its first questions take beside it."""
START_BYTES = 800 << 20
START_BYTES_PER_CORE = 64 << 20
"""Address space that the libraries take before anything is loaded (their threads have stacks and buffers). Measured on
two cores: under 880 MiB some of them end the process at a time of their own; from 930 MiB on `Room` is heeded first."""
CUT = "cut it to a few steps: gradscope trace FILE --cut-steps FIRST:LAST --out SMALLER.json.gz"


class Room:
    """Looks at the memory that is left, as the host, the control groups and the limits around this process have it."""

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
        left = available_bytes(self._groups)
        if left < RESERVE_BYTES + JOIN_SHARE * frame_bytes:
            raise too_large(self._name, f" ({format_bytes(left)}) after {format_count(events)} events")


def too_large(name: str, where: str = "") -> GradscopeError:
    """Return what to say of a trace for which there is no memory."""
    return GradscopeError(
        f"{name} is too large for the memory that is left{where}", CUT, exit_code=ExitCode.ENVIRONMENT
    )


def available_bytes(groups: list[MemoryGroup]) -> int:
    """Return the memory that is free on the host, in the control groups around, and under this process's own limit."""
    free = [int(psutil.virtual_memory().available)]
    if (allowed := memory_allowance(groups)) is not None:
        free.append(allowed.available_bytes)
    if (limit := address_space_bytes()) is not None:
        free.append(max(0, limit - psutil.Process().memory_info().vms))
    return min(free)


def address_space_bytes() -> int | None:
    """Return how much address space this process may take (`ulimit -v`); None if there is no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def require_to_start() -> None:
    """See that there is room for the libraries: where there is not, they end the process and say nothing of use.

    Raises:
        GradscopeError: There is not.
    """
    limit = address_space_bytes()
    need = START_BYTES + START_BYTES_PER_CORE * (os.cpu_count() or 1)
    if limit is not None and limit < need:
        raise GradscopeError(
            f"this shell allows {format_bytes(limit)} of address space (ulimit -v), too little to read any trace",
            f"about {format_bytes(need)} are needed for the smallest: ulimit -v unlimited",
            exit_code=ExitCode.ENVIRONMENT,
        )
