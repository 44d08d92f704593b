"""Checks plain data against the preset's schema, key by key, so that a message can name the key and what it allows.

msgspec itself stops at the first fault with a message about types; here the schema is walked as msgspec describes it,
and msgspec only builds the result once nothing is wrong.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import inspect as schema

from gradscope.config.problem import Problem, did_you_mean, either, shown
from gradscope.config.schema import Preset

NONE_WORD = "none"
"""What a preset writes for no value, where a field may have none."""

LARGEST_INT = 2**63 - 1


@cache
def preset_type() -> schema.Type:
    """Return msgspec's description of a preset."""
    return schema.type_info(Preset)


def type_of(key: str) -> schema.Type | None:
    """Return the type of a dotted key, `None` for a key that a preset does not have.

    Below a table of free keys (`model.options`, `sweep.axes`) every key exists.
    """
    kind: schema.Type = preset_type()
    for part in key.split("."):
        kind = without_none(kind)
        if isinstance(kind, schema.DictType):
            kind = kind.value_type
        elif isinstance(kind, schema.StructType):
            found = [field.type for field in kind.fields if field.name == part]
            if not found:
                return None
            kind = found[0]
        elif not isinstance(kind, schema.AnyType):
            return None
    return kind


@cache
def all_keys() -> tuple[str, ...]:
    """Return every dotted key of a preset, tables included, without those of `sweep` and `claim`."""
    return tuple(_keys("", preset_type()))


def _keys(prefix: str, kind: schema.Type) -> Iterator[str]:
    if isinstance(kind, schema.StructType):
        for field in kind.fields:
            if prefix or field.name not in {"sweep", "claim"}:
                yield prefix + field.name
                yield from _keys(f"{prefix}{field.name}.", field.type)


def nearest_key(key: str) -> str:
    """Return a hint for a key that does not exist: those that end like it (`lr`: `optimizer.lr`), or the closest."""
    last = key.rpartition(".")[2]
    ending = [known for known in all_keys() if known.rpartition(".")[2] == last]
    return f"did you mean {either(ending)}?" if ending else did_you_mean(key, all_keys())


def without_none(kind: schema.Type) -> schema.Type:
    """Return what a type is where it is not `None`."""
    if isinstance(kind, schema.UnionType):
        (kind,) = [part for part in kind.types if not isinstance(part, schema.NoneType)]
    return kind


def with_nones(value: Any, kind: schema.Type | None = None) -> Any:
    """Return the data with `None` in place of the word `none` in all fields that may be missing."""
    kind = preset_type() if kind is None else kind
    if isinstance(kind, schema.UnionType) and value == NONE_WORD:
        return None
    kind = without_none(kind)
    if isinstance(value, dict) and isinstance(kind, schema.StructType):
        types = {field.name: field.type for field in kind.fields}
        return {key: with_nones(item, types[key]) if key in types else item for key, item in value.items()}
    if isinstance(value, list) and isinstance(kind, schema.ListType):
        return [with_nones(item, kind.item_type) for item in value]
    return value


def find_problem(value: Any, kind: schema.Type | None = None, path: str = "") -> Problem | None:
    """Return the first thing in `value` that is not as the schema wants it.

    Args:
        value: Plain data.
        kind: Its type; a whole preset where it is not given.
        path: Its dotted key.
    """
    kind = preset_type() if kind is None else kind
    if isinstance(kind, schema.UnionType) and value is None:
        return None
    kind = without_none(kind)
    for described, check in _CHECKS.items():
        if isinstance(kind, described):
            return check(value, kind, path)
    raise AssertionError(f"no check for {kind} at {path}")


def describe(kind: schema.Type) -> str:
    """Return what a type allows, in words."""
    kind = without_none(kind)
    if isinstance(kind, schema.LiteralType):
        return either(str(value) for value in kind.values)
    if isinstance(kind, schema.IntType | schema.FloatType):
        return f"{_WORDS[type(kind)]}{_bounds(kind)}"
    return _WORDS.get(type(kind), "a table")


def _bounds(kind: schema.IntType | schema.FloatType) -> str:
    limits = (("<", kind.lt), (">", kind.gt), (">=", kind.ge), ("<=", kind.le))
    texts = [f"{sign} {limit:g}" for sign, limit in sorted(limits, reverse=True) if limit is not None]
    return f" {' and '.join(texts)}" if texts else ""


def _wrong(value: Any, kind: schema.Type, path: str, hint: str = "") -> Problem:
    return Problem(keys=(path,), found=shown(value), allowed=describe(kind), hint=hint)


def _check_struct(value: Any, kind: schema.StructType, path: str) -> Problem | None:
    if not isinstance(value, dict):
        return _wrong(value, kind, path)
    prefix = f"{path}." if path else ""
    fields = {field.name: field for field in kind.fields}
    for key, item in value.items():
        if key not in fields:
            return _unknown(key, prefix, fields)
        if problem := find_problem(item, fields[key].type, prefix + key):
            return problem
    for name, field in fields.items():
        if field.required and name not in value:
            return Problem(keys=(prefix + name,), found="nothing", allowed=describe(field.type))
    return None


def _unknown(key: str, prefix: str, fields: Mapping[str, Any]) -> Problem:
    if prefix == "sweep." and type_of(key.partition("+")[0]) is not None:
        return Problem(
            keys=(prefix + key,),
            found="an unknown key",
            allowed=", ".join(sorted(fields)),
            hint=f"{key} is a setting: put it under [sweep.axes]",
        )
    hint = did_you_mean(key, fields).replace("mean ", f"mean {prefix}") or nearest_key(prefix + key)
    return Problem(keys=(prefix + key,), found="an unknown key", allowed=", ".join(sorted(fields)), hint=hint)


def _check_dict(value: Any, kind: schema.DictType, path: str) -> Problem | None:
    if not isinstance(value, dict):
        return _wrong(value, kind, path)
    return _first(find_problem(item, kind.value_type, f"{path}.{key}") for key, item in value.items())


def _check_list(value: Any, kind: schema.ListType, path: str) -> Problem | None:
    if not isinstance(value, list):
        return _wrong(value, kind, path)
    return _first(find_problem(item, kind.item_type, f"{path}[{index}]") for index, item in enumerate(value))


def _check_any(value: Any, kind: schema.AnyType, path: str) -> Problem | None:
    """Check a free value: it goes into JSON and TOML, so no dates, no NaN, no integers beyond 64 bits."""
    for python_type, strict in _PLAIN_TYPES:
        if isinstance(value, python_type):
            return find_problem(value, strict, path)
    return Problem(keys=(path,), found=shown(value), allowed="text, a number, true, false, a list or a table")


def _check_str(value: Any, kind: schema.StrType, path: str) -> Problem | None:
    if not isinstance(value, str):
        return _wrong(value, kind, path)
    try:
        value.encode()
    except UnicodeEncodeError:
        return Problem(keys=(path,), found=shown(value), allowed="text that is valid UTF-8")
    return None


def _check_bool(value: Any, kind: schema.BoolType, path: str) -> Problem | None:
    return None if isinstance(value, bool) else _wrong(value, kind, path)


def _check_int(value: Any, kind: schema.IntType, path: str) -> Problem | None:
    if not isinstance(value, int) or isinstance(value, bool) or not _within(value, kind):
        return _wrong(value, kind, path)
    if abs(value) > LARGEST_INT:
        return Problem(keys=(path,), found=shown(value), allowed="a whole number of 64 bits")
    return None


def _check_float(value: Any, kind: schema.FloatType, path: str) -> Problem | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return _wrong(value, kind, path)
    if abs(value) > LARGEST_INT if isinstance(value, int) else not math.isfinite(value):
        return Problem(keys=(path,), found=shown(value), allowed="a finite number")
    return None if _within(value, kind) else _wrong(value, kind, path)


def _check_literal(value: Any, kind: schema.LiteralType, path: str) -> Problem | None:
    if isinstance(value, str) and value in kind.values:
        return None
    words = [str(allowed) for allowed in kind.values]
    return _wrong(value, kind, path, did_you_mean(value, words) if isinstance(value, str) else "")


def _within(value: float, kind: schema.IntType | schema.FloatType) -> bool:
    return not (
        (kind.gt is not None and not value > kind.gt)
        or (kind.ge is not None and not value >= kind.ge)
        or (kind.lt is not None and not value < kind.lt)
        or (kind.le is not None and not value <= kind.le)
    )


def _first(problems: Iterator[Problem | None]) -> Problem | None:
    return next((problem for problem in problems if problem is not None), None)


_WORDS: dict[type[schema.Type], str] = {
    schema.BoolType: "true or false",
    schema.StrType: "text",
    schema.IntType: "a whole number",
    schema.FloatType: "a number",
    schema.ListType: "a list",
}

_PLAIN_TYPES: tuple[tuple[type, schema.Type], ...] = (
    (dict, schema.DictType(schema.StrType(), schema.AnyType())),
    (list, schema.ListType(schema.AnyType())),
    (str, schema.StrType()),
    (bool, schema.BoolType()),
    (int, schema.IntType()),
    (float, schema.FloatType()),
)

_CHECKS: dict[type[schema.Type], Callable[[Any, Any, str], Problem | None]] = {
    schema.StructType: _check_struct,
    schema.DictType: _check_dict,
    schema.ListType: _check_list,
    schema.AnyType: _check_any,
    schema.StrType: _check_str,
    schema.BoolType: _check_bool,
    schema.IntType: _check_int,
    schema.FloatType: _check_float,
    schema.LiteralType: _check_literal,
}
