"""The loss pane: the loss, and what a step yields and costs: samples or tokens per second, energy."""

from collections.abc import Callable, Sequence
from functools import partial
from math import isnan

from gradscope.core.units import MISSING, format_number, format_number_of, format_rate, format_si
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.charts.lines import Curve, dots_per_cell, lines
from gradscope.tui.charts.scale import Quantity, highest, lowest, scale_for
from gradscope.tui.charts.spread import spread_over
from gradscope.tui.panes.base import Drawn, Look, Pane, chosen, fitted, in_ascii, message
from gradscope.tui.panes.chart import Line, Numbers, curves_over_steps, numbers_of, side_by_side
from gradscope.tui.panes.kept import spread_of
from gradscope.tui.panes.legend import Entry, legend, width_beside
from gradscope.tui.panes.values import final, measured_tail, no_step, record_of, sample_of, step_label, step_value
from gradscope.tui.view import RunView

RECENT_STEPS = 100
"""How many measured steps rates are of, where no cursor is set."""


def metrics(view: RunView) -> Sequence[str]:
    """Return what can be shown of this run."""
    found = ["loss", "samples/s"]
    if view.steps.last("tokens") is not None:
        found.append("tokens/s")
    if view.own_gpu in view.gpus:
        found.append("energy")
    return found


def draw(view: RunView, width: int, height: int, look: Look) -> Drawn:
    """Return the chosen curve, and the numbers beside it where there is room."""
    metric = chosen(metrics(view), look.metric)
    logarithmic = look.logarithmic and metric == "loss"
    name = f"loss, {'log' if logarithmic else 'linear'}" if metric == "loss" else NAMES[metric]
    if not view.steps.count:
        return Drawn(name, (), message(no_step(view), width, height, look.glyphs))
    beside = width_beside(width)
    scale = look.kept.scale(metric, _QUANTITIES[metric], log=logarithmic, from_zero=metric != "loss")
    chart = curves_over_steps(view, [_line(view, metric, look)], scale, size=(width - beside, height), look=look)
    rows = side_by_side(chart, legend(_entries(view, look), beside, height, look.glyphs)) if beside else chart
    return Drawn(name, tuple(_figures(view, metric, look)), rows)


NAMES = {"samples/s": "throughput, samples", "tokens/s": "throughput, tokens", "energy": "energy per step, from power"}

_QUANTITIES: dict[str, Quantity] = {
    "loss": "number",
    "samples/s": "per_second",
    "tokens/s": "per_second",
    "energy": "joule",
}


def rate(view: RunView, name: str, step: int | None) -> float | None:
    """Return samples or tokens per second: of a step, or of the last measured steps together; of any before those.

    Of a run that is over, and without a cursor: of all measured steps.
    """
    over = final(view, step)
    if over is not None:
        return over.rate(over.samples if name == "samples" else over.tokens)
    recent = measured_tail(view, RECENT_STEPS)
    if step is not None or not recent:
        items, wall_ms = step_value(view, name, step), step_value(view, "wall_ms", step)
        return items * 1000 / wall_ms if items is not None and wall_ms else None
    items = sum(view.steps.data[name][index] * view.steps.data["covers"][index] for index in recent)
    seconds = sum(view.steps.data["wall_ms"][index] * view.steps.data["covers"][index] for index in recent) / 1000
    return None if not seconds or isnan(items) else items / seconds


def joules_per_step(view: RunView, step: int | None) -> tuple[float | None, str]:
    """Return a step's energy and where it comes from: NVML's counter over the measured steps, or power times time."""
    card = view.gpus.get(view.own_gpu or "")
    if card is None:
        return None, "no GPU"
    if step is not None:
        index, wall_ms = sample_of(view, step), step_value(view, "wall_ms", step)
        power = None if index is None else card.at("power_w", min(index, card.count - 1))
        return None if power is None or wall_ms is None else power * wall_ms / 1000, "from power"
    recent = measured_tail(view, RECENT_STEPS)
    if not recent:
        return None, "no step yet"
    first = sample_of(view, int(view.steps.data["step"][recent[0]]))
    if first is None or first >= card.count - 1:
        return None, "no sample yet"
    used = [card.at("energy_mj", index) for index in (first, card.count - 1)]
    steps = [view.host.at("step", index) for index in (first, card.count - 1)]
    if used[0] is None or used[1] is None or steps[0] is None or steps[1] is None or steps[1] <= steps[0]:
        return None, "not counted by this card"
    return (used[1] - used[0]) / 1000 / (steps[1] - steps[0]), "counter"


def _line(view: RunView, metric: str, look: Look) -> Line:
    kept = look.kept
    if metric == "loss":
        return Line("loss", "loss", kept.steps)
    if metric == "energy":
        return Line("power", "power_w", partial(kept.gpu, uuid=view.own_gpu or ""), samples=True, scaled=_energy)
    return Line("throughput", metric.removesuffix("/s"), kept.steps, scaled=_per_second)


def _per_second(items: Numbers, wall_ms: Numbers) -> list[float | None]:
    return [
        None if count is None or not time else count * 1000 / time for count, time in zip(items, wall_ms, strict=True)
    ]


def _energy(power_w: Numbers, wall_ms: Numbers) -> list[float | None]:
    return [
        None if power is None or time is None else power * time / 1000
        for power, time in zip(power_w, wall_ms, strict=True)
    ]


def _entries(view: RunView, look: Look) -> list[Entry]:
    step = look.cursor
    bins = look.kept.steps(view)
    low = lowest([bins.view(spread_over(bins.steps, LOWEST_COLUMNS, expected=bins.steps)).low("loss")])
    joules, source = joules_per_step(view, step)
    over = final(view, step)
    first, low = (view.steps.at("loss", 0), low) if over is None else (over.first_loss, over.lowest_loss)
    entries = [
        Entry("loss" if over is None else "loss, last", format_number(loss_of(view, step))),
        Entry("lowest", format_number(low)),
        Entry("first", format_number(first)),
        Entry("samples/s", _bare_rate(rate(view, "samples", step))),
    ]
    tokens = rate(view, "tokens", step)
    if tokens is not None:
        entries.append(Entry("tokens/s", _bare_rate(tokens)))
    wall_ms = view.median_step_ms if step is None else step_value(view, "wall_ms", step)
    per_second = over.rate(over.steps) if over is not None else None if not wall_ms else 1000 / wall_ms
    entries.append(Entry("steps/s", _bare_rate(per_second)))
    entries.append(Entry("energy per step", format_si(joules, "J") if joules is not None else MISSING))
    entries.append(Entry(f"  {source}"))
    index = record_of(view, step)
    newest = f"newest: step {int(view.steps.data['step'][index or 0])}"
    if over is not None:
        newest = f"of {format_number_of(over.steps, 'measured step')}"
    entries.append(Entry(step_label(step) or newest))
    return entries


def loss_of(view: RunView, step: int | None) -> float | None:
    """Return the loss of a step, of the newest, or the last measured one of a run that is over."""
    over = final(view, step)
    return step_value(view, "loss", step) if over is None else over.last_loss


LOWEST_COLUMNS = 64


def _bare_rate(per_second: float | None) -> str:
    return format_rate(per_second, "").removesuffix("/s").strip() if per_second is not None else MISSING


def _figures(view: RunView, metric: str, look: Look) -> list[str]:
    step = look.cursor
    values: dict[str, Callable[[], str]] = {
        "loss": lambda: format_number(loss_of(view, step)),
        "samples/s": lambda: format_rate(rate(view, "samples", step), "samples"),
        "tokens/s": lambda: format_rate(rate(view, "tokens", step), "tokens"),
        "energy": lambda: format_si(joules_per_step(view, step)[0], "J"),
    }
    names = [metric, *(name for name in ("tokens/s", "samples/s", "loss") if name in metrics(view) and name != metric)]
    figures = [values[name]() if name != "loss" else f"loss {values[name]()}" for name in names[:2]]
    if step is not None:
        figures[0] = f"{step_label(step)} {figures[0]}"
    return figures


def meter(view: RunView, width: int, look: Look) -> Row:
    """Return the loss, its curve in one line, and the throughput."""
    if not view.steps.count:
        return fitted((Span("no step yet", "dim"),), width)
    glyphs = look.glyphs
    kind = "tokens" if "tokens/s" in metrics(view) else "samples"
    right = f"  {format_rate(rate(view, kind, look.cursor), kind)}"
    left = f"{format_number(loss_of(view, look.cursor)):>8}  "
    cells = width - len(left) - len(right)
    curve: Sequence[Span] = ()
    if cells >= LEAST_CURVE and glyphs.unicode:
        spread = spread_of(view, look.kept.steps(view), cells, look.window)
        numbers = numbers_of(view, _line(view, "loss", look), spread, dots_per_cell(glyphs), look)
        scale = scale_for(lowest([numbers]), highest([numbers]), from_zero=False)
        curve = lines([Curve("loss", numbers)], scale, cells, 1, glyphs)[0]
    return fitted((Span(in_ascii(left, glyphs)), *curve, Span(in_ascii(right, glyphs))), width)


LEAST_CURVE = 10

PANE = Pane("loss", "4", draw, meter, metrics)
