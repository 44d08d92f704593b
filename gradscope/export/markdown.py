"""A run's summary as tables in GitHub's Markdown, fit to paste into an issue.

Whatever was not written by gradscope stands in code spans: there GitHub makes no mentions, links or markup of it. The
name of the host is left out, and the home folder is `~`.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from gradscope.core.events import PHASES
from gradscope.core.status import Status
from gradscope.core.summary import NO_GPU, Summary
from gradscope.core.text import visible
from gradscope.core.units import MISSING, format_bytes, format_ms, format_number_of, format_pct
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

LONGEST = 600
"""Characters of a foreign text; an issue holds 65,536."""

MOST = 20
"""Remarks, versions, and names in a list."""

TIMES = "\N{MULTIPLICATION SIGN}"
ARROW = "→"


def render(summary: Summary) -> str:
    """Return a summary as Markdown that ends in a newline."""
    sections = [
        _head(summary),
        _cost(summary),
        _time(summary),
        _memory(summary),
        _correctness(summary),
        _remarks(summary),
        _setting(summary),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def code(text: str) -> str:
    """Return foreign text as a code span, on one line, cut where it is very long; fit for a cell of a table."""
    home = str(Path.home())
    shown = visible(text.replace(home, "~") if len(home) > 1 else text).strip()
    if len(shown) > LONGEST:
        shown = f"{shown[: LONGEST - 3]}..."
    if not shown:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}".replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: int = 0) -> list[str]:
    """Return the lines of a table; the last `right` columns are aligned to the right. Cells are Markdown."""
    left = len(head) - right
    rule = ["---"] * left + ["---:"] * right
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


def _words(parts: Iterable[str]) -> str:
    return " · ".join(code(part) for part in parts)


def _head(summary: Summary) -> list[str]:
    state = summary.status.value if summary.status.is_final else f"{summary.status.value}, not final"
    lines = [f"### {_words(run_words(summary.identity, TIMES))}: {state}", "", counts(summary)]
    if machine := machine_words(summary.identity):
        lines += ["", _words(machine)]
    if summary.reason and summary.status is not Status.DONE:
        lines += ["", f"{summary.status.value}: {code(summary.reason)}"]
        lines += ["", code(summary.hint)] if summary.hint else []
    return lines


def _cost(summary: Summary) -> list[str]:
    loss, time, memory, use, energy = summary.loss, summary.time, summary.memory, summary.utilization, summary.energy
    source = f", {memory.allocated_peak_source}" if memory.allocated_peak_source else ""
    rows = [
        ("loss", loss_words(loss, ARROW)),
        ("step time", step_words(time)),
        ("throughput", throughput_words(time)),
        ("peak memory", format_bytes(memory.allocated_peak_bytes) + source),
    ]
    if memory.foretold_peak_bytes is not None:
        rows.append(("foretold peak", foretold_words(memory)))
    if memory.resident_growth_bytes is not None:
        rows.append(("resident", growth_words(memory.resident_growth_bytes)))
    if memory.device_used_peak_bytes is not None:
        own = f", this run {format_bytes(memory.process_used_peak_bytes)}"
        rows.append(("card memory", format_bytes(memory.device_used_peak_bytes) + " largest sampled" + own))
    rows.append(("CPU (100 % = a core)", share_words(use.cpu_pct, "%")))
    why = "".join(f" {code(reason)}" for reason in why_no_gpu(summary))
    rows.append(("GPU busy", share_words(use.gpu_busy_pct, "%") if use.gpu_busy_pct else MISSING + why))
    if use.memory_busy_pct:
        rows.append(("GPU memory busy", share_words(use.memory_busy_pct, "%")))
    rows.append(("energy", energy_words(energy)))
    if energy.power_w:
        rows.append(("power", share_words(energy.power_w, "W")))
    rows += [("compute", text) for text in flops_words(summary.flops)]
    if time.instrumentation_share is not None:
        rows.append(("gradscope's own", f"{time.instrumentation_share * 100:.2f} % of the measured time"))
    return table(("cost", ""), [(label, text.replace("   ", ", ")) for label, text in rows])


def _time(summary: Summary) -> list[str]:
    rows = []
    for name in PHASES:
        if (phase := summary.time.phase_ms.get(name)) is not None:
            share = summary.time.phase_share.get(name)
            label = "recompute (part of backward)" if name == "recompute" else name
            percent = MISSING if share is None else format_pct(share * 100)
            rows.append((label, percent, format_ms(phase.median), format_ms(phase.p95)))
    return table(("time", "share", "median", "p95"), rows, right=3) if rows else []


def _memory(summary: Summary) -> list[str]:
    memory = summary.memory
    sizes = {label: getattr(memory, field) for label, field in CATEGORIES}
    if not any(sizes.values()) and not memory.phase_peak_bytes:
        return []
    whole = sum(size or 0 for size in sizes.values())
    shares = memory.peak_activations_bytes is not None and whole > 0  # of a sum without its largest part none is told
    rows = [
        (label, format_pct(100 * (size or 0) / whole) if shares else MISSING, format_bytes(size))
        for label, size in sizes.items()
        if size or label == "activations"
    ]
    if memory.saved_activations_bytes is not None:
        rows.append(("saved at the end of forward", "", format_bytes(memory.saved_activations_bytes)))
    peaks = memory.phase_peak_bytes
    rows += [(f"peak of all in {name}", "", format_bytes(peaks[name])) for name in PHASES if name in peaks]
    return table(("memory", "share", "largest"), rows, right=2)


def _correctness(summary: Summary) -> list[str]:
    audit = summary.audit
    if audit is None:
        return ["Gradient audit: not run"]
    lines = [f"Gradient audit: {verdict(audit)}"]
    if audit.reason:
        lines.append(f"- {code(audit.reason)}")
    if audit.no_effect:
        lines.append(f"- no effect: {code(audit.no_effect)}")
    if audit.without_gradient:
        lines.append(f"- no gradient: {_some([code(name) for name in audit.without_gradient])}")
    return lines


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - MOST} more" if len(texts) > MOST else ""
    return ", ".join(texts[:MOST]) + more


def _remarks(summary: Summary) -> list[str]:
    said = [remark for remark in summary.remarks if remark.code != NO_GPU]
    lines = [f"- {code(remark.message)}" for remark in said[:MOST]]
    if len(said) > MOST:
        lines.append(f"- and {format_number_of(len(said) - MOST, 'more note')}")
    return ["Notes", "", *lines] if lines else []


def _setting(summary: Summary) -> list[str]:
    came = summary.provenance
    rows = [("run", code(summary.run_id))]
    if came.argv:
        rows.append(("command", code(shlex.join([Path(came.argv[0]).name, *came.argv[1:]]))))
    if came.git:
        rows.append(("git", code(came.git)))
    rows += [(code(name), code(version)) for name, version in sorted(came.versions.items())[:MOST]]
    return table(("made with", ""), rows)
