"""The numbers of a run, as `summary.json` holds them. `docs/metrics.md` defines each one.

What was not measured is `None`. Warm-up, memory, profiled and audit steps are in no measured number.
"""

import msgspec

from gradscope.core.statistics import Spread
from gradscope.core.status import SCHEMA_VERSION, Status

NO_GPU = "no_gpu"
"""Code of the remark that says why no card is watched."""

NO_TRACE = "no_trace"
"""Code of the remark that a preset's window was never opened."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all parts of a summary: frozen, by keyword; what was not measured is null in the file."""


class Identity(Record, frozen=True, kw_only=True):
    """What was run. From the preset and from what the worker said it built."""

    preset: str
    model: str | None = None
    scale: str | None = None
    parameters: int | None = None
    trainable_parameters: int | None = None
    optimizer: str | None = None
    learning_rate: float | None = None
    """As the preset sets it; `None` is the optimizer's own default."""
    strategy: str | None = None
    accumulation_mode: str | None = None
    """`grow` or `split`, where the strategy accumulates."""
    micro_steps: int | None = None
    """Micro-batches in one full update."""
    batch_rows: int | None = None
    """Rows in one micro-batch."""
    precision: str | None = None
    compiled: bool | None = None
    seed: int | None = None
    threads: int | None = None
    device: str | None = None
    device_name: str | None = None
    device_memory_bytes: int | None = None


class Provenance(Record, frozen=True, kw_only=True):
    """Where, when and with what it ran."""

    host: str | None = None
    created_wall_ns: int | None = None
    argv: list[str] = []
    git: str | None = None
    versions: dict[str, str] = {}


class Duration(Record, frozen=True, kw_only=True):
    """What the run did, and how long each part took. Seconds are of steps, not of what lies between them."""

    warmup_steps: int = 0
    measured_steps: int = 0
    planned_steps: int | None = None
    """Measured steps the worker set out to do, where that is a number of steps."""
    profiled_steps: int = 0
    samples: int = 0
    """Rows trained on in measured steps."""
    tokens: int | None = None
    """Label tokens in measured steps."""
    evaluations: int = 0
    """Evaluations of loss and gradient in measured steps; more than steps in a line search."""
    measured_seconds: float | None = None
    wall_seconds: float | None = None
    """From the worker's start to its last event."""
    import_seconds: float | None = None
    build_seconds: float | None = None
    first_step_ms: float | None = None
    """The very first step, warm-up included: lazy initialisation and compilation show here."""


class Loss(Record, frozen=True, kw_only=True):
    """Loss of the measured steps, each a weighted mean over its label tokens or samples."""

    first: float | None = None
    last: float | None = None
    minimum: float | None = None
    curve: list[tuple[int, float | None]] = []
    """(step, loss) of at most 2000 measured steps, evenly taken, first and last included; `None`: not finite."""
    nonfinite_steps: int = 0
    """Steps of the whole run whose loss was NaN or infinite."""


class Time(Record, frozen=True, kw_only=True):
    """Where the measured steps' time went."""

    step_ms: Spread | None = None
    phase_ms: dict[str, Spread] = {}
    """`data`, `h2d`, `forward`, `backward`, `optimizer`, `other`, and `recompute`, which is a part of `backward`."""
    phase_share: dict[str, float] = {}
    """Share of all measured seconds, 0 to 1; the phases without `recompute` add up to 1."""
    steps_per_second: float | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    """Label tokens, not padding."""
    instrumentation_ms: float | None = None
    """gradscope's own time in the measured steps, all of them together."""
    instrumentation_share: float | None = None
    """The same as a share of their time."""


class Memory(Record, frozen=True, kw_only=True):
    """Where memory went. Categories are exact, by unique storage, from single steps outside the measured ones."""

    parameters_bytes: int | None = None
    buffers_bytes: int | None = None
    gradients_bytes: int | None = None
    optimizer_state_bytes: int | None = None
    inputs_bytes: int | None = None
    saved_activations_bytes: int | None = None
    """Kept for backward at the end of forward."""
    peak_activations_bytes: int | None = None
    """Most alive in backward, recomputation included."""
    categories_step: int | None = None
    """The step in which the categories were last measured; other steps carry these values over."""
    phase_peak_bytes: dict[str, int] = {}
    allocated_peak_bytes: int | None = None
    """Most that torch's allocator had handed out."""
    allocated_peak_source: str | None = None
    """`measured steps`, or `one memory step` where only a step under the memory profiler could see it."""
    foretold_peak_bytes: int | None = None
    """What an estimate made of `allocated_peak_bytes` before the run, where one was asked for."""
    reserved_peak_bytes: int | None = None
    resident_growth_bytes: int | None = None
    """Largest sampled resident memory of the training process, less what it had at its start."""
    device_used_peak_bytes: int | None = None
    """Largest sampled memory in use on the card, by everybody (NVML)."""
    process_used_peak_bytes: int | None = None
    """Largest sampled memory on the card of this run's processes (NVML)."""


class Share(Record, frozen=True, kw_only=True):
    """A sampled percentage over the measured steps, each sample weighted by the time it stands for."""

    mean: float
    p5: float | None
    """Of the samples taken during measured steps; `None` if those are fewer than two."""
    p95: float | None
    samples: int
    """How many were taken during measured steps."""


class Utilization(Record, frozen=True, kw_only=True):
    """How busy card and host were during the measured steps."""

    gpu_busy_pct: Share | None = None
    memory_busy_pct: Share | None = None
    cpu_pct: Share | None = None
    """CPU time of the worker's process tree, 100 = one core."""
    throttle_reasons: list[str] = []
    temperature_max_c: float | None = None
    interval_ms: float | None = None
    """Median time between samples, as achieved."""
    steps_shorter_than_a_sample: bool | None = None
    """Whether several steps share one sample, so that samples say nothing about single steps."""


class Energy(Record, frozen=True, kw_only=True):
    """Energy of the card during the measured steps."""

    power_w: Share | None = None
    joules: float | None = None
    joules_per_step: float | None = None
    joules_per_sample: float | None = None
    source: str | None = None
    """`counter` (NVML's own), or `power integral` (of sampled power)."""


class Flops(Record, frozen=True, kw_only=True):
    """Floating-point operations, counted once, under the math attention kernel."""

    model: int | None = None
    """One update's, of the plain strategy."""
    executed: int | None = None
    """One update's, with recomputation."""
    model_per_second: float | None = None
    share_of_peak: float | None = None
    """Of what the card's data sheet promises for this precision, 0 to 1; `None` for an unknown card and for a CPU."""
    peak_per_second: float | None = None


class Audit(Record, frozen=True, kw_only=True):
    """The gradient audit."""

    error: float | None = None
    bound: float | None = None
    passed: bool | None = None
    reason: str | None = None
    without_gradient: list[str] = []
    no_effect: str | None = None


class Window(Record, frozen=True, kw_only=True):
    """One window of torch.profiler."""

    window: int
    first_step: int
    steps: int
    step_ms: Spread | None = None
    """Time of its updates, with the profiler's own cost in them: never part of a measured number."""
    file: str | None = None
    file_bytes: int | None = None
    error: str | None = None
    requested: bool = False
    closed: bool = True
    """False where the run ended inside it."""


class Remark(Record, frozen=True, kw_only=True):
    """Something said during the run: by the worker, the sampler, or the supervisor."""

    code: str
    message: str
    step: int | None = None


class Summary(Record, frozen=True, kw_only=True):
    """The content of `summary.json`."""

    schema: int = SCHEMA_VERSION
    run_id: str
    status: Status
    reason: str | None = None
    hint: str | None = None
    exit_code: int | None = None
    identity: Identity
    provenance: Provenance = Provenance()
    duration: Duration = Duration()
    loss: Loss = Loss()
    time: Time = Time()
    memory: Memory = Memory()
    utilization: Utilization = Utilization()
    energy: Energy = Energy()
    flops: Flops = Flops()
    audit: Audit | None = None
    windows: list[Window] = []
    snapshots: list[str] = []
    remarks: list[Remark] = []
