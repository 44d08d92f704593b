"""A trace's list of events in pieces of bounded size: cut at sure borders, or read on from wherever one is."""

from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.trace.decode import decode_many
from gradscope.trace.header import HEADER_BYTES, Opening
from gradscope.trace.scan import EVENT_BYTES, Scan, Stop, Tally, last_border, scan
from gradscope.trace.source import Source

PIECE_BYTES = 1 << 23
LONGEST_PIECE_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole events, with the commas between them."""

    offset: int
    """Of its first byte in the trace's text."""
    text: bytes


class EventReader:
    """Reads the list of events once: `pieces` for other processes, then `scans` for what is left (or for all of it)."""

    def __init__(self, source: Source, opening: Opening, piece_bytes: int = PIECE_BYTES) -> None:
        self._source, self._size = source, piece_bytes
        self._text, self._offset = opening.text[opening.start :], opening.start
        self._over = False
        self.closed = False
        """Whether the list's closing bracket was met."""
        self.rest = b""
        """What follows it."""

    def _fill(self, size_bytes: int) -> None:
        if not self._over and len(self._text) < size_bytes:
            wanted = size_bytes - len(self._text)
            more = self._source.read(wanted)
            self._over = len(more) < wanted
            self._text += more

    def _drop(self, size_bytes: int) -> None:
        self._text = self._text[size_bytes:]
        self._offset += size_bytes

    def pieces(self) -> Iterator[Piece]:
        """Yield pieces that start and end at sure borders, as long as there is one before the end of the text."""
        size = self._size
        while True:
            self._fill(size)
            if self._over:
                return
            if border := last_border(self._text):
                end, begin = border
                yield Piece(self._offset, self._text[:end])
                self._drop(begin)
                size = self._size
            elif size >= LONGEST_PIECE_BYTES:
                return
            else:
                size *= 2

    def scans(self) -> Iterator[tuple[int, Scan]]:
        """Yield (offset of the piece, its events) to the end of the list or of the text."""
        while not self.closed:
            self._fill(self._size)
            border = last_border(self._text)
            if border and (events := decode_many(self._text[: border[0]])) is not None:
                yield self._offset, Scan(events, Tally(), Stop.REACHED, border[0])
                self._drop(border[1])
                continue
            goal = border[0] if border else len(self._text)
            found = scan(self._text, 0, goal, final=self._over)
            yield self._offset, found
            self._drop(found.end)
            if found.stop is Stop.CLOSED:
                self.closed = True
                self._fill(HEADER_BYTES)
                self.rest, self._text = self._text, b""
            elif found.stop is Stop.OVER or (self._over and not self._text):
                return
            elif found.stop is Stop.HUNGRY:
                self._fill(len(self._text) + min(self._size, EVENT_BYTES))
