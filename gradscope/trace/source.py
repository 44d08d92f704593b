"""A trace's bytes as a stream in bounded pieces, whether the file is compressed or not.

The first bytes tell which it is, never the name (pytorch/pytorch#56554). Plain reads, no memory map: a file that
shrinks while it is mapped kills the reader, and mapped pages count as its memory.
"""

import zlib
from pathlib import Path
from types import TracebackType
from typing import Self

from gradscope.core.units import format_bytes, format_pct
from gradscope.errors import GradscopeError

GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 31  # a gzip header, and the largest window
GZIP_CHECKS = {"incorrect data check": 4, "incorrect length check": 0}
"""What zlib says of a member of which only the end is wrong; how much of that end it has not read then."""
COMPRESSED_READ_BYTES = 1 << 17


class Source:
    """A trace's text, read once from its start to its end.

    Raises:
        GradscopeError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        """What is wrong with its compression, and how much of the text that costs."""
        try:
            self._file = path.open("rb")
            self._head = self._file.read(len(GZIP_MAGIC))
            self.file_bytes = path.stat().st_size
        except OSError as error:
            raise GradscopeError(f"cannot read the trace {path}: {error.strerror}", "may you read it?") from error
        self.compressed = self._head == GZIP_MAGIC
        self._inflate = zlib.decompressobj(GZIP_WINDOW) if self.compressed else None
        self._packed = b""
        self._ahead = b""
        """Unpacked already, but not asked for yet."""
        self._text_bytes = 0
        """Unpacked so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def read(self, size_bytes: int) -> bytes:
        """Return the next `size_bytes` of text; fewer only at its end, and none after it.

        Raises:
            GradscopeError: The file cannot be read.
        """
        try:
            if self._inflate is None:
                head, self._head = self._head, b""
                return head + self._file.read(size_bytes - len(head))
            return self._unpack(size_bytes)
        except OSError as error:
            reason = f"cannot read the trace {self.path}: {error.strerror}"
            raise GradscopeError(reason, "is the disk sound?") from error

    def _unpack(self, size_bytes: int) -> bytes:
        pieces = [self._ahead[:size_bytes]]
        self._ahead = self._ahead[size_bytes:]
        missing = size_bytes - len(pieces[0])
        while missing and self._inflate is not None:
            packed = self._packed or self._next_packed()
            before = self._inflate.copy()
            try:
                piece, broken = self._inflate.decompress(packed, missing), None
            except zlib.error as error:
                sound, rest = _sound_part(before, packed)
                piece, self._ahead = sound[:missing], sound[missing:]
                broken = str(error), rest
            self._text_bytes += len(piece) + len(self._ahead)
            missing -= len(piece)
            pieces.append(piece)
            if broken:
                self._go_on(*broken)
                continue
            self._packed = self._inflate.unconsumed_tail
            if self._inflate.eof:
                self._next_member(self._inflate.unused_data)
            elif not packed and not piece:
                self._end(f"its compressed data ends too early, {self._so_far}")
        return b"".join(filter(None, pieces))

    def _next_packed(self) -> bytes:
        head, self._head = self._head, b""
        return head + self._file.read(COMPRESSED_READ_BYTES)

    @property
    def _so_far(self) -> str:
        return f"after {format_bytes(self._text_bytes)} of text"

    def _go_on(self, error: str, rest: bytes) -> None:
        """Go on behind a damage, if it is only a member's check that fails: its text is all there."""
        for check, left in GZIP_CHECKS.items():
            if check in error:
                self.damage = f"its compressed data fails its own check ({check}): read to its end, parts may be wrong"
                self._next_member((rest + self._file.read(left))[left:])
                return
        share = format_pct(100 * (self._file.tell() - len(rest)) / self.file_bytes)
        self._end(
            f"its compressed data is damaged at {share} of the file ({error}), {self._so_far}: what follows is lost"
        )

    def _next_member(self, rest: bytes) -> None:
        """Go on with the next gzip member, if one follows; zeros and whatever else stands there end the text."""
        rest = rest.lstrip(b"\0")
        while len(rest) < len(GZIP_MAGIC) and (more := self._file.read(COMPRESSED_READ_BYTES)):
            rest = (rest + more).lstrip(b"\0")
        if rest.startswith(GZIP_MAGIC):
            self._inflate, self._packed = zlib.decompressobj(GZIP_WINDOW), rest
        else:
            extra = len(rest) + self.file_bytes - self._file.tell()
            self._end(f"{format_bytes(extra)} that are no gzip follow its compressed data: left out" if rest else None)

    def _end(self, damage: str | None) -> None:
        self._inflate, self._packed, self.damage = None, b"", damage or self.damage
        self._file.seek(0, 2)


def _sound_part(inflate: "zlib._Decompress", packed: bytes) -> tuple[bytes, bytes]:
    """Return what can be unpacked before the place at which `packed` is damaged, byte by byte; and what follows it.

    An error takes all with it that its call had unpacked. A byte holds at most about a KiB.
    """
    sound, at = bytearray(), 0
    try:
        for at in range(len(packed)):
            sound += inflate.decompress(packed[at : at + 1])
    except zlib.error:  # the place; it was told already
        pass
    return bytes(sound), packed[at + 1 :]
