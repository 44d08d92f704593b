"""From a preset with a `[sweep]` to the settings of each of its cells."""

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gradscope.config.check import NONE_WORD
from gradscope.config.convert import preset_from_dict, preset_to_dict
from gradscope.config.load import apply_overrides
from gradscope.config.overrides import format_override, key_path
from gradscope.config.problem import shortened
from gradscope.config.resolve import without_grid
from gradscope.config.schema import Preset, SweepSettings
from gradscope.config.sweep import Settings, settings_of
from gradscope.errors import GradscopeError

Cell = tuple[str, ...]
"""The settings of one cell as `-s` texts: `load_preset(NAME, cell)` is its preset."""


NOT_HASHED = ("name", "description", "sweep", "claim")
"""What a preset is called and what is said about it, which changes no run."""

HASH_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One run of a grid."""

    settings: Cell
    preset: Preset
    """Resolved, without the sweep; named as the grid."""
    hash: str
    """`cell_hash` of the preset: the cell's name in a sweep's folder."""
    place: tuple[int, ...]
    """Which value of each axis it has, counted from 0; one number with `combine = "zip"`, none for an included cell."""
    repeat: int
    """Counted from 0."""


def cells(preset: Preset) -> list[Cell]:
    """Return the settings of a grid's cells, in the order of `grid_cells`."""
    return [cell.settings for cell in grid_cells(preset)]


def grid_cells(preset: Preset) -> list[GridCell]:
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
    found: dict[str, GridCell] = {}
    for place, settings in _settings(sweep):
        cell = tuple(format_override(key, value) for key, value in settings.items())
        resolved = _resolve(single, cell)
        data = preset_to_dict(resolved)
        if place and any(matches(data, conditions) for conditions in sweep.exclude):
            continue
        for repeat in range(sweep.repeats):
            seed = resolved.run.seed + repeat
            data["run"]["seed"] = seed
            one = preset_from_dict(data)
            text = cell if sweep.repeats == 1 else (*cell, f"run.seed={seed}")
            name = cell_hash(one)
            found.setdefault(name, GridCell(settings=text, preset=one, hash=name, place=place, repeat=repeat))
    if not found:
        raise GradscopeError(f"sweep.exclude leaves no cell of {shortened(preset.name)}", "`include` adds single cells")
    return list(found.values())


def idle_exclusions(preset: Preset) -> list[int]:
    """Return the places of those entries of `exclude`, counted from 0, that no cell of the axes matches."""
    sweep = preset.sweep
    if sweep is None or not sweep.exclude:
        return []
    whole = msgspec.structs.replace(preset, sweep=msgspec.structs.replace(sweep, exclude=[], repeats=1))
    cells = [preset_to_dict(cell.preset) for cell in grid_cells(whole) if cell.place]
    return [at for at, entry in enumerate(sweep.exclude) if not any(matches(data, entry) for data in cells)]


def cell_hash(preset: Preset) -> str:
    """Return the name of a cell: 12 hexadecimal digits made of all settings that change what a run does.

    Equal settings give equal names on every machine; threads and seed are among them, the preset's own name is not.
    """
    data = {key: value for key, value in preset_to_dict(preset).items() if key not in NOT_HASHED}
    return hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()[:HASH_DIGITS]


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


def _settings(sweep: SweepSettings) -> Iterator[tuple[tuple[int, ...], Settings]]:
    """Yield each cell's place and settings; included cells, to which `exclude` does not apply, have no place."""
    choices = [list(enumerate(settings_of(axis, value) for value in values)) for axis, values in sweep.axes.items()]
    combined = zip(*choices, strict=True) if sweep.combine == "zip" else itertools.product(*choices)
    for parts in combined:
        place = tuple(index for index, _ in parts)
        settings = {key: value for _, part in parts for key, value in part.items()}
        yield place[:1] if sweep.combine == "zip" else place, settings
    for added in sweep.include:
        yield (), {key: leaf for axis, value in added.items() for key, leaf in settings_of(axis, value).items()}


def _resolve(single: Preset, cell: Cell) -> Preset:
    try:
        return apply_overrides(single, cell)
    except GradscopeError as error:
        raise GradscopeError(f"sweep cell {shortened(' '.join(cell), 300)}: {error.message}", error.hint) from error
