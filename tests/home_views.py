"""Made-up home screens for tests: presets that ship, runs with round numbers, a machine that is known."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradscope.analysis.expect import Outlook, outlook
from gradscope.analysis.listing import RunRow
from gradscope.analysis.machine import Gpu, Machine
from gradscope.analysis.progress import Standing
from gradscope.analysis.run_list import ListedRun
from gradscope.config.load import load_preset
from gradscope.config.schema import Preset
from gradscope.core.events import Stage
from gradscope.core.status import Status
from gradscope.rundir.handle import RunHandle
from gradscope.tui.home.view import HomeView, PresetItem, RunningRun

GIB = 1024**3

CPU_ONLY = Machine(cores=2, memory_bytes=8 * GIB, no_gpu="no NVIDIA driver here", no_gpu_remedy="install the driver")
WITH_GPU = Machine(cores=8, memory_bytes=64 * GIB, gpu=Gpu("NVIDIA H200", 140 * GIB))

CREATED_NS = 1_800_000_000 * 10**9 - 120 * 10**9
"""Two minutes before the clock of `shown_app`."""


def item(name: str, machine: Machine = CPU_ONLY, cells: int | None = None) -> PresetItem:
    """A shipped preset with a rough figure."""
    preset = load_preset(name)
    ahead: Outlook = outlook(preset, machine, None)
    return PresetItem(name=name, path=Path(f"{name}.toml"), local=False, preset=preset, cells=cells, outlook=ahead)


def broken(name: str = "mine", message: str = 'lr in presets/mine.toml: found "x", allowed a number > 0') -> PresetItem:
    return PresetItem(name=name, path=Path(f"presets/{name}.toml"), local=True, message=message, hint="mend it")


def listed(out: Path, number: int = 0, status: Status = Status.DONE, **fields: Any) -> ListedRun:
    """A run that is over; a higher number is a later run."""
    run_id = f"20270115T0758{number:02d}Z-00000{number}"
    row = RunRow(
        run_id=run_id,
        path=str(out / "quick" / run_id),
        preset="quick",
        model="vit",
        optimizer="adam",
        strategy="standard",
        device="cpu",
        precision="fp32",
        status=status,
        loss=0.31,
        step_ms=142.0,
        peak_bytes=300 * 1024**2,
        created_wall_ns=CREATED_NS,
    )
    reason = fields.pop("reason", "")
    return ListedRun(replace_row(row, **fields), reason)


def replace_row(row: RunRow, **fields: Any) -> RunRow:
    import msgspec

    return msgspec.structs.replace(row, **fields)


def running(out: Path, **fields: Any) -> RunningRun:
    run = RunningRun(
        path=out / "quick" / "20270115T075900Z-00000a",
        run_id="20270115T075900Z-00000a",
        preset="quick",
        optimizer="adam",
        strategy="accumulate x4",
        standing=Standing("measuring", Stage.MEASURE, 12, 60, 0.25, 18.0),
        loss=2.5,
        elsewhere=False,
    )
    return replace(run, **fields)


def home(out: Path, *, runs: int = 0, going: bool = False, extra: Sequence[PresetItem] = ()) -> HomeView:
    """quick, two tiny presets, a full one, a grid, and what is given."""
    names = ("quick", "vit-tiny", "llama-tiny", "llama-1b")
    presets = (*map(item, names), item("grid-tiny", cells=60), *extra)
    recent = tuple(listed(out, number) for number in reversed(range(runs)))
    return HomeView(
        running=(running(out),) if going else (),
        presets=presets,
        recent=recent,
        total=runs + going,
        machine=CPU_ONLY,
    )


class Source:
    """Gives the view that it was told last."""

    def __init__(self, view: HomeView) -> None:
        self.view = view

    def read(self) -> HomeView:
        return self.view


class Launches:
    """Stands for `launch`: writes down what is started."""

    def __init__(self, error: Exception | None = None) -> None:
        self.started: list[tuple[Preset, tuple[str, ...]]] = []
        self.error = error

    def __call__(self, preset: Preset, *, out: Path, argv: Sequence[str] = ()) -> RunHandle:
        if self.error is not None:
            raise self.error
        self.started.append((preset, tuple(argv)))
        return RunHandle(out / preset.name / "20270115T080000Z-0a1b2c")
