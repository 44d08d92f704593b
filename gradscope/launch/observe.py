"""What the supervisor learns from the worker's records while it tails them."""

from dataclasses import dataclass
from pathlib import Path

from gradscope.core.events import AnyEvent, Stage, StageEntered, Step, TrainingFailed, WorkerEnded, WorkerStarted
from gradscope.core.status import Status
from gradscope.rundir.layout import EVENTS
from gradscope.rundir.tail import JsonlTail

STATUS_OF_STAGE = {
    Stage.WARMUP: Status.WARMUP,
    Stage.MEASURE: Status.MEASURING,
    Stage.MEMORY: Status.PROFILING,
    Stage.PROFILE: Status.PROFILING,
    Stage.AUDIT: Status.AUDITING,
    Stage.EXPORT: Status.EXPORTING,
}


@dataclass(slots=True)
class Observed:
    """The worker so far."""

    status: Status = Status.STARTING
    step: int | None = None
    """The last recorded step."""
    started: WorkerStarted | None = None
    failure: TrainingFailed | None = None
    """The first one: what went wrong while cleaning up is not the reason."""
    last_word: str | None = None

    def take(self, event: AnyEvent) -> None:
        """Learn from one record."""
        match event:
            case Step(step=step):
                self.step = step
            case StageEntered(stage=stage):
                self.status = STATUS_OF_STAGE[stage]
            case WorkerStarted():
                self.started = event
            case TrainingFailed():
                self.failure = self.failure or event
            case WorkerEnded(reason=reason):
                self.last_word = reason
            case _:
                pass


class Observer:
    """Tails `events.jsonl`."""

    def __init__(self, run_dir: Path) -> None:
        self.seen = Observed()
        self._tail: JsonlTail[AnyEvent] = JsonlTail(run_dir / EVENTS, AnyEvent)

    def look(self) -> Observed:
        """Read what is new and return all that is known."""
        for event in self._tail.read():
            self.seen.take(event)
        return self.seen
