"""Bars of the compare screen: where each run's time and memory go, on a common scale, so that the reason is seen."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gradscope.analysis.comparison import Comparison
from gradscope.analysis.comparison_words import part_name
from gradscope.analysis.contributions import Explained
from gradscope.analysis.quantities import MEMORY_CATEGORIES
from gradscope.analysis.sides import LETTERS
from gradscope.analysis.unlike import Side
from gradscope.core.events import PHASES
from gradscope.core.units import format_bytes, format_ms
from gradscope.tui.charts.bars import Part, legend, shares
from gradscope.tui.charts.cells import Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.palette import MEMORY_ROLES, PHASE_ROLES
from gradscope.tui.results.lines import Line, blank

FIGURE = 12
"""Cells of the figure behind a bar."""

TIME, MEMORY = "where a step's time goes", "where memory goes"


@dataclass(frozen=True, slots=True)
class Shown:
    """What the lines are made of."""

    sides: tuple[Side, ...]
    comparison: Comparison
    glyphs: Glyphs


def bar_lines(shown: Shown, width: int) -> Iterator[Line]:
    """Yield one bar a run for the mean step, and one for the peak."""
    yield from _bars(Bars(TIME, _times(shown), PHASE_ROLES, format_ms), shown, width)
    yield from _bars(Bars(MEMORY, _sizes(shown), MEMORY_ROLES, format_bytes), shown, width)


Sizes = Sequence[tuple[float | None, dict[str, float]]]
"""For each run: the whole, and its parts by role."""


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar a run."""

    title: str
    sizes: Sizes
    roles: Sequence[str]
    unit: Callable[[float | None], str]


def _times(shown: Shown) -> Sizes:
    names = [name for name in PHASES if name != "recompute"]
    bars = []
    for side in shown.sides:
        time = side.runs[0].summary.time
        mean = time.step_ms.mean if time.step_ms else None
        sizes = {name: time.phase_share[name] * mean for name in names if mean and name in time.phase_share}
        bars.append((mean, sizes))
    return bars


def _sizes(shown: Shown) -> Sizes:
    bars: list[tuple[float | None, dict[str, float]]] = []
    for side in shown.sides:
        memory = side.runs[0].summary.memory
        sizes = {
            name.removeprefix("peak_"): float(size)
            for name in MEMORY_CATEGORIES
            if (size := getattr(memory, f"{name}_bytes")) is not None
        }
        bars.append((memory.allocated_peak_bytes, sizes))
    return bars


def _bars(bars: Bars, shown: Shown, width: int) -> Iterator[Line]:
    top = max((sum(sizes.values()) for _, sizes in bars.sizes), default=0.0)
    if not top:
        return
    yield Line((Span(bars.title, "bold"), Span("  common scale", "dim")), skipped=True)
    for index, (whole, sizes) in enumerate(bars.sizes):
        parts = [Part(name, sizes.get(name), name, fill) for fill, name in enumerate(bars.roles)]
        bar = shares(parts, max(1, width - 2 - FIGURE), shown.glyphs, total=top)
        yield Line(
            (Span(f"{LETTERS[index]} ", f"bold curve_{index}"), *bar, Span(f"{bars.unit(whole):>{FIGURE}}")),
            meaning=f"bar:{bars.title}:{index}",
            copy=f"{LETTERS[index]} {', '.join(f'{name} {bars.unit(size)}' for name, size in sizes.items())}",
        )
    entries = [
        Part(name.replace("_", " "), 1.0, name, fill)
        for fill, name in enumerate(bars.roles)
        if any(sizes.get(name) for _, sizes in bars.sizes)
    ]
    yield Line(tuple(legend(entries, width, shown.glyphs)), skipped=True)
    yield blank()


def bar_words(shown: Shown, title: str, index: int) -> list[str]:
    """Say what makes a bar longer or shorter than the baseline's."""
    comparison = shown.comparison
    found: Explained | None = (comparison.memory if title == MEMORY else comparison.time)[index]
    unit = format_bytes if title == MEMORY else format_ms
    if found is None:
        return [title] if index != comparison.baseline else [f"{title}: the baseline"]
    parts = ", ".join(
        f"{part_name(part)} {'+' if (part.difference or 0) > 0 else ''}{unit(part.difference)}"
        for part in found.parts
        if part.difference
    )
    sign = "+" if found.difference > 0 else ""
    return [
        f"{LETTERS[index]} against {LETTERS[comparison.baseline]}: {sign}{unit(found.difference)}",
        parts or "all the same",
    ]
