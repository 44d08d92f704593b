"""What loading some traces and answering everything about them will take, from a look at a few places of their text."""

import io
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gradscope.trace.document import GZIP_MAGIC, GZIP_WINDOW, uncompressed_bytes

SAMPLES, SAMPLE_BYTES = 64, 1 << 14
"""Places looked at, and bytes of each; of a compressed file as much of its beginning."""
EVENT_MARK = b'"ph"'
EVENT_BYTES = 300
"""Of an event, where a sample shows none."""
BASE_BYTES = 150 << 20
"""Of memory, for any trace: libraries, and the pieces being read."""
MEMORY_PER_EVENT_BYTES = 650
SECONDS_PER_EVENT = 12e-6
"""Measured on two cores, everything printed: with stacks and memory 423 k events (151 MB) took 6.3 s of processor and
399 MiB, 1.27 M (452 MB) 17.3 s and 827 MiB; of CUDA without stacks 649 k (154 MB) took 6.5 s and 525 MiB, 1.9 M
(455 MB) 19.7 s and 1340 MiB. Idle cores share the reading: then it is less."""


@dataclass(frozen=True, slots=True)
class Cost:
    """About what some traces take."""

    text_bytes: int
    """Of the files, unpacked."""
    events: int

    @property
    def memory_bytes(self) -> int:
        """At the most at one time, to load and answer."""
        return BASE_BYTES + MEMORY_PER_EVENT_BYTES * self.events

    @property
    def seconds(self) -> float:
        """Of one processor."""
        return SECONDS_PER_EVENT * self.events


def cost_of(paths: Iterable[Path]) -> Cost:
    """Look at some files; one that cannot be read costs nothing, loading it says so."""
    text_bytes = events = 0
    for path in paths:
        with suppress(OSError):
            size_bytes = max(uncompressed_bytes(path), path.stat().st_size)
            text_bytes += size_bytes
            sample = _sample(path)
            count = sample.count(EVENT_MARK)
            events += round(size_bytes * count / len(sample) if count else size_bytes / EVENT_BYTES)
    return Cost(text_bytes, events)


def _sample(path: Path) -> bytes:
    """Return some text from places all over the file: its events are not alike from end to end."""
    with path.open("rb") as file:
        if file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
            file.seek(0)
            with suppress(zlib.error):
                return zlib.decompressobj(GZIP_WINDOW).decompress(
                    file.read(SAMPLES * SAMPLE_BYTES), SAMPLES * SAMPLE_BYTES
                )
            return b""
        size_bytes = file.seek(0, io.SEEK_END)
        pieces = []
        for number in range(SAMPLES):
            file.seek(number * size_bytes // SAMPLES)
            pieces.append(file.read(min(SAMPLE_BYTES, size_bytes // SAMPLES + 1)))
        return b"".join(pieces)
