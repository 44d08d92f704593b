"""The preset: everything a run is made of, as frozen data. A string under each field says what it means.

Rules that span fields live in `gradscope.config.rules`; names of models, optimizers, strategies and data sets in
`gradscope.config.catalogue`. TOML cannot say "no value": a field that may be missing takes the text `none`, which
undoes what an extended preset set.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

PositiveInt = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
Fraction = Annotated[float, Meta(ge=0, lt=1)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all preset tables: frozen, by keyword, no unknown keys."""


class ModelSettings(Settings, frozen=True, kw_only=True):
    """`[model]`: what is trained."""

    name: str = "vit"
    """A catalogue name, `hf:ID_OR_FOLDER`, or `py:MODULE:FACTORY`."""
    scale: Literal["tiny", "full"] = "tiny"
    """`tiny` trains on 2 CPU cores in seconds; `full` is the published size."""
    pretrained: bool = False
    """Load weights (only `hf:` models); otherwise random ones from the seed."""
    dropout: Fraction = 0.0
    """Dropout rate in the model's residual, embedding and attention dropouts."""
    options: dict[str, Any] = {}
    """Overrides of the model's own configuration, e.g. `num_hidden_layers`; for `py:` models, keyword arguments."""


class DataSettings(Settings, frozen=True, kw_only=True):
    """`[data]`: what it is trained on, and how it is loaded."""

    name: str = "shapes"
    """A catalogue name, or `hf:DATASET`."""
    batch_size: PositiveInt = 8
    """Rows in one micro-batch (`grow`), or in one whole update (`split`)."""
    sequence_length: PositiveInt = 128
    """Tokens in a row, for models that read text."""
    image_size: PositiveInt | None = None
    """Pixels along one side; the model's own where it is not given."""
    workers: Count = 0
    """DataLoader worker processes; 0 loads in the training process."""
    pin_memory: bool = True
    """Page-locked host memory, where there is a CUDA device."""
    path: str | None = None
    """A local text file or image folder, for the `file` and `folder` data sets."""
    options: dict[str, Any] = {}
    """The data set's own options."""


class OptimizerSettings(Settings, frozen=True, kw_only=True):
    """`[optimizer]`: how parameters are updated."""

    name: str = "adam"
    """A catalogue name, any class of torch.optim, or any of pytorch_optimizer where that is installed."""
    lr: PositiveFloat | None = None
    """Learning rate; the optimizer's own default where it is not given."""
    options: dict[str, Any] = {}
    """Keyword arguments of the optimizer's class. A preset or override that names another optimizer starts from none,
    and so do the `options` of another model and of another data set."""


class MemorySettings(Settings, frozen=True, kw_only=True):
    """`[memory]`: the strategy that trades time for memory."""

    strategy: str = "standard"
    """`standard`, `checkpoint`, `accumulate`, or `checkpoint-accumulate`."""
    accumulate: PositiveInt | None = None
    """Micro-batches in one update; 4 where the strategy accumulates and this is not given."""
    mode: Literal["grow", "split"] = "grow"
    """`grow`: every micro-batch has `data.batch_size` rows. `split`: all of them together have."""


class BudgetSettings(Settings, frozen=True, kw_only=True):
    """`[budget]`: how long the measured part runs. Exactly one of the three; it replaces that of an extended preset."""

    updates: Count | None = None
    """Optimizer updates."""
    samples: PositiveInt | None = None
    """Rows trained on."""
    seconds: PositiveFloat | None = None
    """Time in measured steps."""


class RunSettings(Settings, frozen=True, kw_only=True):
    """`[run]`: where and how the loop runs."""

    device: str = "auto"
    """`auto` (the first CUDA device, else the CPU), `cpu`, `cuda`, or `cuda:N`."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """`bf16` and `fp16` are autocast; `fp16` (CUDA only) scales the loss."""
    compile: bool = False
    """Run the model through torch.compile."""
    threads: Annotated[int, Meta(ge=1, le=1024)] | None = None
    """CPU threads for torch; all cores where it is not given. Part of what makes two CPU runs equal."""
    seed: Count = 0
    """Seeds weights, data and dropout."""
    warmup: Count = 3
    """Updates before the measured ones, excluded from every number."""
    on_nonfinite: Literal["stop", "continue"] = "stop"
    """What a NaN or infinite loss does; it is always flagged."""
    time_limit_seconds: PositiveFloat | None = None
    """Stop the run after this long, with what it has (exit code 4)."""


class ProfileSettings(Settings, frozen=True, kw_only=True):
    """`[profile]`: the window under torch.profiler: updates of its own, after the budget is spent.

    `gradscope capture` opens further windows with the same settings.
    """

    steps: Count = 2
    """Updates in the window; 0 turns it off."""
    stacks: bool = False
    """Record Python stacks: many times the events."""
    shapes: bool = True
    """Record operator input shapes."""
    memory: bool = True
    """Record every allocation."""
    flops: bool = True
    """Estimate operators' floating-point operations in the trace."""
    max_events: PositiveInt = 2_000_000
    """The window closes early when this many events are expected to be buffered."""


class AuditSettings(Settings, frozen=True, kw_only=True):
    """`[audit]`: the gradient audit at the end."""

    enabled: bool = True
    """Compare the strategy's gradient with the plain one."""
    flops: bool = True
    """Count the floating-point operations of one update."""


class SamplingSettings(Settings, frozen=True, kw_only=True):
    """`[sampling]`: NVML and host figures beside the run."""

    enabled: bool = True
    """Sample at all."""
    interval_ms: Annotated[float, Meta(ge=20)] = 100.0
    """Time between samples."""


class SweepSettings(Settings, frozen=True, kw_only=True):
    """`[sweep]`: a grid of runs around the preset it stands in."""

    axes: dict[str, list[Any]]
    """What varies, to the values it takes. An axis is a dotted key (`data.batch_size`), a table (`optimizer`, whose
    values are tables that set several of its keys at once), or several tables that vary together (`model+data`, whose
    values are tables of tables)."""
    combine: Literal["product", "zip"] = "product"
    """All combinations, or the axes side by side."""
    include: list[dict[str, Any]] = []
    """Cells to add: keys as of `axes`, with one value each."""
    exclude: list[dict[str, Any]] = []
    """Cells to leave out: those in which all the given keys have the given values; a list is any of its items."""
    repeats: PositiveInt = 1
    """Runs of each cell, with seeds `run.seed`, `run.seed` + 1, ..."""
    on_foreign: Literal["warn", "wait", "fail"] = "warn"
    """What another process that computes on a cell's GPU does. `warn`: the cell runs and its result is marked
    contaminated. `wait`: the cell waits until the card is free. `fail`: the sweep ends."""


class Claim(Settings, frozen=True, kw_only=True):
    """`[[claim]]`: a sentence about a grid's results that the results can support or refute."""

    name: str
    """Short, unique."""
    text: str
    """The sentence, as its source says it."""
    source: str = ""
    """Where it is made."""
    metric: str
    """A column of the results: `loss_last`, `step_time_ms`, `peak_memory_bytes`, `gpu_busy_pct`, ..."""
    subset: dict[str, Any] = {}
    """Settings a cell must have to count, on both sides: dotted keys with values; a list is any of its items."""
    numerator: dict[str, Any] = {}
    """Settings of the cells in question."""
    denominator: dict[str, Any] | None = None
    """Settings of the cells they are compared with: each cell in question with those that differ from it in these
    settings alone, as a ratio. None where the metric itself is bounded."""
    statistic: Literal["median", "mean", "min", "max"] = "median"
    """How several cells' ratios (or values) become one number."""
    at_least: float | None = None
    """Lower bound of the number, or of the ratio."""
    at_most: float | None = None
    """Upper bound."""
    tolerance: Annotated[float, Meta(ge=0)] = 0.1
    """Relative slack on the bounds."""
    needs: Literal["any", "cuda"] = "any"
    """What can judge it."""
    evidence: Literal["none", "audit"] = "none"
    """`audit`: where the gradient audit finds both sides' gradients equal, a difference is not an effect of the
    strategy, and the claim is refuted whatever the ratio."""


class Preset(Settings, frozen=True, kw_only=True):
    """A whole preset, resolved: defaults, what it extends, overrides."""

    name: str
    """Names the folder of its runs; the file's stem where it is not given. Not passed on to presets that extend it."""
    description: str = ""
    """One line, shown in lists. Not passed on either."""
    model: ModelSettings = ModelSettings()
    data: DataSettings = DataSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    memory: MemorySettings = MemorySettings()
    budget: BudgetSettings = BudgetSettings(updates=20)
    run: RunSettings = RunSettings()
    profile: ProfileSettings = ProfileSettings()
    audit: AuditSettings = AuditSettings()
    sampling: SamplingSettings = SamplingSettings()
    sweep: SweepSettings | None = None
    claim: list[Claim] = []
