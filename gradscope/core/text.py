"""Text from elsewhere made safe to print: names, paths and messages of which nobody knows what they hold."""

import re
import unicodedata
from typing import TextIO

UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: what a terminal takes as commands
    "\u2028\u2029"  # line and paragraph separator: a table's row would break
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of text that follows
    "\ud800-\udfff"  # lone surrogates (undecodable bytes of a file name): stdout cannot encode them
    "]"
)
"""Characters that are never printed as they are."""

NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    return NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def visible(text: str, *, keep: str = "") -> str:
    r"""Return `text` with every control character written out, e.g. ESC as `\e` and 0x9b as `\x9b`.

    Args:
        text: Anything, also a file name with undecodable bytes.
        keep: Characters to leave as they are, such as a newline in a log.
    """
    if not keep:
        return UNSAFE.sub(_escape, text)
    return UNSAFE.sub(lambda found: found.group() if found.group() in keep else _escape(found), text)


def display_width(text: str) -> int:
    """Return how many terminal cells `text` takes: wide East Asian characters take two, combining marks none."""
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def takes_unicode(stream: TextIO) -> bool:
    """Whether a stream can show more than ASCII, going by its encoding."""
    return (stream.encoding or "").lower().replace("-", "") == "utf8"
