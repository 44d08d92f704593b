"""`gradscope run PRESET`: one run, followed on stderr, its result on stdout."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gradscope.cli.arguments import Out
from gradscope.cli.display import Display
from gradscope.cli.follow import Leave, StopPolicy, exit_code_of, follow, in_terminal, report, summary_text
from gradscope.cli.look_ahead import foretold_peak, look_ahead
from gradscope.config.load import apply_overrides, load_preset
from gradscope.config.resolve import without_grid
from gradscope.config.schema import Preset
from gradscope.core.status import StatusRecord
from gradscope.errors import GradscopeError
from gradscope.launch.spawn import launch
from gradscope.launch.wakeup import Wakeup, catching_signals


def command(
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="A preset's name, or the path of a TOML file.")],
    *,
    settings: Annotated[
        list[str] | None, typer.Option("-s", "--set", metavar="KEY=VALUE", help="Change one setting; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one line of JSON a run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes; errors still show.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Start it, print its directory, and leave.")] = False,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:N or auto; short for -s.")] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Runs one after another, with seeds counted up.")] = 1,
    foretell: Annotated[
        bool,
        typer.Option("--foretell", help="Estimate the peak first; the summary then has it beside the measured one."),
    ] = False,
    only_estimate: Annotated[
        bool, typer.Option("--estimate", help="Foretell memory by category without running anything.")
    ] = False,
    find_batch: Annotated[
        bool,
        typer.Option(
            "--find-batch", help="Find each strategy's largest data.batch_size that fits; no trials with --estimate."
        ),
    ] = False,
    room: Annotated[
        str | None,
        typer.Option("--room", metavar="SIZE", help="What a peak may take, such as 24GiB, for the two above."),
    ] = None,
    out: Out = Path("traces"),
) -> None:
    """Run a training benchmark and print what it measured."""
    overrides = [*(settings or ()), *([] if device is None else [f"run.device={device}"])]
    wanted = load_preset(preset, overrides)
    display = Display(quiet=quiet)
    if wanted.sweep is not None:
        display.note(f"{wanted.name} describes a grid; this runs its base settings once")
        wanted = without_grid(wanted)
    if only_estimate or find_batch:
        look_ahead(wanted, display, room=room, batches=find_batch, trials=not only_estimate, as_json=as_json)
        return
    if room is not None:
        raise GradscopeError("--room goes with --estimate or --find-batch", "leave it out, or add one of them")
    peak = foretold_peak(wanted, display) if foretell else None
    if detach:
        if repeat > 1:
            raise GradscopeError("--detach starts one run, and --repeat asks for several", "leave one of them out")
        _detach(wanted, out, display, peak, as_json=as_json)
        return
    codes = []
    for number in range(repeat):
        one = wanted
        if repeat > 1:
            seed = wanted.run.seed + number
            one = apply_overrides(wanted, [f"run.seed={seed}"])
            display.note(f"run {number + 1} of {repeat}, seed {seed}")
        with catching_signals(keep_ignored=True) as wakeup:
            code, interrupted = _run_one(one, out, display, wakeup, peak, as_json=as_json)
        codes.append(code)
        if interrupted:
            break
    raise typer.Exit(max(codes))


def _run_one(
    preset: Preset, out: Path, display: Display, wakeup: Wakeup, peak_bytes: int | None, *, as_json: bool
) -> tuple[int, bool]:
    """Start and follow one run; return its exit code, and whether the user wanted an end."""
    handle = launch(preset, out=out, argv=_argv(), foretold_peak_bytes=peak_bytes)
    display.note(f"run {handle.run_id} in {handle.path}")
    try:
        record = follow(handle, display, wakeup, StopPolicy(handle, display, terminal=in_terminal()))
    except Leave as leave:
        return leave.exit_code, True
    report(handle, record, display)
    text = summary_text(handle.path, as_json=as_json)
    if text is not None:
        typer.echo(text)
    return exit_code_of(record), _was_interrupted(record)


def _was_interrupted(record: StatusRecord) -> bool:
    return record.exit_code is not None and record.exit_code > 128 and record.signal is not None


def _detach(preset: Preset, out: Path, display: Display, peak_bytes: int | None, *, as_json: bool) -> None:
    handle = launch(preset, out=out, argv=_argv(), foretold_peak_bytes=peak_bytes)
    display.note(f"running in the background; gradscope attach {handle.run_id}")
    typer.echo(json.dumps({"run_id": handle.run_id, "path": str(handle.path)}) if as_json else str(handle.path))


def _argv() -> list[str]:
    return ["gradscope", *sys.argv[1:]]
