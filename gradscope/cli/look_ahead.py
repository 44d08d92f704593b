"""`gradscope run PRESET --estimate`, `--find-batch` and `--foretell`: what memory a preset will need."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from gradscope.cli.display import Display, columns_of
from gradscope.cli.estimate_view import estimate_text, found_text
from gradscope.cli.follow import Leave, StopPolicy, exit_code_of, follow, in_terminal
from gradscope.config.schema import Preset
from gradscope.core.amounts import BYTES, read_amount
from gradscope.core.units import format_bytes
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.estimate import Estimator, Room, room_for
from gradscope.launch.spawn import launch
from gradscope.launch.stop import ask_to_stop
from gradscope.launch.wakeup import catching_signals
from gradscope.rundir.handle import RunHandle


def foretold_peak(preset: Preset, display: Display) -> int | None:
    """Return the foretold peak of a run that goes ahead in any case."""
    try:
        with Estimator() as estimator:
            display.progress("estimating the peak of its memory")
            found = estimator.estimate(preset)
    except GradscopeError as error:
        display.note(f"no estimate: {error.message}")
        return None
    display.note(f"foretold peak {format_bytes(found.peak_bytes)}, in {found.peak_phase}")
    return found.peak_bytes


def look_ahead(
    preset: Preset, display: Display, *, room: str | None, batches: bool, trials: bool, as_json: bool
) -> None:
    """Print an estimate, or each strategy's largest batch.

    Raises:
        GradscopeError: Nothing can be foretold; or a batch is asked for and nobody knows what it has to fit into.
    """
    import msgspec

    given = None if room is None else given_room(room)
    with Estimator() as estimator:
        display.progress(f"estimating {preset.name}")
        found = estimator.estimate(preset)
        space = given or room_for(found)
        if not batches:
            display.clear()
            if as_json:
                typer.echo(msgspec.json.encode(_as_data(preset, found, space)).decode())
            else:
                typer.echo(estimate_text(preset, found, space, width=columns_of(sys.stdout)))
            if space is not None and found.peak_bytes > space.size_bytes:
                raise typer.Exit(ExitCode.OUT_OF_MEMORY)
            return
        if space is None:
            raise GradscopeError(
                f"run.device = {preset.run.device} is not here, so nobody knows what a batch has to fit into",
                "say it with --room, such as --room 24GiB",
                exit_code=ExitCode.ENVIRONMENT,
            )
        here = found.device == "cpu" or found.device_free_bytes is not None
        if trials and not here:
            display.note(f"no trials: run.device = {preset.run.device} is not here")
        best = _search(preset, estimator, space, display, trials=trials and here)
    display.clear()
    if as_json:
        typer.echo(msgspec.json.encode(best).decode())
    else:
        typer.echo(found_text(preset, best, space, width=columns_of(sys.stdout)))
    if all(one.batch_size is None for one in best):
        raise typer.Exit(ExitCode.OUT_OF_MEMORY)


def _search(preset: Preset, estimator: Estimator, space: Room, display: Display, *, trials: bool) -> list[Any]:
    from gradscope.launch.find_batch import find_batches

    return find_batches(preset, estimator, space, say=display.progress, trial=_trial_with(display) if trials else None)


def _trial_with(display: Display) -> Callable[[Preset, Path], RunHandle]:
    def trial(preset: Preset, folder: Path) -> RunHandle:
        with catching_signals(keep_ignored=True) as wakeup:
            handle = launch(preset, out=folder, argv=["gradscope", *sys.argv[1:]])
            try:
                record = follow(
                    handle, Display(quiet=True), wakeup, StopPolicy(handle, display, terminal=in_terminal())
                )
            except Leave as leave:  # the folder of a trial goes with whoever started it
                ask_to_stop(handle, signal=signal.SIGTERM)
                raise typer.Exit(leave.exit_code) from None
        if record.signal is not None and exit_code_of(record) > 128:
            raise typer.Exit(exit_code_of(record))
        return handle

    return trial


def given_room(text: str) -> Room:
    """Return what `--room` says.

    Raises:
        GradscopeError: It is no size.
    """
    size = read_amount(text, BYTES)
    if size is None or size < 1:
        raise GradscopeError(f"--room: '{text}' is no size", "write it as 24GiB or 500MiB", exit_code=ExitCode.USAGE)
    return Room(int(size), "given")


def _as_data(preset: Preset, found: Any, space: Room | None) -> dict[str, Any]:
    import msgspec

    fits = None if space is None else found.peak_bytes <= space.size_bytes
    room = {"room_bytes": space and space.size_bytes, "room_source": space and space.source, "fits": fits}
    return {"preset": preset.name, **msgspec.to_builtins(found), **room}
