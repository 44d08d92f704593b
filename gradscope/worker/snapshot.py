"""CUDA memory snapshots: on request, and when memory has run out."""

import time
from pathlib import Path

import torch

from gradscope.core.events import SnapshotWritten
from gradscope.rundir.layout import MEMORY_FOLDER
from gradscope.worker.record import EventLog


def write_snapshot(device: torch.device, run_dir: Path, log: EventLog) -> None:
    """Write the CUDA allocator's state to `memory/<stamp>.pickle` and record it.

    It opens in the viewer that PyTorch documents for its memory snapshots. A failure is recorded and ends nothing.
    """
    if device.type != "cuda":
        log.emit(SnapshotWritten, error="memory snapshots show the CUDA allocator, and this run is on the CPU")
        return
    path = run_dir / MEMORY_FOLDER / f"{time.time_ns() // 1_000_000}.pickle"
    try:
        path.parent.mkdir(exist_ok=True)
        torch.cuda.memory._dump_snapshot(str(path))  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError) as error:
        log.emit(SnapshotWritten, error=str(error))
    else:
        log.emit(SnapshotWritten, file=str(path.relative_to(run_dir)))
