"""The training loop: warm-up, measured steps, a look at memory, a profiled window; one record a step.

What the loop itself does between updates (writing records, looking for requests) lies in the phase `other` of the
update that follows, and is counted as instrumentation.
"""

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from gradscope.config.resolve import samples_per_update
from gradscope.config.schema import Preset
from gradscope.core.clock import clock_pair
from gradscope.core.events import MemoryMeasured, Note, ProfileEnded, ProfileStarted, Stage, StageEntered
from gradscope.worker.allocator import AllocatorWindow, allocator_window
from gradscope.worker.contract import Batch, TrainingModel
from gradscope.worker.data.loader import BatchStream
from gradscope.worker.lifeline import Requests
from gradscope.worker.memory import categories
from gradscope.worker.phases import phase_clock
from gradscope.worker.profiler import ProfileWindow, foretell
from gradscope.worker.recompute import Recomputation
from gradscope.worker.record import EventLog
from gradscope.worker.saved import ForwardWatch
from gradscope.worker.snapshot import write_snapshot
from gradscope.worker.steps import Facts, StepRecorder, cuda_step_memory, loss_on_its_way
from gradscope.worker.update import AroundForward, Updater, UpdateResult


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


class Loop:
    """Trains one run. Methods are in the order in which a run goes through them."""

    def __init__(self, parts: Parts, log: EventLog, requests: Requests) -> None:
        self.parts = parts
        self.step_number = 0
        """The update that runs or was the last to run; from 1."""
        self._log = log
        self._requests = requests
        self._clock = phase_clock(parts.device, recomputes=parts.recomputes)
        self._on_cuda = parts.device.type == "cuda"
        self._samples_per_update = sum(parts.rows)
        self._recorder = StepRecorder(
            log,
            self._clock,
            counts_tokens=parts.model.counts_tokens,
            stop_on_nonfinite=parts.preset.run.on_nonfinite == "stop",
        )
        self._windows = 0
        self._events_per_step: int | None = None
        self._peaks: AllocatorWindow | None = None
        self._measured_host_seconds = 0.0
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
            self._recorder.settle(wait=True, may_stop=False)
            self._recorder.write_totals()
        self._say_what_came_too_late()

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
        self._recorder.own_ns = 0
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
            return self._recorder.steps >= budget.updates
        if budget.samples is not None:
            return self._recorder.samples >= budget.samples
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
        self.step_number += 1
        try:
            if time.perf_counter_ns() >= self._recorder.due_ns:
                self._between_updates()
            clock.enter("data")
            window = [parts.stream.next(rows) for rows in parts.rows]
            # what watches micro-steps costs a call at each phase, so a plain update goes without
            enter = self._enter if len(window) > 1 or self._peaks is not None else clock.enter
            result = parts.updater.run(window, enter=enter, around_forward=around_forward)
            enter("other")
        except BaseException:
            clock.abandon()
            raise
        self._note(stage, window, result)

    def _between_updates(self) -> None:
        """Record what has ended, and look for requests."""
        start_ns = time.perf_counter_ns()
        self._recorder.settle()
        self._requests.check()
        self._recorder.own_ns += time.perf_counter_ns() - start_ns

    def _enter(self, phase: str) -> None:
        """Enter a phase of a micro-step; a stop takes effect where one begins, or where its update does."""
        if phase == "h2d" and self._clock.phase != "data":
            self._requests.check()
        self._clock.enter(phase)
        if self._peaks is not None:
            self._peaks.border(phase)

    def _note(self, stage: Stage, window: list[Batch], result: UpdateResult) -> None:
        """Hand what is known of this update to the recorder."""
        start_ns = time.perf_counter_ns()
        model = self.parts.model
        allocated = reserved = None
        if self._on_cuda and self._peaks is None:  # an allocator window resets the peaks, so there is none of the step
            allocated, reserved = cuda_step_memory(self.parts.device)
        facts = Facts(
            step=self.step_number,
            stage=stage,
            loss=loss_on_its_way(result.loss),
            samples=self._samples_per_update,
            tokens=sum(model.count(batch) for batch in window) if model.counts_tokens else None,
            evaluations=result.evaluations,
            allocated_peak_bytes=allocated,
            reserved_bytes=reserved,
        )
        self._recorder.note(facts)
        self._recorder.own_ns += time.perf_counter_ns() - start_ns

    def _finish_stretch(self) -> None:
        """End the running update and record all: what follows must not lie in its time."""
        self._clock.end()
        self._recorder.settle(wait=True)

    def _say_what_came_too_late(self) -> None:
        """Answer requests that nothing came of: they are honoured between measured updates only."""
        asked = {"capture": self._requests.take_capture() > 0, "memory snapshot": self._requests.wants_snapshot}
        for name in [name for name, wanted in asked.items() if wanted]:
            self._log.emit(Note, code="too_late", message=f"the {name} was asked for after the measured updates")
