"""What a run came to, decided from what is known at its worker's end. A pure function: each bad day is one test."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.core.events import TrainingFailed
from gradscope.core.status import Status
from gradscope.core.text import visible
from gradscope.core.units import format_bytes
from gradscope.errors import ExitCode, signal_exit
from gradscope.launch.grace import WORKER_GRACE_SECONDS, Asker, Stop, describe, signal_name
from gradscope.launch.oom import NOTHING_SEEN, MemoryFigures

LOG_HINT = "worker.log in the run directory holds all the worker said"
SILENT_HINT = "it said nothing: the model, or a library of it, ended the process (os._exit, or an exit in native code)"
MEMORY_HINT = "try a smaller data.batch_size, memory.strategy=checkpoint, or accumulate with memory.mode=split"
DISK_HINT = "free some space there, or choose another output root with --out"

CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS})
"""Signals by which a process ends itself."""

KILLED_CHILD = "killed by signal: Killed"
"""What torch's DataLoader says of a worker process of its own that got SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is known when the worker has ended."""

    returncode: int
    """As subprocess gives it: negative is the signal that ended it."""
    last_word: str | None = None
    """`reason` of its `worker_ended` record."""
    failure: TrainingFailed | None = None
    stop: Stop | None = None
    time_limit_seconds: float | None = None
    killed_by_us: bool = False
    """It had been asked to stop, did not, and was killed."""
    kernel_killed: bool | None = None
    """Whether the kernel killed a process of the run's control group for lack of memory; `None` where nobody counts."""
    memory: MemoryFigures = NOTHING_SEEN
    disk_full: bool = False
    log_end: Sequence[str] = ()
    """The last lines of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The part of a final `StatusRecord` that is decided here."""

    status: Status
    exit_code: int
    reason: str | None = None
    hint: str | None = None
    signal: int | None = None
    timed_out: bool = False


def decide(ending: Ending) -> Verdict:
    """Return what the run came to.

    An error in training stands, also when a stop was asked for at the same time; a run that had finished before a stop
    reached it is done.
    """
    if ending.failure is not None:
        return _failed_in_training(ending, ending.failure)
    if ending.returncode == 0 and ending.last_word == "finished":
        return Verdict(status=Status.DONE, exit_code=ExitCode.DONE)
    if ending.stop is not None:
        return _stopped(ending, ending.stop)
    if ending.returncode < 0:
        return _ended_by_signal(ending, -ending.returncode)
    if ending.returncode == 0 and ending.last_word == "stopped":
        return Verdict(
            status=Status.CANCELLED,
            exit_code=ExitCode.STOPPED,
            reason="somebody sent the worker itself a signal to stop",
            hint="`gradscope stop` is the way to stop a run",
        )
    return _left_without_a_word(ending)


def _failed_in_training(ending: Ending, failure: TrainingFailed) -> Verdict:
    starved = ending.kernel_killed is True and KILLED_CHILD in failure.message
    if failure.out_of_memory or starved:
        reason = "the kernel killed a data-loading process: memory was full" if starved else _failure_reason(failure)
        return Verdict(
            status=Status.OOM, exit_code=ExitCode.OUT_OF_MEMORY, reason=reason, hint=failure.hint or MEMORY_HINT
        )
    return Verdict(
        status=Status.FAILED,
        exit_code=failure.exit_code or ExitCode.FAILED,
        reason=_failure_reason(failure),
        hint=failure.hint or (DISK_HINT if ending.disk_full else LOG_HINT),
    )


def _failure_reason(failure: TrainingFailed) -> str:
    place = "" if failure.step is None else f" at step {failure.step}"
    if failure.phase is not None:
        place += f" in {failure.phase}"
    if failure.error_type == "GradscopeError":
        return visible(failure.message)
    return visible(f"{failure.error_type}{place}: {failure.message.strip() or 'no message'}")


def _stopped(ending: Ending, stop: Stop) -> Verdict:
    reason = describe(stop, ending.time_limit_seconds)
    if ending.killed_by_us:
        reason += (
            "; the worker was killed at once"
            if stop.kill
            else f"; the worker did not end its step within {WORKER_GRACE_SECONDS:g} s and was killed"
        )
    return Verdict(
        status=Status.CANCELLED,
        exit_code=ExitCode.STOPPED if stop.signal is None else signal_exit(stop.signal),
        reason=reason,
        hint="what it had measured by then is kept",
        signal=stop.signal,
        timed_out=stop.asker is Asker.TIME_LIMIT,
    )


def _ended_by_signal(ending: Ending, number: int) -> Verdict:
    name = signal_name(number)
    if number == signal.SIGKILL:
        if ending.kernel_killed or (ending.kernel_killed is None and ending.memory.is_low):
            return Verdict(
                status=Status.OOM,
                exit_code=ExitCode.OUT_OF_MEMORY,
                reason=f"the kernel killed the worker: memory was full{_resident(ending.memory)}",
                hint=MEMORY_HINT,
                signal=number,
            )
        return Verdict(
            status=Status.KILLED,
            exit_code=signal_exit(number),
            reason=f"something outside gradscope killed the worker ({name}){_resident(ending.memory)}",
            hint="a batch system at its limit or a person does that; the kernel reports no lack of memory",
            signal=number,
        )
    if number in CRASHES:
        return Verdict(
            status=Status.FAILED,
            exit_code=ExitCode.FAILED,
            reason=f"the worker crashed ({name}): an error in native code, not in Python",
            hint="worker.log ends with the Python stack at that moment",
            signal=number,
        )
    return Verdict(
        status=Status.CANCELLED if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) else Status.KILLED,
        exit_code=signal_exit(number),
        reason=f"somebody ended the worker with {name}",
        hint="`gradscope stop` is the way to stop a run",
        signal=number,
    )


def _resident(memory: MemoryFigures) -> str:
    if memory.resident_bytes is None:
        return ""
    return f" (its resident memory was last seen at {format_bytes(memory.resident_bytes)})"


def _left_without_a_word(ending: Ending) -> Verdict:
    if ending.returncode == ExitCode.OUT_OF_MEMORY:
        return Verdict(
            status=Status.OOM,
            exit_code=ExitCode.OUT_OF_MEMORY,
            reason="the worker ran out of memory and could say no more",
            hint=MEMORY_HINT,
        )
    if ending.disk_full:
        return Verdict(
            status=Status.FAILED,
            exit_code=ExitCode.FAILED,
            reason="the disk that holds the run directory is full",
            hint=DISK_HINT,
        )
    last = f": {visible(ending.log_end[-1].strip())}" if ending.log_end else ""
    return Verdict(
        status=Status.FAILED,
        exit_code=ExitCode.FAILED,
        reason=f"the worker left with exit code {ending.returncode} before it was done{last}",
        hint=LOG_HINT if ending.log_end else SILENT_HINT,
    )
