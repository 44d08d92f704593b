"""What state a run is in: the words, which of them are final, and the record in `status.json`."""

from enum import StrEnum

import msgspec

SCHEMA_VERSION = 1
"""Version of every record in a run directory; a reader refuses none, but says when a run is newer than itself."""


class Status(StrEnum):
    """A run's state. The first six are of a running run; the rest are final."""

    STARTING = "starting"
    WARMUP = "warmup"
    MEASURING = "measuring"
    PROFILING = "profiling"
    AUDITING = "auditing"
    EXPORTING = "exporting"
    DONE = "done"
    FAILED = "failed"
    OOM = "oom"
    CANCELLED = "cancelled"
    KILLED = "killed"
    UNKNOWN = "unknown"
    """Only ever read, never written: the run was not over when its folder was copied from another host."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more will be written about this run."""
        return self in FINAL


FINAL = frozenset({Status.DONE, Status.FAILED, Status.OOM, Status.CANCELLED, Status.KILLED})


class ProcessId(msgspec.Struct, frozen=True, kw_only=True):
    """A process that can be told from a later one with the same number.

    `start_time` is in seconds since boot, rounded to 0.01 s, where the kernel tells it (Linux); elsewhere
    psutil's `create_time()`, seconds since the epoch.
    """

    pid: int
    start_time: float


class StatusRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of `status.json`, replaced as a whole at each change."""

    schema: int = SCHEMA_VERSION
    status: Status
    host: str
    boot_id: str
    """The kernel's boot id; empty where the system has none."""
    supervisor: ProcessId | None = None
    worker: ProcessId | None = None
    updated_wall_ns: int
    updated_monotonic_ns: int
    reason: str | None = None
    """One sentence, for every final status but `done`."""
    hint: str | None = None
    exit_code: int | None = None
    """What `gradscope run` leaves with; set with a final status."""
    signal: int | None = None
    """The signal that ended the worker, or that the user stopped the run with."""
    timed_out: bool = False
    """Whether it was stopped at its time limit; `status` is then `cancelled`."""
    verdict: Status | None = None
    """While `exporting` after the worker's end: the final status to come, whose `reason` and the like are given."""
    notes: tuple[str, ...] = ()
    """Trouble that did not decide the status: a profiler that could not write, a card that was lost."""
