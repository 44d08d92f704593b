"""`gradscope compare PRESET... --repeat N`: presets run in turn (A B B A ...), each an ordinary run."""

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from gradscope.analysis.sides import take_run
from gradscope.analysis.unlike import Side, Taken
from gradscope.cli.display import Display
from gradscope.cli.follow import Leave, StopPolicy, exit_code_of, follow, in_terminal, report
from gradscope.config.load import apply_overrides
from gradscope.config.schema import Preset
from gradscope.core.status import Status
from gradscope.launch.spawn import launch
from gradscope.launch.wakeup import catching_signals


def order(sides: int, repeat: int) -> list[int]:
    """Return which side each run is of: there and back again, so that what drifts evenly cancels."""
    there = list(range(sides))
    return [side for number in range(repeat) for side in (there if number % 2 == 0 else there[::-1])]


def run_in_turn(presets: Sequence[tuple[str, Preset]], repeat: int, out: Path, display: Display) -> list[Side]:
    """Run each preset `repeat` times, with seeds counted up, the same ones on all sides.

    Raises:
        typer.Exit: A run did not end as done, or the user wanted an end: nothing is compared.
    """
    taken: list[list[Taken]] = [[] for _ in presets]
    plan = order(len(presets), repeat)
    for number, side in enumerate(plan, 1):
        name, preset = presets[side]
        seed = preset.run.seed + len(taken[side])
        display.note(f"run {number} of {len(plan)}: {name}, seed {seed}")
        taken[side].append(_run(apply_overrides(preset, [f"run.seed={seed}"]), out, display))
    return [Side(name=name, runs=tuple(runs)) for (name, _), runs in zip(presets, taken, strict=True)]


def _run(preset: Preset, out: Path, display: Display) -> Taken:
    with catching_signals(keep_ignored=True) as wakeup:
        handle = launch(preset, out=out, argv=["gradscope", *sys.argv[1:]])
        try:
            record = follow(handle, display, wakeup, StopPolicy(handle, display, terminal=in_terminal()))
        except Leave as leave:
            raise typer.Exit(leave.exit_code) from leave
    report(handle, record, display)
    if record.status is not Status.DONE:
        display.say("the comparison ends here: each of its runs has to be done")
        raise typer.Exit(exit_code_of(record))
    return take_run(handle.path)
