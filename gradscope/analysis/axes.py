"""The axes of a grid as its results show them: which settings vary together, and what each value is called."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradscope.analysis.results import NOT_AXES, Row
from gradscope.analysis.unlike import DATA_KEYS, DATA_OPTIONS, flattened
from gradscope.config.schema import Preset
from gradscope.config.sweep import settings_of

TITLES = {"optimizer.name": "optimizer", "model.name": "model", "memory.strategy": "strategy", "data.name": "data"}
"""What the settings that most grids vary are called in tables; others by their key."""

SCENE_KEYS = ("model.name", "model.scale", *DATA_KEYS)

STRATEGY = "memory.strategy"
OPTIMIZER = "optimizer.name"
PLAIN = "standard"

Value = tuple[Any, ...]


@dataclass(frozen=True)
class Axis:
    """Settings that vary together."""

    keys: tuple[str, ...]
    values: tuple[Value, ...]
    """One entry a key, in the order of the grid."""

    @property
    def title(self) -> str:
        """What it is called."""
        return TITLES.get(self.keys[0], self.keys[0])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What its values are called: by the first key where that tells them apart, else by more of them."""
        for width in range(1, len(self.keys) + 1):
            found = [_label(self.keys[:width], value[:width]) for value in self.values]
            if len(set(found)) == len(found):
                return tuple(found)
        return tuple(map(repr, self.values))

    def value_of(self, row: Row) -> Value:
        """Return a row's value."""
        return value_at(row, self.keys)

    def label_of(self, row: Row) -> str:
        """Return what a row's value is called."""
        value = self.value_of(row)
        return self.labels[self.values.index(value)] if value in self.values else _label(self.keys, value)

    def place_of(self, row: Row) -> int:
        """Return where a row's value stands among the values; behind them all if it is none of them."""
        value = self.value_of(row)
        return self.values.index(value) if value in self.values else len(self.values)

    @property
    def decides_loss(self) -> bool:
        """Whether losses at two of its values are losses of different things: other models, other data."""
        return any(key.startswith(("model.options.", DATA_OPTIONS)) or key in SCENE_KEYS for key in self.keys)


def value_at(row: Row, keys: Iterable[str]) -> Value:
    """Return a row's settings of some keys, in a form that compares."""
    return tuple(_frozen(row.axes.get(key)) for key in keys)


def _frozen(value: Any) -> Any:
    return repr(value) if isinstance(value, list | dict) else value


def _label(keys: Sequence[str], value: Value) -> str:
    first, *rest = value
    more = [
        f"{key.rpartition('.')[2]}={_text(part)}" for key, part in zip(keys[1:], rest, strict=True) if part is not None
    ]
    return " ".join([_text(first), *more])


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def find_axes(rows: Sequence[Row], preset: Preset | None = None) -> list[Axis]:
    """Return the axes of a grid.

    Args:
        rows: All its cells, missing ones too.
        preset: Its sweep, where there is one, says which settings belong together. Other settings join the axis that
            decides them, or that they decide.
    """
    named = dict.fromkeys(key for row in rows for key in row.axes)
    keys = [key for key in named if len({value_at(row, [key]) for row in rows}) > 1]
    groups = [[key for key in keys if key in group] for group in _groups(preset)]
    groups = [group for group in groups if group]
    taken = {key for group in groups for key in group}
    for key in keys:
        if key not in taken and not _joined(rows, groups, key):
            groups.append([key])
    merged: list[list[str]] = []
    for group in groups:
        for other in merged:
            if _decides(rows, other, group) and _decides(rows, group, other):
                other.extend(group)
                break
        else:
            merged.append(group)
    return [_axis(rows, group) for group in merged]


def _groups(preset: Preset | None) -> list[set[str]]:
    axes = {} if preset is None or preset.sweep is None else preset.sweep.axes
    return [{key for value in values for key in settings_of(axis, value)} for axis, values in axes.items()]


def _joined(rows: Sequence[Row], groups: list[list[str]], key: str) -> bool:
    for group in groups:
        if _decides(rows, group, [key]) or _decides(rows, [key], group):
            group.append(key)
            return True
    return False


def _decides(rows: Sequence[Row], keys: Sequence[str], others: Sequence[str]) -> bool:
    """Whether rows that agree in `keys` agree in `others` too."""
    seen: dict[Value, Value] = {}
    return all(seen.setdefault(value_at(row, keys), value_at(row, others)) == value_at(row, others) for row in rows)


def _axis(rows: Sequence[Row], group: Sequence[str]) -> Axis:
    """Return the axis of some keys, the one that names it first."""
    named = sorted(group, key=lambda key: key not in TITLES)
    return Axis(tuple(named), tuple(dict.fromkeys(value_at(row, named) for row in rows)))


def scene(axes: Sequence[Axis]) -> list[Axis]:
    """Return the axes that decide what is trained on what; only cells that agree in them compete."""
    return [axis for axis in axes if axis.decides_loss]


def label(row: Row, axes: Iterable[Axis]) -> str:
    """Return what a row is called along some axes."""
    return " ".join(axis.label_of(row) for axis in axes)


def grouped(rows: Iterable[Row], axes: Sequence[Axis]) -> dict[str, list[Row]]:
    """Return rows by what they are called along some axes, in their order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(label(row, axes), []).append(row)
    return found


def rest_of(row: Row, keys: Iterable[str]) -> str:
    """Return all of a row's settings but some, in a form that compares; rows that agree in it differ in those alone."""
    left_out = {*keys, *(NOT_AXES - {"run.seed"})}
    return repr([(key, value) for key, value in flattened(row.settings).items() if key not in left_out])


def repeats(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by cell, where repeats that differ in nothing but the seed are one."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(rest_of(row, ["run.seed"]), []).append(row)
    return found
