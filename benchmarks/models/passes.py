"""The gate benchmark's model: a small MLP that goes through its layers `passes` times, so that work scales with it."""

import torch
from torch import Tensor, nn


class Passes(nn.Module):
    def __init__(self, passes: int, width: int, depth: int) -> None:
        super().__init__()
        self.passes = passes
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for _ in range(self.passes):
            for layer in self.layers:
                x = torch.relu(layer(x))
        return nn.functional.mse_loss(x, y)


def make(passes: int = 9, width: int = 128, depth: int = 3) -> tuple[nn.Module, list[dict[str, Tensor]]]:
    generator = torch.Generator().manual_seed(0)
    rows = [
        {"x": torch.randn(width, generator=generator), "y": torch.randn(width, generator=generator)} for _ in range(256)
    ]
    return Passes(passes, width, depth), rows
