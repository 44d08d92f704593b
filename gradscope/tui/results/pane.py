"""What all tabs of the run screen share."""

from typing import Any, Protocol

from textual.containers import Vertical

from gradscope.tui.glyphs import Glyphs
from gradscope.tui.results.desk import TraceDesk
from gradscope.tui.results.questions import Question
from gradscope.tui.results.report import RunReport

NO_TRACE_YET = "the trace was not analysed: enter does"


class Host(Protocol):
    """What panes ask of the screen."""

    desk: TraceDesk
    report: RunReport | None

    def open_tab(self, name: str) -> None:
        """Show another tab."""

    def open_step(self, step: int | None, time_ns: int | None = None) -> None:
        """Show a step in the timeline, the cursor at a time."""

    def say_doing(self) -> None:
        """Show what is being done."""


class ResultPane(Vertical):
    """One tab. It shows what the desk knows and asks for what it needs once it is seen."""

    NAME = ""
    QUESTIONS: tuple[Question, ...] = ()
    DEFAULT_CSS = """
    ResultPane { height: 1fr; }
    """

    def __init__(self, host: Host, glyphs: Glyphs) -> None:
        super().__init__(id=f"pane-{self.NAME}")
        self.host = host
        self.glyphs = glyphs

    @property
    def desk(self) -> TraceDesk:
        """Where the trace is asked."""
        return self.host.desk

    def needed(self) -> tuple[Question, ...]:
        """Return what has to be answered for what is shown now."""
        return self.QUESTIONS

    def answer(self, question: Question) -> Any:
        """Return an answer; `None` where there is none yet."""
        return self.desk.answers.get(question)

    def opened(self) -> None:
        """Called when it comes to be seen."""
        if not self.desk.stopped:
            self.desk.ask(*self.needed())
        self.update_shown()
        self.take_focus()

    def update_shown(self) -> None:
        """Show what is known now."""

    def take_focus(self) -> None:
        """Let keys act on what is in it."""

    def closed(self) -> bool:
        """Close what is open within; returns whether anything was."""
        return False

    def copied(self) -> str:
        """Return what the copy key copies; empty: the run's path."""
        return ""

    def meaning(self) -> str:
        """Return the key of what the highlighted number means; empty where there is none."""
        return ""

    def why_empty(self, *questions: Question) -> tuple[str, str]:
        """Return why there is no answer, and what to do about it."""
        report = self.host.report
        if report is None:
            return f"reading the run {self.glyphs.ellipsis}", ""
        if not report.traces:
            return report.no_trace[0], report.no_trace[1]
        for question in questions or self.needed():
            if question in self.desk.errors:
                return self.desk.errors[question]
        if self.desk.stopped:
            return NO_TRACE_YET, ""
        return f"{self.desk.doing or 'reading the trace'} {self.glyphs.ellipsis}", "escape stops it"
