"""`gradscope compare PRESET... --repeat N`: presets run in turn (A B B A ...), each an ordinary run.

They are forked from one warm process, which imports torch once; so all start alike, and at once.
"""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from gradscope.analysis.sides import take_run
from gradscope.analysis.unlike import Side, Taken
from gradscope.cli.display import Display
from gradscope.cli.follow import Leave, StopPolicy, exit_code_of, follow, in_terminal, report
from gradscope.config.load import apply_overrides
from gradscope.config.schema import Preset
from gradscope.core.status import Status, StatusRecord
from gradscope.errors import ExitCode, signal_exit
from gradscope.launch.spawn import launch
from gradscope.launch.starts import Starts
from gradscope.launch.wakeup import Wakeup, catching_signals
from gradscope.rundir.handle import RunHandle

TICK_SECONDS = 0.25


def order(sides: int, repeat: int) -> list[int]:
    """Return which side each run is of: there and back again, so that what drifts evenly cancels."""
    there = list(range(sides))
    return [side for number in range(repeat) for side in (there if number % 2 == 0 else there[::-1])]


@dataclass(frozen=True, slots=True)
class Made:
    """What `run_in_turn` came to."""

    sides: list[Side]
    exit_code: int = ExitCode.DONE
    """What to leave with, where the user stopped it before the end: the sides hold what was complete then."""


def run_in_turn(
    presets: Sequence[tuple[str, Preset]], repeat: int, out: Path, display: Display, starts: Starts | None = None
) -> Made:
    """Run each preset `repeat` times, with seeds counted up, the same ones on all sides.

    Args:
        presets: Names and presets, one a side.
        repeat: Runs a side.
        out: Output root.
        display: Takes progress and notes.
        starts: What starts runs, for a caller that has many to make; one for this call alone if not given.

    Raises:
        typer.Exit: A run did not end as done, or the user left before every side had one: nothing is compared.
    """
    taken: list[list[Taken]] = [[] for _ in presets]
    plan = order(len(presets), repeat)
    with contextlib.nullcontext(starts) if starts else Starts() as starting:
        for number, side in enumerate(plan, 1):
            name, preset = presets[side]
            seed = preset.run.seed + len(taken[side])
            display.note(f"run {number} of {len(plan)}: {name}, seed {seed}")
            handle, record = _run(apply_overrides(preset, [f"run.seed={seed}"]), out, display, starting)
            if record.status is not Status.DONE:
                return _broken_off(presets, taken, record, display)
            taken[side].append(take_run(handle.path))
    return Made(_sides(presets, taken))


def _run(preset: Preset, out: Path, display: Display, starts: Starts) -> tuple[RunHandle, StatusRecord]:
    with catching_signals(keep_ignored=True) as wakeup:
        _make_ready(starts, display, wakeup)
        handle = launch(preset, out=out, argv=["gradscope", *sys.argv[1:]], start=starts.start)
        try:
            record = follow(handle, display, wakeup, StopPolicy(handle, display, terminal=in_terminal()))
        except Leave as leave:
            raise typer.Exit(leave.exit_code) from leave
    report(handle, record, display)
    return handle, record


def _make_ready(starts: Starts, display: Display, wakeup: Wakeup) -> None:
    """Wait until runs can be started; a signal ends that, and all."""
    was_warm = starts.is_warm
    while not starts.is_ready():
        display.progress("importing torch, once for all runs")
        wakeup.wait(TICK_SECONDS, starts.descriptors())
        if numbers := wakeup.take():
            display.clear()
            raise typer.Exit(signal_exit(numbers[0]))
    display.clear()
    if was_warm and not starts.is_warm:
        display.note("the warm process failed: runs start cold, and resident memory grows by more in those")


def _broken_off(
    presets: Sequence[tuple[str, Preset]], taken: list[list[Taken]], record: StatusRecord, display: Display
) -> Made:
    """Return the complete rounds, if it was the user who stopped the run and there are any.

    Raises:
        typer.Exit: Nothing is compared.
    """
    complete = min(map(len, taken))
    if record.status is not Status.CANCELLED or not complete:
        display.say("the comparison ends here: each of its runs has to be done")
        raise typer.Exit(exit_code_of(record))
    display.say(f"stopped; compared is what was made: {complete} run{'s' * (complete > 1)} a side")
    return Made(_sides(presets, [runs[:complete] for runs in taken]), exit_code_of(record))


def _sides(presets: Sequence[tuple[str, Preset]], taken: list[list[Taken]]) -> list[Side]:
    return [Side(name=name, runs=tuple(runs)) for (name, _), runs in zip(presets, taken, strict=True)]
