"""Small models and one annotated update, for tests of what is measured in it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.profiler import record_function

from gradscope.worker.contract import Batch, TrainingModel

# models this small gain nothing from a second thread, and on a busy machine two threads wait for each other
torch.set_num_threads(1)


class Residual(nn.Module):
    """A block that checkpointing can save something in: two linear layers around a GELU, with dropout."""

    def __init__(self, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.down = nn.Linear(hidden, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop(self.down(self.act(self.up(x))))


class Blocks(nn.Module):
    """Residual blocks between two linear layers; `x` (rows, width) in, `x` out."""

    def __init__(self, count: int = 8, width: int = 16, hidden: int = 64, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.blocks = nn.ModuleList(Residual(width, hidden, dropout) for _ in range(count))
        self.last = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def regression(module: nn.Module, name: str = "regression") -> TrainingModel:
    """A squared error over rows: batches hold `x` (rows, features) and `y` (rows, outputs)."""

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        errors = (module(batch["x"]) - batch["y"]) ** 2
        return errors.sum()

    return TrainingModel(
        name=name, module=module, loss=loss, count=lambda batch: batch["x"].shape[0], counts_tokens=False, spec=None
    )


def rows(count: int, width: int = 16, outputs: int = 1, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(count, width, generator=generator),
        "y": torch.randn(count, outputs, generator=generator),
    }


def annotated_update(
    loss: Callable[[Batch], Tensor], window: Sequence[Batch], optimizer: torch.optim.Optimizer
) -> None:
    """One update with the ranges that the loop records around its phases."""
    optimizer.zero_grad(set_to_none=True)
    for batch in window:
        with record_function("gradscope: forward"):
            value = loss(batch)
        with record_function("gradscope: backward"):
            value.backward()
        del value
    with record_function("gradscope: optimizer"):
        optimizer.step()
