"""A trace's events as the bytes they are, read as a stream: a file of any size goes by in pieces of bounded size.

What is no strict JSON is mended on the way; of a file that ends too early, the whole events before its end are read.
"""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from gradscope.errors import GradscopeError
from gradscope.trace.header import Opening, read_opening
from gradscope.trace.repair import escape_stray_quotes, strict_json
from gradscope.trace.scan import Stop, last_border, scan
from gradscope.trace.source import Source

PIECE_BYTES = 1 << 23
LONGEST_PIECE_BYTES = 1 << 28
"""Text in which no event ends for so long is taken for the file's last."""
LEFT_OUT = ("unreadable event", "no event", "cut event")
"""What a scan counts of what it cannot read."""
ENDINGS = (b"", b"}", b"]}")
"""What a file may lack at its end: a bare list has no object around it, and its bracket is optional."""
LONGEST_NUMBER = 400
"""Digits; more than any float has before its point."""
EVENTS_KEY = "traceEvents"


class RawEvents:
    """The events of a trace; each iteration reads the file anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, msgspec.Raw] = {}
        """What stands beside the events; known after an iteration."""
        self.unreadable = 0
        """Events that could not even be mended, in the last iteration."""
        self.cut_off = False
        """Whether the list broke off, in the last iteration."""

    def __iter__(self) -> Iterator[msgspec.Raw]:
        """Yield events in file order.

        Raises:
            GradscopeError: It is no trace.
        """
        self.unreadable, self.cut_off = 0, False
        with Source(self.path) as source:
            opening = read_opening(source)
            text = opening.text[opening.start :]
            size = PIECE_BYTES
            while True:
                more = source.read(max(0, size - len(text)))
                over = len(text) + len(more) < size
                text += more
                border = None if over else last_border(text)
                if border is not None:
                    yield from self._events(text[: border[0]])
                    text, size = text[border[1] :], PIECE_BYTES
                elif over or size >= LONGEST_PIECE_BYTES:
                    break
                else:
                    size *= 2
            yield from self._last(opening, text, torn=bool(source.damage))

    def _events(self, text: bytes) -> Iterator[msgspec.Raw]:
        """Yield the events of a piece that starts and ends at borders."""
        try:
            yield from msgspec.json.decode(strict_json(b"[" + text + b"]")[0], type=list[msgspec.Raw])
        except (GradscopeError, msgspec.DecodeError):
            yield from self._one_by_one(text)

    def _one_by_one(self, text: bytes) -> Iterator[msgspec.Raw]:
        """Yield what of a broken text can be read, the same events that loading takes."""
        found = scan(text, 0, len(text), final=True)
        self.cut_off = found.stop is not Stop.CLOSED
        self.unreadable += sum(found.tally.counts[kind] for kind in LEFT_OUT)
        for begin, end in found.spans:
            if (event := _event(text[begin:end])) is None:
                self.unreadable += 1
            else:
                yield event

    def _last(self, opening: Opening, text: bytes, *, torn: bool) -> Iterator[msgspec.Raw]:
        """Yield the events of what remains, and learn the header that may stand behind them."""
        head = opening.head + b":[" if opening.head else b'{"traceEvents":['
        for ending in ENDINGS:
            found = _document(head + text.rstrip(b" \t\r\n," if ending else b"") + ending)
            if found is not None:
                header, events = found
                self.header = header
                self.cut_off = bool(ending) and (torn or bool(opening.head))
                yield from events
                return
        found = _document(head + b"]}")
        self.header = {} if found is None else found[0]
        yield from self._one_by_one(text)


def with_held_numbers(raw: msgspec.Raw) -> bytes:
    """Return an event with null for numbers that nothing holds, as loading takes them; a repeated key counts last."""
    return msgspec.json.encode(json.loads(bytes(raw), parse_float=_finite, parse_int=_whole))


def _finite(written: str) -> float | None:
    value = float(written)
    return value if math.isfinite(value) else None


def _whole(written: str) -> int | None:
    return int(written) if len(written) <= LONGEST_NUMBER else None


def _event(text: bytes) -> msgspec.Raw | None:
    for attempt in (text, escape_stray_quotes(text)[0]):
        with suppress(GradscopeError):
            return msgspec.Raw(bytes(strict_json(attempt)[0]))
    return None


def _document(text: bytes) -> tuple[dict[str, msgspec.Raw], list[msgspec.Raw]] | None:
    try:
        header = msgspec.json.decode(strict_json(text)[0], type=dict[str, msgspec.Raw])
        return header, msgspec.json.decode(header.pop(EVENTS_KEY), type=list[msgspec.Raw])
    except (GradscopeError, msgspec.DecodeError, KeyError):
        return None
