"""A preset's claims, judged by its results: reproduced, refuted, or undecided, with the figures and the reason.

The number of a claim is a statistic over cells: of a metric itself, or of its ratio between cells that differ in
nothing but the axes which the claim names. It is decided only if it is on one side of the bounds whatever is unknown:

- a cell that is missing, failed, or ran on other hardware could have any value;
- with one run a cell, noise could move its figure (`claim_evidence` says how far); and no verdict on what is measured
  may hang on one run, as a largest ratio does: foreign work may have slowed it from its first step on;
- with repeats, the statistic of each seed is one value, and the interval of their mean must be on one side.
"""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from gradscope.analysis.axes import Axis
from gradscope.analysis.claim_evidence import STATISTICS, Evidence, Item, Span, exactness, gather, notes_on, span_of
from gradscope.analysis.results import OF_SUMMARY, Row
from gradscope.config.schema import Claim
from gradscope.core.summary import Record


class Verdict(StrEnum):
    """What the results say of a claim."""

    REPRODUCED = "reproduced"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


class Judgement(Record, frozen=True, kw_only=True):
    """A claim and what became of it."""

    name: str
    text: str
    source: str
    metric: str
    verdict: Verdict
    reason: str
    """One sentence."""
    figure: float | None = None
    """The number the claim is about; `None` where no cell has it."""
    low: float | None = None
    """Where the number could lie, noise considered."""
    high: float | None = None
    statistic: str
    is_ratio: bool
    at_least: float | None = None
    """Bounds, tolerance applied."""
    at_most: float | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    """What to keep in mind with it."""
    evidence: list[Evidence] = msgspec.field(default_factory=list)


def judge_claims(claims: Iterable[Claim], rows: Sequence[Row], axes: Sequence[Axis]) -> list[Judgement]:
    """Judge claims by a grid's rows, missing ones included."""
    return [judge(claim, rows, axes) for claim in claims]


def judge(claim: Claim, rows: Sequence[Row], axes: Sequence[Axis]) -> Judgement:
    """Judge one claim."""
    at_least, at_most = _bounds(claim)
    notes: list[str] = []

    def told(
        verdict: Verdict, reason: str, evidence: Sequence[Evidence] = (), span: Span = (None, None, None)
    ) -> Judgement:
        return Judgement(
            name=claim.name,
            text=claim.text,
            source=claim.source,
            metric=claim.metric,
            verdict=verdict,
            reason=reason,
            figure=span[1],
            low=span[0],
            high=span[2],
            statistic=claim.statistic,
            is_ratio=claim.denominator is not None,
            at_least=at_least,
            at_most=at_most,
            notes=notes,
            evidence=list(evidence),
        )

    if claim.metric not in OF_SUMMARY:
        return told(Verdict.UNDECIDED, f"the results have no column {claim.metric}")
    items = gather(claim, rows, axes)
    evidence = [item.evidence for item in items]
    notes += notes_on(claim.metric, items)
    span = span_of(claim, items)
    if claim.needs == "cuda" and not any((row.device or "").startswith("cuda") for row in rows):
        devices = ", ".join(sorted({row.device for row in rows if row.device})) or "no device yet"
        reason = f"other hardware: it takes a CUDA card to judge, and this ran on {devices}"
        return told(Verdict.UNDECIDED, reason, evidence, span)
    if not items:
        return told(Verdict.UNDECIDED, "missing cells: the grid has none of those it speaks of")
    if claim.evidence == "audit" and (why := _equal_gradients(items)):
        return told(Verdict.REFUTED, why, evidence, span)
    return told(*_decided(claim, items, span), evidence, span)


def _bounds(claim: Claim) -> tuple[float | None, float | None]:
    """Return the bounds with the tolerance taken off."""
    low, high = claim.at_least, claim.at_most
    return (
        None if low is None else low - claim.tolerance * abs(low),
        None if high is None else high + claim.tolerance * abs(high),
    )


def _decided(claim: Claim, items: Sequence[Item], span: Span) -> tuple[Verdict, str]:
    low, figure, high = span
    unknown = [item for item in items if item.evidence.value is None]
    if figure is None or low is None or high is None:
        return Verdict.UNDECIDED, f"missing cells: {_states(unknown)}"
    words = _words(claim, figure)
    if unknown:
        statistic = STATISTICS[claim.statistic]
        low, high = (statistic([getattr(item, end) for item in items]) for end in ("low", "high"))
        if math.isnan(low) or math.isnan(high):
            low, high = -math.inf, math.inf
    held = _holds(claim, low, high)
    if held is not None and (alone := _hangs_on(claim, items, held)):
        return Verdict.UNDECIDED, f"noise: {words}, which hangs on one run, {alone}; sweep.repeats = 5 decides"
    if held is not None:
        aside = f"; {len(unknown)} of {len(items)} cells have no value and could not change that" if unknown else ""
        return (Verdict.REPRODUCED if held else Verdict.REFUTED), words + aside
    if unknown and _holds(claim, span[0] or 0.0, span[2] or 0.0) is not None:
        return Verdict.UNDECIDED, f"missing cells: {_states(unknown)}; the others come to {words}"
    seeds = len({item.numerator.seed for item in items})
    runs = f"{seeds} seeds" if seeds > 1 else "one run a cell"
    remedy = "more repeats decide" if seeds > 1 else "sweep.repeats = 5 decides"
    sides = {row.cell: row for item in items for row in (item.numerator, item.denominator) if row is not None}
    waited = sum(row.disturbed for row in sides.values()) if exactness(claim.metric) == "measured" else 0
    disturbed = f" ({waited} of {len(sides)} disturbed)" if waited else ""
    return Verdict.UNDECIDED, f"noise: {words}, which is too near to call from {runs}{disturbed}; {remedy}"


def _hangs_on(claim: Claim, items: Sequence[Item], held: bool) -> str:
    """Return the cell without whose single run the verdict on a measured number would be another; empty if none."""
    known = [item for item in items if item.evidence.value is not None]
    repeated = len({item.numerator.seed for item in items}) > 1
    if exactness(claim.metric) != "measured" or claim.statistic == "median" or repeated or len(known) < 3:
        return ""  # a median hangs on no single run anyway
    for left_out in known:
        low, _, high = span_of(claim, [item for item in known if item is not left_out])
        if low is not None and high is not None and _holds(claim, low, high) is not held:
            return left_out.evidence.cell
    return ""


def _holds(claim: Claim, low: float, high: float) -> bool | None:
    """Return whether the claim holds wherever the number lies between two ends; `None` if that depends."""
    least, most = _bounds(claim)
    if (least is None or low >= least) and (most is None or high <= most):
        return True
    if (least is not None and high < least) or (most is not None and low > most):
        return False
    return None


def _words(claim: Claim, figure: float) -> str:
    what = f"{claim.statistic} ratio" if claim.denominator is not None else f"{claim.statistic}"
    least, most = _bounds(claim)
    ends = (("at least", least), ("at most", most))
    wanted = [f"{word} {bound:.4g}" for word, bound in ends if bound is not None]
    return f"{what} {figure:.4g}, claimed {' and '.join(wanted)}"


def _states(items: Sequence[Item]) -> str:
    found: dict[str, int] = {}
    for item in items:
        found[item.evidence.why_not] = found.get(item.evidence.why_not, 0) + 1
    return ", ".join(f"{count} {why}" for why, count in found.items())


def _equal_gradients(items: Sequence[Item]) -> str:
    """Return why a difference is no effect of the strategy: the audit found all gradients equal. Empty where not."""
    sides = [row for item in items for row in (item.numerator, item.denominator) if row is not None and row.done]
    pairs = [
        item
        for item in items
        if item.denominator is not None and item.numerator.audit_passed and item.denominator.audit_passed
    ]
    if not pairs or not all(row.audit_passed for row in sides):
        return ""
    errors = [row.values.get("audit_error") for item in pairs for row in (item.numerator,)]
    worst = max((error for error in errors if error is not None), default=0.0)
    ratios = [item.evidence.value for item in pairs if item.evidence.value is not None]
    changed = f"; the ratios are {min(ratios):.4g} to {max(ratios):.4g}" if ratios else ""
    return (
        f"the gradient audit finds the gradient equal to the plain one in {len(pairs)} of {len(items)} pairs "
        f"(error at most {worst:.1g}), so a changed loss is no effect of the strategy{changed}"
    )
