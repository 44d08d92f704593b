"""The summary as lines: did it work, what did it cost, where did time and memory go, what to do, is it right."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradscope.core.events import PHASES
from gradscope.core.status import Status
from gradscope.core.summary import NO_GPU, NO_TRACE, Summary
from gradscope.core.units import MISSING, format_bytes, format_ms, format_pct
from gradscope.export.summary_words import (
    CATEGORIES,
    counts,
    energy_words,
    flops_words,
    growth_words,
    loss_words,
    share_words,
    step_words,
    throughput_words,
    verdict,
    why_no_gpu,
)
from gradscope.tui.charts.bars import Part, bar, legend, shares
from gradscope.tui.charts.cells import Span
from gradscope.tui.glyphs import Glyphs
from gradscope.tui.palette import MEMORY_ROLES, PHASE_ROLES
from gradscope.tui.panes.base import in_ascii, one_cell
from gradscope.tui.results.lines import LABEL, Line, blank, prose, row
from gradscope.tui.results.report import RunReport

if TYPE_CHECKING:
    from gradscope.trace.findings import Findings

TALL = 34
"""Rows from which on each phase and category has a line of its own."""
TOP_FINDINGS = 3
LAST_WORDS = 6
STATUS_ROLES = {Status.DONE: "good", Status.CANCELLED: "warn", Status.UNKNOWN: "warn"}
SEVERITY = {"serious": ("!!", "bad"), "warning": ("! ", "warn"), "info": ("- ", "axis")}
DETAIL = 12


@dataclass(frozen=True, slots=True)
class TraceState:
    """How far the trace's answers are."""

    findings: "Findings | None" = None
    text: str = ""
    """Why there are none: still being read, stopped, no trace, an error."""
    hint: str = ""


def summary_lines(report: RunReport, trace: TraceState, size: tuple[int, int], glyphs: Glyphs) -> list[Line]:
    """Lay out a run's summary.

    Args:
        report: The run.
        trace: What its trace says, or why it says nothing yet.
        size: Width and height there is.
        glyphs: Characters to draw with.
    """
    width, height = size
    if report.unreadable:
        return [row("this folder", Span(one_cell(report.unreadable), "bold bad"), meaning="status")]
    if not report.is_run:
        text = "no run of gradscope: its traces are all there is" if report.traces else "there is no run in this folder"
        problems = (line for problem in report.problems for line in prose(problem, width, label="  beware"))
        return [row("this folder", Span(text, "bold warn"), meaning="status"), *problems, *what_to_do(trace, width)]
    lines = list(_outcome(report, width, glyphs))
    if (summary := report.summary) is None:
        return lines
    tall = height >= TALL
    lines += [*_gap(tall), *_cost(summary, width, glyphs)]
    lines += [*_gap(tall), *_time(summary, width, glyphs, tall=tall)]
    lines += [*_gap(tall), *_memory(summary, width, glyphs, tall=tall)]
    lines += [*_gap(tall), *what_to_do(trace, width)]
    lines += [*_gap(tall), *audit_lines(report, width, short=True)]
    said = [remark.message for remark in summary.remarks if remark.code not in (NO_GPU, NO_TRACE)]
    for number, message in enumerate(said):
        lines += prose(message, width, label="" if number else "notes", meaning="remarks")
    return lines


def _gap(tall: bool) -> list[Line]:
    return [blank()] if tall else []


def _outcome(report: RunReport, width: int, glyphs: Glyphs) -> Iterator[Line]:
    status = report.status
    role = STATUS_ROLES.get(status.status, "bad" if status.status.is_final else "warn")
    word = status.status.value if status.status.is_final else f"{status.status.value}, not over: numbers so far"
    done = f" {glyphs.dot} {counts(report.summary)}" if report.summary else ""
    room = width - LABEL - len(word)
    yield row("did it work", Span(word, f"bold {role}"), Span(done if len(done) <= room else ""), meaning="status")
    if report.summary and len(done) > room:
        yield from prose(counts(report.summary), width, meaning="duration.measured_steps")
    if status.reason and status.status is not Status.DONE:
        yield from prose(status.reason, width, label="  why", meaning="status", style=role)
    if status.hint and status.status is not Status.DONE:
        yield from prose(status.hint, width, label="  remedy", meaning="status")
    for problem in report.problems:
        yield from prose(problem, width, label="  beware", meaning="status", style="warn")
    if report.log and status.status not in (Status.DONE, Status.CANCELLED):
        for number, text in enumerate(report.log[-LAST_WORDS:]):
            shown = one_cell(text)[: max(0, width - LABEL)]
            yield row("" if number else "  last words", Span(shown, "dim"), copy=text, meaning="status")


def _cost(summary: Summary, width: int, glyphs: Glyphs) -> Iterator[Line]:
    time, memory, use, energy = summary.time, summary.memory, summary.utilization, summary.energy
    yield row("loss", loss_words(summary.loss, in_ascii("→", glyphs)), meaning="loss")
    yield row("step time", step_words(time), meaning="time.step_ms")
    yield row("throughput", throughput_words(time), meaning="time.steps_per_second")
    source = f"   torch's allocator, {memory.allocated_peak_source}" if memory.allocated_peak_source else ""
    peak = f"{format_bytes(memory.allocated_peak_bytes)}{source}"
    yield row("peak memory", peak, meaning="memory.allocated_peak_bytes")
    if memory.resident_growth_bytes is not None:
        yield row("resident", growth_words(memory.resident_growth_bytes), meaning="memory.resident_growth_bytes")
    if memory.device_used_peak_bytes is not None:
        own = f"   this run {format_bytes(memory.process_used_peak_bytes)}"
        text = f"{format_bytes(memory.device_used_peak_bytes)} largest sampled{own}"
        yield row("card memory", text, meaning="memory.device_used_peak_bytes")
    yield row("energy", f"{energy_words(energy)}{_because(summary, energy.joules_per_step)}", **_energy_key())
    if energy.power_w:
        yield row("power", share_words(energy.power_w, "W"), meaning="energy.power_w")
    cores = "   100 % is a core" if use.cpu_pct else ""
    yield row("cpu", f"{share_words(use.cpu_pct, '%')}{cores}", meaning="utilization.cpu_pct")
    if use.gpu_busy_pct or use.memory_busy_pct:
        yield row("gpu busy", share_words(use.gpu_busy_pct, "%"), meaning="utilization.gpu_busy_pct")
        yield row("gpu memory busy", share_words(use.memory_busy_pct, "%"), meaning="utilization.memory_busy_pct")
    for number, text in enumerate(flops_words(summary.flops)):
        yield row("" if number else "compute", text, meaning="flops.model_per_second")
    if time.instrumentation_share is not None:
        text = f"{time.instrumentation_share * 100:.2f} % of the measured time"
        yield row("gradscope's own", text, meaning="time.instrumentation_share")


def _energy_key() -> dict[str, str]:
    return {"meaning": "energy.joules_per_step"}


def _because(summary: Summary, value: float | None) -> str:
    why = why_no_gpu(summary) if value is None else []
    return f"   {why[0]}" if why else ""


def _time(summary: Summary, width: int, glyphs: Glyphs, *, tall: bool) -> Iterator[Line]:
    time, meaning = summary.time, "time.phase_share"
    again = time.phase_share.get("recompute", 0.0)
    parts = []
    for name in PHASE_ROLES:  # in the bar, recomputation is cut out of backward; in words it is a part of it
        if (value := time.phase_share.get(name)) is not None and (name != "recompute" or again):
            text = f"{_share(value)}{', of it' if name == 'backward' and again else ''}"
            drawn = max(0.0, value - again) if name == "backward" else value
            parts.append(Part(name, drawn, name, PHASE_ROLES.index(name), text))
    if not parts:
        yield row("where time went", MISSING, meaning=meaning)
        return
    room = width - LABEL
    yield row("where time went", *shares(parts, room, glyphs, total=1.0), meaning=meaning)
    if not tall:
        told = {name: share for name, share in time.phase_share.items() if share}
        if "recompute" in told:  # right behind backward
            told["recompute"] = told.get("backward", 0.0)
        shown = sorted((part for part in parts if part.role in told), key=lambda part: -told[part.role])
        yield row("", *legend(shown, room, glyphs), meaning=meaning)
        return
    for name in PHASES:
        if (phase := time.phase_ms.get(name)) is None:
            continue
        share = time.phase_share.get(name)
        label = f"  {name}" if name != "recompute" else "    recompute"
        figures = f"{_share(share):>9}{format_ms(phase.median):>12} median{format_ms(phase.p95):>12} p95"
        yield row(label, *_bar(share, room - len(figures), name, PHASE_ROLES, glyphs), Span(figures), meaning=meaning)


def _bar(share: float | None, width: int, role: str, roles: Sequence[str], glyphs: Glyphs) -> Sequence[Span]:
    return bar(share, max(0, width), glyphs, role, fill=roles.index(role))


def _share(share: float | None) -> str:
    return MISSING if share is None else format_pct(100 * share)


def _memory(summary: Summary, width: int, glyphs: Glyphs, *, tall: bool) -> Iterator[Line]:
    memory, meaning = summary.memory, "memory.peak_activations_bytes"
    sizes = [(label, label.replace(" ", "_"), getattr(memory, name)) for label, name in CATEGORIES]
    parts = [
        Part(label, size, role, MEMORY_ROLES.index(role), format_bytes(size)) for label, role, size in sizes if size
    ]
    if not parts:
        yield row("where memory went", MISSING, meaning=meaning)
        return
    room = width - LABEL
    if memory.peak_activations_bytes is None:  # the run ended before the memory step's backward was seen
        saved = memory.saved_activations_bytes
        text = MISSING if saved is None else f"saved {format_bytes(saved)}"
        parts.append(Part("activations", saved, "activations", MEMORY_ROLES.index("activations"), text))
    total, peak = sum(part.value or 0 for part in parts), memory.allocated_peak_bytes
    whole = peak if any(part.value is None for part in parts) else total
    if whole is None:
        yield row("where memory went", "without activations, which were not measured", meaning=meaning)
    else:
        yield row("where memory went", *shares(parts, room, glyphs, total=float(whole)), meaning=meaning)
    if not tall:
        shown = sorted(parts, key=lambda part: -(part.value or 0))
        yield row("", *legend(shown, room, glyphs), meaning=meaning)
    else:
        for part in parts:
            share = None if part.value is None or not whole else part.value / whole
            figures = f"{_share(share):>9}{part.text:>16} largest"
            pieces = _bar(share, room - len(figures), part.role, MEMORY_ROLES, glyphs)
            yield row(f"  {part.label}", *pieces, Span(figures), meaning=meaning)
    if peak is not None and total > peak:
        yield row("", Span("each at its own largest, not at one moment", "dim"), meaning=meaning)
    if memory.saved_activations_bytes is not None and tall:
        text = f"{format_bytes(memory.saved_activations_bytes)} kept for backward at the end of forward"
        yield row("  of them saved", text, meaning="memory.saved_activations_bytes")
    if memory.phase_peak_bytes:
        names = ("forward", "backward", "optimizer")
        text = "   ".join(f"{name} {format_bytes(memory.phase_peak_bytes.get(name))}" for name in names)
        yield row("  peak by phase", text, meaning="memory.phase_peak_bytes")


def what_to_do(trace: TraceState, width: int) -> Iterator[Line]:
    """Say what the findings say: the largest savings, or why nothing is known."""
    meaning, label = "trace.findings", "what to do"
    if trace.findings is None:
        yield from prose(trace.text, width, label=label, meaning=meaning, style="dim")
        if trace.hint:
            yield from prose(trace.hint, width, meaning=meaning, style="dim")
        return
    found = trace.findings.found
    if not found:
        judged = len(trace.findings.calm)
        yield row(
            label, f"nothing: {judged} rules found no cause, {len(trace.findings.unjudged)} not judged", meaning=meaning
        )
        return
    for number, one in enumerate(found[:TOP_FINDINGS]):
        mark, role = SEVERITY[one.severity]
        saving = "" if one.saving_pct is None else f"   up to {format_pct(one.saving_pct)}"
        if one.saving_ms_per_step is not None:
            saving += f", {format_ms(one.saving_ms_per_step)} a step"
        title = one_cell(one.title)[: max(10, width - LABEL - len(saving) - 3)]
        yield row(
            "" if number else label,
            Span(f"{mark} ", role),
            Span(title),
            Span(saving, "bold"),
            meaning=meaning,
            place="findings",
        )
    if len(found) > TOP_FINDINGS:
        yield row("", Span(f"   {len(found) - TOP_FINDINGS} more under findings", "dim"), meaning=meaning)


def audit_lines(report: RunReport, width: int, *, short: bool = False) -> Iterator[Line]:
    """Say whether the training is right; the short form is one line where all is well."""
    label = "is it right"
    summary = report.summary
    audit = summary.audit if summary else None
    if audit is None:
        why = "the gradient audit was not run"
        if summary is not None and summary.status is not Status.DONE:
            why += ": it comes last, and the run ended before"
        elif summary is not None:
            why += " (audit.enabled=false)"
        yield from prose(why, width, label=label, meaning="audit.error", style="dim")
        return
    role = {True: "good", False: "bad", None: "warn"}[audit.passed]
    yield row(label, Span("gradient audit "), Span(verdict(audit), role), meaning="audit.error")
    if audit.reason:
        yield from prose(audit.reason, width, meaning="audit.error")
    if audit.no_effect:
        yield from prose(audit.no_effect, width, label="  no effect", meaning="audit.no_effect", style="warn")
    if audit.without_gradient:
        names = ", ".join(audit.without_gradient[: 3 if short else None])
        more = len(audit.without_gradient) - 3
        names += f" and {more} more" if short and more > 0 else ""
        yield from prose(names, width, label="  no gradient", meaning="audit.without_gradient", style="warn")
    if short:
        return
    yield blank()
    error = MISSING if audit.error is None else f"{audit.error:.3e}" if audit.error else "0"
    yield row("error", f"{error}   |g - g0| / |g0| over all parameters", meaning="audit.error")
    bound = MISSING if audit.bound is None else f"{audit.bound:.0e}"
    yield row("bound", f"{bound}   what rounding explains here", meaning="audit.bound")
    yield blank()
    text = (
        "g is the gradient under the strategy, g0 that of the plain one, on the same rows with the same random "
        "numbers. Within the bound, the strategy trains the same model and only spends memory and time otherwise."
    )
    yield from prose(text, width, indent=0, style="dim", meaning="audit.error")
