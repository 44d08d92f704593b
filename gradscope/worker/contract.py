"""What the loop asks of a model, a data set, an optimizer and a strategy: the four things a preset names."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

Batch = dict[str, Tensor]
"""Keyword arguments of a model's forward; the first dimension of each is the row."""

IGNORED_LABEL = -100
"""A label position that takes no part in the loss (torch's own `ignore_index`)."""

Task = Literal["image-class", "masked-lm", "causal-lm", "image-caption"]


def row_count(batch: Batch) -> int:
    """Return a batch's number of rows."""
    return next(iter(batch.values())).shape[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """What rows a model needs; a data set makes them or says that it cannot."""

    task: Task
    image_size: int = 0
    """Pixels along one side."""
    classes: int = 0
    sequence_length: int = 0
    vocabulary: int = 0
    mask_token: int = 0
    """Token id that hides a token from a masked-language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingModel:
    """A model as the loop sees it."""

    name: str
    module: nn.Module
    """Owns all parameters; in training mode. `strategies` act on this."""
    loss: Callable[[nn.Module, Batch], Tensor]
    """Forward and loss of one micro-batch: its sum over label tokens or samples, scalar, 0 where there are none.

    Not yet divided, so that sums of micro-batches over the sum of their counts are the big batch's mean exactly. The
    module is passed in, since it may have been compiled.
    """
    count: Callable[[Batch], int]
    """Label tokens (or samples) of a micro-batch, on the host, before any of it is computed."""
    counts_tokens: bool
    """Whether `count` counts tokens; otherwise samples."""
    spec: DataSpec | None
    """What rows it needs; `None` where it brings its own `dataset`."""
    dataset: Dataset[Batch] | None = None
    """Rows the user's own factory brought along."""
    notes: Sequence[str] = field(default_factory=tuple)


class BuildModel(Protocol):
    """A model's entry in the catalogue."""

    def __call__(self, settings: Any, data: Any) -> TrainingModel:
        """Build from `ModelSettings` and `DataSettings` on the default device (`meta` included), or on the CPU."""
        ...


class BuildDataset(Protocol):
    """A data set's entry in the catalogue."""

    def __call__(self, settings: Any, spec: DataSpec, seed: int) -> Dataset[Batch]:
        """Return a map-style data set whose row `i` depends on `seed` and `i` alone."""
        ...


class BuildOptimizer(Protocol):
    """An optimizer's entry in the catalogue. `needs_closure` is an attribute of what it returns where one is needed."""

    def __call__(self, parameters: Sequence[nn.Parameter], settings: Any) -> torch.optim.Optimizer:
        """Build from `OptimizerSettings`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A memory strategy."""

    name: str
    accumulates: bool = False
    checkpoints: bool = False
    apply: Callable[[nn.Module, Callable[[], AbstractContextManager[None]]], int] | None = None
    """Changes the module in place and returns how many blocks it took hold of.

    The second argument makes the context in which a recomputation runs.
    """
    remove: Callable[[nn.Module], None] | None = None
    """Takes it back: the audit compares with and without."""
