"""A real trace: `python tests/training_trace.py PATH` profiles two steps of a small MLP with stacks, shapes, memory.

Prints the wall clock, in seconds, before the first and after the last profiled step.
"""

import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(rows))


def main(path: str) -> None:
    torch.set_num_threads(1)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters())
    window = profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_modules=True,
        with_flops=True,
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda finished: finished.export_chrome_trace(path),
    )
    walls = []
    with window:
        for _ in range(3):
            walls.append(time.time())
            with record_function("gradscope: forward"):
                loss = model(torch.randn(8, 64)).square().mean()
            with record_function("gradscope: backward"):
                loss.backward()
            with record_function("gradscope: optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            walls.append(time.time())
            window.step()
    print(walls[2], walls[-1])


if __name__ == "__main__":
    main(sys.argv[1])
