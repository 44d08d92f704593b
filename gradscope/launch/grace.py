"""Stopping a run in time: who asked, how long the worker may take, how long is left to write up. Pure bookkeeping.

All times are monotonic seconds, handed in: a wall clock that jumps changes nothing, and tests need not wait.
"""

import signal
from dataclasses import dataclass
from enum import StrEnum

STOP_SECONDS = 10.0
"""A run that is stopped is over, and written, after this long."""

WORKER_GRACE_SECONDS = 7.0
"""How much of that the worker has to come to the end of its micro-step and write its trace; then it is killed."""

SECOND_SIGNAL_SECONDS = 0.5
"""A stop signal this long after another is meant as one more. Batch systems and wrappers send several at once."""

FINISH_SECONDS = 600.0
"""How long the finisher may take for a run that was not stopped."""

LEAST_FINISH_SECONDS = 2.5
"""What the finisher gets of a stopped run, however long the worker took."""


class Asker(StrEnum):
    """Why a run is stopped."""

    REQUEST = "request"
    SIGNAL = "signal"
    TIME_LIMIT = "time limit"
    LOST_FOLDER = "lost folder"
    LOST_SWEEP = "lost sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A decision to stop."""

    asker: Asker
    asked_at: float
    signal: int | None = None
    """The signal the user stopped the run with, at the supervisor or at the front end."""
    kill: bool = False
    """Without waiting for the worker."""

    def worker_deadline(self) -> float:
        """Return when the worker is killed."""
        return self.asked_at if self.kill else self.asked_at + WORKER_GRACE_SECONDS

    def finish_deadline(self, now: float) -> float:
        """Return when the finisher is killed, `now` being its start."""
        if self.kill:
            return max(self.asked_at, now) + LEAST_FINISH_SECONDS
        return max(self.asked_at + STOP_SECONDS - 0.5, now + LEAST_FINISH_SECONDS)


def merged(first: Stop | None, second: Stop) -> Stop:
    """Return what holds when a stop is asked for again: the first one's reason, more urgent if the second is."""
    if first is None:
        return second
    if second.kill and not first.kill:
        return Stop(asker=first.asker, asked_at=second.asked_at, signal=first.signal or second.signal, kill=True)
    return first


def describe(stop: Stop, time_limit_seconds: float | None) -> str:
    """Return one sentence on why a run was stopped."""
    if stop.asker is Asker.TIME_LIMIT:
        return f"it was stopped at its time limit of {time_limit_seconds:g} s"
    if stop.asker is Asker.LOST_SWEEP:
        return "the sweep that it belongs to was ended from outside"
    if stop.signal is not None:
        return f"it was stopped by {signal_name(stop.signal)}"
    return "it was stopped on request"


def signal_name(number: int) -> str:
    """Return a signal's name, e.g. `SIGTERM`; its number where it has none here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
