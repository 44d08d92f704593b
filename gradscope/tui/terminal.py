"""What is known of the terminal before anything is written to it. Knows nothing of textual."""

import os
import re
from collections.abc import Mapping
from typing import IO, Any

SMALLEST = (40, 10)
"""Columns and rows that screens are laid out for; below, one line says so."""

NO_CURSOR = ("", "dumb", "unknown")
"""Values of TERM whose terminals cannot move the cursor."""

POOR_FONTS = ("linux", "vt100", "vt102", "vt220")
"""Values of TERM whose fonts lack most block characters, whatever the locale says."""

UTF8 = re.compile(r"utf-?8", re.IGNORECASE)


def why_no_app(streams: Mapping[str, IO[Any] | None], environ: Mapping[str, str]) -> str | None:
    """Return why the app cannot open here; `None` if it can.

    Args:
        streams: stdin, stdout and stderr by name.
        environ: The environment.
    """
    elsewhere = [name for name, stream in streams.items() if not _is_terminal(stream)]
    if elsewhere:
        return f"no terminal on {', '.join(elsewhere)}"
    term = environ.get("TERM", "")
    if term in NO_CURSOR:
        return f"the terminal cannot move its cursor: TERM is {term or 'not set'}"
    return None


def takes_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the terminal shows block characters, going by TERM and the locale.

    Python sets LC_CTYPE to C.UTF-8 itself where the locale was C (PEP 538), so that value alone is no evidence.
    A locale that is not set at all says nothing, as in most containers; terminals without UTF-8 are rare.
    """
    if environ.get("TERM", "") in POOR_FONTS:
        return False
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environ.get(name, "")
        if value and not (name == "LC_CTYPE" and value == "C.UTF-8"):
            return UTF8.search(value) is not None
    return True


def too_small(width: int, height: int) -> bool:
    """Whether screens cannot be laid out in so few cells."""
    return width < SMALLEST[0] or height < SMALLEST[1]


def size_of(descriptor: int) -> tuple[int, int]:
    """Return columns and rows of the terminal behind a descriptor, 80x24 where it does not tell.

    COLUMNS and LINES are not asked: a shell that exports them does not change them when the window does.
    """
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 80, 24
    return size.columns or 80, size.lines or 24


def _is_terminal(stream: IO[Any] | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it was closed
        return False
