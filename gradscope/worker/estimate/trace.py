"""Foretells a preset's memory: builds its parts without data, and runs the loop's own update on them twice.

The first update makes gradients and optimizer state, the second is looked at, as a run's memory step is. Two
micro-batches stand for any number of them: from the second on, each finds the same.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from gradscope.config.resolve import rows_per_micro_batch
from gradscope.config.schema import Preset
from gradscope.core.estimate import CATEGORIES, Estimate
from gradscope.errors import GradscopeError
from gradscope.worker.build import dataset_of
from gradscope.worker.contract import Batch, TrainingModel, row_count
from gradscope.worker.data.loader import BatchStream
from gradscope.worker.device import choose_device
from gradscope.worker.estimate.standins import random_states_seen, rows_not_packed, whole_dot_products
from gradscope.worker.estimate.watch import Recorded, Watch
from gradscope.worker.lifetimes import analyse
from gradscope.worker.memory import Categories, categories, gradients, optimizer_tensors, unique_bytes
from gradscope.worker.models import build_model
from gradscope.worker.optimizers import build_optimizer, needs_closure
from gradscope.worker.optimizers.cgd import CGD
from gradscope.worker.recompute import Recomputation
from gradscope.worker.strategies import get_strategy
from gradscope.worker.update import Updater

CPU = torch.device("cpu")

CUDA_BLOCK_BYTES = 512
"""What CUDA's caching allocator rounds blocks up to."""

SAMPLED_ROWS = 32
"""Rows that are really made, for their shapes and their share of labels."""


@dataclass(frozen=True, slots=True)
class _Shapes:
    """What a micro-batch looks like."""

    tensors: dict[str, tuple[tuple[int, ...], torch.dtype]]
    """Shape without rows, and type."""
    labels_per_row: float | None
    """`None` where rows were made with the model, and so have no values either."""

    def batch(self, rows: int) -> Batch:
        """Make a batch; without data, under a `FakeTensorMode`."""
        return {name: torch.empty((rows, *shape), dtype=dtype) for name, (shape, dtype) in self.tensors.items()}


class _OneAtATime(Sequence[Batch]):
    """Micro-batches that exist only while they are worked on, as copies on a card do."""

    def __init__(self, make: Callable[[int], Batch], rows: Sequence[int]) -> None:
        self._make = make
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._make(self._rows[index])


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Makes an update's micro-batches without data."""

    shapes: _Shapes
    watch: Watch
    on_card: bool

    def window(self, rows: Sequence[int]) -> Sequence[Batch]:
        """On a CPU all micro-batches are there at once; a card holds copies of the one that is worked on."""
        return _OneAtATime(self._batch, rows) if self.on_card else [self._batch(one) for one in rows]

    def _batch(self, rows: int) -> Batch:
        batch = self.shapes.batch(rows)
        self.watch.mark(batch.values(), "inputs")
        return batch


def foretell(preset: Preset) -> Estimate:
    """Foretell the memory of one update of a preset, without running it.

    Raises:
        GradscopeError: Its parts cannot be built, or its update cannot be traced.
    """
    started = time.perf_counter()
    preset = msgspec.structs.replace(preset, model=msgspec.structs.replace(preset.model, pretrained=False))
    try:
        estimate = _foretell(preset)
    except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException) as error:
        raise GradscopeError(
            f"the update cannot be foretold: {getattr(error, 'func', error)} depends on values",
            "run it: summary.json has its peak",
        ) from error
    return msgspec.structs.replace(estimate, seconds=round(time.perf_counter() - started, 3))


def _foretell(preset: Preset) -> Estimate:
    on_card = _is_for_cuda(preset)
    without_data = FakeTensorMode(allow_non_fake_inputs=True)  # what a module keeps beside its parameters
    watch = Watch(rounding_bytes=CUDA_BLOCK_BYTES if on_card else 1)
    with without_data, watch, torch.device(CPU):
        model = build_model(preset.model, preset.data)
    shapes = _shapes(preset, model)
    rows = rows_per_micro_batch(preset)
    if shapes.labels_per_row is not None:
        watch.labels = max(1, round(shapes.labels_per_row * rows[0]))
    model = replace(model, count=lambda _batch: watch.labels or 1)
    recomputation = Recomputation()
    recomputation.listeners.append(watch.recompute)
    strategy = get_strategy(preset.memory.strategy)
    watch.assumptions.clear()  # what building read is no part of an update

    def see_state(state: Tensor) -> None:
        if not on_card:
            watch.mark([state], "activations")

    with without_data, watch, rows_not_packed(), whole_dot_products(), random_states_seen(see_state):
        model.module.train()
        if strategy.apply is not None:
            strategy.apply(model.module, recomputation.context)
        trainable = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
        optimizer = build_optimizer(trainable, preset.optimizer)
        _prepare(optimizer, on_card=on_card)
        update = _Update(Updater(model, model.module, optimizer, device=CPU, precision=preset.run.precision), watch)
        inputs = _Inputs(shapes, watch, on_card)
        update.run(inputs.window(rows[:1]))
        held = _held(model.module, optimizer)
        watch.start()
        watch.enter("data")
        waiting = [] if on_card else inputs.window(rows[2:])
        update.run(inputs.window(rows[:2]))
        del waiting
        recorded = watch.finish()
        found = categories(model.module, optimizer, shapes.batch(rows[0]))
    notes = [*model.notes, *_notes(preset, optimizer, rows, on_card=on_card), *watch.assumptions]
    return _estimate(preset, recorded, found, held, watch, on_card=on_card, notes=notes)


def _is_for_cuda(preset: Preset) -> bool:
    """Whether the run would go to a card: one that a preset names need not be here."""
    if preset.run.device == "auto":
        return torch.cuda.is_available()
    return preset.run.device.startswith("cuda")


def _free_bytes(preset: Preset) -> int | None:
    """Return what the card has left beside a process of ours; `None` where there is no such card."""
    try:
        device = choose_device(preset.run)
    except GradscopeError:
        return None
    return int(torch.cuda.mem_get_info(device)[0])


def _shapes(preset: Preset, model: TrainingModel) -> _Shapes:
    """Look at some of the rows that the run would train on."""
    data = msgspec.structs.replace(preset.data, workers=0, pin_memory=False)
    stream = BatchStream(dataset_of(preset, model), data, [1], device=CPU, seed=preset.run.seed)
    try:
        sample = stream.sample(min(SAMPLED_ROWS, preset.data.batch_size))
    finally:
        stream.close()
    tensors = {name: (tuple(value.shape[1:]), value.dtype) for name, value in sample.items()}
    no_values = any(isinstance(value, FakeTensor) for value in sample.values())
    return _Shapes(tensors, None if no_values else model.count(sample) / row_count(sample))


def _prepare(optimizer: torch.optim.Optimizer, *, on_card: bool) -> None:
    """Let the optimizer do on tensors without data what it would do on the device."""
    if isinstance(optimizer, CGD):
        optimizer.without_search()
    for group in optimizer.param_groups:
        # on a card torch.optim works on all parameters at once, which holds temporaries of the size of all of them
        if on_card and group.get("foreach", False) is None and not group.get("fused"):
            group["foreach"] = True


class _Update:
    """Runs the loop's update and tells the watch what is what at each border of a phase."""

    def __init__(self, updater: Updater, watch: Watch) -> None:
        self._updater = updater
        self._watch = watch
        self._parameters = list(updater.model.module.parameters())

    def run(self, window: Sequence[Batch]) -> None:
        self._updater.run(window, enter=self._enter)
        self._enter("other")

    def _enter(self, phase: str) -> None:
        self._watch.mark(gradients(self._parameters), "gradients")
        self._watch.mark(optimizer_tensors(self._updater.optimizer), "optimizer")
        self._watch.enter(phase)


def _held(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Return the bytes of what is there before an update and stays."""
    parameters = list(module.parameters())
    return {
        "parameters": unique_bytes(parameters),
        "buffers": unique_bytes(module.buffers(), exclude=parameters),
        "optimizer": unique_bytes(optimizer_tensors(optimizer)),
    }


def _estimate(
    preset: Preset,
    recorded: Recorded,
    found: Categories,
    held: dict[str, int],
    watch: Watch,
    *,
    on_card: bool,
    notes: list[str],
) -> Estimate:
    peaks = analyse(recorded.changes, recorded.ranges, held_bytes=sum(held.values()))
    at_peak = dict.fromkeys(CATEGORIES, 0) | held
    for block in recorded.alive_at_peak():
        at_peak[block.category] += block.size_bytes
    return Estimate(
        parameters_bytes=found.parameters_bytes,
        buffers_bytes=found.buffers_bytes,
        gradients_bytes=found.gradients_bytes,
        optimizer_state_bytes=found.optimizer_state_bytes,
        inputs_bytes=found.inputs_bytes,
        saved_activations_bytes=peaks.forward_end_bytes,
        peak_activations_bytes=peaks.peak_activations_bytes,
        at_peak_bytes=at_peak,
        peak_bytes=peaks.allocated_peak_bytes,
        peak_phase=max(peaks.phase_peak_bytes, key=lambda phase: peaks.phase_peak_bytes[phase]),
        phase_peak_bytes=peaks.phase_peak_bytes,
        attention=list(watch.attention),
        device="cuda" if on_card else "cpu",
        device_free_bytes=_free_bytes(preset) if on_card else None,
        notes=notes,
    )


def _notes(preset: Preset, optimizer: torch.optim.Optimizer, rows: Sequence[int], *, on_card: bool) -> Iterator[str]:
    if on_card:
        yield (
            "traced with the CPU's operators: flash and memory-efficient attention on the card keep the same tensors, "
            "the math kernel keeps the scores besides; what CUDA's libraries take for themselves comes on top"
        )
    if preset.run.compile:
        yield "the plain module was traced; what torch.compile fuses is not held"
    if needs_closure(optimizer) and not isinstance(optimizer, CGD):
        yield f"{type(optimizer).__name__} decides by values how many vectors it keeps: they may be missing here"
    if preset.data.workers and not on_card:
        yield "batches of loader processes lie in shared memory and not in the allocator's"
