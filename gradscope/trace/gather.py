"""The chunks of a trace put together, one column at a time: the whole and one column is all that is in memory."""

from collections.abc import Iterable

import polars as pl

from gradscope.trace.columns import RAW_SCHEMA, Chunk
from gradscope.trace.scan import Tally


class Gathered:
    """Columns of all chunks in pieces, in the order of the file."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.named: list[tuple[str, str, str, str]] = []
        """Metadata events: (kind, pid, tid, text)."""
        self.height = 0
        """Rows."""
        self.places = 0
        """Events in the file, metadata events counted too."""
        self._heights: list[int] = []
        self._columns: dict[str, dict[int, pl.Series]] = {}

    @property
    def nothing(self) -> bool:
        """Whether no event was found so far."""
        return not self.height and not self.named

    @property
    def foreign(self) -> bool:
        """Whether there were entries, and none of them an event."""
        return self.nothing and self.tally.counts["no event"] + self.tally.counts["no phase"] > 0

    def add(self, offset: int, chunk: Chunk) -> None:
        """Take over the next chunk, which starts at byte `offset` of the text."""
        number = len(self._heights)
        for name, series in chunk.columns.items() if chunk.height else ():
            placed = series + self.places if name == "index" else series
            self._columns.setdefault(name, {})[number] = placed
        self.tally.merge(chunk.tally, self.places, offset)
        self.named += chunk.named
        self._heights.append(chunk.height)
        self.height += chunk.height
        self.places += chunk.places

    def take(self, name: str) -> pl.Series:
        """Return a whole column; its pieces are given up."""
        kind = RAW_SCHEMA[name]
        pieces = self._columns.pop(name, None)
        if pieces is None:
            return _nulls(name, kind, self.height)
        heights = ((number, height) for number, height in enumerate(self._heights) if height)
        return pl.concat([pieces.get(number, _nulls(name, kind, height)) for number, height in heights], rechunk=True)

    def frame(self, names: Iterable[str]) -> pl.DataFrame:
        """Return some columns."""
        return pl.DataFrame([self.take(name) for name in names])


def _nulls(name: str, kind: object, height: int) -> pl.Series:
    return pl.Series(name, [None], dtype=kind).new_from_index(0, height)  # type: ignore[arg-type]
