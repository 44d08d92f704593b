"""`hf:ID_OR_FOLDER`: a model of the Hugging Face hub or of a local folder, through transformers' Auto classes.

What is in the local cache is used as it is; otherwise the hub is asked, if it answers. Weights are random unless
`model.pretrained` is set. Code that comes with a model is never run (`trust_remote_code` stays off).

`model.options` overrides fields of the config, and `task` (`causal-lm`, `masked-lm`, `image-class`) says which Auto
class to use where the config's `architectures` do not. The loss is the model's own, a mean over labels, times their
number: the sum that other models return. Data sets give byte tokens, not the model's tokenizer's.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor, nn

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.core.paths import home_expanded
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.contract import IGNORED_LABEL, Batch, DataSpec, Task, TrainingModel
from gradscope.worker.failures import is_out_of_memory
from gradscope.worker.models.losses import count_labels, count_next_token_labels, next_token_labels
from gradscope.worker.models.overrides import check_classes, check_options, checked, dropout_fields, text_spec
from gradscope.worker.reach import require_hub
from gradscope.worker.targets import suggestion

AUTO_CLASSES: dict[Task, str] = {
    "image-class": "AutoModelForImageClassification",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
}
"""In the order in which they are tried on a config that names no architecture with a loss."""

ENDINGS: dict[str, Task] = {
    "ForImageClassification": "image-class",
    "ForMaskedLM": "masked-lm",
    "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm",
}
"""How architectures with a loss of ours end."""

Loaded = TypeVar("Loaded")

READ_ERRORS = (OSError, ValueError, KeyError, TypeError, RuntimeError, StrictDataclassError, SafetensorError)
"""What transformers and its readers raise about names, files and values they cannot take."""

USUAL_IMAGE_SIZE = 224
"""Where a config names none, as those of convolutional networks do."""

BYTE_NOTE = "data sets give byte tokens, not those of this model's tokenizer: its pretrained loss is not comparable"


def build(settings: ModelSettings, data: DataSettings) -> TrainingModel:
    """Build an Auto model from its config, with weights if the preset asks for them.

    Raises:
        GradscopeError: It is neither a folder nor cached nor reachable, needs code of its own, or has no loss of ours.
    """
    source = settings.name.removeprefix("hf:")
    options = dict(settings.options)
    asked = options.pop("task", None)
    config = _override(load_config(source), options, settings.dropout)
    task = choose_task(source, config, asked)
    module = _load_weights(source, config, task) if settings.pretrained else _from_config(source, config, task)
    notes = [BYTE_NOTE] if settings.pretrained and task != "image-class" else []
    return TrainingModel(
        name=settings.name,
        module=module.train(),
        loss=MeanTimesCount(task),
        count=count_next_token_labels if task == "causal-lm" else count_labels,
        counts_tokens=task != "image-class",
        spec=_spec(config, task, data),
        notes=notes,
    )


class MeanTimesCount:
    """The model's own mean loss, times the number of labels."""

    def __init__(self, task: Task) -> None:
        self._causal = task == "causal-lm"

    def __call__(self, module: nn.Module, batch: Batch) -> Tensor:
        """Run the module on a batch.

        A mean over no labels is 0 / 0, and NaN times a count of 0 is still NaN. So a batch without labels gets one in
        its last position, whose loss is then multiplied by 0; nothing waits for the device to find out.
        """
        labels = batch["labels"]
        scored = next_token_labels(labels) if self._causal else labels
        weight = (scored != IGNORED_LABEL).sum()
        last = labels[..., -1:]
        labels = labels.clone()
        labels[..., -1:] = last.masked_fill((weight == 0) & (last == IGNORED_LABEL), 0)
        mean: Tensor = module(**{**batch, "labels": labels}).loss
        return mean * weight


def load_config(source: str) -> Any:
    """Return the config of a folder, of the cache, or of the hub."""
    return _fetch(source, lambda local: transformers.AutoConfig.from_pretrained(source, local_files_only=local))


def choose_task(source: str, config: Any, asked: str | None) -> Task:
    """Return the task by `model.options.task`, else by the config's architectures, else by what its type can do.

    Raises:
        GradscopeError: There is no such task, or the model has none of ours.
    """
    if asked is not None:
        if asked not in AUTO_CLASSES:
            raise GradscopeError(f"model.options.task: no such task '{asked}'", suggestion(asked, AUTO_CLASSES))
        if not _can(config, asked):
            raise GradscopeError(
                f"hf:{source}: a config of type {config.model_type} cannot do {asked}",
                f"it can do: {', '.join(task for task in AUTO_CLASSES if _can(config, task)) or 'none of our tasks'}",
            )
        return asked
    for architecture in config.architectures or ():
        for ending, task in ENDINGS.items():
            if architecture.endswith(ending) and _can(config, task):
                return task
    for task in AUTO_CLASSES:
        if _can(config, task):
            return task
    raise GradscopeError(
        f"hf:{source}: transformers has no {', '.join(AUTO_CLASSES)} model of type {config.model_type}",
        "write a factory that wraps it, and use py:MODULE:FACTORY",
    )


def _can(config: Any, task: Task) -> bool:
    return type(config) in getattr(transformers, AUTO_CLASSES[task])._model_mapping


def _override(config: Any, options: dict[str, Any], dropout: float) -> Any:
    """Return the config with the preset's dropout and overrides, made anew so that its own checks run."""
    names = type(config).attribute_map
    check_options(options, {*config.to_dict(), *names, "num_labels"}, "model.options")
    overrides = {names.get(name, name): value for name, value in options.items()}
    plain = config.to_dict()
    if "num_labels" in overrides:
        plain = {name: value for name, value in plain.items() if name not in ("id2label", "label2id")}
    if "num_hidden_layers" in overrides and "layer_types" not in overrides:
        plain.pop("layer_types", None)  # one a layer: the config makes a list that fits
    merged = {**plain, **dict.fromkeys(dropout_fields(config), dropout), **overrides}
    changed = checked(lambda: type(config)(**merged), "model.options")
    if hasattr(changed, "use_cache"):
        changed.use_cache = False
    return changed


def _from_config(source: str, config: Any, task: Task) -> nn.Module:
    auto = getattr(transformers, AUTO_CLASSES[task])
    module: nn.Module = checked(lambda: auto.from_config(config), f"hf:{source}")
    return module


def _load_weights(source: str, config: Any, task: Task) -> nn.Module:
    auto = getattr(transformers, AUTO_CLASSES[task])

    def load(local: bool) -> nn.Module:
        module: nn.Module = auto.from_pretrained(source, config=config, local_files_only=local, dtype="float32")
        return module

    with torch.device("cpu"):  # under any other default device, transformers wants the package accelerate
        return _fetch(source, load)


def _fetch(source: str, load: Callable[[bool], Loaded]) -> Loaded:
    """Load from a folder or the cache; failing that, from the hub, if it is there."""
    folder = home_expanded(source)
    looks_local = source.startswith((".", "/", "~")) or source.count("/") > 1
    if looks_local and not folder.is_dir():
        raise GradscopeError(f"there is no folder {source}", "the form is hf:FOLDER or hf:OWNER/NAME")
    try:
        return load(True)
    except READ_ERRORS as error:
        if folder.is_dir() or "trust_remote_code" in str(error):
            raise _explain(source, error) from error
    require_hub(f"model '{source}' is not in the cache")
    try:
        return load(False)
    except READ_ERRORS as error:
        raise _explain(source, error) from error


def _explain(source: str, error: Exception) -> Exception:
    text = str(error)
    if is_out_of_memory(error):
        return error
    if "trust_remote_code" in text:
        return GradscopeError(
            f"hf:{source} needs Python code that comes with the model, and gradscope runs none",
            "write a factory that builds it, and use py:MODULE:FACTORY",
        )
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return GradscopeError(
        f"hf:{source} cannot be loaded: {first}",
        "check the name and that the folder or repository holds config.json (and weights for model.pretrained)",
        exit_code=ExitCode.ENVIRONMENT if isinstance(error, ConnectionError | TimeoutError) else ExitCode.USAGE,
    )


def _spec(config: Any, task: Task, data: DataSettings) -> DataSpec:
    if task == "image-class":
        own = getattr(config, "image_size", USUAL_IMAGE_SIZE)
        size = data.image_size or (own if isinstance(own, int) else own[0])
        check_classes(config)
        return DataSpec(task=task, image_size=size, classes=config.num_labels)
    return text_spec(task, config.get_text_config(), data.sequence_length)
