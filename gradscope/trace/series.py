"""Lists of decoded values as polars series of a given kind, however odd the values are.

The common case is one call per list; what does not fit is looked at value by value, counted and left empty.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import polars as pl

from gradscope.trace.decode import NOTHING, Scalar
from gradscope.trace.scan import UNKNOWN_OFFSET, Tally


def nothing_in(values: list[Any]) -> bool:
    """Whether all values are None."""
    return values.count(None) == len(values)


def labels(name: str, values: list[Scalar]) -> pl.Series:
    """Return text, dictionary-encoded."""
    return strings(name, values).cast(pl.Categorical)


def strings(name: str, values: list[Scalar]) -> pl.Series:
    """Return text; numbers are written out, every digit of them."""
    try:
        return pl.Series(name, values, dtype=pl.String)
    except TypeError:
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)


def places(name: str, values: list[Scalar]) -> pl.Series:
    """Return pids or tids as text, dictionary-encoded; a missing one is empty text."""
    distinct = set(values)
    texts = {value: "" if value is None else str(value) for value in distinct}
    if len(distinct) == 1:
        return pl.Series(name, list(texts.values()), dtype=pl.Categorical).new_from_index(0, len(values))
    if all(type(value) is int for value in distinct):
        try:
            return pl.Series(name, values, dtype=pl.Int64, strict=True).cast(pl.String).cast(pl.Categorical)
        except TypeError:  # beyond 64 bit, or a float that equals one of them
            pass
    return pl.Series(name, [texts[value] for value in values], dtype=pl.String).cast(pl.Categorical)


def json_texts(name: str, values: list[msgspec.Raw]) -> pl.Series | None:
    """Return values as JSON text on one line, dictionary-encoded; None if there are none."""
    if values.count(NOTHING) == len(values):
        return None
    try:
        texts = (
            b"\n".join(values).decode().split("\n")
        )  # joined at once: a call per value would take five times as long
    except UnicodeDecodeError:
        texts = []
    if len(texts) != len(values):
        texts = [_one_line(bytes(value)) if value is not NOTHING else "" for value in values]
    column = pl.Series(name, texts, dtype=pl.String)
    return pl.select(pl.when(column != "").then(column)).to_series().cast(pl.Categorical).alias(name)


def _one_line(text: bytes) -> str:
    return json.dumps(json.loads(text.decode("utf-8", "replace"), strict=False))


def integers(name: str, values: list[Scalar], kind: Any, tally: Tally) -> pl.Series:
    """Return whole numbers."""
    try:
        return pl.Series(name, values, dtype=kind, strict=True)
    except TypeError:
        low, high = pl.select(low=kind.min(), high=kind.max()).row(0)
        return _each(name, values, kind, tally, lambda value: _integer(value, low, high))


def floats(name: str, values: list[Scalar], kind: Any, tally: Tally) -> pl.Series:
    """Return numbers."""
    try:
        return pl.Series(name, values, dtype=kind, strict=True)
    except (TypeError, OverflowError):
        return _each(name, values, kind, tally, _float)


def _each(
    name: str, values: Sequence[Scalar], kind: Any, tally: Tally, convert: Callable[[Scalar], float | None]
) -> pl.Series:
    converted = [None if value is None or value == "" else convert(value) for value in values]
    for place, (before, after) in enumerate(zip(values, converted, strict=True)):
        if after is None and before is not None and before != "":
            tally.add("number", place, UNKNOWN_OFFSET)
    return pl.Series(name, converted, dtype=kind)


def _integer(value: Scalar, low: int, high: int) -> int | None:
    """Return a whole number from what stands for one (`7`, `7.0`, `"7"`, `"0x7"`), if it fits."""
    try:
        whole = int(value, 0) if isinstance(value, str) and value[:2] == "0x" else int(value or 0)
    except (ValueError, OverflowError):
        number = _float(value)
        if number is None:
            return None
        whole = int(number)
    return whole if low <= whole <= high else None


def _float(value: Scalar) -> float | None:
    try:
        number = float(value or 0)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
