"""Micro-batches from a real DataLoader: endless, deterministic, and gone when the worker is gone.

Loader processes are forked (Linux's default). torch sets them to one thread before any row is read, and this is what
makes a fork safe although the training process has busy OpenMP threads: measured with torch 2.13 on 2 cores, loader
processes that start after a 2048 x 2048 product in the parent, and multiply matrices of 1024 x 1024 themselves, all
deliver; with two threads each, they hang for good.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle

import torch
from torch.utils.data import DataLoader, Dataset

from gradscope.config.schema import DataSettings
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.contract import Batch, row_count
from gradscope.worker.data.reader import Failure, RowReader, single
from gradscope.worker.data.rows import MadeRows
from gradscope.worker.orphan import set_death_signal

LARGEST_SHUFFLE = 1 << 24
"""A stored data set with more rows than this is read in order: a permutation of it would take more than 128 MiB."""


class BatchStream:
    """Endless micro-batches of a data set's rows.

    The sequence of rows depends on the data set and the seed alone. Made rows come in order; stored and foreign ones
    are shuffled anew for each pass, and a batch may reach from one pass into the next.
    """

    def __init__(
        self,
        dataset: Dataset[Batch],
        settings: DataSettings,
        rows_per_micro_batch: Sequence[int],
        *,
        device: torch.device,
        seed: int,
    ) -> None:
        """Start the loader processes, if any.

        Args:
            dataset: Map-style, with dicts of tensors as rows.
            settings: The preset's `[data]`: `workers` and `pin_memory`.
            rows_per_micro_batch: Rows of the micro-batches of one update, in order; the loader prepares these sizes.
            device: Where batches go; only for CUDA is memory page-locked.
            seed: The preset's `run.seed`.

        Raises:
            GradscopeError: The data set is empty or has no length.
        """
        self.dataset = dataset
        indices = row_indices(dataset, seed)
        self._reader = RowReader(dataset, seed)
        loader: DataLoader[Batch | Failure] = DataLoader(
            self._reader,
            batch_sampler=chunks(indices, rows_per_micro_batch),
            num_workers=settings.workers,
            collate_fn=single,
            pin_memory=settings.pin_memory and device.type == "cuda",
            worker_init_fn=partial(prepare_loader_process, os.getpid()),
            generator=torch.Generator().manual_seed(seed),  # torch would draw from the model's own generator otherwise
        )
        self._has_processes = settings.workers > 0
        self._batches: Iterator[Batch | Failure] = iter(loader)
        self._left: Batch | None = None
        """Rows of the last batch that nobody asked for yet."""

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over micro-batches in the prepared sizes, without end."""
        while True:
            yield self._take()

    def next(self, rows: int | None = None) -> Batch:
        """Return the next micro-batch on the host.

        Args:
            rows: How many; the prepared size where not given. Another size costs a copy; the sequence stays the same.

        Raises:
            GradscopeError: A row cannot be read, or a loader process died.
        """
        batch = self._take()
        while rows is not None and row_count(batch) < rows:
            more = self._take()
            batch = {name: torch.cat([value, more[name]]) for name, value in batch.items()}
        if rows is not None and row_count(batch) > rows:
            self._left = {name: value[rows:] for name, value in batch.items()}
            batch = {name: value[:rows] for name, value in batch.items()}
        return batch

    def sample(self, rows: int) -> Batch:
        """Return the data set's first rows as a batch, beside the stream: the same each time.

        Where it has fewer, they come over again, as they do in the stream.

        Raises:
            GradscopeError: A row cannot be read.
        """
        (batch,) = self._reader.__getitems__([row % len(self.dataset) for row in range(rows)])  # type: ignore[arg-type]
        return _checked(batch)

    def close(self) -> None:
        """End the loader processes; the stream gives nothing after that."""
        self._left = None
        self._batches = iter(())

    def _take(self) -> Batch:
        if self._left is not None:
            left, self._left = self._left, None
            return left
        try:
            batch = next(self._batches)
        except StopIteration:
            raise GradscopeError("the stream of batches is closed", exit_code=ExitCode.FAILED) from None
        except (RuntimeError, OSError, EOFError) as error:  # what a killed loader process looks like, by when it died
            if not self._has_processes or isinstance(error, torch.AcceleratorError):
                raise  # page-locking failed, or was the first to hear of an earlier kernel's error
            detail = " ".join(str(error).split())
            raise GradscopeError(
                f"a loader process is gone: {type(error).__name__}: {detail}",
                "set data.workers = 0 to read rows in the training process, or give /dev/shm and the host more memory",
                exit_code=ExitCode.FAILED,
            ) from error
        return _checked(batch)


def _checked(batch: Batch | Failure) -> Batch:
    """Return a batch, or raise what kept it from being read."""
    if isinstance(batch, Failure):
        if batch.traceback:
            sys.stderr.write(batch.traceback)
        raise GradscopeError(batch.message, batch.hint, exit_code=batch.exit_code)
    return batch


def row_indices(dataset: Dataset[Batch], seed: int) -> Iterator[int]:
    """Yield row numbers without end: in order for made rows, in a new seeded order for each pass for others.

    Raises:
        GradscopeError: The data set is empty or has no length.
    """
    try:
        length = len(dataset)  # type: ignore[arg-type]
    except TypeError as error:
        raise GradscopeError(
            f"{type(dataset).__name__} has no length",
            "the data set must be map-style: __len__ and __getitem__, so that row i is the same in every process",
        ) from error
    if length == 0:
        raise GradscopeError("the data set has no rows", "give it at least one")
    in_order = isinstance(dataset, MadeRows) or length > LARGEST_SHUFFLE
    return _in_order(length) if in_order else _shuffled(length, seed)


def _in_order(length: int) -> Iterator[int]:
    while True:
        yield from range(length)


def _shuffled(length: int, seed: int) -> Iterator[int]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(length, generator=generator).tolist()


def chunks(indices: Iterator[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield lists of the given sizes, over and over."""
    for size in cycle(sizes):
        yield [next(indices) for _ in range(size)]


def prepare_loader_process(parent: int, worker: int) -> None:
    """Make a loader process end with the process that forked it, take no signals meant for that, and use one thread.

    Args:
        parent: Process id of the training process.
        worker: The loader process's number; not used.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the training process's handler would only set a flag
    torch.set_num_threads(1)
    if sys.platform == "linux":
        set_death_signal(signal.SIGKILL)
        if os.getppid() != parent:  # it died before the request was in place
            os._exit(1)
