"""All of `gradscope trace` as text: what the file is, what had to be mended, and the sections that were asked for."""

from collections.abc import Callable, Iterable

from gradscope.cli.trace_findings_view import findings
from gradscope.cli.trace_idle_view import idle
from gradscope.cli.trace_layout import UNICODE, Pen
from gradscope.cli.trace_memory_view import memory
from gradscope.cli.trace_phase_view import phases
from gradscope.cli.trace_siblings_view import communication, ranks, windows
from gradscope.cli.trace_views import kernels, modules, operators, overview, steps
from gradscope.core.text import display_width, visible
from gradscope.core.units import format_bytes, format_number_of
from gradscope.errors import GradscopeError
from gradscope.trace.answers import Answers, is_usable
from gradscope.trace.frames import Trace

VIEWS: dict[str, Callable[[Answers, Pen], list[str]]] = {
    "windows": windows,
    "ranks": ranks,
    "overview": overview,
    "phases": phases,
    "operators": operators,
    "kernels": kernels,
    "modules": modules,
    "steps": steps,
    "idle": idle,
    "communication": communication,
    "memory": memory,
    "findings": findings,
}
"""Sections by name, in their order."""

ON_REQUEST: dict[str, Callable[[Answers], bool]] = {
    "windows": lambda answers: answers.steps.windows.height > 1,
    "ranks": lambda answers: len(answers.loaded.traces) > 1,
    "communication": lambda answers: answers.communication.side is not None,
    "modules": lambda answers: not answers.modules.frame.is_empty(),
}
"""Sections that are shown only if asked for or if there is something to tell."""

NOTHING = "no usable events in this trace"
NOTES_SHOWN = 6


def check_views(names: Iterable[str]) -> None:
    """Refuse a section that there is not.

    Raises:
        GradscopeError: There is none of that name.
    """
    for name in names:
        if name not in VIEWS:
            raise GradscopeError(f"there is no view {name!r}", f"the views are {', '.join(VIEWS)}")


def render(answers: Answers, pen: Pen, views: list[str] | None = None) -> str:
    """Lay out a trace for a person.

    Args:
        answers: Of the trace that is shown.
        pen: How to lay out.
        views: Sections, in their own order; `None`: those that have something to say.
    """
    sections = [[*header(answers, pen), *notes(answers, pen)]]
    if not is_usable(answers.trace):
        sections.append([NOTHING])
    else:
        chosen = [name for name in VIEWS if views is None or name in views]
        for name in chosen:
            if views is None and name in ON_REQUEST and not ON_REQUEST[name](answers):
                continue
            sections.append(VIEWS[name](answers, pen))
    return printable(sections, pen)


def printable(sections: Iterable[list[str]], pen: Pen) -> str:
    """Return sections as one text, in ASCII where the pen is of that kind."""
    text = joined(sections)
    return text if pen.glyphs is UNICODE else text.encode("ascii", "backslashreplace").decode()


def joined(sections: Iterable[list[str]]) -> str:
    """Put sections below each other with an empty line between, except between those of one line."""
    lines: list[str] = []
    before = 0
    for section in sections:
        if not section:
            continue
        if lines and not (before == 1 and len(section) == 1):
            lines.append("")
        lines += section
        before = len(section)
    return "\n".join(lines)


def header(answers: Answers, pen: Pen) -> list[str]:
    """Say what the file is."""
    trace = answers.trace
    meta = trace.metadata
    size = format_bytes(answers.loaded.size_bytes)
    name = pen.name("trace" if trace.path is None else trace.path.name, pen.width - display_width(size) - 2)
    lines = [name + " " * (pen.width - display_width(name) - display_width(size)) + size]
    rank = None
    if meta.rank is not None:
        rank = f"rank {meta.rank}" + (f" of {meta.world_size}" if meta.world_size else "")
    events = format_number_of(trace.events.height, "event")
    lines += pen.wrapped(pen.joined(events, rank, _steps(answers), _devices(trace)), "")
    recorded = {"shapes": meta.record_shapes, "stacks": meta.with_stack, "memory": meta.profile_memory}
    known = [name for name, on in recorded.items() if on]
    made = "gradscope's own run" if meta.gradscope_run else None
    worker = None if not meta.worker else f"worker {meta.worker}"
    recording = f"recorded with {', '.join(known)}" if known else None
    if text := pen.joined(made, worker, recording):
        lines += pen.wrapped(text, "")
    if text := _siblings(answers):
        lines += pen.wrapped(text, "")
    return lines


def _siblings(answers: Answers) -> str:
    loaded = answers.loaded
    if len(loaded.traces) > 1:
        return f"rank {answers.rank}, one of {len(loaded.traces)} in this folder; --rank shows another one"
    if loaded.target.kind == "windows" and len(loaded.paths) > 1:
        return f"all {len(loaded.paths)} windows of run {loaded.target.run_id}; --window shows one of them"
    return ""


def _steps(answers: Answers) -> str | None:
    found = answers.steps
    if found.count is None:
        return "steps unknown"
    if not found.count:
        return None
    numbers = found.table["number"].to_list()
    first, last = min(numbers), max(numbers)
    span = f"{first}" if first == last else f"{first} to {last}"
    return f"{format_number_of(found.count, 'step')} ({span})"


def _devices(trace: Trace) -> str | None:
    names: dict[str, int] = {}
    for device in trace.metadata.devices:
        name = device.get("name") if isinstance(device, dict) else None
        if isinstance(name, str):
            names[visible(name)] = names.get(visible(name), 0) + 1
    if names and trace.has_device_events:
        return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in names.items())
    return _without_names(trace)


def _without_names(trace: Trace) -> str:
    if trace.has_device_events:
        return "with device events"
    return f"no device events in {trace.extent}" if trace.cut_at or trace.metadata.cut_of_device else "CPU only"


def notes(answers: Answers, pen: Pen) -> list[str]:
    """Say what was repaired, left out or guessed."""
    found = [note for note in answers.notes if note.code not in TOLD_ELSEWHERE]
    if not found:
        return []
    lines = ["notes"]
    for note in found[:NOTES_SHOWN]:
        lines += pen.note(note.message, note.count)
    return lines + pen.more(len(found) - NOTES_SHOWN, "notes")


TOLD_ELSEWHERE = ("no_device_events", "steps_unknown")
"""Codes of notes that a section says anyway."""
