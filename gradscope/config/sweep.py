"""`[sweep]` and its axes: which settings a cell has, and what can be wrong with them."""

from collections.abc import Iterator, Mapping
from typing import Any

from gradscope.config.check import all_keys, find_problem, nearest_key, type_of, with_nones
from gradscope.config.convert import preset_from_dict, preset_to_dict
from gradscope.config.layers import Layer, merge
from gradscope.config.names import name_problems
from gradscope.config.overrides import nested_settings, quote_part
from gradscope.config.problem import Problem, shown
from gradscope.config.schema import Preset, SweepSettings

MOST_CELLS = 10_000

Settings = dict[str, Any]
"""Dotted keys with values that are no tables."""

NOT_AXES = frozenset({"sweep", "claim", "name", "description"})


def settings_of(axis: str, value: Any) -> Settings:
    """Return what one value of an axis sets, as dotted keys with plain values.

    Args:
        axis: A dotted key, a table, or tables joined by `+`.
        value: A value of it; tables are taken apart.
    """
    tables = value.items() if "+" in axis else [(axis, value)]
    return {key: leaf for table, item in tables for key, leaf in _leaves(table, item)}


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield key, value
        return
    for part, item in value.items():
        yield from _leaves(f"{key}.{quote_part(part)}", item)


def sweep_problems(preset: Preset) -> Iterator[Problem]:
    """Yield what is wrong with a preset's sweep: axes, their values, and how they combine."""
    sweep = preset.sweep
    if sweep is None:
        return
    base = preset_to_dict(preset)
    if not sweep.axes:
        yield Problem(keys=("sweep.axes",), found="no axis", allowed="at least one key with a list of values")
    for axis, values in sweep.axes.items():
        where = f"sweep.axes.{axis}"
        yield from _axis_problems(where, axis)
        if not values:
            yield Problem(keys=(where,), found="an empty list", allowed="at least one value")
        for index, value in enumerate(values):
            yield from setting_problems(f"{where}[{index}]", axis, value, base)
    for name in ("include", "exclude"):
        for index, settings in enumerate(getattr(sweep, name)):
            where = f"sweep.{name}[{index}]"
            if not settings:
                yield Problem(keys=(where,), found="an empty table", allowed="at least one key with a value")
            for key, value in settings.items():
                yield from _axis_problems(f"{where}.{key}", key)
                for item in value if name == "exclude" and isinstance(value, list) else [value]:
                    yield from setting_problems(f"{where}.{key}", key, item, base)
    yield from _combination_problems(sweep)


def _axis_problems(where: str, axis: str) -> Iterator[Problem]:
    """An axis must name a setting of a run."""
    joined = axis.split("+")
    for key in joined:
        table = len(joined) > 1
        if table and key not in TABLES:
            yield Problem(keys=(where,), found=f"{shown(key)} in {shown(axis)}", allowed=f"tables: {', '.join(TABLES)}")
        elif key.partition(".")[0] in NOT_AXES or type_of(key) is None:
            yield Problem(
                keys=(where,),
                found=f"the key {shown(key)}",
                allowed="a key of a preset, a table, or tables joined by +",
                hint=nearest_key(key),
            )


TABLES = tuple(key for key in all_keys() if "." not in key and key not in NOT_AXES)


def setting_problems(where: str, axis: str, value: Any, base: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with one value of one axis, laid over the preset as plain data.

    Rules that span fields are left to the cells, where all axes have their values.
    """
    if "+" in axis and (not isinstance(value, Mapping) or set(value) - set(axis.split("+"))):
        yield Problem(
            keys=(where,), found=shown(value), allowed=f"a table with the tables {', '.join(axis.split('+'))}"
        )
        return
    settings = settings_of(axis, value)
    data = with_nones(merge([Layer("", base), Layer("", nested_settings(settings))]))
    problem = find_problem(data) or next(name_problems(preset_from_dict(data)), None)
    if problem is not None:
        keys = (where,) if axis == problem.keys[0] else (where, problem.keys[0])
        yield Problem(keys=keys, found=problem.found, allowed=problem.allowed, hint=problem.hint)


def _combination_problems(sweep: SweepSettings) -> Iterator[Problem]:
    lengths = {axis: len(values) for axis, values in sweep.axes.items()}
    if sweep.combine == "zip" and len(set(lengths.values())) > 1:
        yield Problem(
            keys=tuple(f"sweep.axes.{axis}" for axis in lengths),
            found=f'{" and ".join(map(str, lengths.values()))} values with combine = "zip"',
            allowed="as many values in each axis",
        )
    if (count := cell_count(sweep)) > MOST_CELLS:
        yield Problem(keys=("sweep.axes",), found=f"{shown(count)} cells", allowed=f"at most {MOST_CELLS}")
    yield from _overlapping_axes(sweep)
    if sweep.repeats > 1 and any("run.seed" in keys for keys in _axis_keys(sweep).values()):
        yield Problem(
            keys=("sweep.repeats", "sweep.axes"),
            found=f"repeats = {sweep.repeats} with an axis that sets run.seed",
            allowed="one of them, since repeats differ in run.seed",
        )


def cell_count(sweep: SweepSettings) -> int:
    """Return how many cells there are before any is excluded or found twice, repeats counted."""
    lengths = [len(values) for values in sweep.axes.values()]
    combined = 1
    for length in lengths:
        combined *= length
    if sweep.combine == "zip":
        combined = min(lengths, default=0)
    return (combined + len(sweep.include)) * sweep.repeats


def _axis_keys(sweep: SweepSettings) -> dict[str, set[str]]:
    return {axis: {key for value in values for key in settings_of(axis, value)} for axis, values in sweep.axes.items()}


def _overlapping_axes(sweep: SweepSettings) -> Iterator[Problem]:
    """Two axes that set the same key would make one of them mean nothing."""
    owner: dict[str, str] = {}
    for axis, keys in _axis_keys(sweep).items():
        for key in keys:
            if owner.setdefault(key, axis) != axis:
                yield Problem(
                    keys=(f"sweep.axes.{axis}", f"sweep.axes.{owner[key]}"),
                    found=f"{key} in both",
                    allowed="each key in one axis",
                )
                return
