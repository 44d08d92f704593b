"""What a cell of a sweep costs beside what it measures: its wall time less warm-up, measure, memory, profile and audit.

Bar: 0.5 s a cell. Three ways over the same cells of a grid: forked from a warm process, where a cell is written up
beside the start of the next one; the same, each written up before the next one starts; and a cold process a cell, as
`gradscope run` makes them. *a cell* is from its directory to its final status; *in the sweep* is what it adds to the
whole time, which is less where cells overlap. The last lines say whether writing up disturbs the next one's steps.

Usage: python benchmarks/sweep.py [--grid grid-tiny] [--cells 10] [--rounds 1] [--no-cold]
"""

import argparse
import itertools
import math
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from gradscope.analysis.summary import load_summary
from gradscope.config.load import load_preset
from gradscope.config.schema import Preset
from gradscope.core.events import StageEntered, WorkerEnded
from gradscope.core.status import Status
from gradscope.launch.plan import make_plan
from gradscope.launch.spawn import launch
from gradscope.launch.sweep import Options, Sweep, Watcher
from gradscope.launch.wakeup import catching_signals
from gradscope.rundir.handle import RunHandle

BAR_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell's times, in seconds."""

    wall: float
    stages: float
    step_ms: float


def cell_of(run: RunHandle) -> Cell:
    manifest, record, events = run.manifest(), run.status(), run.events()
    assert manifest is not None
    assert record.status is Status.DONE, (run, record.reason)
    first = next(event.t_ns for event in events if isinstance(event, StageEntered))
    last = next(event.t_ns for event in events if isinstance(event, WorkerEnded))
    step_ms = load_summary(run.path).time.step_ms
    assert step_ms is not None
    wall = (record.updated_wall_ns - manifest.created_wall_ns) / 1e9
    return Cell(wall, (last - first) / 1e9, step_ms.median)


def report(way: str, cells: list[Cell], whole: float) -> float:
    beside = [cell.wall - cell.stages for cell in cells]
    in_sweep = (whole - sum(cell.stages for cell in cells)) / len(cells)
    print(
        f"| {way:<24} | {len(cells):5} | {statistics.median(beside):8.2f} | {max(beside):7.2f} | {in_sweep:12.2f} |",
        flush=True,
    )
    return in_sweep


def warm(preset: Preset, out: Path, count: int, *, overlap: bool) -> tuple[list[Cell], float]:
    whole = make_plan(preset, out)
    plan = replace(whole, cells=whole.cells[:count], waiting=whole.waiting[:count])
    with catching_signals() as wakeup:
        sweep = Sweep(plan, Options(overlap=overlap), wakeup, Watcher())
        state = sweep.run()
    handles = [state.outcomes[cell.hash].handle for cell in plan.cells]
    first = min(manifest.created_wall_ns for handle in handles if (manifest := handle.manifest()))
    last = max(handle.status().updated_wall_ns for handle in handles)
    return [cell_of(handle) for handle in handles], (last - first) / 1e9


def cold(preset: Preset, out: Path, count: int) -> tuple[list[Cell], float]:
    started, cells = time.monotonic(), []
    for cell in make_plan(preset, out).cells[:count]:
        run = launch(cell.preset, out=out)
        while not run.status().status.is_final:
            time.sleep(0.01)
        cells.append(cell_of(run))
    return cells, time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description="What a cell of a sweep costs beside what it measures.")
    parser.add_argument("--grid", default="grid-tiny")
    parser.add_argument("--cells", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-cold", action="store_true")
    arguments = parser.parse_args()
    preset = load_preset(arguments.grid)
    overlapping: list[Cell] = []
    apart: list[Cell] = []
    costs: list[float] = []
    print("| way                      | cells | a cell s | worst s | in the sweep |")
    print("|---|--:|--:|--:|--:|")
    for number, (way, overlap) in itertools.product(
        range(arguments.rounds), (("warm", True), ("warm, one after another", False))
    ):
        with tempfile.TemporaryDirectory() as folder:
            cells, whole = warm(preset, Path(folder), arguments.cells, overlap=overlap)
        (overlapping if overlap else apart).extend(cells)
        cost = report(way, cells, whole)
        if overlap:
            costs.append(cost)
        if number == 0 and not overlap and not arguments.no_cold:
            with tempfile.TemporaryDirectory() as folder:
                report("cold", *cold(preset, Path(folder), arguments.cells))
    ratios = [math.log(a.step_ms / b.step_ms) for a, b in zip(overlapping, apart, strict=True)]
    print(
        f"\nmedian step beside writing up / without: {math.exp(statistics.fmean(ratios)):.3f} "
        f"(cells from {math.exp(min(ratios)):.3f} to {math.exp(max(ratios)):.3f})"
    )
    worst = max(costs)
    print(f"bar: {BAR_SECONDS} s a cell in the sweep; {worst:.2f} s: {'met' if worst <= BAR_SECONDS else 'MISSED'}")
    return 0 if worst <= BAR_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
