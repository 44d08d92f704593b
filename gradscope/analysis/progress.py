"""How far a run is, from its events: pure, so that following a run and replaying one show the same."""

from collections import deque
from statistics import median

from gradscope.config.schema import Preset
from gradscope.core.events import (
    AnyEvent,
    Audited,
    ModelBuilt,
    Note,
    ProfileEnded,
    SnapshotWritten,
    Stage,
    StageEntered,
    Step,
    WorkerStarted,
)
from gradscope.core.status import Status
from gradscope.core.text import visible
from gradscope.core.units import format_bytes, format_count, format_ms, format_number, format_number_of, format_seconds

BAR_CELLS = 10
RECENT_STEPS = 50
"""How many steps the time left is judged from."""

DISPENSABLE = ("step", "share", "count")
"""Parts of the line that give way in a narrow terminal, in this order."""

STAGE_WORDS = {
    Stage.WARMUP: "warm-up",
    Stage.MEASURE: "measuring",
    Stage.MEMORY: "memory",
    Stage.PROFILE: "profiling",
    Stage.AUDIT: "audit",
    Stage.EXPORT: "export",
}


class Progress:
    """What has been seen of a run."""

    def __init__(self, preset: Preset | None) -> None:
        """`preset`: what was asked for, where the manifest says it."""
        self.stage: Stage | None = None
        self.loss: float | None = None
        self.nonfinite: str | None = None
        self._doing = "starting"
        self._preset = preset
        self._planned: dict[Stage, int | None] = {}
        self._done: dict[Stage, int] = {}
        self._measured_seconds = 0.0
        self._recent_ms: deque[float] = deque(maxlen=RECENT_STEPS)
        if preset is not None:
            self._planned = {
                Stage.WARMUP: preset.run.warmup,
                Stage.MEASURE: preset.budget.updates,
                Stage.MEMORY: 1,
                Stage.PROFILE: preset.profile.steps,
            }

    def take(self, event: AnyEvent) -> str | None:
        """Learn from one event; return what of it deserves a line of its own."""
        match event:
            case WorkerStarted():
                self._doing = "building"
                threads = format_number_of(event.threads, "thread")
                return f"device {visible(event.device)} ({visible(event.device_name)}), {threads}"
            case ModelBuilt():
                return (
                    f"model {visible(event.model)}, {format_count(event.parameters)} parameters, "
                    f"{visible(event.optimizer)}, {visible(event.strategy)}, "
                    f"{event.batch_rows} rows x {event.micro_steps}"
                )
            case StageEntered():
                self.stage = event.stage
                self._doing = STAGE_WORDS[event.stage]
                if event.steps is not None and event.stage in self._planned:
                    self._planned[event.stage] = event.steps
            case Step():
                self._count(event)
            case _:
                return remark(event)
        return None

    def seconds_left(self) -> float | None:
        """Return the time the remaining steps will take, from the recent ones; `None` before the first."""
        if not self._recent_ms:
            return None
        step_seconds = median(self._recent_ms) / 1e3
        steps = sum(max(0, planned - self._done.get(stage, 0)) for stage, planned in self._planned.items() if planned)
        return steps * step_seconds + self._budget_seconds_left()

    def line(self, status: Status, columns: int | None = None) -> str:
        """Return the run's state as one line, e.g. `measuring  12/30  run [####------] 40 %  3.10 s left  loss 2.3`.

        What does not fit into `columns` is left out: first the time of a step, then how much of the run is done, then
        the count of steps; the loss and the time left stay.
        """
        if status is Status.EXPORTING:
            return "writing up"
        if self.stage is None:
            return self._doing
        parts = {"stage": self._doing}
        planned = self._planned.get(self.stage)
        if planned:
            parts["count"] = f"{self._done.get(self.stage, 0)}/{planned}"
        left = self.seconds_left()
        if left is not None and self.stage is not Stage.AUDIT:
            share = self._seconds_done() / max(self._seconds_done() + left, 1e-9)
            full = round(share * BAR_CELLS)
            parts["share"] = f"run [{'#' * full}{'-' * (BAR_CELLS - full)}] {share * 100:.0f} %"
            parts["left"] = f"{format_seconds(left)} left"
        if self._recent_ms:
            parts["step"] = f"step {format_ms(median(self._recent_ms))}"
        if self.loss is not None or self.nonfinite is not None:
            parts["loss"] = f"loss {self.nonfinite or format_number(self.loss)}"
        for name in DISPENSABLE:
            if columns is None or len("  ".join(parts.values())) <= columns:
                break
            parts.pop(name, None)
        return "  ".join(parts.values())

    def _count(self, step: Step) -> None:
        self._done[step.stage] = self._done.get(step.stage, 0) + step.covers
        self._recent_ms.append(step.wall_ms)
        if step.stage is Stage.MEASURE:
            self._measured_seconds += step.wall_ms / 1e3 * step.covers
        self.loss, self.nonfinite = step.loss, step.nonfinite

    def _budget_seconds_left(self) -> float:
        """Return what is left of the measured part where its length is not a number of steps."""
        if self._preset is None or self._planned.get(Stage.MEASURE) is not None:
            return 0.0
        if self._preset.budget.seconds is not None:
            return max(0.0, self._preset.budget.seconds - self._measured_seconds)
        return 0.0

    def _seconds_done(self) -> float:
        return sum(self._done.values()) * median(self._recent_ms) / 1e3 if self._recent_ms else 0.0


def remark(event: AnyEvent) -> str | None:
    """Return a line on an event that a user would want to see while it happens."""
    text: str | None = None
    match event:
        case Note(message=message):
            text = f"note: {visible(message)}"
        case ProfileEnded(error=str(error)):
            text = f"note: no trace of window {event.window}: {visible(error)}"
        case ProfileEnded(file=str(file)):
            text = f"trace of {event.steps} steps: {visible(file)} ({format_bytes(event.file_bytes)})"
        case SnapshotWritten(error=str(error)):
            text = f"note: no memory snapshot: {visible(error)}"
        case SnapshotWritten(file=str(file)):
            text = f"memory snapshot: {visible(file)}"
        case Audited(no_effect=str(reason)):
            text = f"note: the memory strategy had no effect: {visible(reason)}"
        case Audited(passed=False):
            why = f"error {format_number(event.error)}" if event.reason is None else visible(event.reason)
            text = f"note: the gradient audit failed: {why}"
        case _:
            pass
    return text
