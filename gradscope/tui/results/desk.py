"""Questions to a run's trace, answered one after the other on one thread; the screen is told of each answer."""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from textual.dom import DOMNode
from textual.message import Message
from textual.worker import get_current_worker

from gradscope.errors import GradscopeError
from gradscope.tui.applog import describe
from gradscope.tui.results.questions import Question, Stopped, TraceReader

TELL_SECONDS = 0.2
"""Time between two words about progress."""

MakeReader = Callable[[tuple[Path, ...], str], TraceReader]


def _reader(paths: tuple[Path, ...], run_id: str) -> TraceReader:
    return TraceReader(paths, run_id=run_id)


class DeskMessage(Message):
    """From the thread to the screen."""

    bubble = False

    def __init__(self, reader: TraceReader) -> None:
        super().__init__()
        self.reader = reader


class Progressed(DeskMessage):
    """What is being done."""

    def __init__(self, reader: TraceReader, text: str) -> None:
        super().__init__(reader)
        self.text = text

    def can_replace(self, message: Message) -> bool:
        """A newer word makes an older one worthless."""
        return isinstance(message, Progressed)


class Answered(DeskMessage):
    """One question is answered."""

    def __init__(self, reader: TraceReader, question: Question, value: Any) -> None:
        super().__init__(reader)
        self.question = question
        self.value = value


class Failed(DeskMessage):
    """The trace cannot be asked."""

    def __init__(self, reader: TraceReader, question: Question, message: str, hint: str) -> None:
        super().__init__(reader)
        self.question = question
        self.message = message
        self.hint = hint


class Settled(DeskMessage):
    """The thread has nothing more to do."""


class TraceDesk:
    """Takes questions from panes and keeps the answers. All methods are called on the screen's thread."""

    def __init__(self, node: DOMNode, make_reader: MakeReader = _reader) -> None:
        """`node` owns the thread and gets its messages."""
        self._node = node
        self._make_reader = make_reader
        self._reader: TraceReader | None = None
        self._queue: deque[Question] = deque()
        self._lock = threading.Lock()
        self._working = False
        self._stop = threading.Event()
        self.answers: dict[Question, Any] = {}
        self.errors: dict[Question, tuple[str, str]] = {}
        """Message and hint."""
        self.doing = ""
        """What the thread does; empty while it does nothing."""
        self.stopped = False
        """Whether the user has stopped it."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that are asked; none without a trace."""
        return self._reader.paths if self._reader is not None else ()

    def open(self, paths: tuple[Path, ...], run_id: str) -> None:
        """Ask these files from now on; what was answered is forgotten."""
        self._interrupt()
        self.answers, self.errors, self.doing, self.stopped = {}, {}, "", False
        self._reader = self._make_reader(paths, run_id) if paths else None

    def ask(self, *questions: Question) -> None:
        """See that these are answered, unless they are; without a trace nothing happens."""
        if self._reader is None:
            return
        with self._lock:
            new = [
                question
                for question in questions
                if question not in self.answers and question not in self.errors and question not in self._queue
            ]
            self._queue.extend(new)
            start = bool(self._queue) and not self._working
            self._working = self._working or start
        if new:
            self.stopped = False
        if start:
            self._stop = threading.Event()
            work = partial(self._work, self._reader, self._stop)
            self._node.run_worker(work, thread=True, group="trace", exclusive=False, exit_on_error=False)

    def stop(self) -> bool:
        """Stop what is being done; returns whether anything was."""
        if not self.doing and not self._queue:
            return False
        self._interrupt()
        self.doing, self.stopped = "", True
        return True

    def take(self, message: DeskMessage) -> bool:
        """Take in what the thread says; returns whether it changes anything."""
        if isinstance(message, Settled):
            self.ask()  # asked while the thread was being stopped
            return False
        if message.reader is not self._reader or (self.stopped and not isinstance(message, Answered)):
            return False
        if isinstance(message, Answered):
            self.answers[message.question] = message.value
        elif isinstance(message, Failed):
            self.errors[message.question] = (message.message, message.hint)
        elif isinstance(message, Progressed):
            self.doing = message.text
        return True

    def _interrupt(self) -> None:
        with self._lock:
            self._queue.clear()
        self._stop.set()

    def _work(self, reader: TraceReader, stop: threading.Event) -> None:
        worker = get_current_worker()
        told: list[Any] = [0.0, ""]

        def check(text: str) -> None:
            if stop.is_set() or worker.is_cancelled:
                raise Stopped
            now = time.monotonic()
            if now - told[0] >= TELL_SECONDS or text[:12] != told[1]:
                told[:] = now, text[:12]
                self._node.post_message(Progressed(reader, text))

        while (question := self._next(stop)) is not None:
            try:
                self._node.post_message(Answered(reader, question, reader.answer(question, check)))
            except Stopped:
                pass
            except Exception as error:  # a trace can be anything: told on the screen, the traceback goes to the log
                if not isinstance(error, GradscopeError | OSError):
                    traceback.print_exception(error)
                self._node.post_message(Failed(reader, question, *describe(error)))
        self._node.post_message(Progressed(reader, ""))
        self._node.post_message(Settled(reader))

    def _next(self, stop: threading.Event) -> Question | None:
        with self._lock:
            if stop.is_set() or not self._queue:
                self._working = False
                return None
            return self._queue.popleft()
