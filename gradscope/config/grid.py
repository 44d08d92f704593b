"""From a preset with a `[sweep]` to the settings of each of its cells."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from gradscope.config.check import NONE_WORD
from gradscope.config.convert import preset_to_dict
from gradscope.config.load import apply_overrides
from gradscope.config.overrides import format_override, key_path
from gradscope.config.problem import shortened
from gradscope.config.resolve import without_grid
from gradscope.config.schema import Preset, SweepSettings
from gradscope.config.sweep import Settings, settings_of
from gradscope.errors import GradscopeError

Cell = tuple[str, ...]
"""The settings of one cell as `-s` texts: `load_preset(NAME, cell)` is its preset."""


def cells(preset: Preset) -> list[Cell]:
    """Return the cells of a preset's sweep, in the order of its axes, the last one changing fastest.

    A cell that comes to the same settings as one before it is left out. With repeats, every cell is there once for
    each seed, `run.seed` counting up from the cell's own.

    Raises:
        GradscopeError: The preset has no sweep, or a cell is no valid preset; the message names the cell.
    """
    sweep = preset.sweep
    if sweep is None:
        raise GradscopeError(f"preset {shortened(preset.name)} has no [sweep]", "`gradscope run` runs a single preset")
    single = without_grid(preset)
    found: dict[str, Cell] = {}
    for settings, may_be_excluded in _settings(sweep):
        cell = tuple(format_override(key, value) for key, value in settings.items())
        resolved = _resolve(single, cell)
        data = preset_to_dict(resolved)
        if may_be_excluded and any(matches(data, conditions) for conditions in sweep.exclude):
            continue
        for repeat in range(sweep.repeats):
            seed = resolved.run.seed + repeat
            data["run"]["seed"] = seed
            text = cell if sweep.repeats == 1 else (*cell, f"run.seed={seed}")
            found.setdefault(repr(data), text)
    return list(found.values())


def matches(data: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Whether a preset's plain data has all the settings; a list of values stands for any of them.

    Args:
        data: As `preset_to_dict` makes it.
        conditions: Keys as of sweep axes, with values.
    """
    return all(
        any(_has(data, axis, item) for item in (value if isinstance(value, list) else [value]))
        for axis, value in conditions.items()
    )


def _has(data: Mapping[str, Any], axis: str, value: Any) -> bool:
    return all(_is(_lookup(data, key), item) for key, item in settings_of(axis, value).items())


def _is(found: Any, wanted: Any) -> bool:
    return found == wanted or (found is None and wanted == NONE_WORD)


def _lookup(data: Mapping[str, Any], key: str) -> Any:
    found: Any = data
    for part in key_path(key):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def _settings(sweep: SweepSettings) -> Iterator[tuple[Settings, bool]]:
    """Yield each cell's settings, and whether `exclude` applies to it."""
    choices = [[settings_of(axis, value) for value in values] for axis, values in sweep.axes.items()]
    combined = zip(*choices, strict=True) if sweep.combine == "zip" else itertools.product(*choices)
    for parts in combined:
        yield {key: value for part in parts for key, value in part.items()}, True
    for added in sweep.include:
        yield {key: leaf for axis, value in added.items() for key, leaf in settings_of(axis, value).items()}, False


def _resolve(single: Preset, cell: Cell) -> Preset:
    try:
        return apply_overrides(single, cell)
    except GradscopeError as error:
        raise GradscopeError(f"sweep cell {shortened(' '.join(cell), 300)}: {error.message}", error.hint) from error
