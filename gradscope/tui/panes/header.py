"""The two lines above the panes: what runs, where, how far it is, and whether it still says something."""

from gradscope.analysis.listing import strategy_words
from gradscope.core.events import Stage
from gradscope.core.status import Status
from gradscope.core.units import format_ms, format_number_of, format_seconds, three_digits
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.panes.base import cut, fitted, in_ascii, one_cell
from gradscope.tui.panes.values import final
from gradscope.tui.view import RunView

STALE_SECONDS = 5.0
"""A run in its steps is called silent after this long, or after `STALE_STEPS` of its own steps if that is longer."""

STALE_STEPS = 5

STALE_BETWEEN_SECONDS = 30.0
"""The same for a run that builds, audits, or writes up: these say nothing while they go on."""

STEPPING = (Status.WARMUP, Status.MEASURING, Status.PROFILING)
"""What a run is in that does one step after another."""

NAME_CELLS = 14
"""The preset's name keeps so many cells, however narrow it is."""

BAR_CELLS = (8, 36)
"""Least and most cells of the progress bar."""

STATUS_STYLES = {
    Status.DONE: "good",
    Status.FAILED: "bad",
    Status.OOM: "bad",
    Status.KILLED: "bad",
    Status.CANCELLED: "warn",
    Status.UNKNOWN: "warn",
}


def draw_header(view: RunView, width: int, glyphs: Glyphs, *, note: str = "") -> list[Row]:
    """Return the two lines.

    Args:
        view: The run.
        width: Cells of a line.
        glyphs: Characters to draw with.
        note: What the screen is in, such as `paused, 12 steps behind`; it takes the place of the rate.
    """
    return [_who(view, width, glyphs), _how_far(view, width, glyphs, note)]


def silence(view: RunView) -> str | None:
    """Return `no step for 14 s` where a running run has said nothing for longer than its steps take."""
    silent = view.silent_seconds
    if not view.running or silent is None:
        return None
    in_steps = view.status.status in STEPPING and view.steps.count > 0
    usual = STALE_STEPS * (view.median_step_ms or 0.0) / 1000
    if silent < (max(STALE_SECONDS, usual) if in_steps else STALE_BETWEEN_SECONDS):
        return None
    return f"no {'step' if in_steps else 'sign'} for {_whole_seconds(silent)}"


def position(view: RunView) -> str:
    """Return where the run is in its stage: `step 47/120`, `step 47`, or nothing before the first stage."""
    if view.stage is None or view.stage in (Stage.AUDIT, Stage.EXPORT):
        return ""
    if view.stage_planned:
        width = len(str(view.stage_planned))
        return f"step {view.stage_done:>{width}}/{view.stage_planned}"
    return f"step {view.stage_done}"


def state(view: RunView) -> tuple[str, str]:
    """Return what the run does, or what became of it, and the style of that."""
    if not view.running:
        return str(view.status.status), STATUS_STYLES.get(view.status.status, "")
    return view.doing, {Stage.MEASURE: "good", Stage.PROFILE: "warn"}.get(view.stage or Stage.EXPORT, "dim")


def names(view: RunView) -> list[str]:
    """Return preset, model, optimizer and strategy, each only where it is known and says something new."""
    preset, built = view.preset, view.built
    found = [view.preset_name]
    if preset is not None:
        if preset.model.name not in view.preset_name:
            found.append(f"{preset.model.name} {preset.model.scale}")
        found.append(preset.optimizer.name)
        micro_steps = built.micro_steps if built else preset.memory.accumulate
        words = strategy_words(preset.memory.strategy, micro_steps, preset.memory.mode)
        found.append(words)
    elif built is not None:
        found += [built.model, built.optimizer, built.strategy]
    return [one_cell(name) for name in found]


def device(view: RunView) -> str:
    """Return the device as torch names it and what it is: `cuda:0 NVIDIA H100`, `cpu, 2 threads`."""
    started = view.started
    if started is None:
        return "" if view.preset is None else one_cell(view.preset.run.device).replace("auto", "")
    if started.device == "cpu":
        return f"cpu, {format_number_of(started.threads, 'thread')}"
    return one_cell(f"{started.device} {started.device_name}")


def _who(view: RunView, width: int, glyphs: Glyphs) -> Row:
    place = device(view)
    right = "  ".join(part for part in (place, position(view), _time_left(view)) if part)
    if len(right) > width // 2:
        right = "  ".join(part for part in (position(view), _time_left(view)) if part)
    if len(right) > width - NAME_CELLS:
        right = position(view)
    room = width - len(right) - 3
    separator = f" {glyphs.dot} "
    found = names(view)
    while len(found) > 1 and len(separator.join(found)) > room:
        found.pop(1 if len(found) > 3 else -1)
    left = cut(separator.join(found), max(0, room), glyphs)
    first, dot, rest = left.partition(separator)
    gap = " " * max(1, width - 2 - len(left) - len(right))
    spans = (Span(" "), Span(first, "bold"), Span(dot, "dim"), Span(rest), Span(gap), Span(in_ascii(right, glyphs)))
    return fitted(spans, width)


def _how_far(view: RunView, width: int, glyphs: Glyphs, note: str) -> Row:
    word, style = state(view)
    mark = glyphs.running if view.running else glyphs.failed if style == "bad" else " "
    left = [Span(" "), Span(f"{mark} {one_cell(word).ljust(9)}", style), Span(" ")]
    room = width - sum(len(span.text) for span in left) - 1
    right = _aside(view, note)
    while len(right) > 1 and sum(len(text) + 2 for text, _ in right) > room - BAR_CELLS[0] - len(" 100 %"):
        right.pop()
    if right and len(right[0][0]) + 2 > room:
        right = [(cut(right[0][0], room - 2, glyphs), right[0][1])] if right[0][1] else []
    after = [piece for text, role in right for piece in (Span("  "), Span(in_ascii(text, glyphs), role))]
    used = sum(len(span.text) for span in (*left, *after))
    bar: list[Span] = []
    if view.share_done is not None and (view.running or view.share_done < 1):
        cells = min(BAR_CELLS[1], width - used - 7)
        if cells >= BAR_CELLS[0]:
            full = round(max(0.0, min(1.0, view.share_done)) * cells)
            bar = [
                Span(glyphs.full * full, "good" if view.running else "dim"),
                Span((glyphs.fills[3] if glyphs.unicode else "-") * (cells - full), "dim"),
                Span(f"{view.share_done * 100:4.0f} %"),
            ]
    gap = " " * max(0, width - used - sum(len(span.text) for span in bar) - 1)
    return fitted((*left, *bar, Span(gap), *after), width)


def _aside(view: RunView, note: str) -> list[tuple[str, str]]:
    """Return what stands right in the second line, the most important first; what is in a style must be told."""
    found: list[tuple[str, str]] = []
    if view.problems:
        found.append((one_cell(view.problems[0]), "bad"))
    quiet = silence(view)
    if quiet is not None:
        found.append((quiet, "warn"))
    if note:
        found.append((note, "warn"))
    if view.median_step_ms is not None:
        found.append((f"median {format_ms(view.median_step_ms)}", ""))
        if not note and quiet is None and view.median_step_ms > 0:
            over = final(view, None)
            if over is None:
                found.append((f"{three_digits(1000 / view.median_step_ms)} step/s", ""))
            elif (mean := over.rate(over.steps)) is not None:
                found.append((f"mean {three_digits(mean)} step/s", ""))
    return found


def _time_left(view: RunView) -> str:
    if not view.running or view.seconds_left is None:
        return ""
    return f"{_clock(view.seconds_left)} left"


def _clock(seconds: float) -> str:
    """Return `0:31`, `12:05`, `1:02:03`: of a width that seldom changes."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _whole_seconds(seconds: float) -> str:
    return f"{int(seconds)} s" if seconds < 100 else format_seconds(seconds)
