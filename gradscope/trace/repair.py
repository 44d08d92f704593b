"""Strict JSON from what profilers write: control characters, invalid UTF-8, lone backslashes, bare NaN and N/A mended.

torch 2.13 writes strict JSON on a CPU; other versions and other devices are known not to (pytorch/pytorch#136180,
#113564, #98432, pytorch/kineto#105). A document that is strict already is given back as it is, without a copy.
"""

import codecs
import re
from collections import Counter

import msgspec

from gradscope.errors import GradscopeError

CHUNK_BYTES = 1 << 20

BARE_WORD = rb"(?:-?\b(?:[Nn]a[Nn]|NAN|[Ii]nf(?:inity)?|INF)\b|\bN/A)"
"""What writers that do not know JSON put where a number has no value."""

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|' + BARE_WORD, re.DOTALL)
"""A whole string, so that nothing within it is taken for a bare word; or a bare word."""

ESCAPE_OR_CONTROL = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?|[\x00-\x1f]')
"""In a string: an escape (a lone backslash if it is none that JSON knows), or a control character."""

Repairs = Counter[str]
"""How many of each kind were mended: `control character`, `invalid UTF-8`, `backslash`, `bare word`."""


def strict_json(content: bytes | bytearray) -> tuple[bytes | bytearray, Repairs]:
    r"""Return `content` as strict JSON, and what had to be mended for it.

    A control character becomes its `\u00XX` escape, bytes that are no UTF-8 become U+FFFD, a lone backslash is doubled,
    a bare word becomes `null`.

    Raises:
        GradscopeError: It is no JSON even so.
    """
    if _is_strict(content):
        return content, Counter()
    repairs: Repairs = Counter()
    if not _is_utf8(content):
        text = content.decode("utf-8", "replace")
        repairs["invalid UTF-8"] = text.count("\ufffd")
        content = text.encode()

    def mend_character(found: re.Match[bytes]) -> bytes:
        piece = found.group()
        if piece == b"\\":
            repairs["backslash"] += 1
            return b"\\\\"
        if len(piece) == 1:
            repairs["control character"] += 1
            return b"\\u%04x" % piece[0]
        return piece

    def mend(found: re.Match[bytes]) -> bytes:
        token = found.group()
        if token.startswith(b'"'):
            return b'"' + ESCAPE_OR_CONTROL.sub(mend_character, token[1:-1]) + b'"'
        repairs["bare word"] += 1
        return b"null"

    mended = TOKEN.sub(mend, content)
    try:
        msgspec.json.decode(mended, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise GradscopeError(f"not a trace: {error}", "is the file complete?") from error
    return mended, repairs


def _is_strict(content: bytes | bytearray) -> bool:
    try:
        msgspec.json.decode(content, type=msgspec.Raw)  # checks everything but the encoding of text
    except (msgspec.DecodeError, RecursionError):
        return False
    return _is_utf8(content)


def _is_utf8(content: bytes | bytearray) -> bool:
    """Check piece by piece: decoding all at once would cost the document's size again."""
    if content.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(content)
    try:
        for start in range(0, len(view), CHUNK_BYTES):
            decoder.decode(view[start : start + CHUNK_BYTES], final=start + CHUNK_BYTES >= len(view))
    except UnicodeDecodeError:
        return False
    return True
