"""A run's summary as plain text, for stdout: did it work, what did it cost, where did time and memory go, is it right.

At most `width` columns, no colour, and ASCII only where stdout cannot show more.
"""

import shlex
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradscope.core.events import PHASES
from gradscope.core.paths import shown_path
from gradscope.core.status import Status
from gradscope.core.summary import NO_GPU, NO_TRACE, Summary
from gradscope.core.text import display_width, takes_unicode, visible
from gradscope.core.units import (
    MISSING,
    format_bytes,
    format_ms,
    format_pct,
)
from gradscope.export.summary_words import (
    CATEGORIES,
    counts,
    energy_words,
    flops_words,
    foretold_words,
    growth_words,
    loss_words,
    machine_words,
    run_words,
    share_words,
    step_words,
    throughput_words,
    verdict,
    why_no_gpu,
)

LABEL = 19
"""Columns of a row's label, indentation included."""

BAR = 25
"""Columns of a bar that stands for the whole."""

PHASES_WITH_PEAKS = ("forward", "backward", "optimizer")
"""The others only move a batch."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that differ between a terminal with UTF-8 and one without."""

    dot: str
    times: str
    arrow: str
    full: str
    eighths: str


UNICODE = Glyphs("·", "\N{MULTIPLICATION SIGN}", "→", "█", "▏▎▍▌▋▊▉")
ASCII = Glyphs("-", "x", "->", "#", "")


def render(summary: Summary, width: int = 80, *, run_dir: Path | None = None, unicode: bool | None = None) -> str:
    """Lay out a summary for a person.

    Args:
        summary: The run's numbers.
        width: Columns there are; long sentences are wrapped, paths are not.
        run_dir: Where the run lies, for the lines that say how to open its trace.
        unicode: Whether the text may hold more than ASCII; by default, whether stdout's encoding can.

    Returns:
        Lines without a trailing newline.
    """
    glyphs = UNICODE if (takes_unicode(sys.stdout) if unicode is None else unicode) else ASCII
    sections = [
        _outcome(summary, glyphs, width),
        _cost(summary, glyphs, width),
        _time(summary, glyphs),
        _memory(summary, glyphs),
        _correctness(summary, width),
        _remarks(summary, width),
        _files(summary, run_dir, width),
    ]
    lines = "\n\n".join("\n".join(lines) for lines in sections if lines)
    return lines if glyphs is UNICODE else lines.encode("ascii", "backslashreplace").decode()


def _row(label: str, text: str) -> str:
    return f"  {label}".ljust(LABEL) + text


def _wrapped(label: str, text: str, width: int) -> list[str]:
    """Return a row whose text is foreign and may be long."""
    lines = textwrap.wrap(visible(text), max(20, width - LABEL), break_on_hyphens=False) or [""]
    return [_row(label if not index else "", line) for index, line in enumerate(lines)]


def _outcome(summary: Summary, glyphs: Glyphs, width: int) -> list[str]:
    title = f" {glyphs.dot} ".join(visible(word) for word in run_words(summary.identity, glyphs.times))
    state = summary.status.value if summary.status.is_final else f"{summary.status.value} (not final)"
    gap = width - display_width(title) - len(state)
    lines = [title + " " * gap + state] if gap >= 2 else [title, state]
    lines.append(counts(summary))
    lines.append(f" {glyphs.dot} ".join(map(visible, machine_words(summary.identity))))
    if summary.reason and summary.status is not Status.DONE:
        lines += _wrapped(summary.status.value, summary.reason, width)
        lines += _wrapped("", summary.hint, width) if summary.hint else []
    return lines


def _cost(summary: Summary, glyphs: Glyphs, width: int) -> list[str]:
    loss, time, memory, use, energy = summary.loss, summary.time, summary.memory, summary.utilization, summary.energy
    lines = [
        _row("loss", loss_words(loss, glyphs.arrow)),
        _row("step time", step_words(time)),
        _row("throughput", throughput_words(time)),
    ]
    source = f"   torch's allocator, {memory.allocated_peak_source}" if memory.allocated_peak_source else ""
    lines.append(_row("peak memory", f"{format_bytes(memory.allocated_peak_bytes)}{source}"))
    if memory.foretold_peak_bytes is not None:
        lines.append(_row("foretold", foretold_words(memory)))
    if memory.resident_growth_bytes is not None:
        lines.append(_row("resident", growth_words(memory.resident_growth_bytes)))
    if memory.device_used_peak_bytes is not None:
        own = f"   this run {format_bytes(memory.process_used_peak_bytes)}"
        lines.append(_row("card memory", f"{format_bytes(memory.device_used_peak_bytes)} largest sampled{own}"))
    lines.append(_row("cpu", share_words(use.cpu_pct, "%") + ("   100 % = a core" if use.cpu_pct else "")))
    if use.gpu_busy_pct or use.memory_busy_pct:
        lines.append(_row("gpu busy", share_words(use.gpu_busy_pct, "%")))
        lines.append(_row("gpu memory busy", share_words(use.memory_busy_pct, "%")))
    else:
        lines += _wrapped("gpu busy", "   ".join((MISSING, *why_no_gpu(summary))), width)
    lines.append(_row("energy", energy_words(energy)))
    if energy.power_w:
        lines.append(_row("power", share_words(energy.power_w, "W")))
    lines += [_row("" if number else "compute", text) for number, text in enumerate(flops_words(summary.flops))]
    if time.instrumentation_share is not None:
        lines.append(_row("gradscope's own", f"{time.instrumentation_share * 100:.2f} % of the measured time"))
    return ["cost", *lines]


def _bar(share: float, glyphs: Glyphs) -> str:
    """Return a bar of `share` (0 to 1) of `BAR` columns; never empty for more than nothing."""
    steps = len(glyphs.eighths) + 1
    filled = round(max(0.0, min(1.0, share)) * BAR * steps)
    filled = max(1, filled) if share > 0 and glyphs.eighths else filled
    full, part = divmod(filled, steps)
    return glyphs.full * full + (glyphs.eighths[part - 1] if part else "")


def _bar_rows(rows: Iterable[tuple[str, float | None, Sequence[str]]], glyphs: Glyphs) -> list[str]:
    """Lay out (label, share, right-aligned cells) rows."""
    return [
        (f"  {label}".ljust(LABEL) + ("" if share is None else _bar(share, glyphs))).ljust(LABEL + BAR)
        + "".join(cell.rjust(12) for cell in cells)
        for label, share, cells in rows
    ]


def _time(summary: Summary, glyphs: Glyphs) -> list[str]:
    time = summary.time
    if not time.phase_ms:
        return []
    rows = []
    for name in PHASES:
        if (phase := time.phase_ms.get(name)) is None or (name == "h2d" and summary.identity.device == "cpu"):
            continue
        label = f"  {name}" if name == "recompute" else name
        share = time.phase_share.get(name)
        percent = MISSING if share is None else format_pct(share * 100)
        rows.append((label, share, (percent, format_ms(phase.median), format_ms(phase.p95))))
    head = "where time went".ljust(LABEL + BAR) + "".join(cell.rjust(12) for cell in ("share", "median", "p95"))
    return [head, *_bar_rows(rows, glyphs)]


def _memory(summary: Summary, glyphs: Glyphs) -> list[str]:
    memory = summary.memory
    sizes = {label: getattr(memory, field) for label, field in CATEGORIES}
    known = {label: size for label, size in sizes.items() if size}
    if not known and not memory.phase_peak_bytes:
        return []
    rows: list[tuple[str, float | None, Sequence[str]]]
    if memory.peak_activations_bytes is None:  # shares of a sum without its largest part would mislead
        titles = ("", "largest")
        rows = [(label, None, ("", format_bytes(size))) for label, size in known.items()]
        rows.append(("activations", None, ("", MISSING)))
    else:
        titles = ("share", "largest")
        total = sum(known.values())
        rows = [
            (label, size / total, (format_pct(100 * size / total), format_bytes(size))) for label, size in known.items()
        ]
    head = "where memory went".ljust(LABEL + BAR) + "".join(title.rjust(12) for title in titles)
    lines = [head, *_bar_rows(rows, glyphs)]
    if memory.saved_activations_bytes is not None:
        saved = f"{format_bytes(memory.saved_activations_bytes)} kept for backward at the end of forward"
        lines.append(_row("  of them saved", saved))
    if memory.phase_peak_bytes:
        peaks = {name: memory.phase_peak_bytes.get(name) for name in PHASES_WITH_PEAKS}
        lines.append(_row("peak by phase", "   ".join(f"{name} {format_bytes(size)}" for name, size in peaks.items())))
    return lines


def _correctness(summary: Summary, width: int) -> list[str]:
    if summary.audit is None:
        return ["gradient audit: not run"] if summary.status is Status.DONE else []
    audit = summary.audit
    lines = [f"gradient audit: {verdict(audit)}"]
    if audit.reason:
        lines += _wrapped("", audit.reason, width)
    if audit.no_effect:
        lines += _wrapped("no effect", audit.no_effect, width)
    if audit.without_gradient:
        lines += _wrapped("no gradient", ", ".join(audit.without_gradient), width)
    return lines


def _remarks(summary: Summary, width: int) -> list[str]:
    said = [remark for remark in summary.remarks if remark.code not in (NO_GPU, NO_TRACE)]
    lines = ["notes"] if said else []
    for remark in said:
        wrapped = textwrap.wrap(visible(remark.message), max(20, width - 4), break_on_hyphens=False)
        lines += [("  - " if not index else "    ") + line for index, line in enumerate(wrapped)]
    return lines


def _files(summary: Summary, run_dir: Path | None, width: int) -> list[str]:
    lines = [] if run_dir is None else [_row("run", visible(str(shown_path(run_dir))))]
    named = {window.file for window in summary.windows if window.file}
    deleted = {file for file in named if run_dir is not None and not (run_dir / file).is_file()}
    for window in summary.windows:
        if window.file:
            size = "" if window.file_bytes is None else f", {format_bytes(window.file_bytes)}"
            gone = ", deleted since" if window.file in deleted else size
            lines.append(_row("trace", visible(window.file)))
            lines.append(_row("", f"{window.steps} steps from step {window.first_step}{gone}"))
            if window.step_ms is not None:
                beside = format_ms(summary.time.step_ms.median if summary.time.step_ms else None)
                lines.append(_row("", f"{format_ms(window.step_ms.median)} a step when profiled, {beside} measured"))
        elif window.error:
            lines.append(_row("no trace", visible(window.error)))
        elif not window.closed:
            lines.append(_row("no trace", f"the run ended inside window {window.window}"))
    for remark in summary.remarks:
        if remark.code == NO_TRACE:
            lines += _wrapped("no trace", remark.message, width)
    if run_dir is not None and named - deleted:
        root = shlex.quote(str(shown_path(run_dir.parent.parent)))
        lines.append(_row("open it", f"gradscope tensorboard {visible(root)}"))
        lines.append(_row("", "or load the file in https://ui.perfetto.dev"))
    return ["files", *lines] if lines else []
