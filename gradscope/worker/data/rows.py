"""Our own rows, made or stored. What is random in one comes from a generator of its own, in any order or process."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from torch.utils.data import Dataset

from gradscope.config.schema import DataSettings
from gradscope.errors import GradscopeError
from gradscope.worker.contract import Batch, DataSpec
from gradscope.worker.targets import suggestion

VIRTUAL_ROWS = 1 << 40
"""Length of a made data set: more rows than any run takes."""


def row_generator(seed: int, index: int) -> np.random.Generator:
    """Return the generator of one row: a function of `seed` and `index` alone, on every platform.

    Philox is counter-based, so that neighbouring keys are independent streams (Salmon et al. 2011).
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, index], dtype=np.uint64)))


@dataclass(frozen=True)
class MadeRows(Dataset[Batch]):
    """An endless map-style data set whose row `i` is made by `make` from row i's own generator."""

    make: Callable[[np.random.Generator], Batch]
    seed: int

    def __len__(self) -> int:
        """Return the virtual length."""
        return VIRTUAL_ROWS

    def __getitem__(self, index: int) -> Batch:
        """Make one row."""
        return self.make(row_generator(self.seed, index))


@dataclass(frozen=True)
class StoredRows(Dataset[Batch]):
    """A finite map-style data set: `read` gets the row's number, and its own generator for what is random in it."""

    count: int
    read: Callable[[int, np.random.Generator], Batch]
    seed: int

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.count

    def __getitem__(self, index: int) -> Batch:
        """Read one row."""
        return self.read(index, row_generator(self.seed, index))


def require_task(name: str, spec: DataSpec, tasks: Iterable[str]) -> None:
    """Raise a `GradscopeError` where the data set `name` has no rows for the model's task."""
    if spec.task not in (served := list(tasks)):
        raise GradscopeError(
            f"data set '{name}' has no rows for the task {spec.task}; it serves {', '.join(served)}",
            "data.name = 'random' serves every task, 'shapes' every task with something to learn",
        )


def check_data_options(settings: DataSettings, known: Sequence[str] = ()) -> None:
    """Raise a `GradscopeError` with the nearest name for the first of `data.options` that is not known."""
    for name in settings.options:
        if name not in known:
            hint = suggestion(name, known) if known else f"data set '{settings.name}' takes no options"
            raise GradscopeError(f"data.options.{name}: no such option", hint)
