"""Foretold peak memory beside the measured one, for every cell of a grid.

python benchmarks/estimate.py                   the 60 cells of grid-tiny: 4 models x 3 strategies x 5 optimizers
python benchmarks/estimate.py --only llama      cells whose settings hold this text
python benchmarks/estimate.py -s run.threads=2  changes that hold for all cells

Measured is the peak of torch's `Total Allocated` in a run's memory step, as summary.json has it. Bars: 5 % of it, 8 %
where the strategy checkpoints; the exit code is 1 where a cell misses its bar.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gradscope.config.convert import preset_to_dict
from gradscope.config.grid import cells
from gradscope.config.load import apply_overrides, load_preset
from gradscope.config.resolve import without_grid
from gradscope.config.schema import Preset
from gradscope.core.events import MemoryMeasured
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.manifest import Manifest, write_manifest

BAR_PCT = 5.0
CHECKPOINT_BAR_PCT = 8.0
SHORT = ["budget.updates=1", "run.warmup=1", "profile.steps=0", "audit.enabled=false", "audit.flops=false"]


def measured_peak_bytes(preset: Preset, run_dir: Path) -> int:
    """Run a preset in this process and return what its memory step saw."""
    from gradscope.worker.main import work

    write_manifest(
        run_dir, Manifest(run_id=run_dir.name, preset=preset_to_dict(preset), created_wall_ns=0, host="", boot_id="")
    )
    if work(run_dir, None, 0.0) != 0:
        raise SystemExit(f"{preset.name} failed")
    events = RunHandle(run_dir).events()
    return next(
        one.allocated_peak_bytes for one in events if isinstance(one, MemoryMeasured) and one.source == "allocator"
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what models print elsewhere."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="grid-tiny")
    parser.add_argument("--only", default="")
    parser.add_argument("-s", "--set", action="append", default=[])
    arguments = parser.parse_args()
    from gradscope.worker.estimate.trace import foretell

    errors: list[float] = []
    missed = 0
    print(f"{'model':12}{'strategy':24}{'optimizer':12}{'foretold MiB':>13}{'measured MiB':>14}{'error %':>9}{'s':>7}")
    with tempfile.TemporaryDirectory() as folder:
        grid = load_preset(arguments.preset, [*SHORT, *arguments.set])
        for number, cell in enumerate(cells(grid)):
            preset = apply_overrides(without_grid(grid), cell)
            names = (preset.model.name, preset.memory.strategy, preset.optimizer.name)
            if arguments.only not in " ".join(names):
                continue
            run_dir = Path(folder) / str(number)
            run_dir.mkdir()
            with quiet():
                estimate = foretell(preset)
                peak = measured_peak_bytes(preset, run_dir)
            error = 100 * (estimate.peak_bytes / peak - 1)
            errors.append(error)
            over = abs(error) > (CHECKPOINT_BAR_PCT if "checkpoint" in names[1] else BAR_PCT)
            missed += over
            print(
                f"{names[0]:12}{names[1]:24}{names[2]:12}{estimate.peak_bytes / 2**20:13.2f}{peak / 2**20:14.2f}"
                f"{error:9.2f}{estimate.seconds:7.2f}{'  over the bar' if over else ''}",
                flush=True,
            )
    if errors:
        sizes = [abs(error) for error in errors]
        print(
            f"{len(errors)} cells, error: median {statistics.median(sizes):.2f} %, largest {max(sizes):.2f} %, "
            f"{missed} over the bar"
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
