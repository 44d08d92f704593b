"""Pieces of a trace decoded by helper processes, in the order of the file."""

import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import IO, Self

from gradscope.trace.columns import Chunk, to_chunk
from gradscope.trace.part import receive_chunk, send_request
from gradscope.trace.pieces import Piece
from gradscope.trace.scan import scan_chunk

AHEAD = 2
"""Pieces that wait for a helper, for each helper."""


def _start(command: list[str]) -> "subprocess.Popen[bytes]":
    """Start a helper, in a group of its own: Ctrl-C is for the front end, and a helper leaves when its pipe closes."""
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0
    )


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with suppress(BrokenPipeError):  # what was not sent yet has nobody to read it
            pipe.close()


class Helpers:
    """Processes that decode pieces. Start them early: they import while the file's header is read."""

    def __init__(self, count: int, file: Path | None, *, with_shapes: bool, with_stacks: bool) -> None:
        """Start them.

        Args:
            count: How many.
            file: Where they read pieces themselves; None if they cannot, since it is compressed.
            with_shapes: As for `load_trace`.
            with_stacks: As for `load_trace`.
        """
        self._options = {"with_shapes": with_shapes, "with_stacks": with_stacks}
        self._with_text = file is None
        command = [sys.executable, "-m", "gradscope.trace.part", str(int(with_shapes)), str(int(with_stacks))]
        command += [] if file is None else [str(file)]
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(count):
                self._processes.append(_start(command))
        except OSError:
            self.__exit__(None, None, None)
            raise
        self._waiting: Queue[tuple[int, Piece] | None] = Queue(AHEAD * count)
        self._chunks: dict[int, tuple[int, Chunk]] = {}
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for process in self._processes:
                process.kill()
                stack.callback(process.wait)
                for pipe in (process.stdin, process.stdout):
                    stack.callback(_close, pipe)

    def decode(self, pieces: Iterable[Piece]) -> Iterator[tuple[int, Chunk]]:
        """Decode pieces; yield (offset, chunk) in their order once all are done.

        A helper that dies takes nothing with it: its piece is decoded here.
        """
        threads = [threading.Thread(target=self._serve, args=(process,), daemon=True) for process in self._processes]
        for thread in threads:
            thread.start()
        try:
            for number, piece in enumerate(pieces):
                self._waiting.put((number, piece))
                if self._failure:
                    break
        finally:
            for _ in threads:
                self._waiting.put(None)
            for thread in threads:
                thread.join()
        if self._failure:
            raise self._failure
        for number in sorted(self._chunks):
            yield self._chunks.pop(number)

    def _serve(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        alive = True
        while (item := self._waiting.get()) is not None:
            number, piece = item
            try:
                chunk = None
                if alive:
                    try:
                        send_request(process.stdin, piece, with_text=self._with_text)
                        chunk = receive_chunk(process.stdout)
                    except (OSError, EOFError):
                        alive = False
                if chunk is None:
                    chunk = to_chunk(scan_chunk(piece.text), **self._options)
                self._chunks[number] = piece.offset, chunk
            except BaseException as error:  # raised again by `decode`; a thread would only print it
                self._failure = error
