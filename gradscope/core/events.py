"""What a worker says while it runs: a closed set of records, one JSON object a line in `events.jsonl`.

Every record has `kind`, `seq` (from 0, without gaps) and `t_ns` (monotonic nanoseconds). Durations are milliseconds,
sizes are bytes, and a value that was not measured is absent (`None`), never 0. One `step` record stands for one
optimizer update; only profile windows are spans (`profile_started`, `profile_ended`), and a started one always ends.
"""

from enum import StrEnum

import msgspec

from gradscope.core.status import SCHEMA_VERSION


class Stage(StrEnum):
    """Which part of a run a step belongs to. Only `measure` steps count in a measured number."""

    WARMUP = "warmup"
    MEASURE = "measure"
    MEMORY = "memory"
    """One step under torch's memory profiler, on a CPU: it yields the peak of activations in backward."""
    PROFILE = "profile"
    AUDIT = "audit"
    EXPORT = "export"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", gc=False):
    """What all records share. None can hold itself, so the collector need not look at a hundred thousand of them."""

    seq: int
    t_ns: int


class WorkerStarted(Event, frozen=True, kw_only=True, tag="worker_started"):
    """The worker has imported torch and knows its device."""

    schema: int = SCHEMA_VERSION
    pid: int
    wall_ns: int
    """Wall clock at `t_ns`: with it, the run's clock pair."""
    device: str
    """torch's name, e.g. `cpu` or `cuda:0`."""
    device_name: str
    device_uuid: str | None = None
    device_memory_bytes: int | None = None
    threads: int
    versions: dict[str, str]
    """torch, transformers, cuda, driver, python as far as known."""
    import_seconds: float
    resident_bytes: int
    """Resident memory after the imports: growth is counted from here."""


class ModelBuilt(Event, frozen=True, kw_only=True, tag="model_built"):
    """Model, optimizer and data are in place, nothing has been trained."""

    model: str
    parameters: int
    trainable_parameters: int
    batch_rows: int
    """Rows in one micro-batch."""
    micro_steps: int
    """Micro-batches in one full update."""
    strategy: str
    optimizer: str
    build_seconds: float


class StageEntered(Event, frozen=True, kw_only=True, tag="stage"):
    """The run enters a stage; `steps` is how many updates are planned in it, where that is known."""

    stage: Stage
    steps: int | None = None


class Phases(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where one step's time went, in ms. They add up to its `wall_ms`; `recompute` is a part of `backward`."""

    data: float
    h2d: float = 0.0
    forward: float
    backward: float
    recompute: float | None = None
    """Part of `backward` spent on recomputing activations; `None` where nothing is checkpointed."""
    optimizer: float
    other: float


PHASES = ("data", "h2d", "forward", "backward", "recompute", "optimizer", "other")
"""In the order in which a step goes through them; `recompute` is a part of `backward`."""


class Step(Event, frozen=True, kw_only=True, tag="step"):
    """One optimizer update. At most 500 bytes as JSON."""

    step: int
    """From 1, over all stages."""
    stage: Stage
    wall_ms: float
    """From the start of this step to the start of the next, so that a stage's steps add up to its time."""
    phases: Phases
    loss: float | None
    """Token- or sample-weighted mean over the micro-batches; `None` if no row had a label, or it is not finite."""
    nonfinite: str | None = None
    """`nan` or `inf` where the loss was not a number."""
    samples: int
    tokens: int | None = None
    """Label tokens in the loss; `None` for a loss over samples."""
    evaluations: int = 1
    """Evaluations of loss and gradient; more than 1 in a line search."""
    micro_ms: list[float] = []
    """Durations of micro-steps (host-to-device, forward, backward), where there are several; the first 8."""
    allocated_peak_bytes: int | None = None
    """CUDA allocator's peak within this step."""
    reserved_bytes: int | None = None
    covers: int = 1
    """How many steps this record stands for, past the size at which records thin out (`Note` code `events_thinned`)."""


class MemoryMeasured(Event, frozen=True, kw_only=True, tag="memory"):
    """Memory by category: exact, by unique storage, of the micro-step that needs most. Absent: not measured here."""

    step: int
    source: str
    """`hooks` (categories and saved activations), `allocator` (torch's own allocator, peaks)."""
    parameters_bytes: int | None = None
    buffers_bytes: int | None = None
    gradients_bytes: int | None = None
    optimizer_state_bytes: int | None = None
    inputs_bytes: int | None = None
    """One micro-batch on the device."""
    saved_activations_bytes: int | None = None
    """Saved for backward at the end of forward: unique storages, without parameters, buffers and inputs."""
    peak_activations_bytes: int | None = None
    """Most alive in backward beyond parameters, buffers, inputs, gradients and optimizer state, with recomputation."""
    forward_end_bytes: int | None = None
    """What the allocator holds at the end of forward beyond what it held at the start of the step: checks `saved`."""
    phase_peak_bytes: dict[str, int] = {}
    """Peak of all allocated bytes by phase (`forward`, `backward`, `optimizer`)."""
    allocated_peak_bytes: int | None = None
    reserved_peak_bytes: int | None = None


class ProfileStarted(Event, frozen=True, kw_only=True, tag="profile_started"):
    """A window of torch.profiler opens."""

    window: int
    first_step: int
    """The first recorded update; on CUDA one more runs in the window before it."""
    steps: int
    wall_ns: int
    """Wall clock at `t_ns`, for laying samples over the trace."""
    foretold_bytes: int | None = None
    """Expected size of the trace file, uncompressed."""
    requested: bool = False
    """Asked for by `capture`, not by the preset."""


class ProfileEnded(Event, frozen=True, kw_only=True, tag="profile_ended"):
    """The window closed; `file` is `None` where no trace could be written, and `error` says why."""

    window: int
    steps: int
    wall_ns: int
    file: str | None = None
    file_bytes: int | None = None
    error: str | None = None


class SnapshotWritten(Event, frozen=True, kw_only=True, tag="snapshot"):
    """A CUDA memory snapshot lies in the run directory, or `error` says why not."""

    file: str | None = None
    error: str | None = None


class FlopsCounted(Event, frozen=True, kw_only=True, tag="flops"):
    """Floating-point operations of one update, by torch's FlopCounterMode under the math attention kernel."""

    model_flops: int
    """Of the plain strategy."""
    executed_flops: int
    """With recomputation."""


class Audited(Event, frozen=True, kw_only=True, tag="audit"):
    """Is the strategy's gradient the gradient? `error` = |g - g0| / |g0| over all parameters as one vector."""

    error: float | None
    bound: float | None
    passed: bool | None
    """`None` where it could not be judged; `reason` says why."""
    reason: str | None = None
    without_gradient: list[str] = []
    """Trainable parameters that got no gradient."""
    no_effect: str | None = None
    """Why the strategy had none, if it had none."""


class Totals(Event, frozen=True, kw_only=True, tag="totals"):
    """Sums over the measured steps, so that rates are all items over all seconds however many records were kept."""

    steps: int
    samples: int
    tokens: int | None
    seconds: float
    instrumentation_ms: float
    """Time spent in gradscope's own code within those steps."""


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """Something worth saying: `code` is stable (`nonfinite_loss`, `zero_tokens`, ...), `message` is for a person."""

    code: str
    message: str
    step: int | None = None


class TrainingFailed(Event, frozen=True, kw_only=True, tag="failure"):
    """Why training ended early. The training error, not what went wrong while cleaning up after it."""

    error_type: str
    message: str
    out_of_memory: bool
    step: int | None = None
    phase: str | None = None
    hint: str | None = None
    exit_code: int = 1
    """What the run should leave with: 1 failed, 2 bad usage, 3 out of memory, 6 the environment lacks something."""


class WorkerEnded(Event, frozen=True, kw_only=True, tag="worker_ended"):
    """The worker's last words: `finished`, `stopped` (by request), `failed`, `orphaned` (its supervisor died)."""

    reason: str


AnyEvent = (
    WorkerStarted
    | ModelBuilt
    | StageEntered
    | Step
    | MemoryMeasured
    | ProfileStarted
    | ProfileEnded
    | SnapshotWritten
    | FlopsCounted
    | Audited
    | Totals
    | Note
    | TrainingFailed
    | WorkerEnded
)
