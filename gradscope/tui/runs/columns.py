"""The columns of the list of runs: what each shows, sorts by, and is called in a filter. Adding one is one entry."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gradscope.analysis.listing import age
from gradscope.core.amounts import BYTES, MILLISECONDS, PLAIN, SECONDS
from gradscope.core.status import Status
from gradscope.core.units import (
    MISSING,
    format_bytes,
    format_count,
    format_ms,
    format_number,
    format_pct,
    format_si,
)
from gradscope.rundir.layout import short_id
from gradscope.tui.home.rows import ROLES
from gradscope.tui.home.text import short_seconds
from gradscope.tui.runs.view import Entry

Value = float | str | None

LONGEST_MS = 9999.5
"""From here on a step's time is shown in seconds."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    """Its title, and what it is called in a filter."""
    value: Callable[[Entry, int], Value]
    """What it is sorted and filtered by, given the wall clock in ns; `None` is not known."""
    text: Callable[[Entry, int], str]
    """What is shown."""
    width: int
    """Cells of a number; of a text, the most it takes."""
    least: int = 0
    """Cells that a text can be cut to before a column goes; 0 for a number, which is never cut."""
    units: Mapping[str, float] | None = None
    """Units that its numbers may have in a filter; `None` for a text."""
    ascending: bool = True
    """How it is sorted at first."""
    style: Callable[[Entry], str] = lambda entry: ""
    short: Callable[[Entry], str] | None = None
    """What is shown where a text has fewer cells than it could take, in place of its beginning."""
    extra: bool = False
    """Shown only where some run has a value."""

    @property
    def is_text(self) -> bool:
        """Whether it holds words, which lie on the left."""
        return self.units is None


def _status(entry: Entry, _: int) -> str:
    run = entry.running
    if run is None:
        return entry.row.status.value
    standing = run.standing
    if standing.stage is None or standing.stage_planned is None:
        return standing.doing
    return f"{standing.doing} {standing.stage_done}/{standing.stage_planned}"


def _word(entry: Entry) -> str:
    return entry.row.status.value


def _status_role(entry: Entry) -> str:
    return "good" if entry.running is not None else ROLES.get(entry.row.status, "warn")


def _step(entry: Entry, _: int) -> str:
    step_ms = entry.row.step_ms
    return format_ms(step_ms) if step_ms is None or step_ms < LONGEST_MS else short_seconds(step_ms / 1000)


def _age_seconds(entry: Entry, now_wall_ns: int) -> float | None:
    created = entry.row.created_wall_ns
    return None if created is None else (now_wall_ns - created) / 1e9


def _age(entry: Entry, now_wall_ns: int) -> float:
    seconds = _age_seconds(entry, now_wall_ns)
    return math.inf if seconds is None else seconds


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


COLUMNS: tuple[Column, ...] = (
    Column("run", lambda entry, _: entry.row.run_id, lambda entry, _: short_id(entry.row.run_id), 6, 6),
    Column("preset", lambda entry, _: entry.row.preset, lambda entry, _: entry.row.preset, 24, 10),
    Column("model", lambda entry, _: entry.row.model, lambda entry, _: entry.row.model or MISSING, 20, 10),
    Column("optimizer", lambda entry, _: entry.row.optimizer, lambda entry, _: entry.row.optimizer or MISSING, 12, 9),
    Column("strategy", lambda entry, _: entry.strategy, lambda entry, _: entry.strategy or MISSING, 22, 13),
    Column("device", lambda entry, _: entry.row.device, lambda entry, _: entry.row.device or MISSING, 8, 6),
    Column("status", lambda entry, _: entry.row.status.value, _status, 17, 9, style=_status_role, short=_word),
    Column(
        "loss",
        lambda entry, _: _finite(entry.row.loss),
        lambda entry, _: format_number(entry.row.loss, 3),
        8,
        units=PLAIN,
    ),
    Column("step", lambda entry, _: _finite(entry.row.step_ms), _step, 8, units=MILLISECONDS),
    Column(
        "peak",
        lambda entry, _: entry.row.peak_bytes,
        lambda entry, _: format_bytes(entry.row.peak_bytes),
        8,
        units=BYTES,
        ascending=False,
    ),
    Column(
        "samples/s",
        lambda entry, _: _finite(entry.row.samples_per_s),
        lambda entry, _: format_count(entry.row.samples_per_s),
        9,
        units=PLAIN,
        ascending=False,
        extra=True,
    ),
    Column(
        "energy",
        lambda entry, _: _finite(entry.row.energy_per_step_j),
        lambda entry, _: format_si(entry.row.energy_per_step_j, "J"),
        8,
        units={"": 1, "j": 1, "mj": 1e-3, "kj": 1e3},
        extra=True,
    ),
    Column(
        "gpu",
        lambda entry, _: _finite(entry.row.gpu_busy_pct),
        lambda entry, _: format_pct(entry.row.gpu_busy_pct),
        7,
        units=PLAIN,
        ascending=False,
        extra=True,
    ),
    Column(
        "took",
        lambda entry, _: _finite(entry.row.wall_seconds),
        lambda entry, _: short_seconds(entry.row.wall_seconds),
        7,
        units={**SECONDS, "": 1},
        ascending=False,
        extra=True,
    ),
    Column("age", _age_seconds, lambda entry, now: age(entry.row.created_wall_ns, now), 8, units=SECONDS),
)
"""From left to right."""

BY_NAME = {column.name: column for column in COLUMNS}

USUAL = BY_NAME["age"]
"""What runs are sorted by at first: the newest on top, running ones before all others."""

CYCLE = (
    USUAL,
    *(column for column in COLUMNS if not column.is_text and column is not USUAL),
    *(column for column in COLUMNS if column.is_text),
)
"""In which order a key goes through them: numbers first."""

DISPENSABLE = (
    *("took", "samples/s", "device", "gpu", "energy", "model"),
    *("age", "loss", "optimizer", "step", "peak"),
    *("strategy", "preset"),
)
"""Columns that give way in a narrow terminal, in this order."""


def is_over(entry: Entry) -> bool:
    """Whether a run is over, or cannot be judged."""
    status = entry.row.status
    return status.is_final or status is Status.UNKNOWN


def sorted_entries(entries: list[Entry], column: Column, now_wall_ns: int, *, reverse: bool = False) -> list[Entry]:
    """Sort runs by a column; what has no value comes last, whichever way.

    By age, running ones are the newest.
    """
    backwards = column.ascending == reverse
    if column is USUAL:
        newest = sorted(entries, key=lambda entry: (is_over(entry), _age(entry, now_wall_ns)))
        return newest[::-1] if backwards else newest
    known = [(value, entry) for entry in entries if (value := column.value(entry, now_wall_ns)) is not None]
    missing = [entry for entry in entries if column.value(entry, now_wall_ns) is None]
    known.sort(key=lambda pair: pair[0].casefold() if isinstance(pair[0], str) else pair[0], reverse=backwards)
    return [entry for _, entry in known] + missing
