"""Pictures of five screens with fixed data, kept as SVG: layout, colours and footers, which other tests do not look at.

Textual and Rich draw and write them, so that they are compared, and made anew, on the versions of `constraints.txt`
only. To make them anew after a change that was meant: `pytest tests/tui/test_snapshots.py --snapshot-update`.
"""

import re
import time
from array import array
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from textual import constants
from textual.pilot import Pilot
from textual.screen import Screen

from gradscope.core.status import Status
from gradscope.tui.compare.reading import Read, Series
from gradscope.tui.home.view import HomeView
from gradscope.tui.runs.view import RunsView, entry_of, running_entry
from gradscope.tui.screens.compare import CompareScreen
from gradscope.tui.screens.home import HomeScreen
from gradscope.tui.screens.live import LiveScreen
from gradscope.tui.screens.results import ResultsScreen
from gradscope.tui.screens.runs import RunsScreen
from tests.builders import finished_events, run_directory
from tests.home_views import Launches, home, listed, running
from tests.made_summaries import MIB, made, side
from tests.shown_app import ShownApp, make_context
from tests.tui.views import ListFeed, gpu_view, running_view

OUT = Path("traces")
"""The output root: below the working directory, so that no picture has a path of this machine in it."""

SMALL, LARGE = (80, 24), (160, 48)

PINS = Path(__file__).parents[2] / "constraints.txt"

DRAWING = ("textual", "rich")


def wrong_versions() -> str:
    """Return which packages that draw are not those that the pictures were made with; empty if none."""
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", PINS.read_text(), re.MULTILINE))
    return ", ".join(f"{name} is {version(name)}, not {pins[name]}" for name in DRAWING if version(name) != pins[name])


@pytest.fixture(autouse=True)
def same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing of the machine, the terminal or the user; on other versions no comparison, and no new pictures."""
    if wrong := wrong_versions():
        if request.config.getoption("update_snapshots"):
            pytest.fail(f"pictures are made with the versions of constraints.txt: {wrong}", pytrace=False)
        pytest.skip(f"pictures are of other versions: {wrong}")
    for name in ("NO_COLOR", "COLUMNS", "LINES", "TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    for name, value in {"COLOR_SYSTEM": "truecolor", "FILTERS": ""}.items():  # read from the environment long ago
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def same(snap_compare: Callable[..., bool]) -> Callable[..., bool]:
    """Return `same(screen, size)`: whether a screen looks as it does in its picture."""

    def compared(screen: Screen[Any], size: tuple[int, int]) -> bool:
        app = ShownApp(screen, make_context(OUT))
        app.animation_level = "none"
        return snap_compare(app, terminal_size=size, run_before=settled)

    return compared


async def settled(pilot: Pilot[None]) -> None:
    """Wait until everything was read and shown; a live screen reads on, and needs its first view only."""
    screen = pilot.app.screen
    if isinstance(screen, LiveScreen):
        while screen.view is None:
            await pilot.pause(0.01)
    else:
        while any(not worker.is_finished for worker in pilot.app.workers):
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()
    await pilot.pause()


sizes = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "160x48"])


class Source:
    """Gives one view, whoever asks."""

    def __init__(self, view: Any) -> None:
        self.view = view

    def read(self, **_: Any) -> Any:
        return self.view


@sizes
def test_home(same: Callable[..., bool], size: tuple[int, int]) -> None:
    view: HomeView = home(OUT, runs=3, going=True)
    assert same(HomeScreen(Source(view), Launches()), size)


@pytest.mark.parametrize(("view", "size"), [(running_view, SMALL), (gpu_view, LARGE)], ids=["cpu-80x24", "gpu-160x48"])
def test_live(same: Callable[..., bool], view: Callable[[], Any], size: tuple[int, int]) -> None:
    assert same(LiveScreen(ListFeed([view()])), size)


@sizes
def test_results(same: Callable[..., bool], size: tuple[int, int]) -> None:
    assert same(ResultsScreen(run_directory(OUT, events=finished_events())), size)


@sizes
def test_runs(same: Callable[..., bool], size: tuple[int, int]) -> None:
    over = (
        listed(OUT, 4, loss=0.25, optimizer="sgd", strategy="checkpoint"),
        listed(OUT, 3),
        listed(OUT, 2, Status.OOM, loss=None, step_ms=None, reason="out of memory at step 3, backward"),
        listed(OUT, 1, preset="vit-tiny"),
    )
    view = RunsView((running_entry(running(OUT)), *map(entry_of, over)), len(over), True)
    assert same(RunsScreen(Source(view), Launches()), size)


@sizes
def test_compare(same: Callable[..., bool], size: tuple[int, int]) -> None:
    """A baseline of 100 ms a step, and a run of 125 ms that needs less memory and learns less."""
    less = {"peak_activations_bytes": 4 * MIB, "allocated_peak_bytes": 22 * MIB}
    sides = (
        side("quick 00000a", made("a")),
        side("quick 00000b", made("b", 125.0, loss=2.5, memory=less, strategy="checkpoint")),
    )
    read = Read(sides, (curve(100.0, 4.0), curve(125.0, 4.5)), (OUT / "a", OUT / "b"), ())
    assert same(CompareScreen(read.paths, found=read), size)


def curve(step_ms: float, loss: float) -> Series:
    """Twenty steps; the loss falls by 0.1 in each."""
    numbers = range(1, 21)
    return Series(
        step=array("d", numbers),
        seconds=array("d", [number * step_ms / 1000 for number in numbers]),
        loss=array("d", [loss - number / 10 for number in numbers]),
        wall_ms=array("d", [step_ms] * len(numbers)),
    )
