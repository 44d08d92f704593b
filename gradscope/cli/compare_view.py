"""`gradscope compare` as text and as Markdown: numbers, verdicts, what makes the difference, what is unlike."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradscope.analysis.comparison import Comparison
from gradscope.analysis.comparison_words import (
    change_words,
    method_words,
    part_name,
    shown_rows,
    spread_words,
    verdict_lines,
    verdict_word,
)
from gradscope.analysis.contributions import Explained
from gradscope.analysis.gate import Judged
from gradscope.analysis.quantities import shown_value
from gradscope.analysis.sides import LETTERS
from gradscope.analysis.unlike import Side, compared_settings
from gradscope.core.table import format_table
from gradscope.core.text import display_width, visible
from gradscope.core.units import format_bytes, format_ms
from gradscope.export.summary_words import machine_words, run_words

LEAST_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Table:
    """A head and its rows; the first column holds names, the others figures."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Told:
    """All that a comparison prints, before it is laid out."""

    sides: list[str]
    warnings: list[str]
    settings: Table | None
    numbers: list[Table]
    verdicts: list[tuple[str, list[tuple[str, str]]]]
    """How a side was compared, and what became of its numbers."""
    parts: list[Table]
    conditions: list[str]


def told(
    comparison: Comparison,
    sides: Sequence[Side],
    judged: Sequence[Judged],
    operators: Mapping[int, Sequence[Mapping[str, Any]]],
    width: int | None,
) -> Told:
    """Return what there is to say.

    Args:
        comparison: The result.
        sides: What was compared.
        judged: Conditions and what became of them.
        operators: By side: those that differ most from the baseline's, as `compare_traces.as_data` returns them.
        width: Decides how many sides stand beside each other; `None`: all.
    """
    letters = LETTERS[: len(sides)]
    others = [index for index in range(len(sides)) if index != comparison.baseline]
    settings = [(one.key, *one.values) for one in comparison.changed]
    return Told(
        sides=[_side(letters[index], side, index == comparison.baseline) for index, side in enumerate(sides)],
        warnings=[one.message for one in comparison.unlike],
        settings=Table("settings", ("", *letters), settings) if settings else None,
        numbers=_numbers(comparison, others, letters, width),
        verdicts=[
            (f"{letters[side]} against {letters[comparison.baseline]}: {method_words(comparison, side)}", lines)
            for side in others
            if (lines := verdict_lines(comparison, side))
        ],
        parts=[
            table
            for side in others
            for what, unit in ((comparison.time[side], format_ms), (comparison.memory[side], format_bytes))
            if (table := _parts(what, unit, letters[comparison.baseline], letters[side])) is not None
        ]
        + [
            _operators(operators[side], letters[comparison.baseline], letters[side])
            for side in others
            if operators.get(side)
        ],
        conditions=[_condition(one, letters) for one in judged],
    )


def _side(letter: str, side: Side, baseline: bool) -> str:
    told = [[*run_words(one.identity, "x")[1:], *machine_words(one.identity)[:1]] for one in side.summaries]
    words = [word for word in told[0] if all(word in others for others in told)]
    if len(kinds := {repr(compared_settings(run)) for run in side.runs}) > 1:
        words.append(f"{len(kinds)} different settings")
    mark = ", the baseline" if baseline else ""
    return f"{letter}  {side.name}{mark}: {', '.join(words)}"


def _numbers(comparison: Comparison, others: Sequence[int], letters: str, width: int | None) -> list[Table]:
    """Return the numbers: two sides with all there is to say, more with changes only, in blocks that fit."""
    base = comparison.baseline
    rows = shown_rows(comparison)
    if len(others) == 1:
        [side] = others
        head = ("", letters[base], letters[side], "change", "verdict")
        body = []
        for quantity in rows:
            figures, found = comparison.figures[quantity.name], comparison.differences[quantity.name][side]
            if found is not None:
                values = [shown_value(quantity, figures[index].value) for index in (base, side)]
                body.append((quantity.label, *values, change_words(quantity, found), verdict_word(found)))
        return [Table("numbers", head, body), *_spreads(comparison, letters)]
    block = max(1, ((width or 10_000) - 32) // 26)
    tables = []
    for start in range(0, len(others), block):
        some = others[start : start + block]
        body = []
        for quantity in rows:
            cells = [shown_value(quantity, comparison.figures[quantity.name][base].value)]
            for side in some:
                found = comparison.differences[quantity.name][side]
                cells.append("" if found is None else f"{change_words(quantity, found)} {verdict_word(found)}")
            body.append((quantity.label, *cells))
        tables.append(Table("numbers", ("", letters[base], *(letters[side] for side in some)), body))
    return [*tables, *_spreads(comparison, letters)]


def _spreads(comparison: Comparison, letters: str) -> list[Table]:
    """Return the ranges: within a run, or over several."""
    body = []
    for quantity in shown_rows(comparison):
        cells = [spread_words(quantity, one) for one in comparison.figures[quantity.name]]
        if any(cells):
            body.append((quantity.label, *cells))
    single = all(len(side.runs) == 1 for side in comparison.sides)
    title = (
        "spread: p5 to p95 within a run" if single else "spread: lowest to highest run; p5 to p95 within a single one"
    )
    return [Table(title, ("", *letters), body)] if body else []


def _parts(found: Explained | None, unit: Callable[[float | None], str], base: str, letter: str) -> Table | None:
    if found is None or found.difference == 0:
        return None
    rows = [
        (part_name(part), unit(part.baseline), unit(part.value), _signed(part.difference, unit)) for part in found.parts
    ]
    rows.append(("together", unit(found.baseline), unit(found.value), _signed(found.difference, unit)))
    what, _, _ = found.what.partition(",")
    largest = f", most of it {found.largest.name.replace('_', ' ')}" if found.largest else ""
    return Table(
        f"what makes it: {what} {_signed(found.difference, unit)}{largest}", ("", base, letter, "difference"), rows
    )


def _operators(rows: Sequence[Mapping[str, Any]], base: str, letter: str) -> Table:
    body = [
        (
            str(row["name"]),
            format_ms(row["baseline_ms"]),
            format_ms(row["value_ms"]),
            _signed(row["difference_ms"], format_ms),
        )
        for row in rows
    ]
    return Table("operators that differ most, own time a profiled step", ("", base, letter, "difference"), body)


def _signed(value: float | None, unit: Callable[[float | None], str]) -> str:
    return ("+" if value and value > 0 else "") + unit(value)


def _condition(judged: Judged, letters: str) -> str:
    change = judged.difference.relative
    figure = "" if change is None else f" ({100 * change:+.1f} %)"
    why = f": {judged.reason}" if judged.reason else ""
    return f"{judged.outcome.value}  {letters[judged.side]}  {judged.condition}{figure}{why}"


def text(what: Told, width: int, *, unicode: bool) -> str:
    """Lay out a comparison for a terminal."""
    width = max(LEAST_WIDTH, width)
    blocks = [[line for side in what.sides for line in _wrapped(side, width, "   ")]]
    if what.warnings:
        blocks.append(["unlike", *(line for one in what.warnings for line in _wrapped(f"  - {one}", width, "    "))])
    tables = [what.settings] if what.settings else []
    blocks += [_laid_out(table, width) for table in (*tables, *what.numbers)]
    for method, lines in what.verdicts:
        block = _wrapped(method, width, "  ")
        for name, numbers in lines:
            block += _wrapped(f"  {name}: {numbers}", width, "    ")
        blocks.append(block)
    blocks += [_laid_out(table, width) for table in what.parts]
    if what.conditions:
        blocks.append(
            ["conditions", *(line for one in what.conditions for line in _wrapped(f"  {one}", width, "      "))]
        )
    found = "\n\n".join("\n".join(lines) for lines in blocks)
    return found if unicode else found.replace("±", "+-").encode("ascii", "backslashreplace").decode()


def _wrapped(line: str, width: int, rest: str) -> list[str]:
    return textwrap.wrap(visible(line), width, subsequent_indent=rest, break_on_hyphens=False)


def _laid_out(table: Table, width: int) -> list[str]:
    sides = "l" + "r" * (len(table.head) - 1)
    if table.head[-1] == "verdict":
        sides = sides[:-1] + "l"
    rows = [[_cut(cell, 34) for cell in row] for row in table.rows]
    lines = format_table(["", *table.head[1:]], rows, sides).splitlines()
    title = _wrapped(table.title, width, "  ") if table.title != "numbers" else []
    indented = [f"  {line}" if line else line for line in lines]
    fits = all(display_width(line) <= width for line in indented)
    return [*title, *(indented if fits and title else lines)]


def _cut(cell: str, width: int) -> str:
    shown = visible(cell)
    return shown if len(shown) <= width else f"{shown[: width - 2]}.."


def markdown(what: Told) -> str:
    """Lay out a comparison as Markdown, for a pull request."""
    lines = ["### gradscope compare", ""]
    lines += [f"- {_escaped(side)}" for side in what.sides]
    lines += ["", *(f"> {_escaped(one)}" for one in what.warnings)] if what.warnings else []
    for table in (*([what.settings] if what.settings else []), *what.numbers):
        lines += _pipes(table)
    for method, verdicts in what.verdicts:
        lines += ["", _escaped(method), ""]
        lines += [f"- **{_escaped(name)}**: {_escaped(numbers)}" for name, numbers in verdicts]
    for table in what.parts:
        lines += _pipes(table)
    if what.conditions:
        lines += ["", "#### conditions", "", *(f"- {_escaped(one)}" for one in what.conditions)]
    return "\n".join(lines)


def _pipes(table: Table) -> list[str]:
    def row(cells: Iterable[str]) -> str:
        return f"| {' | '.join(map(_escaped, cells))} |"

    sides = [" --- ", *(" ---: " for _ in table.head[1:])]
    title = [f"#### {_escaped(table.title)}", ""]
    return ["", *title, row(table.head), f"|{'|'.join(sides)}|", *map(row, table.rows)]


def _escaped(cell: str) -> str:
    """Return foreign text that stays text: nothing in it ends a cell, opens a tag or a link."""
    shown = visible(cell)
    for char in "\\`*_[]<>|":
        shown = shown.replace(char, f"\\{char}") if char != "<" else shown.replace(char, "&lt;")
    return shown
