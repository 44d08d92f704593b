"""The optimizers that the catalogue names."""

from collections.abc import Sequence

import torch
from torch import nn

from gradscope.config.schema import OptimizerSettings
from gradscope.worker.optimizers.cgd import CGD
from gradscope.worker.optimizers.construct import construct


def sgd(parameters: Sequence[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build torch's SGD; `momentum` is one of its options."""
    return construct(torch.optim.SGD, parameters, settings)


def adam(parameters: Sequence[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build torch's Adam."""
    return construct(torch.optim.Adam, parameters, settings)


def adamw(parameters: Sequence[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build torch's AdamW."""
    return construct(torch.optim.AdamW, parameters, settings)


def adagrad(parameters: Sequence[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build torch's Adagrad, whose state exists from the start."""
    return construct(torch.optim.Adagrad, parameters, settings)


def adadelta(parameters: Sequence[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build torch's Adadelta."""
    return construct(torch.optim.Adadelta, parameters, settings)


def cgd(parameters: Sequence[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build conjugate gradient descent; `step_length`, a function, cannot be given in a preset."""
    return construct(CGD, parameters, settings, hidden=frozenset({"step_length"}))
