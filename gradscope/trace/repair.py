r"""Strict JSON from what profilers write: control characters, invalid UTF-8, lone backslashes, bare NaN and N/A mended.

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

STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""A whole string. Without backtracking, so that its cost is its length whatever it holds."""

TOKEN = re.compile(STRING + rb"|" + BARE_WORD, re.DOTALL)
"""A whole string, so that nothing within it is taken for a bare word; or a bare word."""

ESCAPE_OR_CONTROL = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # two surrogates that make a character
    rb'|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?|[\x00-\x1f]'
)
"""In a string: an escape (a lone backslash if it is none that JSON knows), or a control character."""

LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]..\Z")

STRAY_QUOTE = re.compile(rb'(?<![\\\s{\[,:])"(?!\s*(?:[,:}\]]|\Z))|(?<=[^\\\s{\[,:]\s)"(?!\s*(?:[,:}\]]|\Z))')
"""A quote that neither starts nor ends a string, going by what stands beside it."""

Repairs = Counter[str]
"""How many of each kind were mended: `control character`, `invalid UTF-8`, `backslash`, `bare word`, `surrogate`."""


def strict_json(content: bytes | bytearray) -> tuple[bytes | bytearray, Repairs]:
    """Return `content` as strict JSON, and what had to be mended for it; see `mend`.

    Raises:
        GradscopeError: It is no JSON even so.
    """
    if _is_strict(content):
        return content, Counter()
    mended, repairs = mend(content)
    try:
        msgspec.json.decode(mended, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise GradscopeError(f"not a trace: {error}", "is the file complete?") from error
    return mended, repairs


def mend(content: bytes | bytearray) -> tuple[bytes, Repairs]:
    r"""Return `content` with everything mended that can be, JSON or not, and what that was.

    A control character becomes its `\u00XX` escape, bytes that are no UTF-8 and lone surrogates become U+FFFD, a bare
    word becomes `null`. A lone backslash is doubled, and with it the others of its string: who wrote `C:\Users` raw
    meant no newline by `C:\new`. (`\"` and `\\` keep their meaning.)
    """
    repairs: Repairs = Counter()
    if not _is_utf8(content):
        text = content.decode("utf-8", "replace")
        repairs["invalid UTF-8"] = text.count("\ufffd")
        content = text.encode()

    def mend_piece(found: re.Match[bytes], *, literal: bool) -> bytes:
        piece = found.group()
        if piece == b"\\" or (literal and piece[:1] == b"\\" and piece[1:2] not in (b'"', b"\\")):
            repairs["backslash"] += 1
            return b"\\" + piece
        if len(piece) == 1:
            repairs["control character"] += 1
            return b"\\u%04x" % piece[0]
        if LONE_SURROGATE.fullmatch(piece):
            repairs["surrogate"] += 1
            return b"\\ufffd"
        return piece

    def mend_token(found: re.Match[bytes]) -> bytes:
        token = found.group()
        if not token.startswith(b'"'):
            repairs["bare word"] += 1
            return b"null"
        inner = token[1:-1]
        literal = b"\\" in inner and any(piece.group() == b"\\" for piece in ESCAPE_OR_CONTROL.finditer(inner))
        return b'"' + ESCAPE_OR_CONTROL.sub(lambda piece: mend_piece(piece, literal=literal), inner) + b'"'

    return TOKEN.sub(mend_token, content), repairs


def escape_stray_quotes(content: bytes) -> tuple[bytes, int]:
    r"""Return one event's text with quotes inside of names escaped (`"a "b" c"`), and how many there were. A guess."""
    return STRAY_QUOTE.subn(lambda _: rb"\"", content)


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
