"""How many cells of a sweep run at once, and on which device each."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradscope.config.grid import GridCell
from gradscope.errors import GradscopeError
from gradscope.sampling.foreign import visible_devices

AUTO = "auto"

PIN = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Slots:
    """Places for cells."""

    environments: list[dict[str, str]]
    """What pins a place's cells to its device; empty where nothing needs to."""
    notes: list[str]


def choose_slots(cells: Sequence[GridCell], jobs: str, env: Mapping[str, str], cores: int | None = None) -> Slots:
    """Return the places for `--jobs`.

    `auto` is one cell a GPU, and one at a time on a CPU. Several at once are pinned to a GPU each, by its UUID. How
    many threads a cell has is its own setting and stays so.

    Args:
        cells: The grid's.
        jobs: `auto`, or a number as text.
        env: The environment, which may hide cards.
        cores: CPU cores to use; this process's where not given.

    Raises:
        GradscopeError: `jobs` is neither, there are not so many GPUs, or the cells name theirs.
    """
    wanted = None if jobs == AUTO else _number(jobs)
    devices = {cell.preset.run.device for cell in cells}
    cards = [] if devices == {"cpu"} or wanted == 1 else visible_devices(env)
    named = sorted(device for device in devices if device.startswith("cuda:"))
    if not cards:
        return Slots([{} for _ in range(wanted or 1)], _crowded(cells, wanted or 1, cores))
    if named and wanted is None:
        return Slots([{}], [])
    if named and wanted is not None:
        raise GradscopeError(
            f"--jobs {jobs} gives each cell a GPU of its own, and run.device = {named[0]} names one",
            "use -s run.device=cuda, or --jobs 1",
        )
    if wanted is not None and wanted > len(cards):
        raise GradscopeError(
            f"--jobs {jobs}: there are {len(cards)} GPUs, and cells that share one measure each other",
            f"use --jobs {len(cards)}, or -s run.device=cpu",
        )
    used = cards[: wanted or len(cards)]
    return Slots([{PIN: card.uuid} for card in used] if len(used) > 1 else [{}], [])


def check_jobs(jobs: str) -> None:
    """Check what `--jobs` says, as far as it does not depend on the machine.

    Raises:
        GradscopeError: It is neither `auto` nor a number.
    """
    if jobs != AUTO:
        _number(jobs)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _number(jobs: str) -> int:
    if not jobs.isdecimal() or not 1 <= int(jobs) <= 1024:
        raise GradscopeError(f"--jobs: found {jobs!r}, allowed auto, or a number from 1 to 1024")
    return int(jobs)


def _crowded(cells: Sequence[GridCell], jobs: int, cores: int | None) -> list[str]:
    """Say so where cells will wait for each other's cores."""
    cores = cores or usable_cores()
    most = max((cell.preset.run.threads or cores for cell in cells), default=1)
    if jobs == 1 or jobs * most <= cores:
        return []
    return [
        f"{jobs} cells at once with up to {most} threads each have {cores} cores: they will slow each other down; "
        "-s run.threads=1 gives each one"
    ]
