"""The tabs of the run screen: one line each here, one module each beside it."""

from dataclasses import dataclass
from pathlib import Path

from gradscope.export.summary_words import machine_words, run_words
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import cut, fitted, one_cell
from gradscope.tui.results.files import FilesPane
from gradscope.tui.results.memory import MemoryPane
from gradscope.tui.results.operators import OperatorsPane
from gradscope.tui.results.pane import ResultPane
from gradscope.tui.results.report import RunReport
from gradscope.tui.results.steps import IdlePane, StepsPane
from gradscope.tui.results.summary_lines import STATUS_ROLES
from gradscope.tui.results.text_panes import AuditPane, FindingsPane, PresetPane, SummaryPane
from gradscope.tui.results.timeline import TimelinePane


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab."""

    key: str
    name: str
    short: str
    """Where there is little room."""
    pane: type[ResultPane]


TABS: tuple[Tab, ...] = (
    Tab("1", "summary", "summary", SummaryPane),
    Tab("2", "operators", "ops", OperatorsPane),
    Tab("3", "steps", "steps", StepsPane),
    Tab("4", "idle", "idle", IdlePane),
    Tab("5", "memory", "mem", MemoryPane),
    Tab("6", "timeline", "timeline", TimelinePane),
    Tab("7", "findings", "find", FindingsPane),
    Tab("8", "audit", "audit", AuditPane),
    Tab("9", "preset", "preset", PresetPane),
    Tab("f", "files", "files", FilesPane),
)
"""In their order."""


def tab_bar(active: str, width: int) -> Row:
    """Return the tabs in one line, each with its key; in a narrow one short names, then those around the active one."""
    for short, gap in ((False, "  "), (False, " "), (True, " ")):
        texts = [f"{tab.key} {tab.short if short else tab.name}" for tab in TABS]
        if sum(map(len, texts)) + len(gap) * (len(TABS) - 1) + 1 <= width:
            break
    place = next(number for number, tab in enumerate(TABS) if tab.name == active)
    first = 0
    if sum(map(len, texts)) + len(gap) * len(texts) > width:
        while first < place and sum(len(text) + 1 for text in texts[first : place + 2]) > width - 1:
            first += 1
    spans = [Span(" ")]
    for number, tab in list(enumerate(TABS))[first:]:
        text = texts[number]
        if tab.name == active:
            spans.append(Span(text, "bold reverse"))
        else:
            spans += [Span(text[0], "bold"), Span(text[1:])]
        spans.append(Span(gap))
    return fitted(spans, width)


def title_row(report: RunReport | None, path: Path, window: int, width: int, glyphs: Glyphs) -> Row:
    """Return what run this is, and how it ended."""
    if report is None:
        return fitted([Span(f" {one_cell(str(path))}", "bold")], width)
    if not report.is_run:
        state = "cannot be read" if report.unreadable else "no run"
        return fitted([Span(f" {one_cell(report.run_id)}", "bold"), Span(f"  {state}", "warn")], width)
    state = report.status.status
    role = STATUS_ROLES.get(state, "bad" if state.is_final else "warn")
    words = [report.preset_name]
    if report.summary is not None:
        words = [
            *run_words(report.summary.identity, glyphs.times),
            *machine_words(report.summary.identity)[:1],
        ]
    if window:
        words.append(f"window {window}")
    right = f"{state.value} {report.run_id[:16]} "
    room = max(0, width - len(right) - 2)
    left = cut(one_cell(f" {glyphs.dot} ".join(words)), room, glyphs)
    return fitted(
        [Span(f" {left:<{room}} ", "bold"), Span(state.value, f"bold {role}"), Span(right[len(state.value) :], "axis")],
        width,
    )
