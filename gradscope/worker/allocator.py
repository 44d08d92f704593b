"""What torch's own allocators say about one update: peaks by phase, and what activations held at the worst moment.

On a CPU every allocation of one profiled update is read from the profiler's event tree, and each block is followed by
its address. Blocks that are older than the window are not known to it, so nothing is derived from the allocator's
running total. On CUDA the allocator keeps peaks itself; they are read and reset at phase borders, which takes no
synchronisation since the host counts when it asks for memory.
"""

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Protocol, Self

import torch
from torch import nn
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile
from torch.utils.hooks import RemovableHandle

from gradscope.worker.lifetimes import AllocatorPeaks, Change, PhaseRange, analyse
from gradscope.worker.memory import gradients, optimizer_tensors, storages, unique_bytes
from gradscope.worker.phases import RANGE_PREFIX

PHASES = ("data", "h2d", "forward", "backward", "optimizer")
"""Phases whose ranges are looked for; a recomputation's range lies inside `backward` and belongs to it."""


class AllocatorWindow(Protocol):
    """A context around one whole update."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def border(self, phase: str) -> None:
        """Take note that `phase` begins."""
        ...

    def result(self) -> AllocatorPeaks:
        """Return what was seen, after the context has been left."""
        ...


def allocator_window(
    device: torch.device, module: nn.Module, optimizer: torch.optim.Optimizer | None
) -> AllocatorWindow:
    """Return the window for a device. A CPU's needs phase ranges in it, CUDA's needs `border`."""
    if device.type == "cuda":
        return CudaAllocatorWindow(device, module.parameters())
    held = [*module.parameters(), *module.buffers(), *(() if optimizer is None else optimizer_tensors(optimizer))]
    return CpuAllocatorWindow(module.parameters(), unique_bytes(held))


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

    def border(self, phase: str) -> None:
        """Ignore the start of a phase: its range says when it was."""

    def result(self) -> AllocatorPeaks:
        """Return what was seen, once the update has come to its end."""
        assert self._peaks is not None, "the update did not end"
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


class CudaAllocatorWindow:
    """A context around one whole update on CUDA; the loop tells it when a phase begins.

    Activations in backward are the peak less what was there when the forward began, and less gradients that had been
    handed over by then: the allocator is read at each handover, so at most the gradients being computed count as
    activations.
    """

    def __init__(self, device: torch.device, parameters: Iterable[nn.Parameter]) -> None:
        """Watch an update of `parameters` on `device`."""
        self._device = device
        self._trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._hooks: list[RemovableHandle] = []
        self._phase = "data"
        self._phase_peaks: dict[str, int] = {}
        self._reserved = 0
        self._base = 0
        self._handed_over = 0
        self._had_gradient: frozenset[int] = frozenset()
        self._forward_end: int | None = None
        self._activations: int | None = None

    def __enter__(self) -> Self:
        self._read()
        self._phase_peaks.clear()
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._gradient)  # type: ignore[no-untyped-call]
            for parameter in self._trained
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        if error is None:
            self.border("other")

    def border(self, phase: str) -> None:
        """Take note that `phase` begins: what was read since the last border belongs to the phase before."""
        held = self._read()
        if self._phase == "forward":
            self._forward_end = max(self._forward_end or 0, held - self._base)
        if phase == "forward":
            self._base = held
            self._handed_over = 0
            self._had_gradient = frozenset(id(one) for one in self._trained if one.grad is not None)
        self._phase = phase

    def result(self) -> AllocatorPeaks:
        """Return what was seen so far."""
        return AllocatorPeaks(
            forward_end_bytes=self._forward_end,
            peak_activations_bytes=self._activations,
            phase_peak_bytes=dict(self._phase_peaks),
            allocated_peak_bytes=max(self._phase_peaks.values(), default=0),
            reserved_peak_bytes=self._reserved,
        )

    def _read(self) -> int:
        """Note the peaks since the last reading, start new ones, and return the bytes held now; waits for nothing."""
        stats = torch.cuda.memory_stats_as_nested_dict(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        allocated = stats["allocated_bytes"]["all"]
        self._reserved = max(self._reserved, stats["reserved_bytes"]["all"]["peak"])
        self._phase_peaks[self._phase] = max(self._phase_peaks.get(self._phase, 0), allocated["peak"])
        if self._phase == "backward":
            born = allocated["peak"] - self._base - self._handed_over
            self._activations = max(self._activations or 0, born)
        return int(allocated["current"])

    def _gradient(self, parameter: torch.Tensor) -> None:
        self._read()
        if id(parameter) not in self._had_gradient and parameter.grad is not None:
            self._handed_over += sum(one.nbytes() for one in storages(parameter.grad))
