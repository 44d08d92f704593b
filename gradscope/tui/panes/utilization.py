"""The utilization pane: thin strips over the steps, each with a scale of its own, and the exact figure beside it.

Of a card: how long it was busy, how long its memory was, power against its limit, clock, temperature, throttling.
Of the host: CPU time, resident memory, each core. Busy figures are shares of time, as NVML gives them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gradscope.core.units import MISSING, format_bytes, format_number_of, three_digits
from gradscope.tui.charts.axis import inner_size, joined, label_cells, x_axis
from gradscope.tui.charts.bars import meter as bar_meter
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.charts.scale import Quantity, highest
from gradscope.tui.charts.stacked import Layer, stacked
from gradscope.tui.panes.base import Drawn, Look, Pane, cut, filled_up, fitted, in_ascii, one_cell, wrapped
from gradscope.tui.panes.chart import Line, Numbers, cursor_column, numbers_of, spread_in
from gradscope.tui.panes.legend import width_beside
from gradscope.tui.panes.memory import on_cpu
from gradscope.tui.panes.values import sample_of, step_label
from gradscope.tui.view import Columns, RunView

HOST = "host"
CORE_CELLS = 14
"""Least cells of one core's bar and figure."""


@dataclass(frozen=True, slots=True)
class Strip:
    """One thin chart."""

    name: str
    short: str
    """In at most 4 characters, for a narrow pane."""
    line: Line
    quantity: Quantity
    top: float | None
    """Where its scale ends; `None` grows with the values."""
    value: str
    detail: str = ""
    warning: bool = False
    marked: Line | None = None
    """Columns in which this is above 0 are hatched."""


def devices(view: RunView) -> list[str]:
    """Return what utilization can be shown of: cards by UUID, the run's own first, and the host."""
    own = [view.own_gpu] if view.own_gpu in view.gpus else []
    others = [uuid for uuid in view.gpus if uuid not in own]
    return [*own, *others, HOST] if own or not on_cpu(view) else [HOST, *others]


def draw(view: RunView, width: int, height: int, look: Look) -> Drawn:
    """Return strips of the chosen device."""
    found = devices(view)
    shown = found[look.device % len(found)]
    more = f"device {look.device % len(found) + 1} of {len(found)}" if len(found) > 1 else ""
    if shown == HOST:
        strips = _host_strips(view, look)
        below = _host_lines(view, width, look)
        name = "utilization of the host" if len(found) > 1 or not on_cpu(view) else "utilization"
    else:
        strips = _card_strips(view, shown, look)
        below = []
        name = f"utilization of {_card_name(view, shown)}"
    below = below[: max(0, height - len(strips) - 1)]
    room = height - len(below)
    rows = [*_strips(view, strips, width, room, look), *below]
    figures = [text for text in (step_label(look.cursor), more) if text]
    if not width_beside(width):
        figures += [f"{strip.short} {strip.value}" for strip in strips]
    return Drawn(in_ascii(name, look.glyphs), tuple(figures), filled_up(rows, width, height))


def meter(view: RunView, width: int, look: Look) -> Row:
    """Return the same in one line: `cpu ██████▌ 92 %  rss 1.1 GiB  no GPU: ...`."""
    found = devices(view)
    shown = found[look.device % len(found)]
    strips = _host_strips(view, look) if shown == HOST else _card_strips(view, shown, look)
    first, *others = strips
    right = "  ".join(f"{strip.short} {strip.value}" for strip in others)
    if shown == HOST and not view.gpus and (reason := no_gpu_reason(view)):
        right += f"  no GPU: {reason}"
    bar_width = min(METER_BAR, max(0, width // 3))
    right = cut(in_ascii(right, look.glyphs), max(0, width - bar_width - 2), look.glyphs)
    share = _share(view, first, look)
    left = bar_meter(first.short, share, first.value, bar_width, look.glyphs, role=first.line.role)
    return fitted((*left, Span("  "), Span(right)), width)


METER_BAR = 28


def no_gpu_reason(view: RunView) -> str:
    """Return why no card is watched, remedy included; empty where one is, or nobody has said."""
    if view.gpus or view.sampler is None or not view.sampler.no_gpu_reason:
        return ""
    return one_cell(view.sampler.no_gpu_reason)


def _strips(view: RunView, strips: Sequence[Strip], width: int, height: int, look: Look) -> list[Row]:
    """Draw strips below each other, and the line of steps where there is a row for it."""
    beside = width_beside(width)
    chart_width = width - beside
    spread = spread_in(view, chart_width, look)
    axis_rows = 1 if height > len(strips) else 0
    rows: list[Row] = []
    for number, strip in enumerate(strips):
        tall = (height - axis_rows) * (number + 1) // len(strips) - (height - axis_rows) * number // len(strips)
        rows += _strip(view, strip, (chart_width, beside, tall), look)
    if axis_rows:
        seen = look.kept.steps(view).view(spread)
        cells = label_cells(chart_width)
        line = x_axis(chart_width - cells, look.glyphs, spread=spread, marks=seen.marks, profiled=seen.profiled)
        rows.append(joined(fitted((), cells), line, fitted((), beside)))
    return rows


def _strip(view: RunView, strip: Strip, size: tuple[int, int, int], look: Look) -> list[Row]:
    width, beside, height = size
    glyphs = look.glyphs
    cells, inner = label_cells(width), inner_size(width, 2)[0]
    spread = spread_in(view, width, look)
    numbers = numbers_of(view, strip.line, spread, 1, look)
    scale = look.kept.scale(f"strip {strip.name}", strip.quantity).cover(
        highest([numbers]) if strip.top is None else strip.top / FULL
    )
    gap = 1 if height >= TALL else 0
    marks = [] if strip.marked is None else numbers_of(view, strip.marked, spread, 1, look)
    column = cursor_column(spread, look)
    area = stacked(_layers(strip, numbers, marks), scale, inner, height - gap, glyphs, cursor=column)
    known = strip.top is not None or any(numbers)
    top = strip.short if not beside else scale.label(scale.high, unit=True) if known else ""
    rows: list[Row] = []
    for number in range(height):
        first = number == gap
        label = in_ascii(top, glyphs)[: max(0, cells - 1)] if first else ""
        edge = glyphs.tick if first else glyphs.vertical
        axis = (Span(f"{label:>{cells - 1}}{edge}", "axis"),) if cells else ()
        plot = area[number - gap] if number >= gap else fitted((), inner)
        rows.append(joined(axis, plot, _words(strip, number - gap, beside, look)))
    return rows


FULL = 1.02
"""A scale leaves this much room above what it covers: 100 % ends at 100 %."""

TALL = 4
"""Height from which a strip leaves its first row blank, so that strips at their top do not touch."""


def _layers(strip: Strip, numbers: Numbers, marks: Numbers) -> list[Layer]:
    if not any(marks):
        return [Layer(strip.line.role, numbers, 0)]
    pairs = list(zip(numbers, marks, strict=True))
    return [
        Layer(strip.line.role, [None if mark else number for number, mark in pairs], 0),
        Layer("limit", [number if mark else None for number, mark in pairs], 2),
    ]


def _words(strip: Strip, row: int, width: int, look: Look) -> Row:
    if not width:
        return ()
    glyphs = look.glyphs
    if row == 0:
        value = in_ascii(strip.value, glyphs)
        name = cut(strip.name, width - 4 - len(value), glyphs)
        return fitted((Span("   "), Span(name.ljust(width - 4 - len(value))), Span(f" {value}")), width)
    if row == 1 and strip.detail:
        detail = cut(in_ascii(strip.detail, glyphs), width - 3, glyphs)
        return fitted((Span("   "), Span(detail, "warn" if strip.warning else "dim")), width)
    return fitted((), width)


def _card_strips(view: RunView, uuid: str, look: Look) -> list[Strip]:
    card = view.gpus[uuid]
    bins = partial(look.kept.gpu, uuid=uuid)
    facts = _card_facts(view, uuid)
    limit = _number(facts.get("power_limit_w"))
    power, clock = _at(view, card, "power_w", look), _at(view, card, "sm_clock_mhz", look)
    temperature, throttled = _at(view, card, "temperature_c", look), _at(view, card, "throttled", look)
    busy, memory_busy = _at(view, card, "gpu_busy_pct", look), _at(view, card, "memory_busy_pct", look)
    hot = MISSING if temperature is None else f"{temperature:.0f} °C"
    held = _throttle_words(view, uuid, throttled, look)
    of_limit = "no limit known" if limit is None else f"of {limit:.0f} W limit"
    return [
        Strip(
            "GPU busy", "gpu", Line("busy", "gpu_busy_pct", bins, samples=True), "pct", 100.0, _pct(busy), "of the time"
        ),
        Strip(
            "memory busy",
            "mem",
            Line("memory_busy", "memory_busy_pct", bins, samples=True),
            "pct",
            100.0,
            _pct(memory_busy),
            f"{format_bytes(_at(view, card, 'used_bytes', look))} used",
        ),
        Strip(
            "power",
            "pow",
            Line("power", "power_w", bins, samples=True),
            "watt",
            limit,
            MISSING if power is None else f"{power:.0f} W",
            of_limit,
        ),
        Strip(
            "clock",
            "clk",
            Line("clock", "sm_clock_mhz", bins, samples=True),
            "mhz",
            None,
            MISSING if clock is None else f"{clock:.0f} MHz",
            f"{hot}, {held}",
            warning=bool(throttled),
            marked=Line("limit", "throttled", bins, samples=True),
        ),
    ]


def _host_strips(view: RunView, look: Look) -> list[Strip]:
    kept = look.kept
    cpu = _at(view, view.host, "tree_cpu_pct", look)
    resident = _at(view, view.host, "worker_resident_bytes", look)
    cores = view.sampler.cores if view.sampler is not None and view.sampler.cores else None
    threads = (
        "" if view.started is None or not on_cpu(view) else f", {format_number_of(view.started.threads, 'thread')}"
    )
    grown = (
        ""
        if resident is None or view.started is None
        else (f"+{format_bytes(max(0.0, resident - view.started.resident_bytes))} since its start")
    )
    return [
        Strip(
            "CPU of the run",
            "cpu",
            Line("cpu", "tree_cpu_pct", kept.host, samples=True),
            "pct",
            None if cores is None else 100.0 * cores,
            _pct(cpu),
            "100 % = a core" if cores is None else f"of {cores} cores{threads}",
        ),
        Strip(
            "resident memory",
            "rss",
            Line("resident", "worker_resident_bytes", kept.host, samples=True),
            "bytes",
            None,
            format_bytes(resident),
            grown,
        ),
    ]


def _host_lines(view: RunView, width: int, look: Look) -> list[Row]:
    """Return each core's share of time, and why there is no card."""
    rows = _cores(view.core_busy_pct, width, look)
    reason = no_gpu_reason(view)
    if reason:
        rows += [
            fitted((Span(line, "dim"),), width) for line in wrapped(in_ascii(f"no GPU: {reason}", look.glyphs), width)
        ]
    return rows


def _cores(busy_pct: Sequence[float], width: int, look: Look) -> list[Row]:
    """Draw a bar a core where two lines hold them; else a block a core."""
    if not busy_pct:
        return []
    glyphs = look.glyphs
    in_line = max(1, width // CORE_CELLS)
    if len(busy_pct) <= 2 * in_line:
        lines = -(-len(busy_pct) // in_line)
        in_line = -(-len(busy_pct) // lines)
        rows = []
        for start in range(0, len(busy_pct), in_line):
            spans: list[Span] = []
            for number, busy in enumerate(busy_pct[start : start + in_line], start):
                cell = bar_meter(
                    f"core {number}", busy / 100, f"{busy:3.0f} %", width // in_line - 2, glyphs, role="cpu"
                )
                spans += [*cell, Span("  ")]
            rows.append(fitted(spans, width))
        return rows
    levels = f" {glyphs.lower_eighths}{glyphs.full}" if glyphs.unicode else "0123456789"
    blocks = "".join(levels[min(len(levels) - 1, int(busy / 100 * len(levels)))] for busy in busy_pct)
    label = f"{len(busy_pct)} cores "
    room = max(1, width - len(label))
    pieces = [blocks[start : start + room] for start in range(0, len(blocks), room)]
    return [
        fitted((Span(label if number == 0 else " " * len(label), "dim"), Span(piece, "cpu")), width)
        for number, piece in enumerate(pieces)
    ]


def _at(view: RunView, table: Columns, name: str, look: Look) -> float | None:
    """Return a sampled number at the cursor, or the newest."""
    if look.cursor is None:
        return table.last(name)
    index = sample_of(view, look.cursor)
    return None if index is None or not table.count else table.at(name, min(index, table.count - 1))


def _share(view: RunView, strip: Strip, look: Look) -> float | None:
    table = (
        view.host if strip.line.column in view.host.data else view.gpus[devices(view)[look.device % len(devices(view))]]
    )
    value = _at(view, table, strip.line.column, look)
    return None if value is None or not strip.top else value / strip.top


def _card_facts(view: RunView, uuid: str) -> dict[str, str]:
    gpus = view.sampler.gpus if view.sampler is not None else []
    return next((gpu for gpu in gpus if gpu.get("uuid") == uuid), {})


def _card_name(view: RunView, uuid: str) -> str:
    facts = _card_facts(view, uuid)
    own = ", the run's own" if uuid == view.own_gpu and len(view.gpus) > 1 else ""
    return one_cell(" ".join(filter(None, (facts.get("device"), facts.get("name")))) or uuid) + own


def _throttle_words(view: RunView, uuid: str, throttled: float | None, look: Look) -> str:
    if throttled is None:
        return "throttling unknown"
    if not throttled:
        return "not throttled"
    reasons = view.throttle_reasons if uuid == view.own_gpu and look.cursor is None else ()
    return f"throttled: {one_cell(', '.join(reasons))}" if reasons else "throttled"


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _pct(value: float | None) -> str:
    return MISSING if value is None else f"{three_digits(value) if value < 10 else round(value)} %"


PANE = Pane("utilization", "3", draw, meter)
