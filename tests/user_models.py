"""Models as a user would bring them, through `py:tests/user_models.py:FACTORY`: small, and some of them in trouble."""

import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES = 64


class Rows(Dataset):
    """Rows that depend on their index alone."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        inputs = torch.randn(FEATURES, generator=generator)
        return {"inputs": inputs, "targets": inputs[:1] * 2 + inputs[1:2]}


class Regression(nn.Module):
    """Linear(64, 64) - ReLU - ... - Linear(64, 1) with a mean squared error."""

    def __init__(self, blocks=1, dropout=0.0):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(), nn.Dropout(dropout)) for _ in range(blocks)
        )
        self.head = nn.Linear(FEATURES, 1)

    def forward(self, inputs, targets):
        for block in self.blocks:
            inputs = block(inputs)
        return nn.functional.mse_loss(self.head(inputs), targets)


class Troubled(Regression):
    """Does `act` at the forward of a given number."""

    def __init__(self, at, act, **options):
        super().__init__(**options)
        self.at, self.act, self.forwards = at, act, 0

    def forward(self, inputs, targets):
        self.forwards += 1
        loss = super().forward(inputs, targets)
        return self.act(loss) if self.forwards == self.at else loss


def tiny(blocks=1, dropout=0.0):
    return Regression(blocks, dropout), Rows()


def slow(milliseconds=50.0):
    """Every forward takes a while."""

    class Slow(Regression):
        def forward(self, inputs, targets):
            time.sleep(milliseconds / 1e3)
            return super().forward(inputs, targets)

    return Slow(), Rows()


def drawing():
    """Weights from NumPy's global generator."""
    module = Regression()
    with torch.no_grad():
        module.head.weight.copy_(torch.from_numpy(np.random.standard_normal((1, FEATURES))))
    return module, Rows()


def unreadable_first_row():
    """A data set so large that row 0 never has its turn in training."""

    class Unreadable(Rows):
        def __getitem__(self, index):
            if index == 0:
                raise ValueError("this row is damaged")
            return super().__getitem__(index)

    return Regression(), Unreadable()


def raising_factory():
    raise ValueError("the checkpoint [/red] does not fit this model")


def raising(at=5):
    def act(loss):
        raise ValueError("labels out of range")

    return Troubled(at, act), Rows()


def interrupting(at=5):
    def act(loss):
        raise KeyboardInterrupt

    return Troubled(at, act), Rows()


def out_of_memory(at=5):
    """Runs out of memory the way torch says it on a GPU, wrapped once."""

    def act(loss):
        try:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        except torch.OutOfMemoryError as error:
            raise RuntimeError("the forward of block 3 failed") from error

    return Troubled(at, act), Rows()


def host_out_of_memory(at=5):
    """Asks torch's host allocator for more than there is."""

    def act(loss):
        return loss + torch.empty(1 << 58, dtype=torch.uint8).sum()

    return Troubled(at, act), Rows()


def not_a_number(at=5):
    return Troubled(at, lambda loss: loss * float("nan")), Rows()


def exits(at=5):
    """Leaves at once, as a crash in native code would."""
    return Troubled(at, lambda loss: os._exit(9)), Rows()


def setting_the_clock_back(at=5):
    """Sets the wall clock back (see `skewed_clock.py`)."""

    def act(loss):
        Path(os.environ["SKEWED_CLOCK"]).touch()
        return loss

    return Troubled(at, act), Rows()


def spawning():
    """Reads a batch through a loader process that is spawned, not forked."""
    next(iter(DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="spawn")))
    return Regression(), Rows()


def evaluating(blocks=4):
    """Left in eval mode by its maker: checkpointing would do nothing."""

    class Evaluating(Regression):
        def train(self, mode=True):
            return super().train(False)

    return Evaluating(blocks), Rows()


def many_layers(layers=512):
    """So many small operations that the profiler's cost shows."""
    module = Regression()
    module.blocks = nn.ModuleList(nn.Linear(FEATURES, FEATURES) for _ in range(layers))
    return module, Rows()


class Labelled(Regression):
    """A loss over the labels that a row has; gives sum and count."""

    def forward(self, inputs, targets, labels):
        for block in self.blocks:
            inputs = block(inputs)
        errors = (self.head(inputs) - targets) ** 2
        return (errors * labels).sum(), labels.sum()

    def gradscope_count(self, batch):
        return int(batch["labels"].sum())


def labelled(most=7):
    """Row i has i mod (`most` + 1) labels: some have none, and with `most` = 0 none has any."""

    class LabelledRows(Rows):
        def __getitem__(self, index):
            count = index % (most + 1)
            return super().__getitem__(index) | {"labels": torch.arange(7).lt(count).float()}

    return Labelled(), LabelledRows()
