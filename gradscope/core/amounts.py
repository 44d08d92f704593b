"""Numbers with a unit as people write them: `1GiB`, `200ms`, `30d`. The way back from `core.units`."""

import math
import re
from collections.abc import Mapping

_AMOUNT = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-zµμ%/]*)$", re.IGNORECASE)

BYTES: Mapping[str, float] = {
    "": 1,
    "b": 1,
    **{f"{letter}ib": 1024.0 ** (power + 1) for power, letter in enumerate("kmgtp")},
    **{f"{letter}b": 1000.0 ** (power + 1) for power, letter in enumerate("kmgtp")},
    **{letter: 1024.0 ** (power + 1) for power, letter in enumerate("kmgtp")},
}
"""Bytes in each unit; `1G` is what this program's tables call GiB."""

SECONDS: Mapping[str, float] = {
    "s": 1,
    "min": 60,
    "h": 3600,
    "d": 86_400,
    "day": 86_400,
    "days": 86_400,
    "w": 7 * 86_400,
}
"""Seconds in each unit of an age; without a unit an age is not one."""

MILLISECONDS: Mapping[str, float] = {"": 1, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ms": 1, "s": 1000, "min": 60_000}
"""Milliseconds in each unit of a step's time."""

PLAIN: Mapping[str, float] = {"": 1, "k": 1e3, "m": 1e6, "%": 1}
"""Of numbers without a unit."""


def read_amount(text: str, units: Mapping[str, float]) -> float | None:
    """Return how many of the basic unit `text` says; `None` if it is no number with one of these units.

    Args:
        text: Such as `1.5 GiB`; the case of the unit does not matter.
        units: The basic units in each unit, by its name in small letters.
    """
    found = _AMOUNT.match(text.strip())
    if found is None or (factor := units.get(found[2].lower())) is None:
        return None
    value = float(found[1]) * factor
    return value if math.isfinite(value) else None
