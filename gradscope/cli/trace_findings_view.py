"""The findings section of `gradscope trace`: what costs time, what that is seen from, and what to do about it."""

from gradscope.cli.trace_layout import INDENT, Pen
from gradscope.core.units import format_ms, format_pct
from gradscope.trace.answers import Answers
from gradscope.trace.finding import Finding

LINES = 10
"""Of findings, before the rest is only counted, unless the section was asked for."""
MARKS = {"serious": "!!", "warning": "! ", "info": "- "}


def findings(answers: Answers, pen: Pen) -> list[str]:
    """List findings, largest saving first, then what was judged calm and what could not be judged."""
    found = answers.findings
    lines = [f"findings{answers.of_all}"]
    shown = 0
    for one in found.found[: pen.top]:
        told = _finding(one, pen)
        if shown and not pen.detailed and len(lines) + len(told) > LINES:
            break
        lines += told
        shown += 1
    if left := len(found.found) - shown:
        lines += pen.wrapped(f"{pen.glyphs.cut} {left} more; --view findings --top {len(found.found)} shows all")
    if not found.found:
        lines.append(f"{INDENT}nothing found")
    if found.calm:
        lines += pen.wrapped(", ".join(calm.rule for calm in found.calm), f"{INDENT}fine: ")
    reasons: dict[str, list[str]] = {}
    for unjudged in found.unjudged:
        reasons.setdefault(unjudged.reason, []).append(unjudged.rule)
    if reasons and not pen.detailed:
        names = ", ".join(unjudged.rule for unjudged in found.unjudged)
        return lines + pen.wrapped(f"{names} (--view findings says why)", f"{INDENT}not judged: ", f"{INDENT}  ")
    for reason, rules in reasons.items():
        lines += pen.wrapped(f"{', '.join(rules)}: {reason}", f"{INDENT}not judged: ", f"{INDENT}  ")
    return lines


def _finding(one: Finding, pen: Pen) -> list[str]:
    saving = ""
    if one.saving_pct is not None:
        per_step = "" if one.saving_ms_per_step is None else f", {format_ms(one.saving_ms_per_step)} a step"
        saving = f"saves up to {format_pct(one.saving_pct)}{per_step}"
    first = f"{INDENT}{MARKS[one.severity]} "
    rest = " " * len(first)
    return [
        *pen.opposite(first + pen.name(one.title, pen.width - len(first)), saving),
        *pen.wrapped(one.evidence, rest),
        *pen.wrapped(one.remedy, rest + "-> ", rest + "   "),
    ]
