"""When each phase of an update began: one mechanism for the CPU and for CUDA.

A stamp is a reading of the host's clock or a CUDA event on the stream. Stamps are only taken while an update runs and
turned into milliseconds once the last of them can be read without waiting, so that nothing here synchronises with the
device.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch.profiler import record_function

from gradscope.core.events import Phases

RANGE_PREFIX = "gradscope: "
"""Ranges of phases in a trace are called `gradscope: forward` and so on."""

KEPT_MICRO_STEPS = 8
"""Micro-step durations in one record; more would push it over 500 bytes."""


class Stamps(Protocol):
    """A clock whose readings may come late."""

    def take(self) -> Any:
        """Return a stamp of now, in the order of the device's work."""
        ...

    def is_read(self, stamp: Any) -> bool:
        """Whether `stamp` can be read without waiting."""
        ...

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Return the milliseconds from one stamp to a later one; waits if need be."""
        ...


class HostStamps:
    """The host's performance counter: right where work is done when a call returns."""

    take = staticmethod(time.perf_counter_ns)
    """Return nanoseconds."""

    def is_read(self, stamp: int) -> bool:
        """Return True: a number needs no waiting."""
        return True

    def elapsed_ms(self, start: int, end: int) -> float:
        """Return the difference in ms."""
        return (end - start) / 1e6


class CudaStamps:
    """CUDA events on the current stream: the time at which the device, not the host, got there."""

    def take(self) -> torch.cuda.Event:
        """Record and return an event."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def is_read(self, stamp: torch.cuda.Event) -> bool:
        """Whether the device has passed the event."""
        return bool(stamp.query())  # type: ignore[no-untyped-call]

    def elapsed_ms(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Return the device time between two events in ms."""
        end.synchronize()
        return float(start.elapsed_time(end))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTiming:
    """One update's times in ms."""

    wall_ms: float
    phases: Phases
    micro_ms: list[float]


class _ClosedStep(NamedTuple):
    marks: list[tuple[str, Any]]
    recomputations: list[Any]
    end: Any


class PhaseClock:
    """Stamps the phases of update after update. A phase lasts until the next is entered."""

    def __init__(self, stamps: Stamps, *, recomputes: bool = False) -> None:
        """`recomputes`: whether the strategy recomputes, so that the phase is 0 and not `None` if it never does."""
        self._stamps = stamps
        self._take = stamps.take
        self._recomputes = recomputes
        self._marks: list[tuple[str, Any]] | None = None
        """When the phases of the running update began; `None` between updates."""
        self._abandoned_in = "other"
        self._recomputations: list[Any] = []
        self._closed: deque[_ClosedStep] = deque()
        self._range: record_function | None = None
        self.annotate = False
        """Whether phases become ranges of torch.profiler; only in its windows, since a range costs some µs."""

    @property
    def phase(self) -> str:
        """The phase that runs now, or in which an update was abandoned."""
        return self._marks[-1][0] if self._marks else self._abandoned_in

    # begin and enter run amid training, whose data fills the caches: every line and call costs many times its usual
    # time here, so they do nothing that can be done later

    def begin(self) -> None:
        """Start an update in phase `other`; the one before it, if any, ends here."""
        stamp = self._take()
        if self._marks is not None:
            self._closed.append(_ClosedStep(self._marks, self._recomputations, stamp))
            self._recomputations = []
        self._marks = [("other", stamp)]

    def enter(self, phase: str) -> None:
        """Enter a phase of the running update."""
        assert self._marks is not None, "no update has begun"
        if self._range is not None:
            self.leave_range()
        self._marks.append((phase, self._take()))
        if self.annotate:
            self._range = record_function(RANGE_PREFIX + phase)
            self._range.__enter__()  # type: ignore[no-untyped-call]

    def leave_range(self) -> None:
        """Close the profiler range of the current phase: no range may outlive its `ProfilerStep`."""
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None

    def end(self) -> None:
        """End the running update where no other follows it at once."""
        self.leave_range()
        self.begin()
        self._marks = None

    def abandon(self) -> None:
        """Forget the running update: it was not finished."""
        self.leave_range()
        self._abandoned_in = self.phase
        self._marks = None
        self._recomputations = []

    def on_recomputation(self, entering: bool) -> None:
        """Listen to `Recomputation`: stamps come in pairs."""
        del entering
        if self._marks is not None:
            self._recomputations.append(self._take())

    def finished(self, *, wait: bool = False) -> list[StepTiming]:
        """Return the updates whose times can be read by now, oldest first; all closed ones with `wait`."""
        timings = []
        while self._closed and (wait or self._stamps.is_read(self._closed[0].end)):
            timings.append(self._timing(self._closed.popleft()))
        return timings

    def _timing(self, step: _ClosedStep) -> StepTiming:
        elapsed: Callable[[Any, Any], float] = self._stamps.elapsed_ms
        sums = dict.fromkeys(("data", "h2d", "forward", "backward", "optimizer", "other"), 0.0)
        micro_steps: list[tuple[Any, Any]] = []
        micro_start: Any = None
        ends = [stamp for _, stamp in step.marks[1:]] + [step.end]
        for (phase, start), end in zip(step.marks, ends, strict=True):
            sums[phase] += elapsed(start, end)
            if phase == "h2d":
                micro_start = start
            elif phase == "backward":
                micro_steps.append((micro_start, end))
        pairs = zip(step.recomputations[::2], step.recomputations[1::2], strict=False)
        recompute = sum(elapsed(start, end) for start, end in pairs) if self._recomputes else None
        phases = {name: round(value, 3) for name, value in sums.items()}
        kept = micro_steps[:KEPT_MICRO_STEPS] if len(micro_steps) > 1 else []
        return StepTiming(
            wall_ms=round(elapsed(step.marks[0][1], step.end), 3),
            phases=Phases(recompute=None if recompute is None else round(recompute, 3), **phases),
            micro_ms=[round(elapsed(start, end), 3) for start, end in kept],
        )


def phase_clock(device: torch.device, *, recomputes: bool) -> PhaseClock:
    """Return the clock for a device."""
    return PhaseClock(CudaStamps() if device.type == "cuda" else HostStamps(), recomputes=recomputes)
