"""Whole JSON files: replaced atomically, and read as "not there" while they are missing or torn."""

import contextlib
import os
import stat
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

DAMAGED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding foreign bytes can raise: not JSON or not of the type, not UTF-8, nested thousands deep."""


def write_json(path: Path, obj: Any) -> None:
    """Replace `path` by `obj` as indented JSON; a reader sees the old content or the new, never a part.

    Raises:
        OSError: The folder cannot be written (full, read-only, gone). The old content is then still there.
    """
    content = msgspec.json.format(msgspec.json.encode(obj), indent=2) + b"\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # the first error is the one that is reported
            temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path, type: type[T]) -> T | None:  # noqa: A002 - msgspec's own name for it
    """Return the content of `path` as `type`; `None` if it is missing, torn, or not of that type."""
    content = read_bytes(path)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=type)
    except DAMAGED:
        return None


def read_bytes(path: Path) -> bytes | None:
    """Return the content of a regular file; `None` for anything else, so that a pipe there cannot block a reader.

    Raises:
        OSError: The file is there but cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _write_all(descriptor: int, content: bytes) -> None:
    """Write all of `content`: a nearly full disk takes a part of it first, and says so at the next call."""
    while content:
        content = content[os.write(descriptor, content) :]
