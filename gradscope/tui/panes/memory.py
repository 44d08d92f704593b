"""The memory pane: bytes of each step by category, with what they are measured against."""

from functools import partial

from gradscope.core.units import format_bytes
from gradscope.tui.charts.bars import Part
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.charts.stacked import Level
from gradscope.tui.panes.base import Drawn, Look, Pane, chosen, fitted, in_ascii, message
from gradscope.tui.panes.chart import Line, curves_over_steps, side_by_side, spread_in, stack_over_steps
from gradscope.tui.panes.legend import Entry, legend, shares_in_line, width_beside
from gradscope.tui.panes.memory_stack import LABELS, ROLES, MemoryStack, layers, memory_stack, peak_bytes
from gradscope.tui.panes.values import no_step, record_of, sample_of, step_label, step_value
from gradscope.tui.view import RunView

METRICS = ("categories", "limits")


def draw(view: RunView, width: int, height: int, look: Look) -> Drawn:
    """Return the chart, and the numbers beside it where there is room."""
    metric = chosen(METRICS, look.metric)
    stack = memory_stack(view)
    name = "memory" if metric == "categories" else "memory against its limit"
    if not view.steps.count:
        return Drawn(name, tuple(_free(view)), message(no_step(view), width, height, look.glyphs))
    entries = _entries(view, stack, look, marks=metric == "limits")
    beside_width = width_beside(width)
    chart = _CHARTS[metric](view, stack, width - beside_width, height, look)
    rows = side_by_side(chart, legend(entries, beside_width, height, look.glyphs)) if beside_width else chart
    return Drawn(name, tuple(_figures(view, stack, look)), rows)


def limit_bytes(view: RunView) -> float | None:
    """Return the memory of the device: the card's, or the host's (or its control group's) for a run on the CPU."""
    if view.started is not None and view.started.device_memory_bytes:
        return float(view.started.device_memory_bytes)
    if view.sampler is not None and on_cpu(view) and view.sampler.host_memory_bytes:
        return float(view.sampler.host_memory_bytes)
    return None if on_cpu(view) else card_bytes(view)


def card_bytes(view: RunView) -> float | None:
    """Return the memory of the run's card as NVML gave it, for runs whose worker did not say it."""
    cards = [] if view.sampler is None else view.sampler.gpus
    device = "" if view.started is None else view.started.device
    own = [card for card in cards if card.get("uuid") == view.own_gpu]
    card = next(iter(own or [card for card in cards if card.get("device") == device]), {})
    total = card.get("total_bytes", "")
    return float(total) if total.isdecimal() else None


def headroom_bytes(view: RunView) -> float | None:
    """Return how much more there is to be had: on the card by NVML's figure, else by what is reserved."""
    if on_cpu(view):
        return view.host.last("available_bytes")
    limit, used = limit_bytes(view), device_used(view, None)
    if used is None:
        used = view.steps.last("reserved_bytes")
    return None if limit is None or used is None else max(0.0, limit - used)


def device_used(view: RunView, step: int | None, name: str = "used_bytes") -> float | None:
    """Return NVML's figure for the run's own card at a step, or the newest."""
    index = sample_of(view, step)
    card = view.gpus.get(view.own_gpu or "")
    if card is None or index is None:
        return None
    return card.last(name) if step is None else card.at(name, min(index, card.count - 1))


def on_cpu(view: RunView) -> bool:
    """Whether the run trains on the CPU, or is still to say where."""
    return view.started is None or view.started.device == "cpu"


def _stacked(view: RunView, stack: MemoryStack, width: int, height: int, look: Look) -> list[Row]:
    if not stack.fixed and not stack.per_step:
        when = "is measured" if view.running else "would have been measured"
        return message(f"memory {when} in the last step of the warm-up", width, height, look.glyphs)
    bins = look.kept.steps(view)
    spread = spread_in(view, width, look)
    ends = [
        min(spread.steps_of(column)[1], bins.steps) if spread.start(column) <= bins.steps else None
        for column in range(spread.columns)
    ]
    seen = bins.view(spread)
    found = layers(stack, seen.high("allocated_peak_bytes"), ends)
    reserved = seen.high("reserved_bytes")
    levels = [Level("reserved", reserved)] if any(value is not None for value in reserved) else []
    scale = look.kept.scale("memory", "bytes")
    return stack_over_steps(view, found, ROLES, scale, size=(width, height), look=look, levels=levels, distorted=False)


def _against_limit(view: RunView, stack: MemoryStack, width: int, height: int, look: Look) -> list[Row]:
    kept = look.kept
    if on_cpu(view):
        curves = [Line("resident", "worker_resident_bytes", kept.host, samples=True)]
    else:
        curves = [
            Line("reserved", "reserved_bytes", kept.steps, name="r"),
            Line("activations", "allocated_peak_bytes", kept.steps, name="a"),
        ]
        uuid = view.own_gpu
        if uuid is not None and uuid in view.gpus:
            curves.insert(0, Line("busy", "used_bytes", partial(kept.gpu, uuid=uuid), samples=True, name="n"))
    scale = kept.scale("limits", "bytes")
    return curves_over_steps(view, curves, scale, size=(width, height), look=look, limit=limit_bytes(view))


_CHARTS = {"categories": _stacked, "limits": _against_limit}


def _entries(view: RunView, stack: MemoryStack, look: Look, *, marks: bool) -> list[Entry]:
    step = look.cursor
    index = record_of(view, step)
    at = None if index is None else view.steps.at("step", index)
    parts = stack.at(step_value(view, "allocated_peak_bytes", step), int(at or 0))
    entries = [
        Entry(
            f"activations, {stack.activations}" if role == "activations" and role in stack.fixed else LABELS[role],
            format_bytes(parts[role]),
            look.glyphs.fills[number],
            role,
        )
        for number, role in reversed(list(enumerate(ROLES)))
        if parts.get(role)
    ]
    if parts and stack.per_step:
        total = format_bytes(sum(parts.values()))
        entries.append(Entry("peak of the step", total, "a" * marks, "activations"))
    elif parts:
        measured = view.allocator.allocated_peak_bytes if view.allocator else None
        name, size = ("sum of these", stack.total) if measured is None else ("measured peak", measured)
        entries.append(Entry(name, format_bytes(size)))
    if stack.measured_step is not None and parts:
        entries.append(Entry(f"of step {stack.measured_step}, carried over"))
    peaks = view.allocator.phase_peak_bytes if view.allocator else {}
    if peaks:
        highest = max(peaks.values())
        entries.append(Entry("peak by phase"))
        for name, size in peaks.items():
            if name not in PEAK_PHASES and size < highest:
                continue
            mark = look.glyphs.selected if size == highest else ""
            entries.append(Entry(name, format_bytes(size), mark, "limit" if mark else ""))
    return entries + _measured_against(view, step, marks=marks)


PEAK_PHASES = ("forward", "backward", "optimizer")
"""Phases whose peak is always told; of the others only one that is the highest."""


def _measured_against(view: RunView, step: int | None, *, marks: bool) -> list[Entry]:
    """Return what memory is held against; with the characters that stand at the ends of their curves."""
    if on_cpu(view):
        resident = view.host.last("worker_resident_bytes")
        if step is not None and (index := sample_of(view, step)) is not None:
            resident = view.host.at("worker_resident_bytes", index)
        entries = [Entry("resident", format_bytes(resident))]
        if resident is not None and view.started is not None:
            growth = max(0.0, resident - view.started.resident_bytes)
            entries.append(Entry("  since its start", f"+{format_bytes(growth)}"))
        return [*entries, Entry("free on the host", format_bytes(headroom_bytes(view)))]
    entries = [
        Entry("reserved", format_bytes(step_value(view, "reserved_bytes", step)), "r" * marks, "reserved"),
        Entry("card, by NVML", format_bytes(device_used(view, step)), "n" * marks, "busy"),
    ]
    own = device_used(view, step, "process_bytes")
    if own is not None:
        entries.append(Entry("  this run's", format_bytes(own)))
    entries += [
        Entry("card's limit", format_bytes(limit_bytes(view))),
        Entry("free", format_bytes(headroom_bytes(view))),
    ]
    return entries


def _figures(view: RunView, stack: MemoryStack, look: Look) -> list[str]:
    figures = []
    if look.cursor is not None:
        allocated = step_value(view, "allocated_peak_bytes", look.cursor)
        size = sum(stack.at(allocated, look.cursor).values())
        exact = "" if not size else "carried over" if allocated is None else format_bytes(size)
        figures.append(f"{step_label(look.cursor)} {exact}".rstrip())
    peak = peak_bytes(view)
    if peak is not None:
        measured = stack.per_step or view.allocator is not None
        figures.append(f"{'peak' if measured else 'sum'} {format_bytes(peak)}")
    figures += _free(view)
    if look.cursor is None and not stack.per_step and stack.measured_step is not None:
        figures.append(f"of step {stack.measured_step}, carried over")
    return figures


def _free(view: RunView) -> list[str]:
    free = headroom_bytes(view)
    return [] if free is None else [f"free {format_bytes(free)}"]


def meter(view: RunView, width: int, look: Look) -> Row:
    """Return `1.31 GiB  ██▓▓▒▒▒▒▒  █ par 8 %  ▒ act 76 %  free 21.6 GiB`."""
    stack = memory_stack(view)
    index = record_of(view, look.cursor)
    at = None if index is None else view.steps.at("step", index)
    parts = stack.at(step_value(view, "allocated_peak_bytes", look.cursor), int(at or 0))
    free = "".join(f"  {text}" for text in _free(view))
    if not sum(parts.values()):
        return fitted((Span(in_ascii(f"not measured yet{free}", look.glyphs), "dim"),), width)
    size = peak_bytes(view) if look.cursor is None else sum(parts.values())
    shown = [Part(SHORT.get(role, role), parts.get(role), role, fill) for fill, role in enumerate(ROLES)]
    room = width - len(free)
    return fitted((*shares_in_line(format_bytes(size), shown, room, look.glyphs), Span(free)), width)


SHORT = {"parameters": "par", "gradients": "grad", "optimizer_state": "optim", "activations": "act", "inputs": "in"}

PANE = Pane("memory", "1", draw, meter, lambda view: METRICS)
