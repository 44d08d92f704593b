"""Rows of the lists on the home screen: presets, running runs, runs that are over. Pure."""

from gradscope.analysis.expect import Outlook, Source
from gradscope.analysis.listing import age, strategy_words
from gradscope.analysis.run_list import ListedRun
from gradscope.config.catalogue import MODELS
from gradscope.config.resolve import micro_steps
from gradscope.config.schema import Preset
from gradscope.core.status import Status
from gradscope.core.text import display_width
from gradscope.core.units import format_bytes, format_ms, format_number
from gradscope.rundir.layout import short_id
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.facts import budget_words
from gradscope.tui.home.text import clock, fitted, short_bytes, short_seconds
from gradscope.tui.home.view import BROKEN, GRIDS, START, PresetItem, RunningRun

CHANGED = "*"
"""Marks a preset with settings of the user's own."""

Column = tuple[str, int, bool]
"""Text, its cells, and whether it lies on the right of them."""

LEAST_NAME = 16
"""Cells that the name of a preset needs."""

WIDE_NAME = 18
"""Cells that it takes where there is room; what is left says what the preset does."""

GROUP_WORDS = {
    START: "the default job",
    GRIDS: "many runs of one preset, its settings varied",
    BROKEN: "preset files with something wrong",
}

ROLES = {
    Status.DONE: "good",
    Status.FAILED: "bad",
    Status.OOM: "bad",
    Status.KILLED: "bad",
    Status.CANCELLED: "warn",
}


def heading(group: str, glyphs: Glyphs, width: int, highlighted: bool = False) -> Row:
    """Name a group of presets, and say what it is where there is room."""
    entry = MODELS.get(group)
    words = GROUP_WORDS.get(group, "") if entry is None else entry.summary
    name = fitted(group, min(width, display_width(group)), glyphs.ellipsis)
    rest = fitted(f"  {words}" if words else "", width - display_width(name), glyphs.ellipsis)
    return (Span(name, "bold"), Span(rest, "axis"))


def preset_row(item: PresetItem, glyphs: Glyphs, changed: bool, width: int, highlighted: bool) -> Row:
    """Draw a preset: name, scale, where it would run, time, memory, and a mark where something is in its way.

    What was `changed` in its form has a `*`.
    """
    marker = glyphs.selected if highlighted else " "
    lead = CHANGED if changed else " "
    if item.preset is None:
        name_width = min(18, max(8, width // 3))
        name = fitted(item.name, name_width, glyphs.ellipsis)
        return (
            Span(f"{marker} {name} "),
            Span(fitted(f"{glyphs.failed} {item.message}", width - name_width - 3, glyphs.ellipsis), "bad"),
        )
    scale = "" if ":" in item.preset.model.name else item.preset.model.scale
    outlook = item.outlook
    device = "" if outlook is None else "gpu" if outlook.on_gpu else "cpu"
    took = _time(outlook) if item.cells is None else f"{item.cells} runs"
    columns = _that_fit([(scale, 4, False), (device, 3, False), (took, 7, True), (_peak(outlook), 8, True)], width - 4)
    name_width = width - 4 - sum(cells + 1 for _, cells, _ in columns)
    name = fitted(item.name, min(name_width, WIDE_NAME), glyphs.ellipsis)
    does = fitted(f"  {_what(item.preset, glyphs)}", name_width - display_width(name), glyphs.ellipsis)
    parts = [fitted(text, cells, glyphs.ellipsis, right=right) for text, cells, right in columns]
    mark = glyphs.failed if outlook is not None and outlook.obstacle else " "
    return (Span(f"{marker}{lead}{name}"), Span(does, "axis"), Span(f" {' '.join(parts)} "), Span(mark, "bad"))


def _what(preset: Preset, glyphs: Glyphs) -> str:
    """Say in a few words what a preset does and measures."""
    parts = [preset.optimizer.name]
    if preset.memory.strategy != "standard":
        parts.append(strategy_words(preset.memory.strategy, micro_steps(preset), preset.memory.mode))
    parts.append(budget_words(preset))
    if preset.profile.steps:
        parts.append(f"trace of {preset.profile.steps}")
    return f" {glyphs.dot} ".join(parts)


def _that_fit(columns: list[Column], width: int) -> list[Column]:
    """Leave columns out until a name has room: first the device, then the scale, then memory; the time stays."""
    scale, _, took, peak = columns
    for kept in (columns, [scale, took, peak], [took, peak], [took]):
        if width - sum(cells + 1 for _, cells, _ in kept) >= LEAST_NAME:
            return kept
    return [took]


def _time(outlook: Outlook | None) -> str:
    return "" if outlook is None else _about(outlook, short_seconds(outlook.expected.seconds))


def _peak(outlook: Outlook | None) -> str:
    return "" if outlook is None else _about(outlook, short_bytes(outlook.expected.peak_bytes))


def _about(outlook: Outlook, text: str) -> str:
    return f"~{text}" if outlook.expected.source is Source.ROUGH else text


def running_row(run: RunningRun, glyphs: Glyphs, width: int, highlighted: bool) -> Row:
    """Draw a running run: what it is, its stage, its step and the time left, in columns that stand still."""
    standing = run.standing
    what = f" {glyphs.dot} ".join(part for part in (run.preset, run.optimizer, run.strategy) if part)
    if run.elsewhere:
        what += f" {glyphs.dot} elsewhere"
    step = ""
    if standing.stage is not None:
        planned = "" if standing.stage_planned is None else f"/{standing.stage_planned}"
        step = f"{standing.stage_done}{planned}"
    left = "" if standing.seconds_left is None else f"{clock(standing.seconds_left)} left"
    loss = "" if run.loss is None else f"loss {format_number(run.loss, 3)}"
    columns = [(standing.doing, 10, False), (step, 9, True), (left, 12, True), (loss, 11, True)]
    while len(columns) > 1 and width - 2 - sum(cells + 1 for _, cells, _ in columns) < 12:
        columns.pop()
    name_width = width - 4 - sum(cells + 1 for _, cells, _ in columns)
    parts = [fitted(what, name_width, glyphs.ellipsis)]
    parts += [fitted(text, cells, glyphs.ellipsis, right=right) for text, cells, right in columns]
    marker = glyphs.selected if highlighted else " "
    return (Span(f"{marker} "), Span(f"{glyphs.running} ", "good"), Span(fitted(" ".join(parts), width - 4, "")))


def recent_row(run: ListedRun, now_wall_ns: int, glyphs: Glyphs, width: int, highlighted: bool) -> Row:
    """Draw a run that is over: status, loss, step time, peak memory, age; its reason where it did not finish."""
    row, reason = run.row, run.reason
    marker = glyphs.selected if highlighted else " "
    how_old = age(row.created_wall_ns, now_wall_ns)
    status = Span(fitted(row.status.value, 9, glyphs.ellipsis), ROLES.get(row.status, "warn"))
    lead = f"{marker} {fitted(how_old, 7, glyphs.ellipsis, right=True)}  "
    name_width = 16 if width < 100 else 22
    name = f"{fitted(row.preset, name_width, glyphs.ellipsis)} "
    what = ""
    if width >= 100:
        words = strategy_words(row.strategy, row.accumulate, row.mode)
        what = f"{fitted(short_id(row.run_id), 6, '')}  {fitted(row.optimizer or '', 10, glyphs.ellipsis)} "
        what += f"{fitted(words if row.strategy else '', 20, glyphs.ellipsis)} "
    room = width - len(lead) - display_width(name) - display_width(what) - 10
    numbers = f"loss {format_number(row.loss, 3):<8} {format_ms(row.step_ms):>8} {format_bytes(row.peak_bytes):>9}"
    tail = reason if reason and row.status is not Status.DONE else numbers
    return (Span(lead), Span(name), Span(what, "axis"), status, Span(" " + fitted(tail, room, glyphs.ellipsis)))
