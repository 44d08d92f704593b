"""Optimizers of the package `pytorch_optimizer`, which is an optional extra."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

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

NEED_SECOND_DERIVATIVES = frozenset({"AdaHessian", "SophiaH"})
"""Classes that want `backward(create_graph=True)`."""

NEED_MODEL = frozenset({"AdaLOMO", "AdamMini", "LOMO"})
"""Classes that take a model in place of parameters."""

MUON_FAMILY = frozenset({"AdaGO", "AdaMuon", "DistributedMuon", "Muon", "MuonClip", "NorMuon"})
"""Classes that are told which parameters are matrices, and train the others by AdamW."""


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
    for names, wish in ((NEED_SECOND_DERIVATIVES, "second derivatives"), (NEED_MODEL, "the model's module")):
        if kind.__name__ in names:
            raise GradscopeError(
                f"pytorch_optimizer's {kind.__name__} needs {wish}, which gradscope does not hand to optimizers",
                "choose another optimizer.name",
            )
    group = _muon_groups if kind.__name__ in MUON_FAMILY else list
    optimizer = construct(kind, parameters, settings, group=group)
    if kind.__name__ in NEED_CLOSURE:
        optimizer.needs_closure = True  # type: ignore[attr-defined]  # what `needs_closure` looks at
    return optimizer


def _muon_groups(parameters: Sequence[nn.Parameter]) -> list[dict[str, Any]]:
    """Return the groups that the Muon family asks for: matrices, and the rest."""
    matrices = [parameter for parameter in parameters if parameter.dim() == 2]
    others = [parameter for parameter in parameters if parameter.dim() != 2]
    groups = ({"params": matrices, "use_muon": True}, {"params": others, "use_muon": False})
    return [group for group in groups if group["params"]]


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
