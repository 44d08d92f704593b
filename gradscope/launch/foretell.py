"""The memory of a grid's cells, foretold one after another, and whether each would fit here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gradscope.config.grid import GridCell, cell_hash
from gradscope.config.schema import Preset
from gradscope.core.estimate import Estimate
from gradscope.core.units import format_bytes
from gradscope.errors import GradscopeError
from gradscope.launch.estimate import Room, room_for
from gradscope.rundir.cells import Skip


class Foreteller(Protocol):
    """Foretells presets, as `gradscope.launch.estimate.Estimator` does."""

    def estimate(self, preset: Preset) -> Estimate:
        """Foretell the memory of one update."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """What was found for a cell: an estimate, or why there is none."""

    estimate: Estimate | None = None
    room: Room | None = None
    """What its peak may take; `None` where nobody knows."""
    error: GradscopeError | None = None

    @property
    def peak_bytes(self) -> int | None:
        """The foretold peak."""
        return None if self.estimate is None else self.estimate.peak_bytes

    @property
    def fits(self) -> bool | None:
        """Whether the peak is within the room; `None` where one of them is not known."""
        peak = self.peak_bytes
        return None if peak is None or self.room is None else peak <= self.room.size_bytes

    def skip(self) -> Skip | None:
        """Return why the cell cannot run; `None` where it can, or nobody knows."""
        peak, room = self.peak_bytes, self.room
        if peak is None or room is None or peak <= room.size_bytes:
            return None
        reason = f"foretold peak {format_bytes(peak)}, room for {format_bytes(room.size_bytes)} ({room.source})"
        return Skip(foretold_peak_bytes=peak, room_bytes=room.size_bytes, reason=reason)


def foretell(
    cells: Sequence[GridCell],
    estimator: Foreteller,
    *,
    room: Room | None = None,
    say: Callable[[int, GridCell], None] = lambda number, cell: None,
) -> dict[str, Foretold]:
    """Foretell cells, by their hashes; those that differ in their seed only, once.

    Args:
        cells: Which.
        estimator: What foretells one.
        room: What a peak may take; what this machine has, if not given.
        say: Is told before each cell, counted from 1.
    """
    known: dict[str, Foretold] = {}
    found = {}
    for number, cell in enumerate(cells, 1):
        run = msgspec.structs.replace(cell.preset.run, seed=0)
        name = cell_hash(msgspec.structs.replace(cell.preset, run=run))
        if name not in known:
            say(number, cell)
            known[name] = _one(cell.preset, estimator, room)
        found[cell.hash] = known[name]
    return found


def _one(preset: Preset, estimator: Foreteller, room: Room | None) -> Foretold:
    try:
        estimate = estimator.estimate(preset)
    except GradscopeError as error:
        return Foretold(error=error)
    return Foretold(estimate, room or room_for(estimate))
