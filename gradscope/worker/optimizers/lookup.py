"""From `optimizer.name` to an optimizer: the catalogue, then torch.optim, then the package pytorch_optimizer."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from gradscope.config.catalogue import OPTIMIZER_SCHEMES, OPTIMIZERS
from gradscope.config.problem import did_you_mean
from gradscope.config.schema import OptimizerSettings
from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.worker.contract import BuildOptimizer
from gradscope.worker.optimizers.construct import OptimizerClass, construct
from gradscope.worker.optimizers.extra import INSTALL
from gradscope.worker.targets import import_target


def build_optimizer(parameters: Sequence[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build the optimizer that a preset names, for those of the parameters that are trainable.

    Args:
        parameters: The model's parameters.
        settings: `[optimizer]`. Names are found whatever the case of their letters.

    Raises:
        GradscopeError: The name, an option, or the parameters do not fit, or a package is missing.
    """
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    if not trainable:
        raise GradscopeError(
            "the model has no trainable parameter", "leave requires_grad on for at least one of its parameters"
        )
    name = settings.name.lower()
    scheme, colon, _ = name.partition(":")
    entry = OPTIMIZER_SCHEMES.get(scheme) if colon else OPTIMIZERS.get(name)
    if entry is not None:
        build: BuildOptimizer = import_target(entry)
        return build(trainable, settings)
    kind = torch_optimizers().get(name)
    if kind is None:
        known = [*OPTIMIZERS, *(listed.__name__ for listed in torch_optimizers().values()), *OPTIMIZER_SCHEMES]
        near = did_you_mean(settings.name, known)
        raise GradscopeError(
            f"optimizer.name: neither gradscope nor torch.optim of torch {torch.__version__} "
            f"has '{visible(settings.name)}'",
            f"{near + ' ' if near else ''}any other may be pytorch_optimizer:NAME, which needs {INSTALL}",
        )
    RESTRICTIONS.get(name, _nothing)(trainable)
    optimizer = construct(kind, trainable, settings)
    if name == "sparseadam":
        optimizer.register_step_pre_hook(_refuse_dense_gradients)
    return optimizer


def torch_optimizers() -> dict[str, OptimizerClass]:
    """Return the optimizer classes of this torch by their name in lower case."""
    return {
        name.lower(): kind
        for name, kind in vars(torch.optim).items()
        if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
    }


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether `step` must be handed a closure that evaluates loss and gradient, as `cgd` and LBFGS must."""
    marked = getattr(optimizer, "needs_closure", None)
    if marked is not None:
        return bool(marked)
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _nothing(_parameters: Sequence[nn.Parameter]) -> None:
    """Restrict nothing."""


def _only_matrices(parameters: Sequence[nn.Parameter]) -> None:
    others = [parameter for parameter in parameters if parameter.dim() != 2]
    if others:
        raise GradscopeError(
            f"Muon takes only matrices; {len(others)} of this model's {len(parameters)} trainable parameters are none, "
            f"the first of shape {list(others[0].shape)}",
            "train it with adamw, or freeze the parameters that are not two-dimensional",
        )


def _refuse_dense_gradients(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    """Say what SparseAdam wants; which gradients are sparse shows only once they are there."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and not parameter.grad.is_sparse:
                raise GradscopeError(
                    f"SparseAdam takes only sparse gradients; one of shape {list(parameter.shape)} has dense ones",
                    "train it with adam; sparse gradients come from torch.nn.Embedding(sparse=True) alone",
                )


RESTRICTIONS: dict[str, Callable[[Sequence[nn.Parameter]], None]] = {"muon": _only_matrices}
"""What a class asks of the parameters, in words clearer than its own."""
