"""Rules that span fields: each problem names both, and how to mend it."""

from collections.abc import Callable, Iterator
from itertools import chain

from gradscope.config.catalogue import ACCUMULATING, CLOSURE_OPTIMIZERS, DATASETS, MODELS
from gradscope.config.claims import claim_problems
from gradscope.config.names import name_problems
from gradscope.config.problem import Problem, either, shown
from gradscope.config.resolve import micro_steps
from gradscope.config.schema import BudgetSettings, Preset
from gradscope.config.sweep import sweep_problems

Rule = Callable[[Preset], Iterator[Problem]]


def first_broken_rule(preset: Preset) -> Problem | None:
    """Return the first rule's problem with the preset, `None` if there is none."""
    return next(chain.from_iterable(rule(preset) for rule in RULES), None)


def _one_budget(preset: Preset) -> Iterator[Problem]:
    names = BudgetSettings.__struct_fields__
    given = [name for name in names if getattr(preset.budget, name) is not None]
    if len(given) == 1:
        return
    keys = tuple(f"budget.{name}" for name in given or names)
    found = " and ".join(f"{name} = {shown(getattr(preset.budget, name))}" for name in given) or "none of them"
    yield Problem(keys=keys, found=found, allowed="exactly one of updates, samples and seconds")


def _accumulation(preset: Preset) -> Iterator[Problem]:
    memory = preset.memory
    if memory.strategy not in ACCUMULATING and (memory.accumulate or 1) > 1:
        yield Problem(
            keys=("memory.accumulate", "memory.strategy"),
            found=f"accumulate = {memory.accumulate} with strategy = {shown(memory.strategy)}",
            allowed="more than 1 only with a strategy that accumulates",
            hint=f'set memory.strategy to {either(sorted(ACCUMULATING))}, or memory.accumulate to "none"',
        )


def _split(preset: Preset) -> Iterator[Problem]:
    parts = micro_steps(preset)
    if preset.memory.mode == "split" and preset.data.batch_size < parts:
        yield Problem(
            keys=("data.batch_size", "memory.accumulate"),
            found=f'batch_size = {preset.data.batch_size} with {parts} micro-batches and mode = "split"',
            allowed="at least one row for each micro-batch",
            hint=f'raise data.batch_size to {parts}, lower memory.accumulate, or set memory.mode = "grow"',
        )


def _half_precision(preset: Preset) -> Iterator[Problem]:
    run, optimizer = preset.run, preset.optimizer.name
    if run.precision != "fp16":
        return
    if run.device == "cpu":
        yield Problem(
            keys=("run.precision", "run.device"),
            found='precision = "fp16" with device = "cpu"',
            allowed="fp16 only on a CUDA device",
            hint='set run.precision = "bf16", or run.device = "cuda"',
        )
    if optimizer.lower() in CLOSURE_OPTIMIZERS:
        yield Problem(
            keys=("run.precision", "optimizer.name"),
            found=f'precision = "fp16" with name = {shown(optimizer)}',
            allowed="fp16 only with optimizers that evaluate the loss once an update",
            hint='set run.precision = "bf16" or "fp32"',
        )


def _pretrained(preset: Preset) -> Iterator[Problem]:
    if preset.model.pretrained and not preset.model.name.startswith("hf:"):
        yield Problem(
            keys=("model.pretrained", "model.name"),
            found=f"pretrained = true with name = {shown(preset.model.name)}",
            allowed="pretrained weights only with hf: models",
            hint="leave model.pretrained out, or name a model as hf:ID_OR_FOLDER",
        )


def _data_path(preset: Preset) -> Iterator[Problem]:
    data = preset.data
    if data.name in NEED_PATH and not data.path:
        yield Problem(
            keys=("data.path", "data.name"),
            found=f"{'no path' if data.path is None else 'an empty path'} with name = {shown(data.name)}",
            allowed=f"the path of a local {NEED_PATH[data.name]}",
        )
    if data.name not in NEED_PATH and data.path is not None:
        yield Problem(
            keys=("data.path", "data.name"),
            found=f"path = {shown(data.path)} with name = {shown(data.name)}",
            allowed=f"a path only with data sets {either(NEED_PATH)}",
            hint=f"leave data.path out, or set data.name to {either(NEED_PATH)}",
        )


NEED_PATH = {"file": "text file", "folder": "folder of images, one folder a class"}


def _rows_for_model(preset: Preset) -> Iterator[Problem]:
    """A model and a data set that both state their tasks must have one in common."""
    model, data = MODELS.get(preset.model.name), DATASETS.get(preset.data.name)
    if model is None or data is None or not model.tasks or not data.tasks:
        return
    if not set(model.tasks) & set(data.tasks):
        fitting = [name for name, entry in DATASETS.items() if set(model.tasks) & set(entry.tasks)]
        yield Problem(
            keys=("data.name", "model.name"),
            found=f"name = {shown(data.name)} with the model {model.name}",
            allowed=f"{either(fitting)} with a model for {either(model.tasks)}",
            hint=f'set data.name = "{fitting[0]}"',
        )


def _time_limit(preset: Preset) -> Iterator[Problem]:
    seconds, limit = preset.budget.seconds, preset.run.time_limit_seconds
    if seconds is not None and limit is not None and limit < seconds:
        yield Problem(
            keys=("run.time_limit_seconds", "budget.seconds"),
            found=f"time_limit_seconds = {limit:g} with seconds = {seconds:g}",
            allowed="a time limit that leaves time for the budget, warm-up and export",
            hint="raise run.time_limit_seconds, or lower budget.seconds",
        )


RULES: tuple[Rule, ...] = (
    name_problems,
    _one_budget,
    _accumulation,
    _split,
    _half_precision,
    _pretrained,
    _data_path,
    _rows_for_model,
    _time_limit,
    sweep_problems,
    claim_problems,
)
