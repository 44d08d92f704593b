"""Blocks of memory followed from birth to death through one update, and what that says about its phases."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorPeaks:
    """What the allocator held during one update, in bytes."""

    forward_end_bytes: int | None
    """Born within a forward and alive at its end, in the micro-step where that is most."""
    peak_activations_bytes: int | None
    """Most alive within a backward of what its micro-step gave birth to, without gradients."""
    phase_peak_bytes: dict[str, int]
    """Peak of all that is held by phase."""
    allocated_peak_bytes: int
    """Peak of all that is held in the whole update."""
    gradients_bytes: int | None = None
    """Alive at the end, born in the update, at a gradient's address. `None` on CUDA."""
    reserved_peak_bytes: int | None = None
    """Most that a caching allocator had taken from the device; `None` on a CPU, whose allocator keeps nothing back."""
    events: int | None = None
    """Events that the profiler recorded; `None` where none ran."""


@dataclass(frozen=True, slots=True)
class Change:
    """A block born (`size_bytes` > 0) or freed (< 0) at a moment."""

    at_ns: int
    size_bytes: int
    address: int


@dataclass(frozen=True, slots=True)
class PhaseRange:
    """When a phase of a micro-step or of the update ran."""

    phase: str
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class _Block:
    address: int
    size_bytes: int
    born_ns: int
    died_ns: int | None = None

    def outlives(self, moment_ns: int) -> bool:
        return self.died_ns is None or self.died_ns > moment_ns


def analyse(
    changes: Iterable[Change],
    ranges: Sequence[PhaseRange],
    *,
    held_bytes: int = 0,
    gradient_addresses: Iterable[int] = (),
    events: int | None = None,
) -> AllocatorPeaks:
    """Follow every block through one update.

    Args:
        changes: Births and deaths. The death of a block that was not born among them is skipped.
        ranges: Phases; a range inside another one takes its time away from it.
        held_bytes: What was held before and is held throughout: added to the phases' peaks.
        gradient_addresses: Where gradients lie at the end.
        events: Handed through.
    """
    ordered = sorted(changes, key=lambda change: change.at_ns)
    blocks = _blocks(ordered)
    steps = list(_micro_steps(ranges))
    saved = [_held_at_end_of(forward, blocks) for forward, _ in steps]
    peaks = [_peak_within(forward, backward, blocks) for forward, backward in steps if backward is not None]
    phase_peaks, top = _peaks_by_phase(ordered, ranges, held_bytes)
    places = set(gradient_addresses)
    return AllocatorPeaks(
        forward_end_bytes=max(saved, default=None),
        peak_activations_bytes=max(peaks, default=None),
        phase_peak_bytes=phase_peaks,
        allocated_peak_bytes=top,
        gradients_bytes=sum(block.size_bytes for block in blocks if block.died_ns is None and block.address in places),
        events=events,
    )


def _blocks(ordered: Iterable[Change]) -> list[_Block]:
    blocks: list[_Block] = []
    living: dict[int, _Block] = {}
    for change in ordered:
        if change.size_bytes > 0:
            block = _Block(change.address, change.size_bytes, change.at_ns)
            blocks.append(block)
            living[change.address] = block
        elif change.address in living:
            living.pop(change.address).died_ns = change.at_ns
    return blocks


def _micro_steps(ranges: Sequence[PhaseRange]) -> Iterator[tuple[PhaseRange, PhaseRange | None]]:
    """Pair each forward with the backward that follows it before the next forward, if there is one."""
    forwards = sorted((one for one in ranges if one.phase == "forward"), key=lambda one: one.start_ns)
    backwards = sorted((one for one in ranges if one.phase == "backward"), key=lambda one: one.start_ns)
    for index, forward in enumerate(forwards):
        until = forwards[index + 1].start_ns if index + 1 < len(forwards) else None
        following = (
            one for one in backwards if one.start_ns >= forward.end_ns and (until is None or one.start_ns < until)
        )
        yield forward, next(following, None)


def _held_at_end_of(forward: PhaseRange, blocks: Sequence[_Block]) -> int:
    return sum(
        block.size_bytes
        for block in blocks
        if forward.start_ns <= block.born_ns <= forward.end_ns and block.outlives(forward.end_ns)
    )


def _peak_within(forward: PhaseRange, backward: PhaseRange, blocks: Sequence[_Block]) -> int:
    """Return the most that was alive in `backward` of what was born since `forward` began.

    What is born in a backward and outlives it is a gradient, and left out from its birth on.
    """
    turns: list[tuple[int, int]] = []
    for block in blocks:
        if not forward.start_ns <= block.born_ns <= backward.end_ns:
            continue
        if block.born_ns >= backward.start_ns and block.outlives(backward.end_ns):
            continue
        turns.append((max(block.born_ns, backward.start_ns), block.size_bytes))
        if block.died_ns is not None:
            turns.append((max(block.died_ns, backward.start_ns), -block.size_bytes))
    held = peak = 0
    last = backward.start_ns
    for moment, size_bytes in sorted(turns):
        if moment > last:
            peak = max(peak, held)
            last = moment
        if moment > backward.end_ns:
            break
        held += size_bytes
        if moment > backward.start_ns:
            peak = max(peak, held)
    return max(peak, held)


def _peaks_by_phase(
    ordered: Iterable[Change], ranges: Sequence[PhaseRange], held_bytes: int
) -> tuple[dict[str, int], int]:
    turns: list[tuple[int, int, PhaseRange | Change]] = [(change.at_ns, 1, change) for change in ordered]
    for one in ranges:
        turns.append((one.start_ns, 0, one))
        turns.append((one.end_ns, 2, one))
    turns.sort(key=lambda turn: turn[:2])
    living: dict[int, int] = {}
    open_ranges: list[PhaseRange] = []
    peaks: dict[str, int] = {}
    total = top = held_bytes
    for _, kind, what in turns:
        if isinstance(what, Change):
            if what.size_bytes > 0:
                total += what.size_bytes - living.get(what.address, 0)
                living[what.address] = what.size_bytes
            else:
                total -= living.pop(what.address, 0)
        elif kind == 0:
            open_ranges.append(what)
        else:
            open_ranges.remove(what)
        top = max(top, total)
        if open_ranges:
            phase = open_ranges[-1].phase
            peaks[phase] = max(peaks.get(phase, 0), total)
    return peaks, top
