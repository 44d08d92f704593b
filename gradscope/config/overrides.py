"""Settings of the command line: reading and writing `-s optimizer.lr=0.1`, `-s memory={strategy="checkpoint"}`."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import inspect as schema

from gradscope.config.check import type_of, without_none
from gradscope.config.layers import join
from gradscope.config.problem import shortened
from gradscope.errors import GradscopeError

BARE_PART = re.compile(r"[A-Za-z0-9_+-]+")
"""A part of a key that needs no quotes; TOML's own bare keys, and `+` for sweep axes."""

BARE_TEXT = re.compile(r"[A-Za-z_./~:@+-][A-Za-z0-9_./~:@+-]*")
"""A text that no shell changes; it stays bare where TOML would not read it as something else."""


@dataclass(frozen=True, slots=True)
class Override:
    """One setting: where it goes and what is put there."""

    text: str
    """As given, for messages."""
    path: tuple[str, ...]
    value: Any

    @property
    def key(self) -> str:
        """The dotted key."""
        return ".".join(self.path)


def parse_override(text: str) -> Override:
    """Read one `KEY=VALUE`.

    The value is a TOML value; where it is none, or where the key holds text (`model.name=123`), it is the text as it
    stands.

    Raises:
        GradscopeError: There is no `=`, or the key is no dotted key.
    """
    key, equals, raw = text.partition("=")
    if not equals:
        raise GradscopeError(
            f'-s {shortened(text)}: found no "=", allowed KEY=VALUE', "for example -s optimizer.lr=0.01"
        )
    path = key_path(key.strip())
    if not path:
        raise GradscopeError(
            f"-s {shortened(text)}: found the key {shortened(key.strip()) or 'empty'}, allowed a dotted key",
            "for example -s optimizer.lr=0.01",
        )
    return Override(text, path, _value(raw.strip(), ".".join(path)))


def format_override(key: str, value: Any) -> str:
    """Write one setting so that `parse_override` reads the same key and value; `key` is dotted, its parts bare."""
    if isinstance(value, str) and BARE_TEXT.fullmatch(value) and _value(value, key) == value:
        return f"{key}={value}"
    return f"{key}={toml_value(value)}"


def quote_part(part: str) -> str:
    """Return one part of a dotted key, in quotes where it needs them."""
    return part if BARE_PART.fullmatch(part) else toml_value(part)


def toml_value(value: Any) -> str:
    """Write plain data as a TOML value on one line."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def nested(overrides: Iterable[Override]) -> dict[str, Any]:
    """Put overrides into one tree of tables; of two for the same key the later one counts."""
    tree: dict[str, Any] = {}
    for override in overrides:
        table = tree
        for part in override.path[:-1]:
            inner = table.get(part)
            if not isinstance(inner, dict):
                inner = table[part] = {}
            table = inner
        last = override.path[-1]
        table[last] = join(table.get(last), override.value)
    return tree


def nested_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Put settings with dotted keys into one tree of tables."""
    return nested(Override(key, key_path(key), value) for key, value in settings.items())


def key_path(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key, empty if it is none; parts in quotes may hold anything."""
    parts = tuple(part.strip() for part in key.split("."))
    if all(BARE_PART.fullmatch(part) for part in parts):
        return parts
    table: Any = _read_toml(f"{key} = 0")
    path = []
    while isinstance(table, dict) and len(table) == 1:
        ((part, table),) = table.items()
        path.append(part)
    return tuple(path) if table == 0 else ()


def _value(raw: str, key: str) -> Any:
    document = _read_toml(f"value = {raw}")
    if document is None or set(document) != {"value"}:
        return raw
    value = document["value"]
    kind = type_of(key)
    holds_text = kind is not None and isinstance(without_none(kind), schema.StrType)
    is_date = not isinstance(value, str | int | float | list | dict)
    return raw if is_date or (holds_text and not isinstance(value, str)) else value


def _read_toml(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):  # no TOML, or an integer or a nesting that Python refuses
        return None


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)
