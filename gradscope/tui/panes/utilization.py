"""The utilization pane: thin strips over the steps, each with a scale of its own, and the exact figure beside it.

Of a card: how long it was busy, how long its memory was, power against its limit, clock, temperature, throttling.
Of the host: CPU time, resident memory, each core. Busy figures are shares of time, as NVML gives them.
"""

from functools import partial

from gradscope.core.units import MISSING, format_bytes, format_number_of, three_digits
from gradscope.tui.charts.bars import meter as bar_meter
from gradscope.tui.charts.cells import Row, Span
from gradscope.tui.panes.base import Drawn, Look, Pane, cut, filled_up, fitted, in_ascii, one_cell, wrapped
from gradscope.tui.panes.chart import Line
from gradscope.tui.panes.legend import width_beside
from gradscope.tui.panes.memory import on_cpu
from gradscope.tui.panes.strips import Strip, draw_cores, draw_strips
from gradscope.tui.panes.values import sample_of, step_label
from gradscope.tui.view import Columns, RunView

HOST = "host"


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
    rows = [*draw_strips(view, strips, (width, room), look), *below]
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
            "GPU busy",
            "gpu",
            Line("busy", "gpu_busy_pct", bins, samples=True),
            "pct",
            100.0,
            _pct(busy),
            ("of the time",),
        ),
        Strip(
            "memory busy",
            "mem",
            Line("memory_busy", "memory_busy_pct", bins, samples=True),
            "pct",
            100.0,
            _pct(memory_busy),
            (f"{format_bytes(_at(view, card, 'used_bytes', look))} used",),
        ),
        Strip(
            "power",
            "pow",
            Line("power", "power_w", bins, samples=True),
            "watt",
            limit,
            MISSING if power is None else f"{power:.0f} W",
            (of_limit,),
        ),
        Strip(
            "clock",
            "clk",
            Line("clock", "sm_clock_mhz", bins, samples=True),
            "mhz",
            None,
            MISSING if clock is None else f"{clock:.0f} MHz",
            (held, hot),
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
            ("100 % = a core" if cores is None else f"of {cores} cores{threads}",),
        ),
        Strip(
            "resident memory",
            "rss",
            Line("resident", "worker_resident_bytes", kept.host, samples=True),
            "bytes",
            None,
            format_bytes(resident),
            (grown,),
        ),
    ]


def _host_lines(view: RunView, width: int, look: Look) -> list[Row]:
    """Return each core's share of time, and why there is no card."""
    rows = draw_cores(view.core_busy_pct, width, look)
    reason = no_gpu_reason(view)
    if reason:
        rows += [
            fitted((Span(line, "dim"),), width) for line in wrapped(in_ascii(f"no GPU: {reason}", look.glyphs), width)
        ]
    return rows


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
