"""`gradscope compare A B...`: runs side by side, and a gate for CI; with --repeat it makes the runs itself."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradscope.cli.arguments import RUN_HELP, Out
from gradscope.errors import ExitCode, GradscopeError

if TYPE_CHECKING:
    from gradscope.analysis.gate import Condition
    from gradscope.analysis.unlike import Side
    from gradscope.config.schema import Preset

WIDTH = 80

SIDES_HELP = (
    "2 to 6 of: runs, several with commas between as one side, summary.json files, presets and folders (all their runs "
    f"that are done). A run is {RUN_HELP[0].lower()}{RUN_HELP[1:]}. With --repeat: presets, and one is enough with -b."
)


def command(
    sides: Annotated[list[str], typer.Argument(metavar="A B...", help=SIDES_HELP)],
    *,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="A|1|TEXT", help="What to compare with; the first if not given.")
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="CONDITION",
            help="Leave with 5 where it holds beyond noise: 'step_time_ms > 5%', 'peak_memory_bytes > 10 MiB'.",
        ),
    ] = None,
    repeat: Annotated[
        int | None,
        typer.Option("--repeat", min=1, metavar="N", help="Run the presets in turn, N times each; 5 decide."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("-s", "--set", metavar="KEY=VALUE", help="With --repeat: a setting of all sides."),
    ] = None,
    settings_b: Annotated[
        list[str] | None,
        typer.Option("-b", "--set-b", metavar="KEY=VALUE", help="With --repeat: a setting of the second side only."),
    ] = None,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0, max=1, help="Share below which a measured difference is none.")
    ] = 0.02,
    allow_unlike: Annotated[
        bool, typer.Option("--allow-unlike", help="Let --fail-if judge across devices and threads too.")
    ] = False,
    traces: Annotated[
        bool, typer.Option("--traces/--no-traces", help="Compare operators where both were profiled.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")] = False,
    out: Out = Path("traces"),
) -> None:
    """Compare runs: differences with their noise, what makes them, and conditions that fail."""
    from gradscope.analysis.comparison import compare
    from gradscope.analysis.gate import Outcome, evaluate, parse
    from gradscope.cli.display import Display

    display = Display(quiet=quiet)
    conditions = [parse(text) for text in fail_if or ()]
    if as_json and as_markdown:
        raise GradscopeError("--json and --markdown are two outputs", "leave one of them out")
    leave_with: int = ExitCode.DONE
    if repeat is None:
        taken = _read(sides, out, settings or settings_b)
        for run_id in dict.fromkeys(run_id for side in taken for run_id in side.repeated):
            display.note(f"{run_id} is named several times on one side, and counts once")
    else:
        from gradscope.cli.compare_repeat import run_in_turn

        made = run_in_turn(_presets(sides, settings or (), settings_b or ()), repeat, out, display)
        taken, leave_with = made.sides, made.exit_code
    found = compare(taken, baseline=_baseline(baseline, sides, len(taken)), threshold=threshold)
    if repeat is None:  # else whatever is unlike was asked for
        _refuse_unlike(conditions, [one.message for one in found.unlike if one.stops_gate], allow_unlike=allow_unlike)
    judged = evaluate(conditions, found)
    operators = _operators(taken, found.baseline, display) if traces else {}
    if as_json:
        import msgspec

        plain: dict[str, Any] = msgspec.to_builtins(found)
        plain["conditions"] = msgspec.to_builtins(judged)
        plain["operators"] = [operators.get(side, []) for side in range(len(taken))]
        typer.echo(json.dumps(plain, allow_nan=False))
    else:
        _print(taken, found, judged, operators, as_markdown=as_markdown)
    for one in judged:
        if one.outcome is Outcome.UNDECIDED:
            display.note(f"undecided: {one.condition}: {one.reason}")
        elif one.outcome is Outcome.FAILED:
            display.say(f"failed: {one.condition}")
    if any(one.outcome is Outcome.FAILED for one in judged):
        leave_with = leave_with or ExitCode.CLAIM_FAILED
    if leave_with:
        raise typer.Exit(leave_with)


def _print(
    taken: "Sequence[Side]", found: Any, judged: Any, operators: dict[int, list[dict[str, Any]]], *, as_markdown: bool
) -> None:
    from gradscope.cli import compare_view as view
    from gradscope.cli.display import columns_of
    from gradscope.core.text import takes_unicode

    width = columns_of(sys.stdout) or WIDTH
    what = view.told(found, taken, judged, operators, None if as_markdown else width)
    typer.echo(view.markdown(what) if as_markdown else view.text(what, width, unicode=takes_unicode(sys.stdout)))


def _read(sides: Sequence[str], out: Path, settings: object) -> "list[Side]":
    from gradscope.analysis.sides import MOST_SIDES, read_side

    if settings:
        raise GradscopeError("-s and -b change runs that are still to be made", "--repeat 5 makes them")
    if not 2 <= len(sides) <= MOST_SIDES:
        raise GradscopeError(
            f"compare takes 2 to {MOST_SIDES} sides, not {len(sides)}", "several runs of one side have commas between"
        )
    return [read_side(text, out) for text in sides]


def _presets(names: Sequence[str], settings: Sequence[str], of_b: Sequence[str]) -> "list[tuple[str, Preset]]":
    """Load what is to be run; one preset alone is compared with itself under the settings of the second side."""
    from gradscope.analysis.sides import MOST_SIDES
    from gradscope.config.load import load_preset
    from gradscope.config.resolve import without_grid

    if len(names) == 1:
        names = [*names, *names]
    if len(names) > MOST_SIDES:
        raise GradscopeError(f"compare takes 2 to {MOST_SIDES} sides, not {len(names)}")
    found = []
    for index, name in enumerate(names):
        own = list(of_b) if index == 1 else []
        preset = without_grid(load_preset(name, [*settings, *own]))
        found.append((" ".join([preset.name, *own]), preset))
    return found


def _baseline(text: str | None, sides: Sequence[str], count: int) -> int:
    """Return the place of the baseline: a letter, a number from 1, or one of the arguments."""
    from gradscope.analysis.sides import LETTERS

    if text is None:
        return 0
    if text in sides:
        return sides.index(text)
    if text.isdecimal() and 1 <= int(text) <= count:
        return int(text) - 1
    place = LETTERS.find(text.upper()) if len(text) == 1 else -1
    if 0 <= place < count:
        return place
    raise GradscopeError(f"--baseline {text} is none of the sides", f"they are {', '.join(LETTERS[:count])}")


def _refuse_unlike(conditions: "Sequence[Condition]", reasons: Sequence[str], *, allow_unlike: bool) -> None:
    if conditions and reasons and not allow_unlike:
        raise GradscopeError(
            f"--fail-if would judge more than the change: {'; '.join(reasons)}", "--allow-unlike judges all the same"
        )


def _operators(taken: "Sequence[Side]", baseline: int, display: Any) -> dict[int, list[dict[str, Any]]]:
    """Return, for each side but the baseline, the operators that differ most; of single runs only."""
    from gradscope.cli.compare_traces import as_data, compared, operator_rows, traces_of

    rows: dict[int, list[dict[str, Any]]] = {}
    first = taken[baseline]
    if len(first.runs) > 1 or not traces_of(first)[1]:
        return rows
    for index, side in enumerate(taken):
        if len(side.runs) > 1 or side.runs[0].summary.run_id == first.runs[0].summary.run_id:
            continue
        found, why = compared(first, side)
        if found is not None:
            rows[index] = as_data(operator_rows(found))
        elif why:
            display.note(why)
    return rows
