"""What the app costs a slow line and the cores that train: bars of the app, measured in a real pty on the real command.

A recorded run (`tests/replay.py`) goes on at 10 steps/s in a process of its own; the app is opened, the run is watched,
and what comes out of the terminal is counted. The terminal answers the questions that textual asks, so that frames are
wrapped as on a terminal that shows them at once. Times hold for cores that do nothing else; beside them stands the
app's own CPU time.

Usage: python benchmarks/tui.py [--only NAME]... [--minutes N]
"""

import argparse
import contextlib
import fcntl
import os
import pty
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the terminal is that of the tests

from tests.pty_terminal import Cells  # noqa: E402

REPLAY = ROOT / "tests" / "replay.py"
GRADSCOPE = Path(sys.executable).with_name("gradscope")
ANSWERS = {b"\x1b[?2026$p": b"\x1b[?2026;2$y"}
"""What a terminal that shows frames at once says when it is asked."""

LARGE, SMALL = (160, 48), (80, 24)
UP, ENTER = b"\x1b[A", b"\r"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Bar:
    """One line of the table."""

    what: str
    measured: float
    bar: float
    unit: str
    remark: str = ""

    @property
    def holds(self) -> bool:
        return self.measured <= self.bar


class App:
    """The app in a terminal."""

    def __init__(self, out: Path, size: tuple[int, int], *, colours: str = "truecolor") -> None:
        environment = os.environ | {
            "XDG_STATE_HOME": str(out / "state"),
            "TERM": "xterm-256color",
            "COLORTERM": colours,
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
        }
        environment.pop("NO_COLOR", None)
        self.master, slave = pty.openpty()
        width, height = size
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [GRADSCOPE, "--out", str(out)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=out,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - there are no threads here
        )
        os.close(slave)
        self.cells = Cells(*size)
        self.sent: list[tuple[float, int]] = []
        """When each piece came, and how many bytes it had."""

    def read(self, seconds: float, until: Callable[[str], bool] | None = None) -> float | None:
        """Take in what comes; return when the screen came to fulfil `until`, `None` if it did not."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                piece = os.read(self.master, 1 << 16)
            except OSError as error:
                raise SystemExit(f"the app has ended: {self.process.wait()}\n{self.cells.text}") from error
            now = time.monotonic()
            self.sent.append((now, len(piece)))
            self.cells.feed(piece)
            for question, answer in ANSWERS.items():
                if question in piece:
                    os.write(self.master, answer)
            if until is not None and until(self.cells.text):
                return now
        return None

    def wait_for(self, pattern: str, seconds: float = 30.0) -> float:
        wanted = re.compile(pattern)
        found = self.read(seconds, lambda text: wanted.search(text) is not None)
        if found is None:
            raise SystemExit(f"{pattern!r} did not come\n{self.cells.text}")
        return found

    def press(self, key: bytes) -> float:
        now = time.monotonic()
        os.write(self.master, key)
        return now

    def bytes_between(self, start: float, end: float) -> int:
        return sum(size for at, size in self.sent if start <= at < end)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def resident_mib(self) -> float:
        """The most that was resident so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def watch(self) -> None:
        """From home to the live screen of the run that goes on."""
        self.wait_for("quick")
        self.read(1.0)
        self.press(UP)
        self.read(1.0)
        self.press(ENTER)


@contextlib.contextmanager
def opened(out: Path, size: tuple[int, int]) -> Iterator[App]:
    app = App(out, size)
    try:
        yield app
    finally:
        app.process.kill()
        app.process.wait()
        os.close(app.master)


@contextlib.contextmanager
def replayed(*options: str) -> Iterator[tuple[Path, Path]]:
    """A run that goes on, and the output root that it is in."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, REPLAY, folder, *options]
        environment = os.environ | {"XDG_STATE_HOME": str(Path(folder) / "state")}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            assert process.stdout is not None
            yield Path(folder), Path(process.stdout.readline().strip())
        finally:
            process.kill()
            process.wait()


def first_paint(minutes: float) -> Iterator[Bar]:
    """From the command to home with its presets; the first start fills caches and is not counted."""
    times, cpu = [], []
    with replayed("--gpu") as (out, _):
        for _ in range(6):
            with opened(out, LARGE) as app:
                times.append(app.wait_for("quick") - app.started)
                cpu.append(app.cpu_seconds())
    remark = f"{statistics.median(cpu[1:]):.2f} s of CPU time"
    yield Bar("first paint", statistics.median(times[1:]), 0.8, "s", remark)


def live(size: tuple[int, int], minutes: float) -> tuple[float, float, float]:
    """Watch a run; return KB/s in the first minute and over all, and the share of a core in %."""
    with replayed("--gpu", "--seconds", str(minutes * 60 + 30)) as (out, _), opened(out, size) as app:
        app.wait_for("quick")
        app.read(1.0)
        app.press(UP)
        app.read(1.0)
        start, cpu = time.monotonic(), app.cpu_seconds()
        app.press(ENTER)
        app.read(minutes * 60)
        end = time.monotonic()
        first = app.bytes_between(start, start + 60) / 60
        whole = app.bytes_between(start, end) / (end - start)
        return first / 1000, whole / 1000, (app.cpu_seconds() - cpu) / (end - start) * 100


def large(minutes: float) -> Iterator[Bar]:
    first, whole, cpu = live(LARGE, minutes)
    yield Bar("160x48, first minute", first, 8, "KB/s")
    yield Bar(f"160x48, {minutes:g} minutes", whole, 4, "KB/s")
    yield Bar("160x48, share of a core", cpu, 6, "%")


def small(minutes: float) -> Iterator[Bar]:
    first, _, cpu = live(SMALL, min(minutes, 1))
    yield Bar("80x24, first minute", first, 2, "KB/s")
    yield Bar("80x24, share of a core", cpu, 6, "%")


def keys(minutes: float) -> Iterator[Bar]:
    """From a key press to its effect on the screen, while a run trains on both cores."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        environment = os.environ | {"XDG_STATE_HOME": str(out / "state")}
        settings = ["-s", "run.threads=2", "-s", "budget.updates=100000"]
        run = [GRADSCOPE, "run", "vit-tiny", "--out", str(out), "--detach", *settings]
        subprocess.run(run, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with opened(out, LARGE) as app:
                app.watch()
                app.wait_for("measuring", 120)
                app.read(3.0)
                times = []
                for number in range(40):
                    app.read(0.4 + 0.013 * number)
                    key = "2341"[number % 4]
                    pressed = app.press(key.encode())
                    times.append((app.wait_for(f"▸ {key}", 5) - pressed) * 1000)
        finally:
            subprocess.run(
                [GRADSCOPE, "stop", "last", "--out", str(out)], env=environment, check=False, stdout=subprocess.DEVNULL
            )
    yield Bar("key to repaint, both cores busy, median", statistics.median(times), 100, "ms")
    yield Bar("key to repaint, both cores busy, 95 %", sorted(times)[int(len(times) * 0.95) - 1], 100, "ms")


def long_run(minutes: float) -> Iterator[Bar]:
    """A run of 100,000 steps: from enter to its last step on the screen, and the memory of the app after that."""
    times, cpu, memory = [], [], []
    with replayed("--gpu", "--steps", "100000", "--seconds", "600") as (out, _):
        for _ in range(3):
            with opened(out, LARGE) as app:
                app.wait_for("quick")
                app.read(6.0)  # home has read the run, too
                app.press(UP)
                app.read(1.0)
                before, pressed = app.cpu_seconds(), app.press(ENTER)
                times.append(app.wait_for(r"step +100\d\d\d/") - pressed)
                cpu.append(app.cpu_seconds() - before)
                app.read(10.0)
                memory.append(app.resident_mib())
    remark = f"{statistics.median(cpu):.2f} s of CPU time"
    yield Bar("a run of 100,000 steps opens in", statistics.median(times), 1.5, "s", remark)
    yield Bar("resident with it", max(memory), 150, "MB")


def storm(minutes: float) -> Iterator[Bar]:
    """1,000 steps/s that each print the same warning: 20 s of it at 80x24."""
    with replayed("--rate", "1000", "--warn", "--seconds", "60") as (out, _), opened(out, SMALL) as app:
        app.watch()
        app.read(1.0)
        app.press(b"5")
        start, cpu = time.monotonic(), app.cpu_seconds()
        app.read(20.0)
        end = time.monotonic()
        yield Bar("1,000 steps/s and warnings, 80x24", app.bytes_between(start, end) / (end - start) / 1000, 20, "KB/s")
        yield Bar("the same, share of a core", (app.cpu_seconds() - cpu) / (end - start) * 100, 25, "%")


MEASURES: dict[str, Callable[[float], Iterator[Bar]]] = {
    "first-paint": first_paint,
    "large": large,
    "small": small,
    "keys": keys,
    "long-run": long_run,
    "storm": storm,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=sorted(MEASURES), help="measure this one; repeatable")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long the live screen is watched")
    options = parser.parse_args()
    bars: list[Bar] = []
    for name in options.only or MEASURES:
        for bar in MEASURES[name](options.minutes):
            verdict = "ok" if bar.holds else "MISSED"
            figure = f"{bar.what:<42}{bar.measured:>9.2f} {bar.unit:<5} bar {bar.bar:>6g}  {verdict:<6}"
            print(f"{figure}  {bar.remark}".rstrip(), flush=True)
            bars.append(bar)
    return 0 if all(bar.holds for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
