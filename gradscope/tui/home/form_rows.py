"""Rows of the form: fields with their values, and what there is to know about the highlighted one. Pure."""

import textwrap
from collections.abc import Iterator

from gradscope.analysis.expect import Outlook, Source
from gradscope.config.check import NONE_WORD
from gradscope.config.fields import Field, table_help
from gradscope.config.torch_optim import torch_optimizers
from gradscope.core.text import display_width, visible
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.foretelling import Foretelling, foretold_text
from gradscope.tui.home.form import Form
from gradscope.tui.home.text import fitted, short_bytes, short_seconds

NAME_CELLS = 18
LEAST_SUMMARY = 24
"""Cells beside a choice's name that its summary needs; else it stands below."""
CHANGED = "*"


def table_row(table: str, glyphs: Glyphs, width: int, highlighted: bool = False) -> Row:
    """Name a table of fields, and say what it is for."""
    name = fitted(table or "preset", min(width, max(6, len(table))), glyphs.ellipsis)
    return (Span(name, "bold"), Span(fitted(f"  {table_help(table)}", width - len(name), glyphs.ellipsis), "axis"))


def field_row(one: Field, form: Form, glyphs: Glyphs, width: int, highlighted: bool) -> Row:
    """Draw a field: a mark where it was changed, its name, its value, and where that comes from."""
    text, changed = form.text(one.key), one.key in form.changed
    marker = glyphs.selected if highlighted else " "
    mark = CHANGED if changed else " "
    note = ""
    if form.differs(one.key):
        note = f"was {form.own.get(one.key, '')}"
    elif text == one.default:
        note = "default"
    name_cells = min(NAME_CELLS, max(8, width // 2))
    room = max(0, width - 5 - name_cells)
    note_cells = min(display_width(visible(note)), max(0, room - display_width(visible(text)) - 1), room // 2)
    note_cells = note_cells if note_cells >= min(7, display_width(note)) else 0
    value = fitted(text, room - note_cells - (1 if note_cells else 0), glyphs.ellipsis)
    shown = fitted(note, note_cells, glyphs.ellipsis) if note_cells else ""
    return (
        Span(f"{marker} {mark} {fitted(one.name, name_cells, glyphs.ellipsis)} ", "bold" if changed else ""),
        Span(value + (" " if note_cells else ""), "bold" if changed else ""),
        Span(shown, "axis"),
    )


def about(one: Field, form: Form, glyphs: Glyphs, width: int) -> list[Row]:
    """Explain a field: what it is, what it takes, and its choices with the current one marked."""
    width = max(10, width)
    kind = f"{one.kind}, or {NONE_WORD}" if one.optional else one.kind
    rows = [*_wrapped(one.help, width), (), *_wrapped(f"takes {kind}", width)]
    rows += _wrapped(f"default {one.default}" if one.default else "no default", width, "axis")
    rows += _wrapped(f"in this preset {form.own.get(one.key, '')}", width, "axis")
    if one.choices:
        rows += [(), *_choices(one, form.text(one.key), glyphs, width)]
    if one.key == "optimizer.name":
        rows += _wrapped(f"or a class of torch.optim: {', '.join(torch_optimizers())}", width, "axis")
    return rows


def _choices(one: Field, text: str, glyphs: Glyphs, width: int) -> Iterator[Row]:
    cells = max(display_width(choice.text) for choice in one.choices) + 4
    beside = width - cells >= LEAST_SUMMARY
    for choice in one.choices:
        current = choice.text == text
        name = f"{glyphs.selected if current else ' '} {choice.text}"
        lines = _lines(choice.summary, width - cells if beside else width - 4)
        if beside:
            yield (Span(name.ljust(cells), "bold" if current else ""), Span("".join(lines[:1]), "axis"))
            lines = lines[1:]
        else:
            yield (Span(name, "bold" if current else ""),)
        for line in lines:
            yield (Span(" " * (cells if beside else 4)), Span(line, "axis"))


def _lines(text: str, width: int) -> list[str]:
    return textwrap.wrap(visible(text), max(8, width), break_on_hyphens=False)


def _wrapped(text: str, width: int, role: str = "") -> list[Row]:
    return [(Span(line, role),) for line in _lines(text, width)]


def verdict(
    form: Form, outlook: Outlook | None, glyphs: Glyphs, width: int, foretold: Foretelling | None = None
) -> list[Row]:
    """Say what the command line would say of the form: what is wrong, or what to expect.

    Args:
        form: As it is.
        outlook: What to expect by rule or last run.
        glyphs: Characters.
        width: Columns there are.
        foretold: Its memory, which takes the place of what the rule says of it.
    """
    if foretold is None or form.error is not None:
        return _judged(form, outlook, glyphs, width)
    if foretold.error:
        line = fitted(foretold_text(foretold, glyphs), width, glyphs.ellipsis)
        return [*_judged(form, outlook, glyphs, width), (Span(line, foretold.role),)]
    return _foretold(foretold, outlook, glyphs, width)


def _judged(form: Form, outlook: Outlook | None, glyphs: Glyphs, width: int) -> list[Row]:
    if form.error is not None:
        rows = _wrapped(f"{glyphs.failed} {form.error.message}", width, "bad")
        return [*rows, *_wrapped(form.error.hint, width, "axis")]
    if outlook is None:
        return [(Span("ready", "good"),)]
    expected = outlook.expected
    if expected.source is Source.UNKNOWN:
        return _wrapped("ready; time and memory are not known before its first run", width, "good")
    tilde = "~" if expected.source is Source.ROUGH else ""
    text = f"ready: {tilde}{short_seconds(expected.seconds)}, {tilde}{short_bytes(expected.peak_bytes)}"
    text += f" ({'rough' if tilde else 'its last run'})"
    if not outlook.obstacle:
        return _wrapped(f"{text}, fits" if outlook.fits else text, width, "good")
    return [*_wrapped(text, width), *_wrapped(f"{glyphs.failed} {outlook.obstacle}", width, "warn")]


def _foretold(found: Foretelling, outlook: Outlook | None, glyphs: Glyphs, width: int) -> list[Row]:
    """Say what is foretold of memory, behind the time that is expected."""
    lead = "ready: "
    if outlook is not None and outlook.expected.seconds is not None:
        lead += f"{'~' if outlook.expected.source is Source.ROUGH else ''}{short_seconds(outlook.expected.seconds)}, "
    text = lead + foretold_text(found, glyphs)
    rows = _wrapped(text, width, found.role)
    if outlook is not None and outlook.obstacle and outlook.fits is not False:  # else the obstacle is memory by rule
        rows += _wrapped(f"{glyphs.failed} {outlook.obstacle}", width, "warn")
    return rows
