"""A process that decodes pieces of a trace for another one: requests on stdin, columns on stdout.

Run as `python -m gradscope.trace.part WITH_SHAPES WITH_STACKS [FILE]`. With FILE, requests say where in it pieces lie;
without (the file is compressed), the piece follows its request. It ends with its input.
"""

import gc
import io
import os
import struct
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import msgspec
import polars as pl

from gradscope.trace.columns import Chunk, to_chunk
from gradscope.trace.pieces import Piece
from gradscope.trace.scan import Tally, scan_chunk

SIZES = struct.Struct("<QQ")
"""Of a request: bytes of text, and where they lie. Of an answer: bytes of its facts, bytes of its columns."""


class Facts(msgspec.Struct):
    """A chunk beside its columns."""

    height: int
    places: int
    counts: dict[str, int]
    first: dict[str, tuple[int, int]]
    named: list[tuple[str, str, str, str]]
    whole: bool


def send_request(pipe: IO[bytes], piece: Piece, *, with_text: bool) -> None:
    """Ask for a piece to be decoded."""
    pipe.write(SIZES.pack(len(piece.text), piece.offset))
    if with_text:
        pipe.write(piece.text)
    pipe.flush()


def receive_chunk(pipe: IO[bytes]) -> Chunk:
    """Read an answer.

    Raises:
        EOFError: The process ended.
    """
    facts_bytes, columns_bytes = SIZES.unpack(_read(pipe, SIZES.size))
    facts = msgspec.json.decode(_read(pipe, facts_bytes), type=Facts)
    frame = pl.read_ipc_stream(_read(pipe, columns_bytes))
    tally = Tally()
    tally.counts.update(facts.counts)
    tally.first.update(facts.first)
    columns = {series.name: series for series in frame.get_columns()}
    return Chunk(columns, facts.height, facts.places, tally, facts.named, facts.whole)


def _read(pipe: IO[bytes], size_bytes: int) -> bytes:
    content = pipe.read(size_bytes)
    if len(content) < size_bytes:
        raise EOFError
    return content


def _send_chunk(pipe: IO[bytes], chunk: Chunk) -> None:
    facts = Facts(chunk.height, chunk.places, chunk.tally.counts, chunk.tally.first, chunk.named, chunk.whole)
    text, packed = msgspec.json.encode(facts), io.BytesIO()
    pl.DataFrame(list(chunk.columns.values())).write_ipc_stream(packed, compression="uncompressed")
    pipe.write(SIZES.pack(len(text), packed.tell()))
    pipe.write(text)
    pipe.write(packed.getbuffer())
    pipe.flush()


def main(arguments: list[str]) -> None:
    """Answer requests until there are no more."""
    gc.disable()
    options: dict[str, Any] = {"with_shapes": arguments[0] == "1", "with_stacks": arguments[1] == "1"}
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    with Path(arguments[2]).open("rb") if len(arguments) > 2 else nullcontext() as file:
        while head := requests.read(SIZES.size):
            size_bytes, offset = SIZES.unpack(head)
            if file is not None:
                file.seek(offset)
            scan = scan_chunk(_read(file or requests, size_bytes))
            _send_chunk(answers, to_chunk(scan, **options))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, EOFError, MemoryError):  # who asked is gone, or reads the piece itself once this ends
        os._exit(1)  # no flush to a pipe that nobody reads
