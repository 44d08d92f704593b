"""The training loop: warm-up, measured steps, a look at memory, a profiled window; one record a step.

What the loop itself does between updates (writing records, looking for requests) lies in the phase `other` of the
update that follows, and is counted as instrumentation.
"""

import math
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gradscope.config.resolve import samples_per_update
from gradscope.config.schema import Preset
from gradscope.core.clock import clock_pair
from gradscope.core.events import MemoryMeasured, Note, ProfileEnded, ProfileStarted, Stage, StageEntered, Step, Totals
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.allocator import AllocatorWindow, allocator_window
from gradscope.worker.contract import Batch, TrainingModel, row_count
from gradscope.worker.data.loader import BatchStream
from gradscope.worker.lifeline import Requests
from gradscope.worker.memory import categories
from gradscope.worker.phases import phase_clock
from gradscope.worker.profiler import ProfileWindow, foretell
from gradscope.worker.recompute import Recomputation
from gradscope.worker.record import EventLog
from gradscope.worker.saved import ForwardWatch
from gradscope.worker.snapshot import write_snapshot
from gradscope.worker.update import AroundForward, Updater


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a preset was made into."""

    preset: Preset
    run_dir: Path
    run_id: str
    device: torch.device
    model: TrainingModel
    updater: Updater
    recomputation: Recomputation
    recomputes: bool
    stream: BatchStream
    rows: list[int]
    """Rows of each micro-batch of an update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What is known of a finished update before its times can be read."""

    step: int
    stage: Stage
    loss: Tensor | None
    samples: int
    tokens: int | None
    evaluations: int
    allocated_peak_bytes: int | None
    reserved_bytes: int | None


class Loop:
    """Trains one run. Methods are in the order in which a run goes through them."""

    def __init__(self, parts: Parts, log: EventLog, requests: Requests) -> None:
        self.parts = parts
        self.step_number = 0
        """The update that runs or was the last to run; from 1."""
        self._log = log
        self._requests = requests
        self._clock = phase_clock(parts.device, recomputes=parts.recomputes)
        self._facts: deque[_Facts] = deque()
        self._windows = 0
        self._events_per_step: int | None = None
        self._peaks: AllocatorWindow | None = None
        self._own_ns = 0
        self._nonfinite_flagged = self._unlabelled_flagged = False
        self._measured = {"steps": 0, "samples": 0, "tokens": 0}
        self._measured_host_seconds = 0.0
        self._measured_ms = 0.0
        parts.recomputation.listeners.append(self._clock.on_recomputation)

    @property
    def phase(self) -> str:
        """The phase that runs now."""
        return self._clock.phase

    def run(self) -> None:
        """Run all stages.

        Raises:
            StopTraining: It was asked to stop; what was trained by then is recorded.
            GradscopeError: The loss is not a number, and the preset says to stop.
        """
        try:
            if self.parts.preset.budget.updates != 0:
                self._warm_up()
                self._measure()
                self._look_at_memory()
                if self.parts.preset.profile.steps:
                    self._profile(self.parts.preset.profile.steps, requested=False)
        finally:
            self._clock.abandon()
            self._record_finished(wait=True, may_stop=False)
            self._write_totals()

    def _warm_up(self) -> None:
        steps = self.parts.preset.run.warmup
        self._log.emit(StageEntered, stage=Stage.WARMUP, steps=steps)
        for number in range(1, steps + 1):
            if number == steps:
                self._step_with_hooks(Stage.WARMUP)
            else:
                self._step(Stage.WARMUP)
        self._finish_stretch()

    def _measure(self) -> None:
        self._own_ns = 0
        self._enter_measure()
        while not self._budget_is_spent():
            if steps := self._requests.take_capture():
                self._finish_stretch()
                self._profile(steps, requested=True)
                self._enter_measure()
            if self._requests.wants_snapshot:
                self._requests.wants_snapshot = False
                self._finish_stretch()
                write_snapshot(self.parts.device, self.parts.run_dir, self._log)
            started = time.perf_counter()
            self._step(Stage.MEASURE)
            self._measured_host_seconds += time.perf_counter() - started
        self._finish_stretch()

    def _enter_measure(self) -> None:
        self._log.emit(StageEntered, stage=Stage.MEASURE, steps=self._planned_updates())

    def _planned_updates(self) -> int | None:
        budget = self.parts.preset.budget
        if budget.updates is not None:
            return budget.updates
        if budget.samples is not None:
            return math.ceil(budget.samples / samples_per_update(self.parts.preset))
        return None

    def _budget_is_spent(self) -> bool:
        budget = self.parts.preset.budget
        if budget.updates is not None:
            return self._measured["steps"] >= budget.updates
        if budget.samples is not None:
            return self._measured["samples"] >= budget.samples
        assert budget.seconds is not None, "a preset has one budget"
        return self._measured_host_seconds >= budget.seconds

    def _look_at_memory(self) -> None:
        """One update under torch's own allocator; before it one with hooks, if warm-up had none."""
        self._log.emit(StageEntered, stage=Stage.MEMORY, steps=1)
        if self.parts.preset.run.warmup == 0:
            self._step_with_hooks(Stage.MEMORY)
            self._finish_stretch()
        with allocator_window(self.parts.device, self.parts.model.module, self.parts.updater.optimizer) as window:
            self._peaks = window
            with self._annotated():
                self._step(Stage.MEMORY)
                self._finish_stretch()
            self._peaks = None
        peaks = window.result()
        self._events_per_step = peaks.events or None
        self._log.emit(
            MemoryMeasured,
            step=self.step_number,
            source="allocator",
            forward_end_bytes=peaks.forward_end_bytes,
            peak_activations_bytes=peaks.peak_activations_bytes,
            phase_peak_bytes=peaks.phase_peak_bytes,
            allocated_peak_bytes=peaks.allocated_peak_bytes,
            reserved_peak_bytes=peaks.reserved_peak_bytes,
        )

    def _profile(self, steps: int, *, requested: bool) -> None:
        """Run `steps` updates under torch.profiler; the window always ends with a record, whatever ends it."""
        settings = self.parts.preset.profile
        self._windows += 1
        window = ProfileWindow(settings, self.parts.device, self.parts.run_dir, self.parts.run_id, self._windows)
        self._log.emit(StageEntered, stage=Stage.PROFILE, steps=window.lead_in_steps + steps)
        self._log.emit(
            ProfileStarted,
            window=self._windows,
            first_step=self.step_number + 1 + window.lead_in_steps,
            steps=steps,
            wall_ns=clock_pair().wall_ns,
            foretold_bytes=foretell(self._events_per_step, settings, steps),
            requested=requested,
        )
        going_on = window.open(self.step_number + 1, steps=steps, events_per_step=self._events_per_step)
        try:
            with self._annotated():
                while going_on:
                    self._step(Stage.PROFILE)
                    self._clock.leave_range()
                    going_on = window.step()
            self._finish_stretch()  # before the trace is written, which must not lie in the last step's time
        finally:
            self._clock.leave_range()
            wall_ns = clock_pair().wall_ns
            result = window.close()
            self._log.emit(
                ProfileEnded,
                window=self._windows,
                steps=result.steps,
                wall_ns=wall_ns,
                file=result.file,
                file_bytes=result.file_bytes,
                error=result.error,
            )
            if result.shortened is not None:
                self._log.emit(Note, code="profile_shortened", message=result.shortened, step=self.step_number)

    def _annotated(self) -> ExitStack:
        """Return a context in which phases and recomputations are ranges of torch.profiler."""
        stack = ExitStack()
        for owner in (self._clock, self.parts.recomputation):
            owner.annotate = True
            stack.callback(setattr, owner, "annotate", False)
        return stack

    def _step_with_hooks(self, stage: Stage) -> None:
        """One update that also counts memory by category; its times are of no use."""
        module, optimizer = self.parts.model.module, self.parts.updater.optimizer
        watch = ForwardWatch(module)
        self._step(stage, around_forward=watch)
        found = categories(module, optimizer, watch.inputs)
        watch.release()
        self._log.emit(
            MemoryMeasured,
            step=self.step_number,
            source="hooks",
            parameters_bytes=found.parameters_bytes,
            buffers_bytes=found.buffers_bytes,
            gradients_bytes=found.gradients_bytes,
            optimizer_state_bytes=found.optimizer_state_bytes,
            inputs_bytes=found.inputs_bytes,
            saved_activations_bytes=watch.saved_bytes,
        )

    def _step(self, stage: Stage, *, around_forward: AroundForward | None = None) -> None:
        """Run one update."""
        clock, parts = self._clock, self.parts
        clock.begin()
        own_start_ns = time.perf_counter_ns()
        self.step_number += 1
        try:
            self._record_finished()
            self._requests.check()
            self._own_ns += time.perf_counter_ns() - own_start_ns
            clock.enter("data")
            window = [parts.stream.next(rows) for rows in parts.rows]
            result = parts.updater.run(window, enter=self._enter, around_forward=around_forward)
            self._enter("other")
        except BaseException:
            clock.abandon()
            raise
        own_start_ns = time.perf_counter_ns()
        self._note_facts(stage, window, result.loss, result.evaluations)
        self._own_ns += time.perf_counter_ns() - own_start_ns

    def _enter(self, phase: str) -> None:
        """Enter a phase of a micro-step; a stop takes effect where one begins, or where its update does."""
        if phase == "h2d" and self._clock.phase != "data":
            self._requests.check()
        self._clock.enter(phase)
        if self._peaks is not None:
            self._peaks.border(phase)

    def _note_facts(self, stage: Stage, window: list[Batch], loss: Tensor | None, evaluations: int) -> None:
        """Keep what will be recorded once this update's times can be read."""
        samples = sum(row_count(batch) for batch in window)
        tokens = sum(self.parts.model.count(batch) for batch in window) if self.parts.model.counts_tokens else None
        # the allocator window of a memory step resets the peaks at each phase, so there is none of the whole step
        allocated, reserved = (None, None) if self._peaks is not None else _cuda_step_memory(self.parts.device)
        if loss is None and not self._unlabelled_flagged:
            self._unlabelled_flagged = True
            self._log.emit(
                Note,
                code="zero_tokens",
                message=f"step {self.step_number}: no row has a label, so nothing was updated (said once)",
                step=self.step_number,
            )
        self._facts.append(
            _Facts(
                step=self.step_number,
                stage=stage,
                loss=None if loss is None else _on_its_way_to_host(loss),
                samples=samples,
                tokens=tokens,
                evaluations=evaluations,
                allocated_peak_bytes=allocated,
                reserved_bytes=reserved,
            )
        )
        if stage is Stage.MEASURE:
            self._measured["steps"] += 1
            self._measured["samples"] += samples
            self._measured["tokens"] += tokens or 0

    def _finish_stretch(self) -> None:
        """End the running update and record all: what follows must not lie in its time."""
        self._clock.end()
        self._record_finished(wait=True)

    def _record_finished(self, *, wait: bool = False, may_stop: bool = True) -> None:
        """Record the updates whose times are known by now; a loss that is not a number may stop the run."""
        first_nonfinite: tuple[int, str] | None = None
        for timing in self._clock.finished(wait=wait):
            facts = self._facts.popleft()
            loss = None if facts.loss is None else float(facts.loss)
            nonfinite = None if loss is None or math.isfinite(loss) else "nan" if math.isnan(loss) else "inf"
            if facts.stage is Stage.MEASURE:
                self._measured_ms += timing.wall_ms
            self._log.emit(
                Step,
                step=facts.step,
                stage=facts.stage,
                wall_ms=timing.wall_ms,
                phases=timing.phases,
                loss=None if nonfinite else loss,
                nonfinite=nonfinite,
                samples=facts.samples,
                tokens=facts.tokens,
                evaluations=facts.evaluations,
                micro_ms=timing.micro_ms,
                allocated_peak_bytes=facts.allocated_peak_bytes,
                reserved_bytes=facts.reserved_bytes,
            )
            if nonfinite is not None and first_nonfinite is None:
                first_nonfinite = facts.step, nonfinite
        if first_nonfinite is not None:
            self._flag_nonfinite(*first_nonfinite, may_stop=may_stop)

    def _flag_nonfinite(self, step: int, kind: str, *, may_stop: bool) -> None:
        message = f"the loss is {kind} at step {step}"
        if not self._nonfinite_flagged:
            self._log.emit(Note, code="nonfinite_loss", message=message, step=step)
            self._nonfinite_flagged = True
        if may_stop and self.parts.preset.run.on_nonfinite == "stop":
            raise GradscopeError(
                message,
                "lower optimizer.lr, or go on regardless with -s run.on_nonfinite=continue",
                exit_code=ExitCode.FAILED,
            )

    def _write_totals(self) -> None:
        self._log.emit(
            Totals,
            steps=self._measured["steps"],
            samples=self._measured["samples"],
            tokens=self._measured["tokens"] if self.parts.model.counts_tokens else None,
            seconds=round(self._measured_ms / 1e3, 6),
            instrumentation_ms=round(self._own_ns / 1e6, 3),
        )


def _on_its_way_to_host(value: Tensor) -> Tensor:
    """Return a host tensor that will hold `value` once the device gets there, without waiting for it."""
    if value.device.type == "cpu":
        return value
    host = torch.empty((), dtype=value.dtype, pin_memory=True)
    return host.copy_(value, non_blocking=True)


def _cuda_step_memory(device: torch.device) -> tuple[int | None, int | None]:
    """Return the CUDA allocator's peak since the last call and what it holds reserved; forces no synchronisation."""
    if device.type != "cuda":
        return None, None
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    torch.cuda.reset_peak_memory_stats(device)
    return stats["allocated_bytes"]["all"]["peak"], stats["reserved_bytes"]["all"]["current"]
