"""Conditions under which a comparison fails: `step_time_ms > 5%`, `peak_memory_bytes > 10 MiB`. For CI.

A condition is about the difference from the baseline: what it names grew by more than so much, or shrank
(`samples_per_s < -5%`). It fails where the difference is beyond that and beyond noise. What is undecided does not fail.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gradscope.analysis.comparison import Comparison
from gradscope.analysis.quantities import QUANTITIES, Quantity
from gradscope.analysis.verdict_runs import Difference, Verdict
from gradscope.config.problem import did_you_mean, either, shortened
from gradscope.core.summary import Record
from gradscope.errors import GradscopeError

EXPRESSION = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*)\s*(?P<operator>>=|<=|>|<)\s*(?P<number>[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)\s*(?P<unit>\S*)\s*",
    re.ASCII | re.IGNORECASE,
)

UNIT_SIZES: dict[str, dict[str, float]] = {
    "bytes": {
        "B": 1,
        "kB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "KiB": 1024,
        "MiB": 1024**2,
        "GiB": 1024**3,
        "TiB": 1024**4,
    },
    "ms": {"us": 1e-3, "ms": 1, "s": 1e3},
    "joule": {"mJ": 1e-3, "J": 1},
    "watt": {"W": 1},
    "pct": {"points": 1},
    "flops": {"FLOP/s": 1, "GFLOP/s": 1e9, "TFLOP/s": 1e12},
    "per_s": {"/s": 1},
    "count": {"k": 1e3, "M": 1e6, "B": 1e9},
}
"""What absolute limits may be written in, by the number's unit; without one, in the number's own."""

EXAMPLES = "for example: step_time_ms > 5%, or peak_memory_bytes > 10 MiB"


@dataclass(frozen=True, slots=True)
class Condition:
    """One `--fail-if`."""

    text: str
    quantity: Quantity
    operator: str
    limit: float
    relative: bool
    """Whether the limit is a share of the baseline's figure (0.05), or in the number's own unit."""


class Outcome(StrEnum):
    """What became of a condition."""

    FAILED = "failed"
    PASSED = "passed"
    UNDECIDED = "undecided"


class Judged(Record, frozen=True, kw_only=True):
    """A condition for one side."""

    condition: str
    side: int
    outcome: Outcome
    difference: Difference
    reason: str = ""
    """Why it is undecided."""


def parse(text: str) -> Condition:
    """Read a condition.

    Raises:
        GradscopeError: It is none, or names what is not measured; says the nearest name.
    """
    found = EXPRESSION.fullmatch(text)
    if found is None:
        raise GradscopeError(f"{shortened(text)!r} is no condition: NUMBER > 5%, with >, >=, < or <=", EXAMPLES)
    name, unit = found["name"], found["unit"]
    quantity = QUANTITIES.get(name)
    if quantity is None:
        hint = did_you_mean(name, QUANTITIES) or f"there are {', '.join(QUANTITIES)}"
        raise GradscopeError(f"{shortened(name)} in {shortened(text)!r} is nothing that is measured", hint)
    number = float(found["number"])
    if not math.isfinite(number):
        raise GradscopeError(f"{found['number']} in {shortened(text)!r} is no finite number", EXAMPLES)
    if unit == "%":
        return Condition(text.strip(), quantity, found["operator"], number / 100, relative=True)
    sizes = UNIT_SIZES.get(quantity.unit, {})
    if unit and unit not in sizes:
        allowed = either(["%", *sizes]) if sizes else "% or no unit"
        raise GradscopeError(f"{shortened(unit)} in {shortened(text)!r} is no unit of {name}", f"allowed: {allowed}")
    return Condition(text.strip(), quantity, found["operator"], number * sizes.get(unit, 1.0), relative=False)


def evaluate(conditions: Sequence[Condition], comparison: Comparison) -> list[Judged]:
    """Judge each condition for each side but the baseline."""
    return [
        _judged(condition, side, difference)
        for condition in conditions
        for side, difference in enumerate(comparison.differences[condition.quantity.name])
        if difference is not None
    ]


def _judged(condition: Condition, side: int, found: Difference) -> Judged:
    outcome, reason = _outcome(condition, found)
    return Judged(condition=condition.text, side=side, outcome=outcome, difference=found, reason=reason)


def _outcome(condition: Condition, found: Difference) -> tuple[Outcome, str]:
    change = found.relative if condition.relative else found.absolute
    if found.verdict in (Verdict.MISSING, Verdict.UNDECIDED):
        return Outcome.UNDECIDED, found.reason
    if change is None:
        return Outcome.UNDECIDED, "the baseline is 0: there is no share of it"
    if not _holds(condition.operator, change, condition.limit):
        return Outcome.PASSED, ""
    if found.exact or found.beyond_noise:
        return Outcome.FAILED, ""
    return Outcome.UNDECIDED, "beyond the limit, but not beyond noise"


def _holds(operator: str, change: float, limit: float) -> bool:
    return {
        ">": change > limit,
        ">=": change >= limit,
        "<": change < limit,
        "<=": change <= limit,
    }[operator]
