"""`gradscope prune`: delete runs, those that are named or those that a rule fits; never one that may be running."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gradscope.analysis.listing import describe
from gradscope.cli.arguments import RUN_HELP, LookIn
from gradscope.cli.display import columns_of
from gradscope.cli.runs import table
from gradscope.core.amounts import SECONDS, read_amount
from gradscope.core.status import Status
from gradscope.core.text import visible
from gradscope.core.units import format_bytes, format_number_of
from gradscope.errors import ExitCode, GradscopeError
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import created_wall_ns
from gradscope.rundir.registry import all_runs, find_run
from gradscope.rundir.remove import disk_bytes, remove_leftovers, remove_run, why_not

MOST_SHOWN = 20
"""Runs that are listed before the question."""

ENDED_BADLY = frozenset({Status.FAILED, Status.OOM, Status.CANCELLED, Status.KILLED})


@dataclass(frozen=True, slots=True)
class Rule:
    """Which runs are to go: those for which all that is set holds."""

    older_than_seconds: float | None = None
    keep: int | None = None
    """How many of each preset stay, the newest; whatever became of them."""
    failed: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is set."""
        return self.older_than_seconds is None and self.keep is None and not self.failed


def command(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help=f"{RUN_HELP}: the newest.")] = None,
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Runs started longer ago: 30d, 12h, 2w.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=0, metavar="N", help="All but the newest N of each preset.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed, oom, cancelled and killed ones.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    out: LookIn = Path("traces"),
) -> None:
    """Delete runs. Of several rules, all must hold. Running ones are never touched; the paths go to stdout."""
    rule = Rule(None if older_than is None else _age(older_than), keep, failed)
    named = [find_run(run, out) for run in runs or ()]
    if bool(named) is not rule.is_empty:
        message = "which runs?" if rule.is_empty else "either name runs or give rules, not both"
        raise GradscopeError(message, "name them, or say --older-than 30d, --keep 5, --failed; --dry-run only lists")
    chosen = _allowed(named) if named else _fitting(rule, out)
    if not chosen:
        typer.echo(f"nothing to delete below {visible(str(out))}", err=True)
        return
    size = format_bytes(sum(disk_bytes(handle.path) for handle in chosen))
    what = f"{format_number_of(len(chosen), 'run')}, {size}"
    if dry_run or not yes:
        _list(chosen)
    if dry_run:
        for handle in chosen:
            typer.echo(visible(str(handle.path)))
        typer.echo(f"{what}: nothing was deleted", err=True)
        return
    if not yes:
        _ask(what)
    _delete(chosen, out)


def select(handles: Sequence[RunHandle], rule: Rule, now_wall_ns: int) -> list[RunHandle]:
    """Return those that a rule fits. Statuses are read only where the rule is about them.

    Args:
        handles: Runs, newest first.
        rule: What is to go.
        now_wall_ns: The time.
    """
    chosen = []
    seen: Counter[str] = Counter()
    for handle in handles:
        folder = handle.path.parent.name
        seen[folder] += 1
        if rule.keep is not None and seen[folder] <= rule.keep:
            continue
        created = created_wall_ns(handle.run_id)
        if rule.older_than_seconds is not None and (
            created is None or now_wall_ns - created < rule.older_than_seconds * 1e9
        ):
            continue
        if rule.failed and handle.status().status not in ENDED_BADLY:
            continue
        chosen.append(handle)
    return chosen


def _age(text: str) -> float:
    seconds = read_amount(text, SECONDS)
    if seconds is None or seconds < 0:
        raise GradscopeError(f"--older-than {text!r} is no age", "write a number and s, min, h, d or w: 30d")
    return seconds


def _allowed(named: Sequence[RunHandle]) -> list[RunHandle]:
    """Return named runs, each once; one that must stay stops the whole."""
    chosen = list({handle.path: handle for handle in named}.values())
    for handle in chosen:
        reason = why_not(handle.path)
        if reason is not None:
            raise reason
    return chosen


def _fitting(rule: Rule, out: Path) -> list[RunHandle]:
    """Return what a rule fits below an output root; says which of it must stay."""
    chosen = []
    for handle in select(all_runs(out), rule, time.time_ns()):
        reason = why_not(handle.path)
        if reason is None:
            chosen.append(handle)
        else:
            typer.echo(f"left alone: {visible(reason.message)}", err=True)
    return chosen


def _list(chosen: Sequence[RunHandle]) -> None:
    rows = [describe(handle) for handle in chosen[:MOST_SHOWN]]
    typer.echo(table(rows, time.time_ns(), columns_of(sys.stderr)), err=True)
    if len(chosen) > MOST_SHOWN:
        typer.echo(f"and {len(chosen) - MOST_SHOWN} more", err=True)


def _ask(what: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise GradscopeError(
            "there is no terminal to ask in before runs are deleted", "--yes deletes without asking, --dry-run lists"
        )
    if not typer.confirm(f"delete {what}?", default=False, err=True):
        typer.echo("nothing was deleted", err=True)
        raise typer.Exit(ExitCode.STOPPED)


def _delete(chosen: Sequence[RunHandle], out: Path) -> None:
    """Delete one after the other; one that cannot be deleted keeps none of the others."""
    freed, gone, failures = 0, 0, 0
    for handle in chosen:
        size = disk_bytes(handle.path)
        try:
            remove_run(handle.path)
        except GradscopeError as error:
            failures += 1
            typer.echo(f"gradscope: {visible(error.message)}\n  {visible(error.hint)}", err=True)
            continue
        gone += 1
        freed += size
        typer.echo(visible(str(handle.path)))
    remove_leftovers(out)
    typer.echo(f"deleted {format_number_of(gone, 'run')}, {format_bytes(freed)}", err=True)
    if failures:
        raise typer.Exit(ExitCode.ENVIRONMENT)
