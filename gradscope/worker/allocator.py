"""What torch's own allocators say about one update: peaks by phase, and what activations held at the worst moment.

On a CPU every allocation of one profiled update is read from the profiler's event tree, and each block is followed by
its address from birth to death. Blocks that are older than the window are not known to it, so nothing is derived from
the allocator's running total. On CUDA the allocator keeps peaks itself; they are read and reset at phase borders,
which takes no synchronisation since it counts when the host asks for memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile
from torch.utils.hooks import RemovableHandle

from gradscope.worker.memory import gradients, storages

RANGE_PREFIX = "gradscope: "
PHASES = ("data", "h2d", "forward", "backward", "optimizer")
"""Phases whose ranges are looked for; a recomputation's range lies inside `backward` and belongs to it."""


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
    optimizer_born_bytes: int | None = None
    """Alive at the end, born in the optimizer's step: state that was made in this update. `None` on CUDA."""
    events: int = 0
    """Events that the profiler recorded; 0 where none ran."""


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
    events: int = 0,
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
    optimizer = [one for one in ranges if one.phase == "optimizer"]
    inner = [one for one in ranges if one.phase in ("forward", "backward")]
    alive = [block for block in blocks if block.died_ns is None]
    return AllocatorPeaks(
        forward_end_bytes=max(saved, default=None),
        peak_activations_bytes=max(peaks, default=None),
        phase_peak_bytes=phase_peaks,
        allocated_peak_bytes=top,
        gradients_bytes=sum(block.size_bytes for block in alive if block.address in places),
        optimizer_born_bytes=sum(
            block.size_bytes
            for block in alive
            if block.address not in places and _within(optimizer, block) and not _within(inner, block)
        ),
        events=events,
    )


def _within(ranges: Sequence[PhaseRange], block: _Block) -> bool:
    return any(one.start_ns <= block.born_ns <= one.end_ns for one in ranges)


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


class CpuAllocatorWindow:
    """A context around one whole update on a CPU, from before `zero_grad` to after the optimizer's step.

    Needs ranges named `gradscope: forward` and so on inside. Uses torch.profiler, so none may be running; the update
    is slower than others, and its times count for nothing.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], held_bytes: int = 0) -> None:
        """Watch an update of `parameters`; `held_bytes` are parameters, buffers and optimizer state."""
        self._parameters = list(parameters)
        self._held_bytes = held_bytes
        self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self._peaks: AllocatorPeaks | None = None

    def __enter__(self) -> Self:
        self._profile.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._profile.stop()
        if error is None:
            self._peaks = self._read()
        del self._profile

    def result(self) -> AllocatorPeaks | None:
        """Return what was seen; `None` if the update did not come to its end."""
        return self._peaks

    def _read(self) -> AllocatorPeaks:
        changes: list[Change] = []
        ranges: list[PhaseRange] = []
        events = 0
        for node in _nodes(self._profile):
            events += 1
            if node.tag == _EventType.Allocation:
                what = node.extra_fields
                if what.device.type == "cpu":
                    changes.append(Change(node.start_time_ns, what.alloc_size, what.ptr))
            elif node.tag == _EventType.TorchOp and node.name.startswith(RANGE_PREFIX):
                phase = node.name.removeprefix(RANGE_PREFIX)
                if phase in PHASES:
                    ranges.append(PhaseRange(phase, node.start_time_ns, node.end_time_ns))
        born = {change.address for change in changes if change.size_bytes > 0}
        grads = {one.data_ptr(): one.nbytes() for grad in gradients(self._parameters) for one in storages(grad)}
        kept = sum(size for address, size in grads.items() if address not in born)
        return analyse(changes, ranges, held_bytes=self._held_bytes + kept, gradient_addresses=grads, events=events)


def _nodes(finished: profile) -> Iterator[Any]:
    """Yield every event of the profiler's tree, parents first, in the order in which they began on each thread."""
    assert finished.profiler is not None
    assert finished.profiler.kineto_results is not None
    waiting = list(reversed(finished.profiler.kineto_results.experimental_event_tree()))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


@dataclass(slots=True)
class CudaPeaks:
    """A context around one whole update on CUDA; the loop tells it when a phase has ended.

    Activations in backward are the peak less what was there when the forward began and less gradients that had been
    handed over by then: the allocator is read at each handover, so at most the gradient that is being computed counts
    as an activation.
    """

    device: torch.device
    parameters: Sequence[nn.Parameter] = ()
    """Parameters whose gradients are told apart; none: gradients born in backward count as activations."""
    _phases: dict[str, int] = field(default_factory=dict)
    _base: int = 0
    _handed_over: int = 0
    _had_gradient: frozenset[int] = frozenset()
    _forward_end: int | None = None
    _activations: int | None = None
    _hooks: list[RemovableHandle] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._base, _ = self._read_and_reset()
        trained = (one for one in self.parameters if one.requires_grad)
        self._hooks = [
            one.register_post_accumulate_grad_hook(self._gradient)  # type: ignore[no-untyped-call]
            for one in trained
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def border(self, phase: str) -> None:
        """Take note that `phase` has just ended."""
        held, peak = self._read_and_reset()
        self._phases[phase] = max(self._phases.get(phase, 0), peak)
        if phase == "forward":
            self._forward_end = max(self._forward_end or 0, held - self._base)
            self._had_gradient = frozenset(id(one) for one in self.parameters if one.grad is not None)
            self._handed_over = 0
            return
        if phase == "backward":
            self._note_activations(peak)
        self._base = held

    def result(self) -> AllocatorPeaks:
        """Return what was seen so far."""
        return AllocatorPeaks(
            forward_end_bytes=self._forward_end,
            peak_activations_bytes=self._activations,
            phase_peak_bytes=dict(self._phases),
            allocated_peak_bytes=max(self._phases.values(), default=0),
        )

    def _read_and_reset(self) -> tuple[int, int]:
        allocated = torch.cuda.memory_stats_as_nested_dict(self.device)["allocated_bytes"]["all"]
        torch.cuda.reset_peak_memory_stats(self.device)
        return int(allocated["current"]), int(allocated["peak"])

    def _note_activations(self, peak: int) -> None:
        self._activations = max(self._activations or 0, peak - self._base - self._handed_over)

    def _gradient(self, parameter: torch.Tensor) -> None:
        _, peak = self._read_and_reset()
        self._phases["backward"] = max(self._phases.get("backward", 0), peak)
        self._note_activations(peak)
        if id(parameter) not in self._had_gradient and parameter.grad is not None:
            self._handed_over += sum(one.nbytes() for one in storages(parameter.grad))
