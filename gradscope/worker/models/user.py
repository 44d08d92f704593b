"""`py:MODULE:FACTORY`: a model of the user's own. Imports no transformers.

The factory gets `model.options` as keyword arguments. It returns a torch.nn.Module, or a pair of one and a map-style
data set with dicts of tensors as rows. Without a data set the module says what rows it needs, in an attribute
`gradscope_data`: a dict of `DataSpec` fields. Called with a batch's tensors as keyword arguments, the module returns
a scalar mean loss, an object (or dict) with `loss`, or a pair (sum of the loss, count).

A mean is taken to be over rows. For a mean or a sum over something else, such as tokens, the module has a method
`gradscope_count(batch) -> int` that counts it before the forward pass; only with it are unequal micro-batches
weighted right.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_args

import msgspec
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.contract import Batch, DataSpec, Task, TrainingModel, row_count
from gradscope.worker.models.factory import call_factory, find_factory
from gradscope.worker.targets import suggestion

RETURNS = (
    "the factory must return a torch.nn.Module, or (module, dataset) with a map-style data set of dicts of tensors"
)
LOSSES = "forward(**batch) must return a scalar mean loss, an object with .loss, or a pair (loss sum, count)"


def build(settings: ModelSettings, data: DataSettings) -> TrainingModel:
    """Import the user's factory, call it, and wrap what it returns: on the CPU, whatever the default device is.

    Raises:
        GradscopeError: The factory cannot be found, it raised, or what it returned is not usable.
    """
    with torch.device("cpu"):  # the factory's rows stay on the host, and the module moves after it was made
        factory = find_factory(settings.name)
        made = call_factory(settings.name, factory, settings.options)
    module, dataset = _unpack(settings.name, made)
    spec = None if dataset is not None else _read_spec(settings.name, module, data)
    count = getattr(module, "gradscope_count", None)
    notes = ["model.dropout does not reach a model of your own; pass it in model.options"] if settings.dropout else []
    return TrainingModel(
        name=settings.name,
        module=module,
        loss=UserLoss(settings.name, count or row_count),
        count=count or row_count,
        counts_tokens=count is not None,
        spec=spec,
        dataset=dataset,
        notes=notes,
    )


class UserLoss:
    """Turns what the user's module returns into a sum; remembers only that the first pair was checked."""

    def __init__(self, name: str, count: Callable[[Batch], int]) -> None:
        self._name = name
        self._count = count
        self._checked = False

    def __call__(self, module: nn.Module, batch: Batch) -> Tensor:
        """Run the module on a batch.

        Raises:
            GradscopeError: It returned no loss, or a pair whose count is not what `count` says.
        """
        output = module(**batch)
        if isinstance(output, tuple) and len(output) == 2 and isinstance(output[0], Tensor):
            total, weight = output
            if not self._checked:
                self._check(weight, self._count(batch))
            return self._scalar(total)
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", output)
        return self._scalar(loss) * self._count(batch)

    def _check(self, weight: Tensor | float, counted: int) -> None:
        """Compare the module's count with the one known before the forward pass, once: it costs a synchronisation."""
        self._checked = True
        if int(weight) != counted:
            raise GradscopeError(
                f"{self._name}: forward returned a count of {int(weight)}, and gradscope counted {counted}",
                "give the module a method gradscope_count(batch) -> int that counts the same before the forward pass",
                exit_code=ExitCode.FAILED,
            )

    def _scalar(self, loss: Any) -> Tensor:
        if isinstance(loss, Tensor) and loss.numel() == 1 and loss.is_floating_point():
            return loss.reshape(())
        what = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise GradscopeError(f"{self._name}: forward returned {what}", LOSSES, exit_code=ExitCode.FAILED)


def _unpack(name: str, made: Any) -> tuple[nn.Module, Dataset[Batch] | None]:
    module, dataset = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, nn.Module):
        raise GradscopeError(f"{name} returned {type(made).__name__}", RETURNS, exit_code=ExitCode.FAILED)
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise GradscopeError(
            f"{name} returned a module without trainable parameters", RETURNS, exit_code=ExitCode.FAILED
        )
    if dataset is not None and not hasattr(dataset, "__getitem__"):
        raise GradscopeError(
            f"{name} returned {type(dataset).__name__} as its data set", RETURNS, exit_code=ExitCode.FAILED
        )
    return module, dataset


def _read_spec(name: str, module: nn.Module, data: DataSettings) -> DataSpec:
    """Make a `DataSpec` from the module's `gradscope_data`, with sizes from the preset where it names none."""
    given = getattr(module, "gradscope_data", None)
    if given is None:
        raise GradscopeError(
            f"{name} returned no data set, and the module has no attribute gradscope_data",
            "return (module, dataset), or set gradscope_data = {'task': 'image-class', 'classes': 10} on the module",
        )
    known = [field.name for field in fields(DataSpec)]
    if not isinstance(given, Mapping) or "task" not in given:
        raise GradscopeError(f"{name}: gradscope_data must be a dict with 'task'", f"its keys: {', '.join(known)}")
    for key in given:
        if key not in known:
            raise GradscopeError(f"{name}: gradscope_data has an unknown key '{key}'", suggestion(key, known))
    if given["task"] not in get_args(Task):
        raise GradscopeError(
            f"{name}: gradscope_data has an unknown task '{given['task']}'",
            suggestion(given["task"], get_args(Task)),
        )
    sizes = {"image_size": data.image_size or 0, "sequence_length": data.sequence_length}
    try:
        return msgspec.convert({**sizes, **given}, DataSpec)
    except msgspec.ValidationError as error:
        raise GradscopeError(f"{name}: gradscope_data: {error}", "sizes and ids are whole numbers") from error
