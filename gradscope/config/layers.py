"""A preset comes in layers: defaults, what it extends, its own file, overrides. How they merge, and who set what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gradscope.config.schema import BudgetSettings, Preset

DEEPEST = 24
"""Tables and lists within each other that a preset may have."""

BELONGINGS = {"model": ("options",), "optimizer": ("options",), "data": ("options", "path")}
"""What belongs to the thing that a table names, so that another name starts without it."""

NOT_PASSED_ON = ("name", "description", "extends")
"""What a file says about itself, and not about presets that extend it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from one place."""

    source: str
    """What a message calls it: a path, or `-s`."""
    data: Mapping[str, Any]
    texts: Mapping[str, str] = field(default_factory=dict)
    """For overrides: what was written, by dotted key, the latest last."""


def defaults() -> Layer:
    """Return the lowest layer: what every preset starts from."""
    data: dict[str, Any] = msgspec.to_builtins(Preset(name=""))
    del data["name"]
    return Layer("gradscope's defaults", data)


def merge(layers: Sequence[Layer]) -> dict[str, Any]:
    """Lay the layers over each other, the last on top. Tables are joined, all else is replaced.

    Two rules beyond that. A layer with a budget replaces the whole budget, since there is only one. A layer that
    names another model, optimizer or data set drops what belonged to the one before (`BELONGINGS`).
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = join(_without_superseded(merged, layer.data), layer.data)
    return merged


def source_of(layers: Sequence[Layer], key: str, default: str) -> str:
    """Return what to call the place where a dotted key was last set; `default` if only gradscope itself set it."""
    path = key.replace("[", ".").split(".")
    for layer in reversed(layers[1:]):
        for written, text in reversed(list(layer.texts.items())):
            if _overlap(written.split("."), path):
                return f"-s {text}"
        if not layer.texts and _reaches(layer.data, path):
            return layer.source
    return default


def too_deep(data: Any) -> bool:
    """Whether tables and lists are nested deeper than `DEEPEST`; walks without recursion, since TOML sets no limit."""
    level = [data]
    for _ in range(DEEPEST + 1):
        level = [inner for item in level for inner in _inner(item)]
        if not level:
            return False
    return True


def _inner(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, Mapping | list)]


def join(lower: Any, upper: Any) -> Any:
    """Return two tables joined, `upper` on top; `upper` alone where one of them is no table."""
    if not isinstance(lower, Mapping) or not isinstance(upper, Mapping):
        return upper
    return {**lower, **{key: join(lower.get(key), item) for key, item in upper.items()}}


def _without_superseded(merged: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(merged)
    budget = data.get("budget")
    if isinstance(budget, Mapping) and not budget.keys().isdisjoint(BudgetSettings.__struct_fields__):
        kept.pop("budget", None)
    for table, belongings in BELONGINGS.items():
        old, new = merged.get(table), data.get(table)
        if isinstance(old, Mapping) and isinstance(new, Mapping) and "name" in new and new["name"] != old.get("name"):
            kept[table] = {key: value for key, value in old.items() if key not in belongings}
    return kept


def _overlap(left: Sequence[str], right: Sequence[str]) -> bool:
    shorter = min(len(left), len(right))
    return list(left[:shorter]) == list(right[:shorter])


def _reaches(data: Any, path: Sequence[str]) -> bool:
    """Whether the layer holds the key, or something else where a table on the way to it should be."""
    for part in path:
        if not isinstance(data, Mapping):
            return True
        if part not in data:
            return False
        data = data[part]
    return True
