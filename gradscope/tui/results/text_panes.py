"""Tabs that are lines of text: summary, findings, audit, preset."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gradscope.core.paths import shown_path
from gradscope.core.units import format_bytes, format_count, format_ms, format_pct, format_seconds
from gradscope.trace.estimate import SECONDS_PER_EVENT
from gradscope.tui.charts.cells import Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import in_ascii, one_cell
from gradscope.tui.results.lines import Line, LinesView, blank, heading, prose, row
from gradscope.tui.results.pane import ResultPane
from gradscope.tui.results.questions import Question
from gradscope.tui.results.report import RunReport
from gradscope.tui.results.summary_lines import SEVERITY, TraceState, audit_lines, summary_lines

if TYPE_CHECKING:
    from gradscope.trace.finding import Finding

FINDINGS = Question("findings")
AT_ONCE_EVENTS = 400_000
"""Up to so many events a trace is asked without having been told to: some five seconds."""


class TextPane(ResultPane):
    """One list of lines."""

    def compose(self) -> ComposeResult:
        """The lines."""
        yield LinesView()

    @property
    def view(self) -> LinesView:
        """The lines."""
        return self.query_one(LinesView)

    def make(self, width: int, height: int) -> list[Line]:
        """Return the lines for a width and a height."""
        return []

    def update_shown(self) -> None:
        """Make the lines anew."""
        self.view.show_lines(self.make)

    def take_focus(self) -> None:
        """Keys move in the lines."""
        self.view.focus()

    def copied(self) -> str:
        """Return the highlighted line."""
        line = self.view.line
        return "" if line is None else line.copy or line.text

    def meaning(self) -> str:
        """Return the key of the highlighted line."""
        return "" if self.view.line is None else self.view.line.meaning

    def on_item_list_chosen(self) -> None:
        """Go where the highlighted line leads; where a trace was not analysed, analyse it."""
        unasked = not all(self.answer(question) is not None for question in self.QUESTIONS)
        if self.QUESTIONS and unasked and not self.desk.doing and not self.desk.errors and self.desk.paths:
            self.desk.ask(*self.QUESTIONS)
            self.host.say_doing()
        elif self.view.line is not None:
            self.choose(self.view.line)

    def choose(self, line: Line) -> None:
        """Go where a line leads."""
        if line.place:
            self.host.open_tab(line.place)


class SummaryPane(TextPane):
    """Did it work, what did it cost, where did time and memory go, what to do, is it right."""

    NAME = "summary"
    QUESTIONS = (FINDINGS,)
    BINDING_GROUP_TITLE = "summary"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "screen.tensorboard", "tensorboard", tooltip="Start TensorBoard, or stop it"),
        Binding("l", "screen.live", "curves", tooltip="All steps of the run, as when it was watched"),
        Binding("y", "screen.copy", "copy path", tooltip="Copy the path of the run"),
    ]

    def needed(self) -> tuple[Question, ...]:
        """Ask a trace at once only where that is quick."""
        report = self.host.report
        return self.QUESTIONS if report is not None and report.trace_events <= AT_ONCE_EVENTS else ()

    def make(self, width: int, height: int) -> list[Line]:
        """Lay out the summary."""
        report = self.host.report
        if report is None:
            return prose(f"reading the run {self.glyphs.ellipsis}", width, indent=0)
        found = self.answer(FINDINGS)
        text, hint = ("", "") if found is not None else self.why_empty(FINDINGS)
        if found is None and not self.needed() and report.traces and not (self.desk.doing or self.desk.errors):
            text = f"the trace has about {format_count(report.trace_events)} events: enter analyses it"
            hint = f"that takes about {format_seconds(SECONDS_PER_EVENT * report.trace_events)}"
        return summary_lines(report, TraceState(found, text, hint), (width, height), self.glyphs)


class AuditPane(TextPane):
    """Is the strategy's gradient the gradient?"""

    NAME = "audit"

    def make(self, width: int, height: int) -> list[Line]:
        """Lay out the audit."""
        report = self.host.report
        return [] if report is None else list(audit_lines(report, width))


class FindingsPane(TextPane):
    """What costs time, with evidence and remedy; rules that found nothing or could not be judged, folded."""

    NAME = "findings"
    QUESTIONS = (FINDINGS,)
    unfolded = False

    def make(self, width: int, height: int) -> list[Line]:
        """Lay out the findings."""
        found = self.answer(FINDINGS)
        if found is None:
            text, hint = self.why_empty()
            return [*prose(text, width, indent=0), *(prose(hint, width, indent=0, style="dim") if hint else [])]
        lines: list[Line] = []
        for one in found.found:
            lines += [*_finding(one, width, self.glyphs), blank()]
        if not found.found:
            lines += [row("nothing found", "no rule found a cause of lost time"), blank()]
        if found.calm:
            lines += prose(", ".join(calm.rule for calm in found.calm), width, label="fine", meaning="trace.findings")
        if found.unjudged:
            names = ", ".join(one.rule for one in found.unjudged)
            if not self.unfolded:
                lines += prose(
                    f"{names} (enter says why)", width, label="not judged", place="unfold", meaning="trace.findings"
                )
            for one in found.unjudged if self.unfolded else []:
                lines += prose(
                    f"{one.rule}: {one.reason}", width, label="not judged", place="unfold", meaning="trace.findings"
                )
        if self.unfolded:
            for calm in found.calm:
                lines += prose(
                    f"{calm.rule}: {calm.evidence}", width, label="fine", place="unfold", meaning="trace.findings"
                )
        return lines

    def choose(self, line: Line) -> None:
        """Fold and unfold."""
        if line.place == "unfold":
            self.unfolded = not self.unfolded
            self.update_shown()


def _finding(one: "Finding", width: int, glyphs: Glyphs) -> Iterator[Line]:
    mark, role = SEVERITY[one.severity]
    saving = saving_words(one)
    copy = f"{one.title} ({saving}): {one.evidence}. {one.remedy}"
    title = one_cell(one.title)
    gap = width - len(mark) - 1 - len(title) - len(saving)
    beside = f"{' ' * gap}{saving}" if gap >= 2 else ""
    made: list[tuple[Span, ...]] = [(Span(f"{mark} ", role), Span(title, "bold"), Span(beside, "bold"))]
    if not beside:
        made.append((Span("   "), Span(saving, "bold")))
    made += [(Span("   "), *line.spans) for line in prose(one.evidence, width - 3, indent=0)]
    arrow = in_ascii("→", glyphs)
    for number, line in enumerate(prose(one.remedy, width - 6, indent=0)):
        made.append((Span(f"   {arrow if not number else ' ' * len(arrow)} ", "good"), *line.spans))
    made += [(Span("   "), *line.spans) for line in prose(one.saving_formula, width - 3, indent=0, style="dim")]
    for spans in made:
        yield Line(spans, meaning="trace.findings", copy=copy)


def saving_words(one: "Finding") -> str:
    """Return the saving to expect."""
    if one.saving_pct is None:
        return "saving not known"
    per_step = "" if one.saving_ms_per_step is None else f", {format_ms(one.saving_ms_per_step)} a step"
    return f"saves up to {format_pct(one.saving_pct)}{per_step}"


class PresetPane(TextPane):
    """What was asked for, and where the numbers come from."""

    NAME = "preset"
    BINDING_GROUP_TITLE = "preset"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "screen.copy", "copy", tooltip="Copy the highlighted line, or the command line"),
    ]

    def make(self, width: int, height: int) -> list[Line]:
        """Lay out provenance and the resolved preset."""
        report = self.host.report
        return [] if report is None else list(preset_lines(report, width))

    def copied(self) -> str:
        """Return the highlighted line's own text, else the command line."""
        line = self.view.line
        command = self.host.report.command if self.host.report else None
        return (line.copy if line and line.copy else "") or command or ""


def preset_lines(report: RunReport, width: int) -> Iterator[Line]:
    """Lay out where a run comes from and what it was told to do."""
    if report.command:
        yield from prose(report.command, width, label="command", copy=report.command)
    yield row("folder", str(shown_path(report.path)), copy=str(report.path))
    manifest, summary = report.manifest, report.summary
    if manifest is not None:
        started = datetime.fromtimestamp(manifest.created_wall_ns / 1e9, UTC)
        yield row("started", f"{started:%Y-%m-%d %H:%M:%S} UTC on {manifest.host}")
        if manifest.git:
            yield row("commit", manifest.git, copy=manifest.git)
        for name, value in manifest.env.items():
            yield row("environment", f"{name}={value}")
    who = summary.identity if summary else None
    if who is not None and who.device:
        memory = "" if who.device_memory_bytes is None else f", {format_bytes(who.device_memory_bytes)}"
        yield row("device", f"{who.device} {who.device_name or ''}{memory}")
    versions = summary.provenance.versions if summary else {}
    if versions:
        yield from prose(", ".join(f"{name} {text}" for name, text in versions.items()), width, label="versions")
    yield blank()
    if report.preset_toml is None:
        why = "is missing or damaged" if manifest is None else "is of another version of gradscope"
        yield row("preset", f"not known: manifest.json {why}", style="warn")
        return
    yield heading("the resolved preset, every field")
    for text in report.preset_toml.splitlines():
        style = "bold" if text.startswith("[") else ""
        yield from prose(text, width, indent=0, style=style, copy=text) if text else [blank()]
