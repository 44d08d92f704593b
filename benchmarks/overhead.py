"""What gradscope's instrumentation costs a step.

Instrumentation is switched per step, in random order, within one process: pairs of whole processes cannot resolve 1 %
on a noisy machine. A *bare* step is the same update with nobody watching; an *instrumented* one runs through the
worker's own loop code: phase stamps, loss, the step record in `events.jsonl`, the look at `control.jsonl`. The A/A
column compares two halves of the bare steps, drawn at random: it is what "no difference" looks like here.

Usage: python benchmarks/overhead.py [--steps N]
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from gradscope.config.schema import Preset
from gradscope.core.events import Stage
from gradscope.worker.contract import Batch, TrainingModel
from gradscope.worker.lifeline import Requests
from gradscope.worker.loop import Loop, Parts
from gradscope.worker.recompute import Recomputation
from gradscope.worker.record import EventLog
from gradscope.worker.update import Updater


def model(width: int, layers: int) -> TrainingModel:
    blocks: list[nn.Module] = []
    for _ in range(layers):
        blocks += [nn.Linear(width, width), nn.ReLU()]

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        output: Tensor = module(batch["x"])
        return output.square().mean() * len(output)

    return TrainingModel(
        name="mlp",
        module=nn.Sequential(*blocks),
        loss=loss,
        count=lambda batch: len(batch["x"]),
        counts_tokens=False,
        spec=None,
    )


def build(run_dir: Path, width: int, layers: int, rows: int) -> Loop:
    """A loop over an MLP whose batches lie ready, so that only the update and the instrumentation take time."""
    torch.manual_seed(0)
    built = model(width, layers)
    optimizer = torch.optim.SGD(built.module.parameters(), lr=1e-6)
    batch = {"x": torch.randn(rows, width)}
    device = torch.device("cpu")
    parts = Parts(
        preset=Preset(name="overhead"),
        run_dir=run_dir,
        run_id="overhead",
        device=device,
        model=built,
        updater=Updater(built, built.module, optimizer, device=device, precision="fp32"),
        recomputation=Recomputation(),
        recomputes=False,
        stream=SimpleNamespace(next=lambda rows: batch),  # type: ignore[arg-type]
        rows=[rows],
    )
    return Loop(parts, EventLog(run_dir), Requests(run_dir))


def calibrate(run_dir: Path, target_ms: float, width: int, rows: int) -> Loop:
    """Find the number of layers whose update takes about `target_ms`."""
    probe = build(run_dir, width, 8, rows)
    times = [timed(lambda: bare(probe)) for _ in range(12)]
    layers = max(1, round(8 * target_ms / statistics.median(times[2:])))
    return build(run_dir, width, layers, rows)


def bare(loop: Loop) -> None:
    window = [loop.parts.stream.next(rows) for rows in loop.parts.rows]
    loop.parts.updater.run(window, enter=lambda phase: None)


def instrumented(loop: Loop) -> None:
    loop._step(Stage.MEASURE)


def timed(action: Callable[[], None]) -> float:
    start = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - start) / 1e6


def profiled_ratio(loop: Loop, bare_ms: float, *, stacks: bool) -> float:
    """Median step under torch.profiler, with shapes and memory, over the median bare step."""
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=stacks):
        times = [timed(lambda: bare(loop)) for _ in range(20)]
    return statistics.median(times) / bare_ms


def ratio_of_medians(a: list[float], b: list[float]) -> float:
    return statistics.median(a) / statistics.median(b)


def trimmed_mean(values: list[float]) -> float:
    """Mean without the lowest and highest tenth: what is done now and then counts, a noisy neighbour does not."""
    cut = len(values) // 10
    return statistics.fmean(sorted(values)[cut:-cut])


def spread(a: list[float], b: list[float], draws: int = 200) -> tuple[float, float]:
    """Bootstrap interval (5 to 95 %) of the ratio of medians."""
    pick = random.Random(1)
    ratios = sorted(ratio_of_medians(pick.choices(a, k=len(a)), pick.choices(b, k=len(b))) for _ in range(draws))
    return ratios[int(0.05 * draws)], ratios[int(0.95 * draws)]


def measure(target_ms: float, width: int, rows: int, steps: int) -> dict[str, float | tuple[float, float] | int]:
    order = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        loop = calibrate(Path(folder), target_ms, width, rows)
        for _ in range(20):
            bare(loop)
            instrumented(loop)
        plan = ["bare"] * steps + ["instrumented"] * steps
        order.shuffle(plan)
        times: dict[str, list[float]] = {"bare": [], "instrumented": []}
        ways = {"bare": bare, "instrumented": instrumented}
        for kind in plan:
            times[kind].append(timed(partial(ways[kind], loop)))
        halves = times["bare"][:]
        order.shuffle(halves)
        bare_ms = statistics.median(times["bare"])
        return {
            "steps": steps,
            "bare_ms": bare_ms,
            "ratio": ratio_of_medians(times["instrumented"], times["bare"]),
            "interval": spread(times["instrumented"], times["bare"]),
            "mean_ratio": trimmed_mean(times["instrumented"]) / trimmed_mean(times["bare"]),
            "a_a": ratio_of_medians(halves[: steps // 2], halves[steps // 2 :]),
            "profiler": profiled_ratio(loop, bare_ms, stacks=False),
            "profiler_stacks": profiled_ratio(loop, bare_ms, stacks=True),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=700, help="steps of each kind")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, 1 thread, {arguments.steps} steps of each kind, python {sys.version.split()[0]}")
    print(
        f"{'step':>8} {'bare ms':>8} {'instrumented/bare':>18} {'5-95 %':>16} {'means':>7} {'A/A':>7} {'bar':>6} "
        f"{'profiler':>9} {'+ stacks':>9}"
    )
    for target_ms, width, rows, bar in ((5, 256, 64, 1.015), (100, 512, 256, 1.002)):
        found = measure(target_ms, width, rows, arguments.steps)
        low, high = found["interval"]  # type: ignore[misc]
        print(
            f"{target_ms:>5} ms {found['bare_ms']:>8.2f} {found['ratio']:>18.4f} {low:>8.4f}-{high:.4f} "
            f"{found['mean_ratio']:>7.4f} {found['a_a']:>7.4f} {bar:>6} "
            f"{found['profiler']:>9.2f} {found['profiler_stacks']:>9.2f}"
        )


if __name__ == "__main__":
    main()
