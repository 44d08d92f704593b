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
    text: memoryview


class EventReader:
    """Reads the list of events once: `pieces` for other processes, then `scans` for what is left (or for all of it)."""

    def __init__(self, source: Source, opening: Opening, piece_bytes: int | None = None) -> None:
        self._source, self._size = source, piece_bytes or PIECE_BYTES
        self._text, self._at = opening.text, opening.start
        self._before = 0
        """Bytes of the file before `_text`."""
        self._over = False
        self.closed = False
        """Whether the list's closing bracket was met."""
        self.rest = b""
        """What follows it."""

    @property
    def _offset(self) -> int:
        return self._before + self._at

    @property
    def _left(self) -> int:
        return len(self._text) - self._at

    def _fill(self, size_bytes: int) -> None:
        """Have at least so much text, if there is as much."""
        if not self._over and (wanted := size_bytes - self._left) > 0:
            more = self._source.read(wanted)
            self._over = len(more) < wanted
            self._before, text, at = self._offset, self._text, self._at
            self._text, self._at = b"".join((memoryview(text)[at:], more)), 0

    def _view(self, end: int) -> memoryview:
        return memoryview(self._text)[self._at : end]

    def pieces(self) -> Iterator[Piece]:
        """Yield pieces that start and end at sure borders, as long as there is one before the end of the text."""
        size = self._size
        while True:
            self._fill(size)
            if self._over:
                return
            if border := last_border(self._text, self._at):
                yield Piece(self._offset, self._view(border[0]))
                self._at = border[1]
                size = self._size
            elif size >= LONGEST_PIECE_BYTES:
                return
            else:
                size *= 2

    def scans(self) -> Iterator[tuple[int, Scan]]:
        """Yield (offset of the piece, its events) to the end of the list or of the text."""
        while not self.closed:
            self._fill(self._size)
            border = last_border(self._text, self._at)
            if border and (events := decode_many(self._view(border[0]))) is not None:
                yield self._offset, Scan(events, Tally(), Stop.REACHED, border[0])
                self._at = border[1]
                continue
            found = scan(self._text, self._at, border[0] if border else len(self._text), final=self._over)
            yield self._offset, found
            self._at = found.end
            if found.stop is Stop.CLOSED:
                self.closed = True
                self._fill(HEADER_BYTES)
                self.rest, self._text, self._at = bytes(self._view(len(self._text))), b"", 0
            elif found.stop is Stop.OVER or (self._over and not self._left):
                return
            elif found.stop is Stop.HUNGRY:
                self._fill(self._left + min(self._size, EVENT_BYTES))
