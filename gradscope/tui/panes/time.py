"""The step time pane: each step's time stacked by phase. Profiled steps are marked, and in no number shown."""

from dataclasses import replace

from gradscope.core.events import Stage
from gradscope.core.units import format_ms, format_number_of
from gradscope.tui.charts.bars import Part
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.charts.scale import stacked_tops
from gradscope.tui.palette import PHASE_ROLES
from gradscope.tui.panes.base import Drawn, Look, Pane, chosen, fitted, message
from gradscope.tui.panes.chart import Numbers, side_by_side, spread_in, stack_over_steps
from gradscope.tui.panes.legend import Entry, legend, shares_in_line, width_beside
from gradscope.tui.panes.values import (
    final,
    measured_tail,
    middle,
    no_step,
    record_of,
    stage_of,
    step_label,
    step_value,
)
from gradscope.tui.view import RunView

METRICS = ("time", "share")
LABELS = {"h2d": "to device"}
RECENT_STEPS = 100
"""How many measured steps the legend's medians are of, where no cursor is set."""


def phases_at(view: RunView, index: int | None) -> dict[str, float]:
    """Return one record's phases in ms; recomputation is taken out of backward, so that they add up."""
    if index is None:
        return {}
    found = {name: view.steps.at(name, index) for name in PHASE_ROLES}
    return _apart({name: value for name, value in found.items() if value is not None})


def typical_phases(view: RunView) -> dict[str, float]:
    """Return each phase's median in ms over the last measured steps; of the last step of any kind before those."""
    recent = measured_tail(view, RECENT_STEPS)
    if not recent:
        return phases_at(view, record_of(view, None))
    steps = [phases_at(view, index) for index in recent]
    return {name: middle([step[name] for step in steps if name in step]) for name in PHASE_ROLES if name in steps[-1]}


def shown_phases(view: RunView, step: int | None) -> dict[str, float]:
    """Return each phase in ms, adding up to a step: of that under the cursor, of the last few, of all when over."""
    over = final(view, step)
    if over is not None:
        phases = {name: over.phase_ms[name] / over.steps for name in PHASE_ROLES if name in over.phase_ms}
        return _apart(phases) if over.steps else {}
    return typical_phases(view) if step is None else phases_at(view, record_of(view, step))


def _apart(phases: dict[str, float]) -> dict[str, float]:
    """Take recomputation out of backward, so that phases add up."""
    if "recompute" in phases and "backward" in phases:
        phases["backward"] = max(0.0, phases["backward"] - phases["recompute"])
    return phases


def draw(view: RunView, width: int, height: int, look: Look) -> Drawn:
    """Return the chart, and a legend where there is room."""
    share = chosen(METRICS, look.metric) == "share"
    name = "step time, share of phases" if share else "step time"
    if not view.steps.count:
        return Drawn(name, (), message(no_step(view), width, height, look.glyphs))
    entries = _entries(view, look)
    beside_width = width_beside(width)
    chart = _chart(view, width - beside_width, height, look, share=share)
    rows = side_by_side(chart, legend(entries, beside_width, height, look.glyphs)) if beside_width else chart
    return Drawn(name, tuple(_figures(view, look, brief=not beside_width)), rows)


def _chart(view: RunView, width: int, height: int, look: Look, *, share: bool) -> list[Row]:
    seen = look.kept.steps(view).view(spread_in(view, width, look))
    means = {name: seen.mean(name) for name in PHASE_ROLES}
    means["backward"] = [
        whole if whole is None or part is None else max(0.0, whole - part)
        for whole, part in zip(means["backward"], means["recompute"], strict=True)
    ]
    layers = {name: values for name, values in means.items() if any(values)}
    scale = look.kept.scale("share", "pct") if share else look.kept.scale("time", "ms")
    if share:
        totals = stacked_tops(list(layers.values()))
        layers = {name: _shares(values, totals) for name, values in layers.items()}
        scale.cover(98.0)
    return stack_over_steps(view, layers, PHASE_ROLES, scale, size=(width, height), look=look)


def _shares(values: Numbers, totals: Numbers) -> list[float | None]:
    return [
        100 * value / total if value is not None and total else None
        for value, total in zip(values, totals, strict=True)
    ]


def _entries(view: RunView, look: Look) -> list[Entry]:
    phases = shown_phases(view, look.cursor)
    whole = sum(phases.values())
    recent, over = len(measured_tail(view, RECENT_STEPS)), final(view, look.cursor)
    what = step_label(look.cursor) if look.cursor is not None else f"median of {recent}" if recent else "last step"
    if over is not None:
        what = f"mean of {format_number_of(over.steps, 'step')}"
    again = phases.get("recompute", 0.0)
    entries = []
    for number, name in reversed(list(enumerate(PHASE_ROLES))):
        value = phases.get(name)
        if value is None or (whole and value / whole < LEAST_SHARE):
            continue
        value += again if name == "backward" else 0.0
        entries.append(
            Entry(LABELS.get(name, name), f"{format_ms(value)} {_pct(value, whole)}", look.glyphs.fills[number], name)
        )
    entries.append(Entry("step", f"{format_ms(whole)} {_pct(whole, whole)}"))
    entries.append(Entry(what))
    if again:
        entries.append(Entry("recompute is in backward"))
    profiled = _profiled(view)
    if profiled:
        entries.append(Entry(f"{profiled} profiled, not counted", "", look.glyphs.profiled, "warn"))
    return entries


def _figures(view: RunView, look: Look, *, brief: bool) -> list[str]:
    figures = []
    if look.cursor is not None:
        figures.append(f"{step_label(look.cursor)} {format_ms(step_value(view, 'wall_ms', look.cursor))}")
        if stage_of(view, look.cursor) is Stage.PROFILE:
            figures.append("profiled, not counted")
    if view.median_step_ms is not None:
        figures.append(f"median {format_ms(view.median_step_ms)}")
    if brief and _profiled(view):
        figures.append(f"{_profiled(view)} profiled left out")
    return figures


def _profiled(view: RunView) -> int:
    return sum(1 for stage in view.steps.values("stage") if stage == PROFILE_STAGE) if view.windows else 0


def _pct(part: float, whole: float) -> str:
    return f"{100 * part / whole:3.0f} %" if whole > 0 else "    %"


def meter(view: RunView, width: int, look: Look) -> Row:
    """Return `412 ms  ██▒▒▒▒░░░░░░  █ data 1 %  ▒ fwd 32 %  ░ bwd 60 %`."""
    phases = shown_phases(view, look.cursor)
    whole, again = sum(phases.values()), phases.get("recompute", 0.0)
    if whole <= 0:
        return fitted((Span("no step yet", "dim"),), width)
    parts = [Part(SHORT.get(name, name), phases.get(name), name, fill) for fill, name in enumerate(PHASE_ROLES)]
    if again:
        text = f"{100 * (phases.get('backward', 0.0) + again) / whole:.0f} %"
        parts = [replace(part, text=text) if part.role == "backward" else part for part in parts]
    return shares_in_line(format_ms(whole), parts, width, look.glyphs)


LEAST_SHARE = 0.001
"""Of a phase that the legend names: less is not seen in the chart either."""

SHORT = {"forward": "fwd", "backward": "bwd", "optimizer": "optim", "recompute": "in it recomp"}

PROFILE_STAGE = float(tuple(Stage).index(Stage.PROFILE))

PANE = Pane("time", "2", draw, meter, lambda view: METRICS)
