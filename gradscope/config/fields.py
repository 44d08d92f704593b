"""The fields of a preset as a form shows them: what each holds, what it may be set to, and what it is for.

All of it is read from the schema and the catalogue: types as msgspec describes them, and the string under each field
from the schema's own source, since Python keeps no docstrings of fields.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import inspect as schema

from gradscope.config import schema as preset_schema
from gradscope.config.catalogue import DATASETS, MODELS, OPTIMIZERS, STRATEGIES, Entry
from gradscope.config.check import NONE_WORD, describe, preset_type, without_none
from gradscope.config.convert import preset_to_dict
from gradscope.config.overrides import format_override
from gradscope.config.schema import Preset

NOT_FIELDS = frozenset({"sweep", "claim"})
"""Tables of a grid, which are edited in the preset's file."""

CATALOGUES: Mapping[str, Mapping[str, Entry]] = {
    "model.name": MODELS,
    "data.name": DATASETS,
    "optimizer.name": OPTIMIZERS,
    "memory.strategy": STRATEGIES,
}
"""Where the names come from that a field suggests; it may take others too, as its help says."""

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that a field suggests, as it is written after `-s KEY=`."""

    text: str
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One setting of a preset."""

    key: str
    """Dotted, as after `-s`."""
    kind: str
    """What it holds, in the words of the messages: `a whole number >= 1`."""
    optional: bool
    """Whether `none` is a value of it."""
    help: str
    """The string under the field in the schema, on one line; empty where the source is not installed."""
    choices: tuple[Choice, ...]
    """Values to step through, the only ones for `true or false` and for closed lists."""
    default: str
    """gradscope's own, as it is written after `-s KEY=`; empty for one that has none."""

    @property
    def table(self) -> str:
        """The table that it stands in; empty for the preset's own fields."""
        return self.key.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self.key.rpartition(".")[2]


@cache
def fields() -> tuple[Field, ...]:
    """Return all settings of a preset, in the order of the schema; not those of a grid."""
    return tuple(_fields("", preset_type(), preset_to_dict(Preset(name=""))))


def table_help(table: str) -> str:
    """Return what a table of a preset is for; empty where the source is not installed."""
    kind = next((field.type for field in _struct(preset_type()).fields if field.name == table), None)
    described = None if kind is None else without_none(kind)
    if not isinstance(described, schema.StructType):
        return ""
    text = _documented()[1].get(described.cls.__name__, "").partition("\n\n")[0]
    return _one_line(text).partition("]`: ")[2]


def value_text(key: str, value: Any) -> str:
    """Return a value as it is written after `-s KEY=`."""
    return NONE_WORD if value is None else format_override(key, value).partition("=")[2]


def values(preset: Preset) -> dict[str, str]:
    """Return the value of each field of a preset, as it is written after `-s KEY=`."""
    data = preset_to_dict(preset)
    return {field.key: value_text(field.key, _lookup(data, field.key)) for field in fields()}


def _fields(prefix: str, kind: schema.Type, defaults: Any) -> Iterator[Field]:
    struct = _struct(kind)
    helps = _documented()[0].get(struct.cls.__name__, {})
    for field in struct.fields:
        key, inner = prefix + field.name, without_none(field.type)
        if not prefix and field.name in NOT_FIELDS:
            continue
        if isinstance(inner, schema.StructType):
            yield from _fields(f"{key}.", inner, defaults[field.name])
            continue
        optional = isinstance(field.type, schema.UnionType)
        yield Field(
            key=key,
            kind=describe(inner),
            optional=optional,
            help=_one_line(helps.get(field.name, "")),
            choices=_choices(key, inner, optional=optional),
            default="" if field.required else value_text(key, defaults[field.name]),
        )


def _choices(key: str, kind: schema.Type, *, optional: bool) -> tuple[Choice, ...]:
    if key in CATALOGUES:
        return tuple(Choice(entry.name, entry.summary) for entry in CATALOGUES[key].values())
    if key == "run.device":
        return tuple(map(Choice, DEVICES))
    if isinstance(kind, schema.BoolType):
        return (Choice("true"), Choice("false"))
    if isinstance(kind, schema.LiteralType):
        none = (Choice(NONE_WORD),) if optional else ()
        return (*(Choice(str(value)) for value in kind.values), *none)
    return ()


def _struct(kind: schema.Type) -> schema.StructType:
    if not isinstance(kind, schema.StructType):
        raise TypeError(f"{kind} has no fields")
    return kind


def _lookup(data: Any, key: str) -> Any:
    for part in key.split("."):
        data = data[part]
    return data


def _one_line(text: str) -> str:
    return " ".join(text.split())


@cache
def _documented() -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Read the schema's source; returns the string under each field by class and name, and each class's docstring."""
    try:
        tree = ast.parse(Path(preset_schema.__file__).read_bytes())
    except (OSError, SyntaxError):  # installed without sources: the form then lacks help, and nothing else
        return {}, {}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return (
        {node.name: dict(_strings_under_fields(node)) for node in classes},
        {node.name: ast.get_docstring(node) or "" for node in classes},
    )


def _strings_under_fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, below.value.value
