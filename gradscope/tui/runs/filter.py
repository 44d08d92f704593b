"""The filter of the list of runs: words, `status:oom`, `loss<2`, `peak>1GiB`, each with a `-` before it for not."""

import difflib
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradscope.core.amounts import read_amount
from gradscope.tui.runs.columns import BY_NAME, COLUMNS, Column
from gradscope.tui.runs.view import Entry

Test = Callable[[Entry, int], bool]

EXAMPLE = "words  status:oom  loss<2  peak>1GiB  age<2d  -checkpoint"
"""Shown while nothing is written."""

_COMPARED = re.compile(r"^([^<>=:\s]+?)(<=|>=|<|>|=)(.*)$")

_SPREAD = re.compile(r"\s*(<=|>=|<|>|=)\s*")
"""A comparison with blanks in it."""

_SPLIT_UNIT = re.compile(r"([<>=]\d[\d.]*)\s+((?:[kmgtp]?i?b|[munµk]?s|min|h|d|days?|w|m?j|%)(?:\s|$))", re.IGNORECASE)
"""A number and its unit, apart."""

_HOW: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}

_MEANT = {
    "id": "run",
    "memory": "peak",
    "mem": "peak",
    "time": "step",
    "step_ms": "step",
    "samples": "samples/s",
    "opt": "optimizer",
}
"""Other names of columns."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What is looked for: all tests must hold."""

    tests: tuple[Test, ...] = ()
    problem: str = ""
    """What part of it is not understood, and so left out."""

    def takes(self, entry: Entry, now_wall_ns: int) -> bool:
        """Whether a run fits."""
        return all(test(entry, now_wall_ns) for test in self.tests)


def read_filter(text: str) -> Filter:
    """Read what was written so far. A comparison whose value is still to come asks nothing yet."""
    tests: list[Test] = []
    problems: list[str] = []
    for part in _SPLIT_UNIT.sub(r"\1\2", _SPREAD.sub(r"\1", text)).split():
        negated = part.startswith("-") and len(part) > 1
        found = _test(part[1:] if negated else part)
        if isinstance(found, str):
            problems.append(found)
        elif found is not None and part != "-":
            tests.append(_not(found) if negated else found)
    return Filter(tuple(tests), problems[0] if problems else "")


def chosen(entries: Sequence[Entry], wanted: Filter, now_wall_ns: int) -> list[Entry]:
    """Return the runs that fit, in their order."""
    if not wanted.tests:
        return list(entries)
    return [entry for entry in entries if wanted.takes(entry, now_wall_ns)]


def _test(part: str) -> Test | str | None:
    """Return what a part asks, why it is not understood, or `None` while it asks nothing yet."""
    compared = _COMPARED.match(part)
    if compared is not None:
        return _comparison(*compared.groups())
    name, colon, value = part.partition(":")
    column = _column(name) if colon else None
    if column is None or not column.is_text:
        return _word(part)
    return _field(column, value) if value else None


def _comparison(name: str, how: str, value: str) -> Test | str | None:
    column = _column(name)
    if column is None:
        near = difflib.get_close_matches(name.lower(), [one.name for one in COLUMNS], n=1, cutoff=0.6)
        return f"there is no {name} to compare" + (f"; did you mean {near[0]}?" if near else "")
    if not value:
        return None
    if column.units is None:
        return _field(column, value) if how == "=" else f"{column.name} is no number; write {column.name}:{value}"
    amount = read_amount(value, column.units)
    if amount is None:
        units = ", ".join(unit for unit in column.units if unit)
        return f"{value} is no value of {column.name}; a number{f', with {units}' if units else ''}"
    compare, get = _HOW[how], column.value

    def holds(entry: Entry, now_wall_ns: int) -> bool:
        found = get(entry, now_wall_ns)
        return isinstance(found, int | float) and compare(found, amount)

    return holds


def _column(name: str) -> Column | None:
    lower = name.lower()
    return BY_NAME.get(_MEANT.get(lower, lower))


def _field(column: Column, value: str) -> Test:
    wanted = value.casefold()
    if column.name == "status":  # a run that goes on is `running`, whatever it is doing
        return lambda entry, _: wanted in entry.status
    if column.name == "run":
        return lambda entry, _: wanted in entry.row.run_id.casefold()
    get = column.value
    return lambda entry, now: wanted in str(get(entry, now) or "").casefold()


def _word(word: str) -> Test:
    wanted = word.casefold()
    return lambda entry, _: wanted in entry.words


def _not(test: Test) -> Test:
    return lambda entry, now: not test(entry, now)
