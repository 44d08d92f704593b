"""A terminal for tests: programs run in a real pty, keys go in, and what comes out is drawn on a screen of cells.

The screen knows what textual and gradscope send: cursor positions, clearing, text of one and two cells, and modes.
Colours are kept as they come, for tests that want none.
"""

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gradscope.core.text import display_width

SEQUENCE = re.compile(
    r"\x1b\[([<=>?]?)([0-9;:]*)([ -/]*)([@-~])"  # CSI
    r"|\x1b[\]P^_X](.*?)(?:\x07|\x1b\\)"  # OSC, DCS and other strings
    r"|\x1b([()*+][0-9A-Za-z]|[=>78cDEHMNOZ])",
    re.DOTALL,
)

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "ctrl+p": "\x10",
    "ctrl+c": "\x03",
    "ctrl+t": "\x14",
}

STEP_SECONDS = 0.05

ESCAPE_SECONDS = 0.3
"""A key that follows the escape key sooner is taken as one with Alt."""


class Cells:
    """What a terminal shows after all that was sent to it."""

    def __init__(self, width: int, height: int) -> None:
        self.modes: set[str] = set()
        """Private modes that are on, such as `?1049`."""
        self.styles: set[str] = set()
        """Parameters of every SGR that came."""
        self.strings: list[str] = []
        """Contents of OSC and DCS strings, such as `52;c;...` for the clipboard."""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        """Start with an empty screen of another size."""
        self.width, self.height = width, height
        self._cells = [[" "] * width for _ in range(height)]
        self._x = self._y = 0

    @property
    def text(self) -> str:
        """The lines, without spaces at their ends."""
        return "\n".join("".join(row).rstrip() for row in self._cells)

    def feed(self, data: bytes) -> None:
        """Take what a program sent."""
        text = self._pending + self._decode(data)
        self._pending = ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._put(text[at])
                at += 1
            elif found := SEQUENCE.match(text, at):
                self._obey(found)
                at = found.end()
            elif len(text) - at > 100_000:
                raise AssertionError(f"no sequence that is known: {text[at : at + 40]!r}")
            else:
                self._pending = text[at:]
                return

    def _put(self, character: str) -> None:
        if character == "\r":
            self._x = 0
        elif character == "\n":
            self._line_feed()
        elif character == "\b":
            self._x = max(0, self._x - 1)
        elif character >= " " and character != "\x7f":
            wide = display_width(character)
            if wide and self._x + wide <= self.width:
                self._cells[self._y][self._x] = character
                if wide == 2:
                    self._cells[self._y][self._x + 1] = ""
            self._x = min(self.width, self._x + wide)

    def _line_feed(self) -> None:
        if self._y == self.height - 1:
            self._cells = [*self._cells[1:], [" "] * self.width]
        else:
            self._y += 1

    def _obey(self, found: re.Match[str]) -> None:
        private, numbers, middle, final, string, _ = found.groups()
        if string is not None:
            self.strings.append(string)
        if final is None or middle:
            return
        values = [int(number or 0) for number in re.split("[;:]", numbers)]
        if private:
            modes = {f"{private}{number}" for number in numbers.split(";")}
            if final == "h":
                self.modes |= modes
            elif final == "l":
                self.modes -= modes
            elif (private, final) == (">", "u"):
                self.modes.add("kitty")
            elif (private, final) == ("<", "u"):
                self.modes.discard("kitty")
        elif final == "m":
            self.styles.add(numbers)
        else:
            self._move(final, values)

    def _move(self, final: str, values: list[int]) -> None:
        first = max(1, values[0])
        if final in "Hf":
            self._y = min(self.height, first) - 1
            self._x = min(self.width, max(1, values[1] if len(values) > 1 else 1)) - 1
        elif final == "A":
            self._y = max(0, self._y - first)
        elif final == "B":
            self._y = min(self.height - 1, self._y + first)
        elif final == "C":
            self._x = min(self.width - 1, self._x + first)
        elif final == "D":
            self._x = max(0, self._x - first)
        elif final == "G":
            self._x = min(self.width, first) - 1
        elif final == "J" and values[0] == 2:
            self._cells = [[" "] * self.width for _ in range(self.height)]
        elif final == "K" and values[0] == 0:
            self._cells[self._y][self._x :] = [" "] * (self.width - self._x)


class Terminal:
    """A program in a pty of its own, as leader of a session."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str],
        cwd: Path,
        ignoring: Sequence[int] = (),
    ) -> None:
        """Start `command` in a terminal of `size` columns and rows, with the signals in `ignoring` ignored."""
        self.cells = Cells(*size)
        self.sent_bytes = 0
        """By the program, so far."""
        self._master, slave = pty.openpty()
        self._size(*size)
        self.attributes = termios.tcgetattr(self._master)
        """As they were before the program started."""

        def prepare() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            for number in ignoring:
                signal.signal(number, signal.SIG_IGN)

        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509 - it makes system calls only
        )
        os.close(slave)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *happened: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.hang_up()

    @property
    def text(self) -> str:
        """What the terminal shows."""
        return self.cells.text

    def send(self, *keys: str) -> None:
        """Press keys, by name or as text, one after another."""
        for key in keys:
            os.write(self._master, KEYS.get(key, key).encode())
            self.read(ESCAPE_SECONDS if key == "escape" else STEP_SECONDS)

    def resize(self, width: int, height: int) -> None:
        """Change the window's size; the program is told by SIGWINCH."""
        self.cells.resize(width, height)
        self._size(width, height)

    def read(self, seconds: float) -> bool:
        """Draw what comes within so many seconds; `False` once the program has let go of the terminal."""
        until = time.monotonic() + seconds
        while self._master >= 0:
            ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return True
            try:
                data = os.read(self._master, 65536)
            except OSError:  # EIO: nobody holds the other end
                return False
            self.sent_bytes += len(data)
            self.cells.feed(data)
        return False

    def wait_for(self, wanted: str | Callable[[str], bool], seconds: float = 30.0) -> str:
        """Read until the terminal shows a text, or what it shows fulfils a condition; return what it shows.

        Raises:
            AssertionError: It did not come; says what the terminal shows instead.
        """
        until = time.monotonic() + seconds
        while not (wanted in self.text if isinstance(wanted, str) else wanted(self.text)):
            open_still = self.read(STEP_SECONDS)
            if time.monotonic() > until or not open_still:
                ended = "" if open_still else f" (the program has ended: {self.process.poll()})"
                raise AssertionError(f"{wanted!r} did not come{ended}; the terminal shows:\n{self.text}")
        return self.text

    def wait_for_end(self, seconds: float = 30.0, *, reading: bool = True) -> int:
        """Wait for the program's end and return its exit code.

        Raises:
            AssertionError: It did not end.
        """
        until = time.monotonic() + seconds
        while self.process.poll() is None:
            if not reading or not self.read(STEP_SECONDS):
                time.sleep(STEP_SECONDS)
            if time.monotonic() > until:
                raise AssertionError(f"it did not end; the terminal shows:\n{self.text}")
        if reading:
            self.read(0.0)
        return self.process.returncode

    def attributes_now(self) -> list[object]:
        """Return the terminal's attributes."""
        return termios.tcgetattr(self._master)

    def hang_up(self) -> None:
        """Take the terminal away, as a dropped connection does."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def _size(self, width: int, height: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
