"""The phases section of `gradscope trace`: data, forward, backward, optimizer, as far as the trace tells them apart."""

from gradscope.cli.trace_layout import Pen, ms_or_zero
from gradscope.core.units import format_number_of, format_pct
from gradscope.trace.answers import Answers

SOURCES = {"gradscope": "gradscope's own ranges"}
"""What tells phases apart, where the answer's own word needs explaining."""


def _source(source: str) -> str:
    return SOURCES.get(source, source)


def _over(steps: int | None) -> str:
    """Say what times are of: of all steps together, or of the whole trace where steps are unknown."""
    return f", sum of {format_number_of(steps, 'step')}" if steps else " of the whole trace"


def phases(answers: Answers, pen: Pen) -> list[str]:
    """Say how long each phase took, over all steps or in the chosen one."""
    found = answers.phases
    if found.source is None:
        return pen.missing("phases", "nothing in this trace tells forward, backward and optimizer apart")
    table = found.totals if answers.step is None else found.table.filter(found.table["number"] == answers.step)
    device = answers.has_device
    heads = ("", "share", "host", *(("device",) if device else ()))
    rows = []
    for row in table.iter_rows(named=True):
        share = row["host_pct"]
        cells = [pen.bar(None if share is None else share / 100), format_pct(share), ms_or_zero(row["host_ns"])]
        cells += [ms_or_zero(row["device_ns"])] if device else []
        rows.append((row["phase"], *cells))
    where = f" of step {answers.step}" if answers.step is not None else _over(answers.steps.count)
    return pen.rows(f"phases{where}, by {_source(found.source)}", heads, rows, left=2)
