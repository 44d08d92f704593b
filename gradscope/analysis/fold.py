"""A run's events, folded into one record. Live views feed it as events come; a finished run is the same, all at once.

It takes what there is: a run that was killed before its first step, a file with its end torn off, records read twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gradscope.core.events import (
    AnyEvent,
    Audited,
    Event,
    FlopsCounted,
    MemoryMeasured,
    ModelBuilt,
    Note,
    ProfileEnded,
    ProfileStarted,
    SnapshotWritten,
    Stage,
    StageEntered,
    Step,
    Totals,
    TrainingFailed,
    WorkerEnded,
    WorkerStarted,
)


@dataclass(slots=True)
class ProfileWindow:
    """A window of torch.profiler; `ended` is `None` while it is open, and stays so if the run was killed inside it."""

    started: ProfileStarted
    ended: ProfileEnded | None = None


@dataclass(slots=True)
class RunRecord:
    """What a run has said so far."""

    started: WorkerStarted | None = None
    built: ModelBuilt | None = None
    stages: list[StageEntered] = field(default_factory=list)
    """In the order they were entered; a stage may be entered more than once."""
    steps: dict[Stage, list[Step]] = field(default_factory=lambda: {stage: [] for stage in Stage})
    memory: list[MemoryMeasured] = field(default_factory=list)
    windows: list[ProfileWindow] = field(default_factory=list)
    snapshots: list[SnapshotWritten] = field(default_factory=list)
    flops: FlopsCounted | None = None
    audit: Audited | None = None
    totals: Totals | None = None
    notes: list[Note] = field(default_factory=list)
    failure: TrainingFailed | None = None
    ended: WorkerEnded | None = None
    last_seq: int = -1
    last_t_ns: int | None = None
    missing: int = 0
    """Events that must have been there, going by the sequence numbers, and could not be read."""

    @property
    def measured(self) -> list[Step]:
        """The only steps that count in a measured number."""
        return self.steps[Stage.MEASURE]

    @property
    def stage(self) -> Stage | None:
        """The stage the run is in, or ended in."""
        return self.stages[-1].stage if self.stages else None


def fold(events: Iterable[AnyEvent]) -> RunRecord:
    """Fold all events of a run into a new record."""
    record = RunRecord()
    update(record, events)
    return record


def update(record: RunRecord, events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Fold further events into `record`, in place, and return them without those that it has seen already."""
    new: list[AnyEvent] = []
    for event in events:
        if event.seq <= record.last_seq:
            continue
        record.missing += event.seq - record.last_seq - 1
        record.last_seq = event.seq
        record.last_t_ns = event.t_ns
        _take(record, event)
        new.append(event)
    return new


SINGLE: dict[type[Event], str] = {
    WorkerStarted: "started",
    ModelBuilt: "built",
    FlopsCounted: "flops",
    Audited: "audit",
    Totals: "totals",
    WorkerEnded: "ended",
}
"""Events of which the last one counts, and the record's attribute that holds it."""

LISTS: dict[type[Event], str] = {
    StageEntered: "stages",
    MemoryMeasured: "memory",
    SnapshotWritten: "snapshots",
    Note: "notes",
}
"""Events that are all kept, and the record's attribute that lists them."""


def _take(record: RunRecord, event: AnyEvent) -> None:
    match event:
        case Step():
            record.steps[event.stage].append(event)
        case ProfileStarted():
            record.windows.append(ProfileWindow(event))
        case ProfileEnded():
            for window in reversed(record.windows):
                if window.started.window == event.window:
                    window.ended = event
                    break
        case TrainingFailed():
            # the first is what ended training; a later one would be what went wrong while cleaning up
            record.failure = record.failure or event
        case _ if type(event) in LISTS:
            getattr(record, LISTS[type(event)]).append(event)
        case _:
            setattr(record, SINGLE[type(event)], event)


def measured_spans_ns(record: RunRecord) -> list[tuple[int, int]]:
    """Return the monotonic spans in which measured steps ran, without the profile windows that `capture` put in them.

    The last span ends with the record's last event where nothing else ended it.
    """
    spans: list[tuple[int, int]] = []
    for index, entered in enumerate(record.stages):
        if entered.stage is not Stage.MEASURE or record.last_t_ns is None:
            continue
        following = record.stages[index + 1].t_ns if index + 1 < len(record.stages) else record.last_t_ns
        spans.append((entered.t_ns, following))
    for window in record.windows:
        end = window.ended.t_ns if window.ended else record.last_t_ns
        if end is not None:
            spans = [part for span in spans for part in _without(span, (window.started.t_ns, end))]
    return spans


def _without(span: tuple[int, int], hole: tuple[int, int]) -> list[tuple[int, int]]:
    parts = [(span[0], min(span[1], hole[0])), (max(span[0], hole[1]), span[1])]
    return [(start, end) for start, end in parts if start < end] if hole[0] < span[1] and span[0] < hole[1] else [span]
