"""Rules about single fields that hold names: of models, data sets, optimizers, strategies and devices."""

import re
from collections.abc import Callable, Iterator, Mapping

from gradscope.config.catalogue import (
    DATASET_SCHEMES,
    DATASETS,
    MODEL_SCHEMES,
    MODELS,
    OPTIMIZER_SCHEMES,
    OPTIMIZERS,
    STRATEGIES,
    Entry,
)
from gradscope.config.problem import Problem, did_you_mean, shown
from gradscope.config.schema import Preset
from gradscope.config.torch_optim import torch_optimizers

DEVICE = re.compile(r"auto|cpu|cuda(:(\d|[1-9]\d))?")  # torch takes no leading zeros, and wraps around past 127
IDENTIFIER_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def name_problems(preset: Preset) -> Iterator[Problem]:
    """Yield what is wrong with the preset's names, each on its own."""
    for rule in RULES:
        yield from rule(preset)


def _preset_name(preset: Preset) -> Iterator[Problem]:
    if not preset.name.strip():
        yield Problem(keys=("name",), found=shown(preset.name), allowed="a name for the folder of its runs")


def _model(preset: Preset) -> Iterator[Problem]:
    name = preset.model.name
    yield from _known("model.name", name, MODELS, MODEL_SCHEMES)
    scheme, _, rest = name.partition(":")
    if scheme == "py" and rest:
        module, _, factory = rest.rpartition(":")
        if not module or not IDENTIFIER_PATH.fullmatch(factory):
            yield Problem(
                keys=("model.name",),
                found=shown(name),
                allowed="py:MODULE:FACTORY",
                hint="for example py:mypackage.models:build, for the function build of mypackage/models.py",
            )


def _data(preset: Preset) -> Iterator[Problem]:
    yield from _known("data.name", preset.data.name, DATASETS, DATASET_SCHEMES)


def _strategy(preset: Preset) -> Iterator[Problem]:
    yield from _known("memory.strategy", preset.memory.strategy, STRATEGIES, {})


def _optimizer(preset: Preset) -> Iterator[Problem]:
    name = preset.optimizer.name
    known = (*OPTIMIZERS, *torch_optimizers())
    scheme, colon, rest = name.partition(":")
    if colon and (scheme not in OPTIMIZER_SCHEMES or not rest):
        yield from _known("optimizer.name", name, OPTIMIZERS, OPTIMIZER_SCHEMES)
    elif not colon and name.lower() not in {text.lower() for text in known}:
        yield Problem(
            keys=("optimizer.name",),
            found=shown(name),
            allowed=f"{', '.join(OPTIMIZERS)}, a class of torch.optim, or pytorch_optimizer:NAME",
            hint=f"{did_you_mean(name, known)} `gradscope presets --list optimizers` lists them".lstrip(),
        )


def _device(preset: Preset) -> Iterator[Problem]:
    if not DEVICE.fullmatch(preset.run.device):
        yield Problem(
            keys=("run.device",),
            found=shown(preset.run.device),
            allowed="auto, cpu, cuda or cuda:N",
            hint=did_you_mean(preset.run.device, ("auto", "cpu", "cuda")),
        )


def _known(key: str, name: str, entries: Mapping[str, Entry], schemes: Mapping[str, Entry]) -> Iterator[Problem]:
    """Check a name against plain names and `scheme:REST`, REST not empty."""
    scheme, colon, rest = name.partition(":")
    if name in entries or (colon and scheme in schemes and rest):
        return
    forms = [entry.summary.partition(",")[0] for entry in schemes.values()]
    known = [*entries, *(f"{text}:" for text in schemes)]
    yield Problem(keys=(key,), found=shown(name), allowed=", ".join([*entries, *forms]), hint=did_you_mean(name, known))


RULES: tuple[Callable[[Preset], Iterator[Problem]], ...] = (
    _preset_name,
    _model,
    _data,
    _optimizer,
    _strategy,
    _device,
)
