"""Take the README's pictures of the app: real runs in a folder of their own, each screen as SVG into `docs/screens`.

Usage: python docs/take_screenshots.py [--in FOLDER] [--only home,live,run,compare]
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot

from gradscope.config.load import load_preset
from gradscope.launch.spawn import launch
from gradscope.rundir.handle import RunHandle, is_running
from gradscope.rundir.registry import all_runs
from gradscope.tui.app import GradscopeApp
from gradscope.tui.glyphs import UNICODE
from gradscope.tui.screens.base import Context

PICTURES = Path(__file__).resolve().parent / "screens"
OUT = Path("traces")
"""The pictures show the default output root, and no path of this machine."""

SIZE = (120, 36)
PRESET = "llama-tiny"
STRATEGIES = ("standard", "checkpoint")
LIVE_SHARE = 0.6
"""How much of a run is done in the picture of the live screen."""

Shoot = Callable[[Pilot[None]], Awaitable[None]]


def start(strategy: str, out: Path) -> RunHandle:
    """Start one run of the preset that the pictures show."""
    return launch(load_preset(PRESET, [f"memory.strategy={strategy}"]), out=out, argv=["gradscope", "run", PRESET])


def finish(run: RunHandle) -> Path:
    """Wait for a run's end."""
    while is_running(run.status()):
        time.sleep(0.2)
    return run.path


async def picture(name: str, out: Path, shoot: Shoot, run: Path | None = None) -> None:
    """Open the app, let `shoot` bring it to where the picture is, and take that."""
    context = Context(
        out=out, glyphs=UNICODE, refresh_seconds=0.2, now_wall_ns=time.time_ns, now_monotonic_ns=time.monotonic_ns
    )
    app = GradscopeApp(context, run=run)
    async with app.run_test(size=SIZE) as pilot:
        await shoot(pilot)
        await pilot.pause()
        (PICTURES / f"{name}.svg").write_text(app.export_screenshot(title="gradscope"), encoding="utf-8")
    print(PICTURES / f"{name}.svg")


def after(seconds: float) -> Shoot:
    """Leave the screen time to read what it shows."""

    async def shoot(pilot: Pilot[None]) -> None:
        await pilot.pause(seconds)

    return shoot


def compared(runs: list[Path]) -> Shoot:
    """Open the comparison of runs."""

    async def shoot(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, GradscopeApp)
        app.open_compare(runs)
        await pilot.pause(3)

    return shoot


def live(run: RunHandle, steps: int) -> Shoot:
    """Wait until a run has done as many steps."""

    async def shoot(pilot: Pilot[None]) -> None:
        while is_running(run.status()) and sum(1 for event in run.events() if hasattr(event, "wall_ms")) < steps:
            await pilot.pause(0.2)
        await pilot.pause(1)

    return shoot


async def take(out: Path, wanted: set[str]) -> None:
    """Make the runs that are missing, and take the pictures."""
    done = [run.path for run in reversed(all_runs(out)) if not is_running(run.status())]
    while len(done) < len(STRATEGIES):
        done.append(finish(start(STRATEGIES[len(done)], out)))
    if "live" in wanted:
        run = start("accumulate", out)
        planned = load_preset(PRESET).budget.updates or 0
        await picture("live", out, live(run, int(planned * LIVE_SHARE)), run.path)
        finish(run)
    if "home" in wanted:
        await picture("home", out, after(3))
    if "run" in wanted:
        await picture("run", out, after(6), done[0])
    if "compare" in wanted:
        await picture("compare", out, compared(done[:2]))


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--in", dest="folder", type=Path, help="where `traces` is, or is to be made; a new folder")
    parser.add_argument("--only", default="home,live,run,compare")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state  # other runs of this user are nobody's business
        PICTURES.mkdir(exist_ok=True)
        os.chdir(arguments.folder or state)
        asyncio.run(take(OUT, set(arguments.only.split(","))))


if __name__ == "__main__":
    main()
