"""Deleting runs from a screen: what is found out before, what is asked, what is done."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradscope.analysis.listing import age
from gradscope.core.units import format_bytes, format_number_of
from gradscope.errors import GradscopeError
from gradscope.rundir.layout import short_id
from gradscope.rundir.remove import disk_bytes, remove_leftovers, remove_run, why_not
from gradscope.tui.runs.view import Entry

NAMED = 5
"""Runs that a question names."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """What was found out about runs that are to be deleted."""

    allowed: tuple[Entry, ...] = ()
    refused: tuple[tuple[Entry, GradscopeError], ...] = ()
    size_bytes: int = 0
    links: int = 0
    """How many of them are links, of which only the link goes."""


def question(weighed: Weighed) -> str:
    """Return what is asked before runs are deleted."""
    runs = weighed.allowed
    return f"delete run {_name(runs[0])}?" if len(runs) == 1 else f"delete {len(runs)} runs?"


def consequences(weighed: Weighed, listed: Sequence[Entry], now_wall_ns: int) -> str:
    """Return what is said with it.

    Args:
        weighed: What is to go, and what stays.
        listed: What is seen now: marks that are not are easily forgotten.
        now_wall_ns: The time.
    """
    runs = weighed.allowed
    lines = [_told(entry, now_wall_ns) for entry in runs[:NAMED]]
    if len(runs) > NAMED:
        lines.append(f"and {len(runs) - NAMED} more")
    seen = {entry.row.path for entry in listed}
    hidden = sum(entry.row.path not in seen for entry in runs)
    if hidden:
        lines.append(f"{hidden} of them {'is' if hidden == 1 else 'are'} marked, but not listed now")
    if weighed.links:
        lines.append(f"{format_number_of(weighed.links, 'link')}: only the link goes, not the folder that it leads to")
    lines += [f"stays: {error.message}" for _, error in weighed.refused[:NAMED]]
    lines += [f"frees {format_bytes(weighed.size_bytes)}", "this cannot be taken back"]
    return "\n".join(lines)


def _name(entry: Entry) -> str:
    return short_id(entry.row.run_id)


def _told(entry: Entry, now_wall_ns: int) -> str:
    row = entry.row
    parts = (_name(entry), row.preset, row.optimizer, entry.strategy, row.status.value)
    return "  ".join(part for part in (*parts, age(row.created_wall_ns, now_wall_ns)) if part)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was deleted, and what could not be."""

    runs: int
    freed_bytes: int
    errors: tuple[GradscopeError, ...] = ()


def weigh(entries: Sequence[Entry]) -> Weighed:
    """Find out which runs may be deleted, and what that frees. Blocking."""
    looked = [(entry, why_not(entry.path)) for entry in entries]
    allowed = tuple(entry for entry, error in looked if error is None)
    return Weighed(
        allowed=allowed,
        refused=tuple((entry, error) for entry, error in looked if error is not None),
        size_bytes=sum(disk_bytes(entry.path) for entry in allowed),
        links=sum(entry.path.is_symlink() for entry in allowed),
    )


def delete_all(entries: Sequence[Entry], out: Path) -> Outcome:
    """Delete runs one after the other, and what deletions that were cut short left below an output root. Blocking."""
    freed, gone = 0, 0
    errors: list[GradscopeError] = []
    for entry in entries:
        size = disk_bytes(entry.path)
        try:
            remove_run(entry.path)
        except GradscopeError as error:
            errors.append(error)
        else:
            freed, gone = freed + size, gone + 1
    remove_leftovers(out)
    return Outcome(gone, freed, tuple(errors))
