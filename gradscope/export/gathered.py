"""A run as an export takes it: its records in order, each once, and what ties them together.

The one module of this package that asks `analysis`: a format shows what was analysed, and never the other way round.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from gradscope.analysis.fold import RunRecord, update
from gradscope.analysis.resources import own_uuid
from gradscope.analysis.summary import load_summary
from gradscope.core.clock import ClockPair
from gradscope.core.events import AnyEvent, Step
from gradscope.core.samples import Sample, SampleLine
from gradscope.core.summary import Summary
from gradscope.core.text import visible
from gradscope.rundir.handle import RunHandle


@dataclass(frozen=True)
class Gathered:
    """What a run holds at one moment."""

    run_id: str
    events: list[AnyEvent]
    lines: list[SampleLine]
    record: RunRecord
    unread: int
    """Lines of its files that are no record this version knows."""

    @cached_property
    def steps(self) -> list[Step]:
        """All steps, in the order in which they were made."""
        return [event for event in self.events if isinstance(event, Step)]

    @cached_property
    def samples(self) -> list[Sample]:
        """All samples, in the order of time."""
        return sorted((line for line in self.lines if isinstance(line, Sample)), key=lambda sample: sample.t_ns)

    @property
    def clocks(self) -> ClockPair | None:
        """The worker's clock pair; `None` if it never spoke."""
        started = self.record.started
        return None if started is None else ClockPair(started.wall_ns, started.t_ns)

    @property
    def card(self) -> str | None:
        """The card that the run trains on, as the samples spell its UUID."""
        return own_uuid(self.record, self.samples)


def gather(run_dir: Path) -> Gathered:
    """Read a run, whatever state it is in.

    Raises:
        OSError: Its files cannot be read.
    """
    handle = RunHandle(run_dir)
    events, samples, record = handle.event_tail(), handle.sample_tail(), RunRecord()
    seen, lines = update(record, events.read()), samples.read()
    unread = events.malformed + events.unknown + samples.malformed + samples.unknown
    return Gathered(visible(handle.run_id), seen, lines, record, unread)


def summary_of(run_dir: Path) -> Summary:
    """Return a run's summary, computed if the run is not over; names of folders in it are made text."""
    found = load_summary(run_dir)
    who = msgspec.structs.replace(found.identity, preset=visible(found.identity.preset))
    return msgspec.structs.replace(found, run_id=visible(found.run_id), identity=who)
