"""What a rule can say of a trace: something costs time, nothing does, or this trace cannot tell."""

from dataclasses import dataclass
from typing import Literal

from gradscope.trace.facts import Facts
from gradscope.trace.thresholds import Thresholds

Severity = Literal["info", "warning", "serious"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that costs time or memory, with what to do about it.

    Savings of several findings do not add up: an idle device may be waiting for data, for launches and for the host's
    waits at once.
    """

    rule: str
    title: str
    evidence: str
    """What in the trace says so, in numbers."""
    saving_ms_per_step: float | None
    """What to expect; `None` where the trace does not tell, or has no steps."""
    saving_pct: float | None
    """The same as a share of the time in steps (of the window without steps)."""
    saving_formula: str
    """How the saving was computed, or why it was not."""
    remedy: str
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """A rule that was judged and found nothing."""

    rule: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A rule that this trace does not tell enough for."""

    rule: str
    reason: str


Verdict = Finding | Calm | Unjudged


def finding(
    facts: Facts,
    limits: Thresholds,
    *,
    rule: str,
    title: str,
    evidence: str,
    remedy: str,
    saving_ns: float | None,
    saving_formula: str,
    unknown_severity: Severity = "info",
) -> Finding:
    """Make a finding; its severity follows from the saving's share of the time.

    Args:
        facts: The trace's.
        limits: From where on it is serious.
        rule: The rule's name.
        title: What is wrong, in a few words.
        evidence: In numbers.
        remedy: What to do.
        saving_ns: In the whole window; `None` where the trace does not tell.
        saving_formula: How it was computed.
        unknown_severity: Severity where the saving is unknown.
    """
    per_step_ns = None if saving_ns is None else facts.per_step(saving_ns)
    return Finding(
        rule=rule,
        title=title,
        evidence=evidence,
        saving_ms_per_step=None if per_step_ns is None else per_step_ns / 1e6,
        saving_pct=None if saving_ns is None else facts.pct(saving_ns),
        saving_formula=saving_formula,
        remedy=remedy,
        severity=unknown_severity if saving_ns is None else severity(facts.pct(saving_ns), limits),
    )


def severity(share_pct: float, limits: Thresholds) -> Severity:
    """Return how grave it is to lose a share of the time."""
    if share_pct >= limits.serious_pct:
        return "serious"
    return "warning" if share_pct >= limits.warning_pct else "info"
