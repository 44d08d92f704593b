"""What makes the difference: phases of the mean step, categories of the peak. The parts add up to the whole."""

from collections.abc import Callable, Sequence

from gradscope.analysis.quantities import MEMORY_CATEGORIES
from gradscope.core.events import PHASES
from gradscope.core.summary import Record, Summary

REST = "rest"
"""What no category holds: another phase's peak, workspaces, what the allocator holds beside. Below 0 where categories
are never all there at once: the last gradients come when activations are gone."""

DUST = 1e-3
"""Share of the whole below which a rest is rounding."""


class Contribution(Record, frozen=True, kw_only=True):
    """One part of a difference."""

    name: str
    baseline: float | None
    """The part on the baseline's side; `None` where it was not measured."""
    value: float | None
    difference: float | None


class Explained(Record, frozen=True, kw_only=True):
    """A difference and its parts, which add up to it."""

    what: str
    baseline: float
    value: float
    difference: float
    parts: list[Contribution]
    """In their natural order; those that are 0 on both sides are left out."""

    @property
    def largest(self) -> Contribution | None:
        """The part that makes most of the difference, in its direction; `None` where there is none."""
        sign = 1 if self.difference > 0 else -1
        changed = [part for part in self.parts if part.difference is not None and part.difference * sign > 0]
        return max(changed, key=lambda part: abs(part.difference or 0.0), default=None)


def explain_time(baseline: Sequence[Summary], side: Sequence[Summary]) -> Explained | None:
    """Split the difference of the mean step, in ms, into phases. Means, since medians of parts do not add up.

    `recompute` is a part of `backward`, and not listed again. `None` where a side was not measured.
    """
    names = [name for name in PHASES if name != "recompute"]
    return _explained("mean step, ms", baseline, side, _mean_step, {name: _phase(name) for name in names})


def explain_memory(baseline: Sequence[Summary], side: Sequence[Summary]) -> Explained | None:
    """Split the difference of the allocated peak, in bytes, into categories and the rest.

    `None` where a side has no peak, or where it is not known what of it are activations: the rest would hide them.
    """
    if any(run.memory.peak_activations_bytes is None for run in (*baseline, *side)):
        return None
    parts = {name.removeprefix("peak_"): _category(name) for name in MEMORY_CATEGORIES}
    return _explained("peak memory, bytes", baseline, side, _peak, parts)


Value = Callable[[Summary], float | None]


def _explained(
    what: str, baseline: Sequence[Summary], side: Sequence[Summary], whole: Value, parts: dict[str, Value]
) -> Explained | None:
    before, after = _mean(baseline, whole), _mean(side, whole)
    if before is None or after is None:
        return None
    found = []
    for name, value in parts.items():
        one, other = _mean(baseline, value), _mean(side, value)
        if one or other:
            difference = (other or 0.0) - (one or 0.0)
            found.append(Contribution(name=name, baseline=one, value=other, difference=difference))
    one = before - sum(part.baseline or 0.0 for part in found)
    other = after - sum(part.value or 0.0 for part in found)
    if abs(one) > DUST * before or abs(other) > DUST * after:
        found.append(Contribution(name=REST, baseline=one, value=other, difference=other - one))
    return Explained(what=what, baseline=before, value=after, difference=after - before, parts=found)


def _mean(runs: Sequence[Summary], value: Value) -> float | None:
    values = [found for run in runs if (found := value(run)) is not None]
    return sum(values) / len(values) if values else None


def _mean_step(run: Summary) -> float | None:
    return run.time.step_ms.mean if run.time.step_ms else None


def _phase(name: str) -> Value:
    def value(run: Summary) -> float | None:
        share = run.time.phase_share.get(name)
        return None if share is None or run.time.step_ms is None else share * run.time.step_ms.mean

    return value


def _peak(run: Summary) -> float | None:
    return run.memory.allocated_peak_bytes


def _category(name: str) -> Value:
    def value(run: Summary) -> float | None:
        found: int | None = getattr(run.memory, f"{name}_bytes")
        return found

    return value
