"""Differences and verdicts as short texts, the same in every place that shows them to a person."""

from gradscope.analysis.comparison import Comparison, Figure, Pairing
from gradscope.analysis.contributions import REST, Contribution
from gradscope.analysis.quantities import HEADLINE, QUANTITIES, Quantity, shown_value
from gradscope.analysis.verdict_runs import Difference, Verdict
from gradscope.core.units import MISSING

NO_DIFFERENCE = "no difference beyond noise"
SLIGHT = "differ, below the threshold"
PLUS_MINUS = "±"


def shown_rows(comparison: Comparison) -> list[Quantity]:
    """Return the headline numbers that at least one side has."""
    return [
        QUANTITIES[name] for name in HEADLINE if any(one.value is not None for one in comparison.figures.get(name, ()))
    ]


def change_words(quantity: Quantity, found: Difference) -> str:
    """Return a difference with its interval, e.g. `-38 % ±2`; in points for percentages, `=` where it is none."""
    if found.absolute is None:
        return MISSING
    if found.verdict is Verdict.SAME:
        return "="
    half = found.half_width
    if quantity.unit == "pct":
        return f"{_signed(found.absolute)} points{_margin(half)}"
    if found.relative is None:
        return ("+" if found.absolute > 0 else "") + shown_value(quantity, found.absolute)
    return f"{_signed(100 * found.relative)} %{_margin(None if half is None else 100 * half)}"


def _signed(value: float) -> str:
    return f"{value:+.0f}" if abs(value) >= 9.95 else f"{value:+.1f}"


def _margin(half: float | None) -> str:
    return "" if half is None else f" {PLUS_MINUS}{half:.0f}" if half >= 9.95 else f" {PLUS_MINUS}{half:.1f}"


def verdict_word(found: Difference) -> str:
    """Return a verdict in a word or two, for a table."""
    if found.verdict in (Verdict.HIGHER, Verdict.LOWER):
        return found.verdict.value if found.good is None else "better" if found.good else "worse"
    return {Verdict.NOISE: "slight" if found.exact else "noise", Verdict.MISSING: MISSING}.get(
        found.verdict, found.verdict.value
    )


def spread_words(quantity: Quantity, figure: Figure) -> str:
    """Return the range of a figure, e.g. `398-431 ms`; empty where there is none."""
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return ""
    low, high = shown_value(quantity, figure.low), shown_value(quantity, figure.high)
    unit = low.partition(" ")[2]
    return f"{low.partition(' ')[0]}-{high}" if unit and high.endswith(f" {unit}") else f"{low} - {high}"


def verdict_lines(comparison: Comparison, side: int) -> list[tuple[str, str]]:
    """Group what became of one side's numbers: (what, which numbers), the most telling first."""
    groups: dict[str, list[str]] = {}
    for quantity in shown_rows(comparison):
        found = comparison.differences[quantity.name][side]
        if found is None:
            continue
        change = "" if found.verdict in (Verdict.SAME, Verdict.MISSING) else f" {change_words(quantity, found)}"
        groups.setdefault(_group(found), []).append(quantity.label + change)
    order = [name for name in ("better", "worse", "higher", "lower", NO_DIFFERENCE, SLIGHT) if name in groups]
    order += sorted(name for name in groups if name not in order and not name.startswith("not measured"))
    order += sorted(name for name in groups if name.startswith("not measured"))
    return [(name, ", ".join(groups[name])) for name in order]


def _group(found: Difference) -> str:
    if found.verdict is Verdict.NOISE:
        return SLIGHT if found.exact else NO_DIFFERENCE
    if found.verdict is Verdict.SAME:
        return "the same"
    if found.verdict is Verdict.UNDECIDED:
        return f"undecided ({found.reason})"
    return found.reason if found.verdict is Verdict.MISSING else verdict_word(found)


def method_words(comparison: Comparison, side: int) -> str:
    """Say how one side was compared."""
    kind = comparison.pairing[side]
    runs = [len(column.runs) for column in comparison.sides]
    confidence = (
        f"{100 * comparison.confidence:g} % intervals, differences below {100 * comparison.threshold:g} % are none"
    )
    if kind is Pairing.ALTERNATED:
        return f"{runs[side]} alternated pairs; {confidence}"
    if kind is Pairing.CELLS:
        return f"{comparison.cells} cells of equal settings are pairs, and only these count; {confidence}"
    if kind is Pairing.APART:
        text = f"{runs[comparison.baseline]} and {runs[side]} runs, not alternated: a drift of the machine would count"
        return f"{text}; {confidence}"
    return "one run a side: sizes are exact, and what is measured needs runs (--repeat 5)"


def part_name(part: Contribution) -> str:
    """Return what a part of a difference is called."""
    if part.name == REST and (part.baseline or 0.0) < 0:
        return "less, not at once"
    return part.name.replace("_", " ")
