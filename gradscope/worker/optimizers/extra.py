"""Optimizers of the package `pytorch_optimizer`, which is an optional extra."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

import torch
from torch import nn

from gradscope.config.problem import did_you_mean
from gradscope.config.schema import OptimizerSettings
from gradscope.core.text import visible
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.optimizers.construct import construct

SCHEME = "pytorch_optimizer"
INSTALL = "pip install 'gradscope-tui[optimizers]'"

NEED_CLOSURE = frozenset({"AliG", "BSAM"})
"""Classes whose `step` declares an optional closure and fails without one."""


def build(parameters: Sequence[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build `pytorch_optimizer:NAME`; NAME is taken as the package's own loader takes it, in any case.

    Raises:
        GradscopeError: The package is not there, or does not know the name, or an option does not fit.
    """
    name = settings.name.partition(":")[2]
    package = _package()
    try:
        kind = package.load_optimizer(name)
    except (
        NotImplementedError,
        ValueError,
        ImportError,
    ) as error:  # unknown; or known, but it needs a package of its own
        known = package.get_supported_optimizers()
        near = did_you_mean(name, known)
        raise GradscopeError(
            f"pytorch_optimizer cannot load '{visible(name)}': {visible(str(error))}",
            near
            or f"it has {len(known)} optimizers; python -c "
            "'import pytorch_optimizer as p; print(*p.get_supported_optimizers())' lists them",
        ) from error
    optimizer = construct(kind, parameters, settings)
    if kind.__name__ in NEED_CLOSURE:
        optimizer.needs_closure = True  # type: ignore[attr-defined]  # what `needs_closure` looks at
    return optimizer


def _package() -> ModuleType:
    try:
        return import_module(SCHEME)
    except ModuleNotFoundError as error:
        if error.name != SCHEME:
            raise GradscopeError(
                f"pytorch_optimizer cannot be imported: {error}", INSTALL, exit_code=ExitCode.ENVIRONMENT
            ) from error
        raise GradscopeError(
            "the package pytorch_optimizer is not installed", INSTALL, exit_code=ExitCode.ENVIRONMENT
        ) from error
