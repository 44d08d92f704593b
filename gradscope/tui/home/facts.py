"""What the home screen says about the highlighted preset or run: labelled facts, the most important first. Pure."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.analysis.expect import Outlook, Source
from gradscope.analysis.listing import age, strategy_words
from gradscope.analysis.machine import Machine
from gradscope.analysis.run_list import ListedRun
from gradscope.config.catalogue import DATASETS, MODELS
from gradscope.config.resolve import micro_steps, samples_per_update
from gradscope.config.schema import Preset
from gradscope.core.text import visible
from gradscope.core.units import MISSING, format_bytes, format_ms, format_number, format_number_of, format_seconds
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.home.text import short_bytes, short_seconds
from gradscope.tui.home.view import PresetItem, RunningRun

LABEL_CELLS = 10


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to know; `role` is how its text is drawn."""

    label: str
    text: str
    role: str = ""


def laid_out(facts: list[Fact], width: int, glyphs: Glyphs) -> list[Row]:
    """Wrap facts into rows: labels on the left, texts beside them; texts without a label take the whole width."""
    rows: list[Row] = []
    for fact in facts:
        indent = LABEL_CELLS if fact.label else 0
        text = visible(fact.text).replace(" x", f" {glyphs.times}") if fact.label == "strategy" else visible(fact.text)
        lines = textwrap.wrap(text, max(8, width - indent), break_on_hyphens=False) or [""]
        for number, line in enumerate(lines):
            label = (fact.label if number == 0 else "").ljust(indent)
            rows.append((Span(label, "axis"), Span(line, fact.role)) if indent else (Span(line, fact.role),))
    return rows


def preset_facts(item: PresetItem, machine: Machine | None, glyphs: Glyphs) -> list[Fact]:
    """Say what a preset is, what it takes, and what it measures; for a bad one, what is wrong."""
    if item.preset is None:
        return [
            Fact("", f"{glyphs.failed} cannot be used", "bad"),
            Fact("", item.message),
            *([Fact("", item.hint, "axis")] if item.hint else []),
            Fact("", f"its file is {item.path}", "axis"),
        ]
    return list(_preset_facts(item, item.preset, machine, glyphs))


def _preset_facts(item: PresetItem, preset: Preset, machine: Machine | None, glyphs: Glyphs) -> Iterator[Fact]:
    if preset.description:
        yield Fact("", preset.description)
    outlook = item.outlook
    if item.cells is not None:
        yield Fact("grid", f"{format_number_of(item.cells, 'run')}, one a cell; enter opens the sweep, d starts it")
    if outlook is None:
        yield Fact("expected", f"looking at this machine {glyphs.ellipsis}", "axis")
    else:
        yield from _expected(outlook, machine)
        if outlook.obstacle:
            yield Fact("", f"{glyphs.failed} {outlook.obstacle}", "bad")
            if outlook.remedy:
                yield Fact("", outlook.remedy, "axis")
    yield Fact("model", _model(preset))
    yield Fact("data", _data(preset))
    rate = "own default rate" if preset.optimizer.lr is None else f"lr {preset.optimizer.lr:g}"
    yield Fact("optimizer", f"{preset.optimizer.name}, {rate}")
    yield Fact("strategy", strategy_words(preset.memory.strategy, micro_steps(preset), preset.memory.mode))
    warmup = f" after {preset.run.warmup} of warm-up" if preset.run.warmup else ""
    yield Fact("runs for", budget_words(preset) + warmup)
    yield Fact("device", _device(preset, outlook, machine))
    yield Fact("measures", _measures(preset))
    if item.local:
        yield Fact("file", f"{item.path}, your own")


def _expected(outlook: Outlook, machine: Machine | None) -> Iterator[Fact]:
    expected = outlook.expected
    if expected.source is Source.UNKNOWN:
        yield Fact("expected", "not known before its first run: the model's size is its own")
        return
    room = None if machine is None else _room(outlook, machine)
    fits = {True: f", fits {format_bytes(room)}", False: f", does not fit {format_bytes(room)}", None: ""}[outlook.fits]
    if expected.source is Source.LAST_RUN:
        took = short_seconds(expected.seconds)
        yield Fact("expected", f"{took}, {format_bytes(expected.peak_bytes)} (its last run){fits}")
        return
    about = f"~{short_seconds(expected.seconds)}, ~{short_bytes(expected.peak_bytes)}"
    yield Fact("expected", f"{about} (rough){fits}")


def _room(outlook: Outlook, machine: Machine) -> int | None:
    if not outlook.on_gpu:
        return machine.memory_bytes
    return None if machine.gpu is None else machine.gpu.memory_bytes


def _device(preset: Preset, outlook: Outlook | None, machine: Machine | None) -> str:
    threads = "all cores" if preset.run.threads is None else format_number_of(preset.run.threads, "thread")
    if machine is None or outlook is None:
        return preset.run.device
    if outlook.on_gpu:
        return preset.run.device if machine.gpu is None else f"GPU, {machine.gpu.name}"
    why = f"; no GPU: {machine.no_gpu}" if preset.run.device == "auto" and machine.no_gpu else ""
    return f"CPU, {threads}{why}"


def _model(preset: Preset) -> str:
    entry = MODELS.get(preset.model.name)
    if entry is None:
        return preset.model.name
    return f"{preset.model.name}, {preset.model.scale}, {preset.run.precision}"


def _data(preset: Preset) -> str:
    data, entry = preset.data, DATASETS.get(preset.data.name)
    reads_text = "image-class" not in (MODELS[preset.model.name].tasks if preset.model.name in MODELS else ())
    length = f", {data.sequence_length} tokens" if reads_text else ""
    rows = f"{format_number_of(samples_per_update(preset), 'row')} an update"
    return f"{data.name}, {rows}{length}" if entry is not None else f"{data.name}, {rows}"


def budget_words(preset: Preset) -> str:
    """Return how long the measured part runs: `30 updates`, `512 rows`, `20.0 s`."""
    budget = preset.budget
    if budget.seconds is not None:
        return format_seconds(budget.seconds)
    if budget.samples is not None:
        return format_number_of(budget.samples, "row")
    return format_number_of(budget.updates or 0, "update")


def _measures(preset: Preset) -> str:
    parts = ["step time by phase", "memory by category", "loss"]
    if preset.sampling.enabled:
        parts.append("utilization")
    if preset.profile.steps:
        parts.append(f"operators (a trace of {format_number_of(preset.profile.steps, 'update')})")
    if preset.audit.enabled:
        parts.append("gradient audit")
    return ", ".join(parts)


def running_facts(run: RunningRun) -> list[Fact]:
    """Say what a running run does."""
    standing = run.standing
    planned = "" if standing.stage_planned is None else f" of {standing.stage_planned}"
    share = MISSING if standing.share_done is None else f"{standing.share_done * 100:.0f} %"
    facts = [
        Fact("running", run.preset, "bold"),
        Fact("id", run.run_id),
        Fact("now", standing.doing),
        Fact("step", f"{standing.stage_done}{planned}" if standing.stage is not None else MISSING),
        Fact("done", share),
        Fact("left", format_seconds(standing.seconds_left)),
        Fact("loss", format_number(run.loss)),
        Fact("optimizer", run.optimizer or MISSING),
        Fact("strategy", run.strategy or MISSING),
    ]
    return [*facts, Fact("in", str(run.path))]


def run_facts(run: ListedRun, now_wall_ns: int) -> list[Fact]:
    """Say what became of a run."""
    row = run.row
    facts = [Fact(row.status.value, row.preset, "bold"), Fact("id", row.run_id)]
    facts += [Fact("", run.reason, "warn")] if run.reason else []
    facts += [Fact("", run.hint, "axis")] if run.hint else []
    facts += [
        Fact("age", age(row.created_wall_ns, now_wall_ns)),
        Fact("loss", format_number(row.loss)),
        Fact("step", format_ms(row.step_ms)),
        Fact("peak", format_bytes(row.peak_bytes)),
        Fact("model", row.model or MISSING),
        Fact("optimizer", row.optimizer or MISSING),
        Fact("strategy", strategy_words(row.strategy, row.accumulate, row.mode)),
        Fact("device", f"{row.device or MISSING}, {row.precision or MISSING}"),
    ]
    return [*facts, Fact("in", row.path)]
