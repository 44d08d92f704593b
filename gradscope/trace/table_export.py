"""A frame as a file that other programs read: CSV, Parquet or JSON, whole or not at all."""

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from gradscope.core.target_file import check_target, written_beside
from gradscope.core.text import UNSAFE
from gradscope.errors import GradscopeError


def to_bytes(frame: pl.DataFrame, kind: str) -> bytes:
    """Return a frame as one of `FORMATS`.

    Raises:
        GradscopeError: There is no such format.
    """
    if kind not in FORMATS:
        raise GradscopeError(f"there is no format {kind!r}", f"it is one of {', '.join(FORMATS)}")
    return FORMATS[kind](frame.with_columns(pl.col(pl.Categorical).cast(pl.String)))


def write_table(frame: pl.DataFrame, kind: str, out: Path, *, force: bool = False, inputs: Iterable[Path] = ()) -> int:
    """Write a frame beside `out` and rename it; return the file's size in bytes.

    Args:
        frame: What to write.
        kind: One of `FORMATS`.
        out: Where to.
        force: Whether a file that is there may be replaced.
        inputs: The traces that the frame is from, which are never replaced.

    Raises:
        GradscopeError: There is no such format, or `out` may not be written.
        OSError: It cannot be written.
    """
    check_target(out, force=force, inputs=inputs)
    content = to_bytes(frame, kind)
    with written_beside(out, replace=force) as file:
        file.write(content)
    return len(content)


def safe_json(value: Any) -> bytes:
    r"""Return strict JSON that a terminal prints as it is: characters that it would obey are written as `\uXXXX`.

    NaN and infinity become null.
    """
    text = msgspec.json.encode(value).decode()

    def escaped(found: Any) -> str:
        return f"\\u{ord(found.group()):04x}"

    return UNSAFE.sub(escaped, text).encode()


def _csv(frame: pl.DataFrame) -> bytes:
    """Lists and structures, which CSV has none of, are written as JSON."""
    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    text = [pl.col(name).map_elements(_json_text, return_dtype=pl.String) for name in nested]
    number = pl.col(pl.Float32, pl.Float64)
    return frame.with_columns(*text, pl.when(number.is_finite()).then(number)).write_csv().encode()


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value.to_list() if isinstance(value, pl.Series) else value).decode()


def _json(frame: pl.DataFrame) -> bytes:
    """One object a row."""
    return msgspec.json.format(safe_json(frame.to_dicts()), indent=2) + b"\n"


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


FORMATS: dict[str, Callable[[pl.DataFrame], bytes]] = {"csv": _csv, "parquet": _parquet, "json": _json}
"""Format to its writer."""
