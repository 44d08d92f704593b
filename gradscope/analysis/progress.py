"""How far a run is, from its events: pure, so that following a run and replaying one show the same."""

from collections import deque
from dataclasses import dataclass
from statistics import median

from gradscope.config.schema import Preset
from gradscope.core.events import (
    AnyEvent,
    Audited,
    ModelBuilt,
    Note,
    ProfileEnded,
    ProfileStarted,
    SnapshotWritten,
    Stage,
    StageEntered,
    Step,
    WorkerStarted,
)
from gradscope.core.status import Status
from gradscope.core.text import visible
from gradscope.core.units import format_count, format_ms, format_number, format_number_of, format_seconds

BAR_CELLS = 10
RECENT_STEPS = 50
"""How many steps the time left is judged from."""

MEASURE = Stage.MEASURE  # looking a member up in its class for each of a hundred thousand steps is slow

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


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands: what the command line's progress line and the app's header both say."""

    doing: str
    """In a word or two: `building`, `warm-up`, `measuring`, `writing up`; the status of a run that is over."""
    stage: Stage | None
    stage_done: int
    """Steps done in this stage; of a window under the profiler, in this window."""
    stage_planned: int | None
    share_done: float | None
    """Of the whole run's steps, 0 to 1; `None` where nothing can be foretold: before the first step, in the audit."""
    seconds_left: float | None
    """`None` too for a run that is over."""


class Progress:
    """What has been seen of a run."""

    def __init__(self, preset: Preset | None) -> None:
        """`preset`: what was asked for, where the manifest says it."""
        self.stage: Stage | None = None
        self.loss: float | None = None
        self.nonfinite: str | None = None
        self.device: str | None = None
        self._doing = "starting"
        self._extra_window = False
        """Within a window that was asked for, not by the preset."""
        self._preset = preset
        self._planned: dict[Stage, int | None] = {}
        self._done: dict[Stage, int] = {}
        self._steps_done = 0
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
            case Step():  # first: nearly all are
                self._count(event)
            case WorkerStarted():
                self._doing = "building"
                self.device = event.device
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
                if event.stage is Stage.PROFILE:  # each window counts from 0; other stages go on where they were
                    self._done[Stage.PROFILE] = 0
            case ProfileStarted():
                self._extra_window = event.requested
            case _:
                if isinstance(event, ProfileEnded) and self._extra_window:
                    self._await_own_window()
                return remark(event)
        return None

    def standing(self, status: Status) -> Standing:
        """Return where the run stands; its status is not among its events."""
        if status.is_final or status is Status.UNKNOWN:
            share = 1.0 if status is Status.DONE else self._share_done()
            return self._stands(str(status), share_done=share, seconds_left=None)
        if status is Status.EXPORTING:
            return self._stands("writing up", share_done=None, seconds_left=None)
        if self.stage is None or self.stage is Stage.AUDIT:
            return self._stands(self._doing, share_done=None, seconds_left=None)
        return self._stands(self._doing, share_done=self._share_done(), seconds_left=self.seconds_left())

    def _stands(self, doing: str, *, share_done: float | None, seconds_left: float | None) -> Standing:
        stage = self.stage
        done, planned = (0, None) if stage is None else (self._done.get(stage, 0), self._planned.get(stage))
        return Standing(doing, stage, done, planned, share_done, seconds_left)

    @property
    def step_ms(self) -> float | None:
        """Median of the last steps; `None` before the first."""
        return median(self._recent_ms) if self._recent_ms else None

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
        now = self.standing(status)
        parts = {"stage": now.doing}
        if status is Status.EXPORTING or now.stage is None:
            return now.doing
        if now.stage_planned:
            parts["count"] = f"{now.stage_done}/{now.stage_planned}"
        if now.share_done is not None and now.seconds_left is not None:
            full = round(now.share_done * BAR_CELLS)
            parts["share"] = f"run [{'#' * full}{'-' * (BAR_CELLS - full)}] {now.share_done * 100:.0f} %"
            parts["left"] = f"{format_seconds(now.seconds_left)} left"
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
        stage, covers = step.stage, step.covers
        if stage is MEASURE and stage not in self._done:
            self._recent_ms.clear()  # those of the warm-up say little about the steps to come
        self._done[stage] = self._done.get(stage, 0) + covers
        self._steps_done += covers
        self._recent_ms.append(step.wall_ms)
        if stage is MEASURE:
            self._measured_seconds += step.wall_ms / 1e3 * covers
        self.loss, self.nonfinite = step.loss, step.nonfinite

    def _budget_seconds_left(self) -> float:
        """Return what is left of the measured part where its length is not a number of steps."""
        if self._preset is None or self._planned.get(Stage.MEASURE) is not None:
            return 0.0
        if self._preset.budget.seconds is not None:
            return max(0.0, self._preset.budget.seconds - self._measured_seconds)
        return 0.0

    def _share_done(self) -> float | None:
        left = self.seconds_left()
        if left is None:
            return None
        done = self._steps_done * median(self._recent_ms) / 1e3
        return done / max(done + left, 1e-9)

    def _await_own_window(self) -> None:
        """After a window that was asked for, the one of the preset is still to come."""
        self._extra_window = False
        self._planned[Stage.PROFILE] = None if self._preset is None else self._preset.profile.steps
        self._done[Stage.PROFILE] = 0


def remark(event: AnyEvent) -> str | None:
    """Return a line on an event that a user would want to see while it happens."""
    text = worth_saying(event)
    written = isinstance(event, ProfileEnded | SnapshotWritten) and event.error is None
    return text if text is None or written else f"note: {text}"


def worth_saying(event: AnyEvent) -> str | None:
    """Return what a user would want to know of an event, control characters written out; `None` for most."""
    text: str | None = None
    match event:
        case Note(message=message):
            text = visible(message)
        case ProfileEnded(error=str(error)):
            text = f"no trace of window {event.window}: {visible(error)}"
        case ProfileEnded(file=str(file)):
            steps = format_number_of(event.steps, "step")
            text = f"trace of {steps}: {visible(file)}"  # its size changes yet: it is enriched when the run is over
        case SnapshotWritten(error=str(error)):
            text = f"no memory snapshot: {visible(error)}"
        case SnapshotWritten(file=str(file)):
            text = f"memory snapshot: {visible(file)}"
        case Audited(no_effect=str(reason)):
            text = f"the memory strategy had no effect: {visible(reason)}"
        case Audited(passed=False):
            why = f"error {format_number(event.error)}" if event.reason is None else visible(event.reason)
            text = f"the gradient audit failed: {why}"
        case _:
            pass
    return text
