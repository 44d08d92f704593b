"""Numbers as text for a person: three significant digits and a unit, `n/a` where a number is missing.

Nothing is computed from this text, and JSON never holds it. A space stands between number and unit.
"""

import math
from collections.abc import Sequence

MISSING = "n/a"
"""What a missing number looks like; it exists only in text."""

BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
COUNT_UNITS = ("", "k", "M", "B", "T")
SI_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def format_bytes(size_bytes: float | None) -> str:
    """Format a size or a difference of sizes, e.g. `12.3 MiB`; whole bytes below 1024."""
    return MISSING if size_bytes is None else _scaled(size_bytes, 1024, BINARY_UNITS)


def format_ms(duration_ms: float | None) -> str:
    """Format a duration, e.g. `0.123 ms`, `45.6 ms`, `1234 ms`; as seconds from 10 s."""
    if duration_ms is None:
        return MISSING
    if abs(duration_ms) < 0.9995:
        return f"{_plain_zero(f'{duration_ms:.3f}')} ms"
    if abs(duration_ms) < 9999.5 or not math.isfinite(duration_ms):
        return f"{three_digits(duration_ms)} ms"
    return format_seconds(duration_ms / 1000)


def format_seconds(duration_s: float | None) -> str:
    """Format a duration, e.g. `3.45 s`, `2 min 05 s`, `1 h 02 min`, `3 days 4 h`."""
    if duration_s is None:
        return MISSING
    if abs(duration_s) < 99.95 or not math.isfinite(duration_s):
        return f"{three_digits(duration_s)} s"
    sign = "-" if duration_s < 0 else ""
    minutes, seconds = divmod(round(abs(duration_s)), 60)
    if minutes < 60:
        return f"{sign}{minutes} min {seconds:02d} s"
    hours, minutes = divmod(round(abs(duration_s) / 60), 60)
    if hours < 48:
        return f"{sign}{hours} h {minutes:02d} min"
    days, hours = divmod(round(abs(duration_s) / 3600), 24)
    return f"{sign}{days} days {hours} h" if days < 100 else f"{sign}{days} days"


def format_pct(share_pct: float | None, *, signed: bool = False) -> str:
    """Format a percentage with one decimal, e.g. `12.3 %`, with its sign where it is a difference."""
    if share_pct is None:
        return MISSING
    return f"{share_pct:+.1f} %" if signed else f"{_plain_zero(f'{share_pct:.1f}')} %"


def format_count(count: float | None) -> str:
    """Format how many of something, e.g. `512`, `12.3 k`, `86.6 M`, `1.24 B` (10^9)."""
    return MISSING if count is None else _scaled(count, 1000, COUNT_UNITS)


def format_si(value: float | None, unit: str) -> str:
    """Format a quantity with an SI prefix on its unit, e.g. `1.23 TFLOP/s`; thousandths are the least."""
    if value is None:
        return MISSING
    if 0 < abs(value) < 0.9995:
        return f"{three_digits(value * 1000)} m{unit}"
    return _scaled(value, 1000, [prefix + unit for prefix in SI_PREFIXES])


def format_rate(per_second: float | None, unit: str) -> str:
    """Format a rate, e.g. `45.6 samples/s`, `12.3 k tokens/s`; `unit` is what is counted, without the `/s`."""
    if per_second is None:
        return MISSING
    return _scaled(per_second, 1000, [f"{prefix} {unit}/s".strip() for prefix in COUNT_UNITS])


def format_number(value: float | None, digits: int = 4) -> str:
    """Format a number without a unit, such as a loss, to `digits` significant digits."""
    return MISSING if value is None else f"{value:.{digits}g}"


def format_number_of(count: int, thing: str) -> str:
    """Format a small number of things that make their plural with an s, e.g. `1 thread`, `2 threads`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def three_digits(value: float) -> str:
    """Return `value` with three significant digits, at most two decimals, and no exponent."""
    for decimals, limit in ((2, 10), (1, 100)):
        if abs(round(value, decimals)) < limit:
            return _plain_zero(f"{value:.{decimals}f}")
    return f"{value:.0f}"


def _scaled(value: float, base: int, units: Sequence[str]) -> str:
    """Divide by `base` until the printed digits are below it; whole numbers stay whole in the first unit."""
    scaled, step = float(value), 0
    while math.isfinite(scaled) and step < len(units) - 1 and abs(round(scaled, 0)) >= base:
        scaled, step = scaled / base, step + 1
    whole = step == 0 and float(value).is_integer()
    return f"{int(value) if whole else three_digits(scaled)} {units[step]}".strip()


def _plain_zero(text: str) -> str:
    """Return `text` without the sign of a zero: -0.00 is a difference too small to show, not a negative number."""
    return text.removeprefix("-") if not text.strip("-0.") else text
