"""Reading a batch of rows where errors cannot get lost: in a loader process as in the training process.

torch re-raises a loader process's exception with another message, or not at all where its class wants more than one
argument. So a failure travels as data, and whoever takes the batch raises it.
"""

import random
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.contract import Batch
from gradscope.worker.data.rows import MadeRows, StoredRows


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a batch could not be read."""

    message: str
    hint: str = ""
    exit_code: ExitCode = ExitCode.FAILED
    traceback: str = ""
    """The whole traceback where the data set is the user's own; it goes to stderr."""


class RowReader(Dataset[Batch]):
    """Reads rows for a DataLoader: `__getitems__` gives one finished batch, or a `Failure`."""

    def __init__(self, dataset: Dataset[Batch], seed: int) -> None:
        self.dataset = dataset
        self._seed = seed
        self._foreign = not isinstance(dataset, MadeRows | StoredRows)

    def __getitems__(self, indices: Sequence[int]) -> list[Batch | Failure]:
        """Read and stack rows; the list's single element is the batch (or why there is none)."""
        if not self._foreign:
            return [self._read(indices)]
        with batch_randomness(self._seed, indices[0]):
            return [self._read(indices)]

    def _read(self, indices: Sequence[int]) -> Batch | Failure:
        rows: list[Batch] = []
        for index in indices:
            try:
                rows.append(self.dataset[index])
            except GradscopeError as error:
                return Failure(error.message, error.hint, error.exit_code)
            except Exception as error:  # a data set may be the user's: whoever takes the batch tells what it raised
                return Failure(
                    f"row {index} of the data set cannot be read: {type(error).__name__}: {error}",
                    "its traceback is in the run's log",
                    traceback="".join(traceback.format_exception(error)),
                )
        return stack(rows)


def single(batches: list[Batch | Failure]) -> Batch | Failure:
    """Unpack what `RowReader.__getitems__` made; the DataLoader's collate function."""
    return batches[0]


def stack(rows: list[Batch]) -> Batch | Failure:
    """Stack rows to a batch, or say what is wrong with them."""
    hint = "each row must be a dict of tensors (or numbers) with the same keys and shapes, padded where lengths differ"
    if not all(isinstance(row, dict) and row for row in rows):
        kind = next(type(row).__name__ for row in rows if not (isinstance(row, dict) and row))
        return Failure(f"a row of the data set is no dict of tensors but: {kind}", hint)
    try:
        batch: Batch = default_collate(rows)
    except (RuntimeError, TypeError, KeyError) as error:
        shapes = [{name: list(getattr(value, "shape", ())) for name, value in row.items()} for row in rows[:2]]
        return Failure(f"the rows of a batch cannot be stacked ({error}); the first two have the shapes {shapes}", hint)
    wrong = [name for name, value in batch.items() if not isinstance(value, Tensor) or value.dim() == 0]
    if wrong:
        return Failure(f"a row's '{wrong[0]}' is no tensor and no number", hint)
    return batch


@contextmanager
def batch_randomness(seed: int, first_index: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch's CPU for one batch of foreign rows, and restore them.

    So its augmentations are the same with any number of loader processes, and draw nothing from the model's dropout.
    Seeding for each row would cost some 100 µs a row, which would be measured as the user's data loading.
    """
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    number = int(np.random.SeedSequence([seed, first_index]).generate_state(1, np.uint32)[0])
    random.seed(number)
    np.random.seed(number)
    torch.default_generator.manual_seed(number)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
