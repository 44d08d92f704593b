"""The lines of the compare screen: who is compared, then one row a number and one column a run."""

from collections.abc import Iterator, Sequence

from gradscope.analysis.comparison import Comparison
from gradscope.analysis.comparison_words import (
    NO_DIFFERENCE,
    change_words,
    method_words,
    shown_rows,
    spread_words,
    verdict_lines,
    verdict_word,
)
from gradscope.analysis.quantities import Quantity, shown_value
from gradscope.analysis.sides import LETTERS
from gradscope.analysis.verdict_runs import Difference, Verdict
from gradscope.core.status import Status
from gradscope.core.units import format_bytes, format_ms
from gradscope.export.summary_words import machine_words, run_words
from gradscope.tui.charts.cells import Span
from gradscope.tui.compare.bars import Shown, bar_lines, bar_words
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import cut, in_ascii, one_cell
from gradscope.tui.results.lines import Line, blank, prose
from gradscope.tui.results.summary_lines import STATUS_ROLES

LABEL = 17
LEAST_COLUMN = 9
MOST_COLUMN = 30
SAME, NOISE, UNDECIDED = "=", "~", "?"


def lines_of(shown: Shown, width: int) -> list[Line]:
    """Lay out a comparison for a width."""
    return [
        *_sides(shown, width),
        *_unlike(shown, width),
        blank(),
        *_numbers(shown, width),
        blank(),
        *_verdicts(shown, width),
        *bar_lines(shown, width),
    ]


def _sides(shown: Shown, width: int) -> Iterator[Line]:
    """Yield one line a run: letter, name, how it ended, what it was."""
    changed = {one.key for one in shown.comparison.changed}
    for index, side in enumerate(shown.sides):
        summary = side.runs[0].summary
        base = index == shown.comparison.baseline
        words = [*run_words(summary.identity, shown.glyphs.times)[1:], *machine_words(summary.identity)[:1]]
        own = [
            f"{one.key.rpartition('.')[2]} {one.values[index]}"
            for one in shown.comparison.changed
            if not one.key.startswith(("model.name", "optimizer.name", "memory.strategy", "memory.accumulate"))
        ]
        words += own if changed else []
        text = f" {shown.glyphs.dot} ".join(one_cell(word) for word in words)
        state = "" if summary.status is Status.DONE else f" {summary.status.value}"
        name = f"{LETTERS[index]} {shown.glyphs.selected if base else ' '} {one_cell(side.name)}"
        yield Line(
            (
                Span(name[:2], f"bold curve_{index}"),
                Span(name[2:], "bold" if base else ""),
                Span(state, STATUS_ROLES.get(summary.status, "bad")),
                Span("  "),
                Span(cut(text, max(0, width - len(name) - len(state) - 2), shown.glyphs), "dim"),
            ),
            meaning=f"side:{index}",
            place=str(index),
        )


def _unlike(shown: Shown, width: int) -> Iterator[Line]:
    for one in shown.comparison.unlike:
        yield from prose(in_ascii(one.message, shown.glyphs), width, label="unlike", indent=8, style="warn")


def _numbers(shown: Shown, width: int) -> Iterator[Line]:
    """Yield the table: the baseline plain, the others as differences, with a mark where they are beyond noise."""
    comparison, rows = shown.comparison, shown_rows(shown.comparison)
    count = len(shown.sides)
    room = (width - LABEL) // count
    detail = next((level for level in (2, 1, 0) if _widest(shown, rows, level) < room), 0)
    column = max(LEAST_COLUMN, min(MOST_COLUMN, room))
    head = [Span(" " * LABEL)]
    for index in range(count):
        mark = " baseline" if index == comparison.baseline else ""
        head.append(Span(f"{LETTERS[index] + mark:>{column}}"[-column:], f"bold curve_{index}"))
    yield Line(tuple(head), skipped=True)
    for quantity in rows:
        spans = [Span(f"{cut(quantity.label, LABEL - 1, shown.glyphs):<{LABEL}}", "bold")]
        for index in range(count):
            text, style = _cell(shown, quantity, index, detail)
            spans.append(Span(f"{text:>{column}}"[-column:], style))
        yield Line(tuple(spans), meaning=f"number:{quantity.name}")
    marks = shown.glyphs
    told = f"{marks.better} better  {marks.worse} worse, beyond noise   {NOISE} none beyond noise   "
    yield Line((Span(f"{told}{UNDECIDED} undecided   {SAME} same", "dim"),), skipped=True)


def _widest(shown: Shown, rows: Sequence[Quantity], detail: int) -> int:
    return max(
        (len(_cell(shown, one, index, detail)[0]) for one in rows for index in range(len(shown.sides))), default=0
    )


def _cell(shown: Shown, quantity: Quantity, index: int, detail: int) -> tuple[str, str]:
    """Return a cell and its style. `detail`: 0 the difference, 1 with its interval, 2 with the value too."""
    found = shown.comparison.differences[quantity.name][index]
    value = shown_value(quantity, shown.comparison.figures[quantity.name][index].value)
    if found is None:
        return f"{value}  ", ""
    if found.verdict is Verdict.MISSING:
        return f"{value}  ", "dim"
    change = "" if found.verdict is Verdict.SAME else in_ascii(change_words(quantity, found), shown.glyphs)
    if detail == 0:
        change = change.partition(" ±")[0].replace(" points", "p").replace(" %", "%")
    mark, style = mark_of(found, shown.glyphs)
    words = [value, change] if detail == 2 else [change]
    return f"{'  '.join(word for word in words if word)} {mark}", style


def mark_of(found: Difference, glyphs: Glyphs) -> tuple[str, str]:
    """Return the character behind a difference, and its style."""
    if found.verdict in (Verdict.HIGHER, Verdict.LOWER):
        if found.good is None:
            return (glyphs.up if found.verdict is Verdict.HIGHER else glyphs.down), ""
        return (glyphs.better, "good") if found.good else (glyphs.worse, "bad")
    return {Verdict.SAME: (SAME, "dim"), Verdict.NOISE: (NOISE, "dim")}.get(found.verdict, (UNDECIDED, "dim"))


def _verdicts(shown: Shown, width: int) -> Iterator[Line]:
    """Yield in words what the marks say."""
    comparison = shown.comparison
    for index in range(len(shown.sides)):
        if index == comparison.baseline:
            continue
        title = f"{LETTERS[index]} against {LETTERS[comparison.baseline]}  "
        yield from prose(_largest(comparison, index), width, label=title, indent=len(title), meaning=f"side:{index}")
        for name, numbers in verdict_lines(comparison, index):
            text = in_ascii(f"{name}: {numbers}", shown.glyphs)
            yield from prose(text, width, label="", indent=2, meaning=f"side:{index}")
    yield blank()


def _largest(comparison: Comparison, index: int) -> str:
    """Say in a line which phase and which category make the difference."""
    told = []
    for what, found, unit in (
        ("mean step", comparison.time[index], format_ms),
        ("peak", comparison.memory[index], format_bytes),
    ):
        if found is not None and found.difference and found.largest is not None:
            part = found.largest
            sign = "+" if found.difference > 0 else ""
            own = "+" if (part.difference or 0) > 0 else ""
            told.append(
                f"{what} {sign}{unit(found.difference)}: {part.name.replace('_', ' ')} {own}{unit(part.difference)}"
            )
    return "; ".join(told)


def explained(shown: Shown, meaning: str) -> list[str]:
    """Say exactly what a highlighted line is about: at most two sentences."""
    kind, _, rest = meaning.partition(":")
    if kind == "number":
        return _number_words(shown, rest)
    if kind == "side":
        index = int(rest)
        if index == shown.comparison.baseline:
            return ["the baseline; b makes the next run the baseline, enter opens a run"]
        return [f"{LETTERS[index]}: {method_words(shown.comparison, index)}"]
    if kind == "bar":
        title, _, place = rest.rpartition(":")
        return bar_words(shown, title, int(place))
    return []


def _number_words(shown: Shown, name: str) -> list[str]:
    comparison = shown.comparison
    quantity = next(one for one in shown_rows(comparison) if one.name == name)
    values, changes = [], []
    for index, (figure, found) in enumerate(zip(comparison.figures[name], comparison.differences[name], strict=True)):
        spread = spread_words(quantity, figure)
        values.append(f"{LETTERS[index]} {shown_value(quantity, figure.value)}" + (f" ({spread})" if spread else ""))
        if found is not None:
            changes.append(f"{LETTERS[index]} {change_words(quantity, found)}, {_told(found)}")
    return [f"{quantity.label}: {', '.join(values)}", "; ".join(changes)]


def _told(found: Difference) -> str:
    """Return a verdict as it is told of one number."""
    if found.verdict is Verdict.NOISE:
        return "below the threshold" if found.beyond_noise else NO_DIFFERENCE
    word = verdict_word(found)
    if found.reason:
        return f"{word}: {found.reason}"
    return f"{word}, exact" if found.exact else f"{word}, beyond noise"
