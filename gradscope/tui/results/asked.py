"""Answers about a trace as the run screen holds them: plain data, made on a thread, shown by panes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What a trace is."""

    events: int
    usable: bool
    """Whether there is any work in it."""
    has_device: bool
    steps: tuple[int, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """Calls of one operator, in one shape or from one place where they are grouped so."""

    name: str
    kind: str
    shapes: str | None
    stack: tuple[str, ...] | None
    """Innermost frame first."""
    calls: int
    self_host_ns: int
    host_ns: int
    share: float | None
    """Of the host's time in steps and calls, 0 to 1."""
    self_device_ns: int | None
    device_ns: int | None
    self_memory_bytes: int | None
    flops: int | None

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from other rows of its table."""
        return self.name, self.kind, self.shapes, self.stack

    @property
    def label(self) -> str:
        """The name, and by what it is told apart."""
        if self.stack is not None:
            return f"{self.name} {self.stack[0]}" if self.stack else self.name
        return f"{self.name} {self.shapes}" if self.shapes else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """Work on the device by name."""

    name: str
    kind: str
    calls: int
    total_ns: int
    share: float | None
    mean_ns: float
    max_ns: int
    occupancy_pct: float | None
    tensor_cores: bool | None
    launched_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorDetail:
    """All about one operator."""

    row: OperatorRow | None
    shapes: list[OperatorRow]
    stacks: list[OperatorRow]
    """Empty where the trace has no stacks."""
    kernels: list[KernelRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One profiled step."""

    number: int
    window: int
    dur_ns: int
    parts: Mapping[str, int]
    busy_pct: float | None
    kernels: int | None
    lost_kernels: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsReport:
    """The steps of a trace."""

    rows: list[StepRow]
    known: bool
    """False: the trace has events but no marks of steps."""
    has_device: bool
    mean: Mapping[str, float] | None
    """Parts of a step, mean over complete ones; of the whole trace where there is none."""
    of_steps: int
    phases: Mapping[str, float | None]
    """Share of the host's time by phase in percent, as far as the trace tells."""


@dataclass(frozen=True, slots=True)
class IdleKind:
    """Idle time of one kind."""

    device: int
    kind: str
    gaps: int
    idle_ns: int
    idle_pct: float | None
    step_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One stretch in which a device had nothing to do."""

    device: int
    step: int | None
    start_ns: int
    dur_ns: int
    kind: str
    before: str | None
    after: str | None
    host_op: str | None
    host_pct: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleReport:
    """When devices idled."""

    has_device: bool
    kinds: list[IdleKind]
    longest: list[Gap]
    delay_us: float | None
    """Median time from a launch to its kernel."""


@dataclass(frozen=True, slots=True)
class Alive:
    """Memory that one operator asked for."""

    asked_by: str | None
    operator: str | None
    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCurve:
    """One device's memory through the trace."""

    device: str
    start_ns: int
    times_ns: Sequence[int]
    allocated_bytes: Sequence[int]
    peak_bytes: int
    peak_ts_ns: int
    peak_step: int | None
    reserved_peak_bytes: int | None
    basis: str | None
    """What the readings count, where it is not all that is allocated."""
    older_bytes: int
    """Alive at the peak, and born before the trace."""
    alive: list[Alive]
    never_freed: list[Alive]
    allocations_per_step: float | None
    turnover: float | None


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Memory of all devices, accelerators first."""

    curves: list[MemoryCurve]
    missing: str | None
    """Why there is none."""
