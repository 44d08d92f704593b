"""What is asked of one trace, each answer worked out once and only when something needs it; and its tables by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from gradscope.core.units import format_number_of
from gradscope.errors import GradscopeError
from gradscope.trace import categories
from gradscope.trace.calls import Calls, calls
from gradscope.trace.communication import CommunicationAnswer, StragglersAnswer, communication, stragglers
from gradscope.trace.findings import Findings, findings
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.idle import IdleAnswer, idle
from gradscope.trace.kernels import kernels
from gradscope.trace.memory_timeline import MemoryAnswer, memory
from gradscope.trace.modules import ModulesAnswer, modules
from gradscope.trace.operators import Grouping, host_time_ns, operators
from gradscope.trace.phases import PhasesAnswer, phases
from gradscope.trace.steps import StepsAnswer, steps
from gradscope.trace.target import Loaded


@dataclass(frozen=True)
class Answers:
    """One trace and all that follows from it."""

    loaded: Loaded
    shown: int
    """Which of the traces that were loaded."""
    by: Grouping = "name"
    step: int | None = None
    """Only this step, in operators, kernels and modules."""

    @property
    def trace(self) -> Trace:
        """The trace that is asked about."""
        return self.loaded.traces[self.shown]

    @property
    def rank(self) -> int:
        """Its rank, told or given."""
        return self.loaded.ranks[self.shown]

    @cached_property
    def siblings(self) -> list["Answers"]:
        """All ranks of a folder, in order; this one among them."""
        return [
            self if index == self.shown else Answers(self.loaded, index) for index in range(len(self.loaded.traces))
        ]

    @cached_property
    def has_device(self) -> bool:
        """Whether anything ran on a device."""
        return self.trace.has_device_events

    @cached_property
    def nested(self) -> Calls:
        """The host's calls as torch nests them."""
        return calls(self.trace)

    @cached_property
    def steps(self) -> StepsAnswer:
        """Steps and their time."""
        return steps(self.trace)

    @cached_property
    def operators(self) -> pl.DataFrame:
        """Operators, by descending self time of the host."""
        return operators(self.trace, self.by, self.step, nested=self.nested)

    @cached_property
    def host_time_ns(self) -> int:
        """What the shares of operators are of."""
        return host_time_ns(self.trace, self.step, nested=self.nested)

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Kernels, copies and fills, by descending time."""
        return kernels(self.trace, self.step, nested=self.nested)

    @cached_property
    def modules(self) -> ModulesAnswer:
        """Time by `nn.Module`."""
        return modules(self.trace, self.step, nested=self.nested)

    @cached_property
    def memory(self) -> MemoryAnswer:
        """Memory of each device."""
        return memory(self.trace)

    @cached_property
    def phases(self) -> PhasesAnswer:
        """Phases of the steps."""
        return phases(self.trace)

    @cached_property
    def idle(self) -> IdleAnswer:
        """When devices idled, and why."""
        return idle(self.trace, answer=self.steps)

    @cached_property
    def communication(self) -> CommunicationAnswer:
        """What communication cost."""
        return communication(self.trace)

    @cached_property
    def stragglers(self) -> StragglersAnswer:
        """Who waited for whom, over all ranks that were loaded."""
        return stragglers(dict(zip(self.loaded.ranks, self.loaded.traces, strict=True)))

    @cached_property
    def findings(self) -> Findings:
        """What all rules say."""
        return findings(self.trace, answer=self.steps)

    @property
    def notes(self) -> list[TraceNote]:
        """What loading and the steps have to say, each once."""
        found = {(note.code, note.message): note for note in [*self.loaded.notes, *self.trace.notes, *self.steps.notes]}
        if overlaps := self.nested.nesting.overlaps:
            ranges = format_number_of(overlaps, "range")
            text = f"{ranges} past the end of one that began before: taken as siblings, none is cut or lost"
            found["overlapping_ranges", text] = TraceNote("overlapping_ranges", text, overlaps)
        return list(found.values())

    @property
    def of_all(self) -> str:
        """What the title of a section adds that tells of all steps although one was chosen."""
        return "" if self.step is None else ", all steps"

    def check_step(self) -> None:
        """Refuse a step that the trace does not have.

        Raises:
            GradscopeError: It has no such step.
        """
        if self.step is None:
            return
        numbers = self.steps.table["number"].to_list()
        if self.step not in numbers:
            there = f"it has steps {min(numbers)} to {max(numbers)}" if numbers else "it marks no steps"
            raise GradscopeError(f"the trace has no step {self.step}", there)

    def table(self, name: str) -> pl.DataFrame:
        """Return one of `TABLES`; where a step was chosen, its rows, if they tell their step.

        Raises:
            GradscopeError: There is none of that name.
        """
        if name not in TABLES:
            raise GradscopeError(f"there is no table {name!r}", f"the tables are {', '.join(TABLES)}")
        table = TABLES[name](self)
        if self.step is None or "number" not in table.columns:
            return table
        return table.filter(pl.col("number") == self.step)


def _memory_curve(answers: Answers) -> pl.DataFrame:
    """One row a memory event and device."""
    found = [
        device.curve.insert_column(0, _named(device.device, device.curve.height)) for device in answers.memory.devices
    ]
    return pl.concat(found) if found else pl.DataFrame(schema={"device": pl.String, "ts_ns": pl.Int64})


def _peak(answers: Answers) -> pl.DataFrame:
    """What was alive at the peak of each device."""
    found = [
        device.alive_at_peak.select(_named(device.device, device.alive_at_peak.height), pl.all())
        for device in answers.memory.devices
    ]
    return pl.concat(found) if found else pl.DataFrame(schema={"device": pl.String, "bytes": pl.Int64})


def _findings(answers: Answers) -> pl.DataFrame:
    """One row a finding."""
    names = ("rule", "severity", "title", "evidence", "remedy", "saving_ms_per_step", "saving_pct", "saving_formula")
    kinds = {name: pl.Float64 if name.startswith("saving_") and "formula" not in name else pl.String for name in names}
    return pl.DataFrame([{name: getattr(one, name) for name in names} for one in answers.findings.found], schema=kinds)


def _named(device: str, height: int) -> pl.Series:
    return pl.Series("device", [device] * height, dtype=pl.String)


TABLES: dict[str, Callable[[Answers], pl.DataFrame]] = {
    "events": lambda answers: answers.trace.events,
    "operators": lambda answers: answers.operators,
    "kernels": lambda answers: answers.kernels,
    "modules": lambda answers: answers.modules.frame,
    "steps": lambda answers: answers.steps.table,
    "devices": lambda answers: answers.steps.devices,
    "phases": lambda answers: answers.phases.table,
    "idle": lambda answers: answers.idle.gaps,
    "launches": lambda answers: answers.idle.launch_delays,
    "communication": lambda answers: answers.communication.calls,
    "stragglers": lambda answers: answers.stragglers.by_step,
    "memory": _memory_curve,
    "peak": _peak,
    "findings": _findings,
}
"""What `--sql` can ask of and `--to` can write."""

OF_ALL_STEPS = ("events", "memory", "peak", "findings")
"""Tables that a chosen step does not narrow."""


def is_usable(trace: Trace) -> bool:
    """Whether there is any work in it at all."""
    return not trace.events.filter(categories.is_slice()).is_empty()
