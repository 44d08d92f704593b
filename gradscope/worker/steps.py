"""Step records: what is known when an update has ended, written down once its times can be read."""

import math
import time
from collections import deque

import msgspec
import torch
from torch import Tensor

from gradscope.core.events import Note, Stage, Totals
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.phases import PhaseClock
from gradscope.worker.record import EventLog

SETTLE_NS = 250_000_000
"""Finished updates are recorded together, at most this often. Training leaves caches cold, and what a record costs then
is several times what it costs when more are made at once."""


class Facts(msgspec.Struct):
    """What is known of an update before its times can be read."""

    step: int
    stage: Stage
    loss: float | Tensor | None
    """A number on a CPU; on CUDA a host tensor that will hold it."""
    samples: int
    tokens: int | None
    evaluations: int
    allocated_peak_bytes: int | None
    reserved_bytes: int | None


class StepRecorder:
    """Writes one record a step, late but in order, and keeps the sums of the measured ones."""

    def __init__(self, log: EventLog, clock: PhaseClock, *, counts_tokens: bool, stop_on_nonfinite: bool) -> None:
        """`clock` stamps the updates that are noted here, in the same order."""
        self.own_ns = 0
        """Time spent in gradscope's own code between updates, since the measured part began."""
        self.steps = 0
        self.samples = 0
        """Measured so far."""
        self._tokens = 0
        self._milliseconds = 0.0
        self._log = log
        self._clock = clock
        self._counts_tokens = counts_tokens
        self._stop_on_nonfinite = stop_on_nonfinite
        self._facts: deque[Facts] = deque()
        self.due_ns = 0
        """When to settle next, by the performance counter."""
        self._said: set[str] = set()

    def note(self, facts: Facts) -> None:
        """Keep what is known of the update that has just ended."""
        if facts.loss is None:
            message = f"step {facts.step}: no row has a label, so nothing was updated (said once)"
            self._say_once("zero_tokens", facts.step, message)
        elif isinstance(facts.loss, float) and not math.isfinite(facts.loss):
            self.due_ns = 0  # a loss that is known to be no number stops the run before the next update
        self._facts.append(facts)
        if facts.stage is Stage.MEASURE:
            self.steps += 1
            self.samples += facts.samples
            self._tokens += facts.tokens or 0

    def settle(self, *, wait: bool = False, may_stop: bool = True) -> None:
        """Record the updates whose times can be read by now, or all of them.

        Raises:
            GradscopeError: A loss is not a number, and the preset says to stop.
        """
        self.due_ns = time.perf_counter_ns() + SETTLE_NS
        bad: tuple[int, str] | None = None
        records = []
        for timing in self._clock.finished(wait=wait):
            facts = self._facts.popleft()
            loss = None if facts.loss is None else float(facts.loss)
            nonfinite = None if loss is None or math.isfinite(loss) else "nan" if math.isnan(loss) else "inf"
            if facts.stage is Stage.MEASURE:
                self._milliseconds += timing.wall_ms
            if nonfinite is not None and bad is None:
                bad = facts.step, f"the loss is {nonfinite} at step {facts.step}"
            records.append(
                {
                    "step": facts.step,
                    "stage": facts.stage,
                    "wall_ms": timing.wall_ms,
                    "phases": timing.phases,
                    "loss": None if nonfinite else loss,
                    "nonfinite": nonfinite,
                    "samples": facts.samples,
                    "tokens": facts.tokens,
                    "evaluations": facts.evaluations,
                    "micro_ms": timing.micro_ms,
                    "allocated_peak_bytes": facts.allocated_peak_bytes,
                    "reserved_bytes": facts.reserved_bytes,
                }
            )
        if records:
            self._log.emit_steps(records)
        if bad is not None:
            self._flag(*bad, may_stop=may_stop)

    def write_totals(self) -> None:
        """Record the sums of the measured steps."""
        self._log.emit(
            Totals,
            steps=self.steps,
            samples=self.samples,
            tokens=self._tokens if self._counts_tokens else None,
            seconds=round(self._milliseconds / 1e3, 6),
            instrumentation_ms=round(self.own_ns / 1e6, 3),
        )

    def _flag(self, step: int, message: str, *, may_stop: bool) -> None:
        self._say_once("nonfinite_loss", step, message)
        if may_stop and self._stop_on_nonfinite:
            raise GradscopeError(
                message,
                "lower optimizer.lr, or go on regardless with -s run.on_nonfinite=continue",
                exit_code=ExitCode.FAILED,
            )

    def _say_once(self, code: str, step: int, message: str) -> None:
        if code not in self._said:
            self._said.add(code)
            self._log.emit(Note, code=code, message=message, step=step)


def loss_on_its_way(loss: Tensor | None) -> float | Tensor | None:
    """Return a loss as a number on a CPU; on CUDA as a host tensor that gets it without anybody waiting."""
    if loss is None:
        return None
    if loss.device.type == "cpu":
        return loss.item()
    host = torch.empty((), dtype=loss.dtype, pin_memory=True)
    return host.copy_(loss, non_blocking=True)


def cuda_step_memory(device: torch.device) -> tuple[int, int]:
    """Return the CUDA allocator's peak since the last call and what it holds reserved; forces no synchronisation."""
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    torch.cuda.reset_peak_memory_stats(device)
    return stats["allocated_bytes"]["all"]["peak"], stats["reserved_bytes"]["all"]["current"]
