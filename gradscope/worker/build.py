"""From a preset to what the loop trains: model, data, strategy and optimizer, in the order of their needs."""

import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset

from gradscope.config.resolve import rows_per_micro_batch
from gradscope.config.schema import Preset
from gradscope.core.events import ModelBuilt, Note
from gradscope.errors import GradscopeError
from gradscope.worker.contract import Batch, Strategy, TrainingModel
from gradscope.worker.data import build_dataset
from gradscope.worker.data.loader import BatchStream
from gradscope.worker.loop import Parts
from gradscope.worker.models import build_model
from gradscope.worker.optimizers import build_optimizer
from gradscope.worker.recompute import Recomputation
from gradscope.worker.record import EventLog
from gradscope.worker.update import Updater


def build_parts(
    preset: Preset, strategy: Strategy, device: torch.device, log: EventLog, *, run_dir: Path, run_id: str
) -> Parts:
    """Make a preset's parts and record what they are. Loader processes, if any, run from here on.

    Raises:
        GradscopeError: A model, a data set or an optimizer cannot be made of these settings.
    """
    started = time.perf_counter()
    with torch.device(device):
        model = build_model(preset.model, preset.data)
    for note in model.notes:
        log.emit(Note, code="model", message=note)
    rows = rows_per_micro_batch(preset)
    stream = BatchStream(dataset_of(preset, model), preset.data, rows, device=device, seed=preset.run.seed)
    model.module.to(device).train()
    recomputation = Recomputation()
    if strategy.apply is not None:
        strategy.apply(model.module, recomputation.context)
    trainable = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
    optimizer = build_optimizer(trainable, preset.optimizer)
    log.emit(
        ModelBuilt,
        model=model.name,
        parameters=sum(parameter.numel() for parameter in model.module.parameters()),
        trainable_parameters=sum(parameter.numel() for parameter in trainable),
        batch_rows=rows[0],
        micro_steps=len(rows),
        strategy=strategy.name,
        optimizer=type(optimizer).__name__,
        build_seconds=round(time.perf_counter() - started, 3),
    )
    return Parts(
        preset=preset,
        run_dir=run_dir,
        run_id=run_id,
        device=device,
        model=model,
        updater=Updater(model, _compiled(preset, model), optimizer, device=device, precision=preset.run.precision),
        recomputation=recomputation,
        recomputes=strategy.checkpoints and not preset.run.compile,  # compiled code recomputes unseen
        stream=stream,
        rows=rows,
    )


def dataset_of(preset: Preset, model: TrainingModel) -> Dataset[Batch]:
    """Return the rows the user's factory brought along, or those the preset names."""
    if model.dataset is not None:
        return model.dataset
    if model.spec is None:
        raise GradscopeError(
            f"model {preset.model.name} brings neither rows nor what rows it needs",
            "let its factory return (module, dataset)",
        )
    return build_dataset(preset.data, model.spec, preset.run.seed)


def _compiled(preset: Preset, model: TrainingModel) -> nn.Module:
    if not preset.run.compile:
        return model.module
    compiled: nn.Module = torch.compile(model.module)  # type: ignore[assignment]  # a module goes in, a module comes out
    return compiled
