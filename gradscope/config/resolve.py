"""What a preset's settings come to: micro-batches and rows of one update."""

import msgspec

from gradscope.config.catalogue import ACCUMULATING, DEFAULT_ACCUMULATE
from gradscope.config.schema import Preset


def micro_steps(preset: Preset) -> int:
    """Return k, the micro-batches of one full update; 1 where the strategy does not accumulate."""
    if preset.memory.strategy not in ACCUMULATING:
        return 1
    return preset.memory.accumulate or DEFAULT_ACCUMULATE


def rows_per_micro_batch(preset: Preset) -> list[int]:
    """Return the rows of each micro-batch of one full update, the largest first.

    `grow`: k times `data.batch_size`. `split`: `data.batch_size` over k parts that differ by one row at most: 10 rows
    in 4 parts are 3, 3, 2, 2.
    """
    parts, rows = micro_steps(preset), preset.data.batch_size
    if parts == 1 or preset.memory.mode == "grow":
        return [rows] * parts
    whole, extra = divmod(rows, parts)
    return [whole + 1] * extra + [whole] * (parts - extra)


def samples_per_update(preset: Preset) -> int:
    """Return the rows that one full update is computed from."""
    return sum(rows_per_micro_batch(preset))


def without_grid(preset: Preset) -> Preset:
    """Return the preset of one run: the same without the sweep and the claims that its file may hold."""
    return msgspec.structs.replace(preset, sweep=None, claim=[])
