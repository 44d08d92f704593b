"""Memory of each step by category, as far as it is known.

Categories are measured in single steps and hold for the later ones, which is said. What a CUDA allocator reports of
every step beyond them is called `other`: temporaries, workspaces, recomputation. On a CPU nothing is reported of single
steps, so all of them show what was measured once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from gradscope.tui.palette import MEMORY_ROLES
from gradscope.tui.view import RunView

ROLES = (*MEMORY_ROLES, "other")
"""From the bottom of the stack to its top; the index is that of the fill."""

LABELS = {
    "parameters": "parameters",
    "buffers": "buffers",
    "gradients": "gradients",
    "optimizer_state": "optimizer state",
    "inputs": "inputs",
    "activations": "activations",
    "other": "other",
}


@dataclass(frozen=True, slots=True)
class MemoryStack:
    """What is known of a run's memory by category."""

    fixed: dict[str, float]
    """Bytes by role, as measured in step `measured_step`; empty before that."""
    measured_step: int | None
    activations: str
    """Which figure the activations are: `saved` or `peak`."""
    per_step: bool
    """Whether the allocator's peak is known of every step."""

    @property
    def total(self) -> float | None:
        """All measured categories together; `None` before they are."""
        return sum(self.fixed.values()) if self.fixed else None

    def at(self, allocated: float | None, step: int) -> dict[str, float]:
        """Return the stack of one step, given its allocator's peak; empty where nothing is known of it."""
        known = self.fixed and self.measured_step is not None and step >= self.measured_step
        if allocated is None:
            return dict(self.fixed) if known else {}
        if not known:
            return {"other": allocated}
        left = allocated
        parts: dict[str, float] = {}
        for role in MEMORY_ROLES:
            parts[role] = min(self.fixed.get(role, 0.0), left)
            left -= parts[role]
        return parts | {"other": left}


def memory_stack(view: RunView) -> MemoryStack:
    """Gather what the run's records say."""
    found, peaks = view.categories, view.allocator
    per_step = view.steps.last("allocated_peak_bytes") is not None
    if found is None:
        return MemoryStack({}, None, "saved", per_step)
    peak = None if peaks is None or per_step else peaks.peak_activations_bytes
    activations = found.saved_activations_bytes if peak is None else peak
    sizes = {
        "parameters": found.parameters_bytes,
        "buffers": found.buffers_bytes,
        "gradients": found.gradients_bytes,
        "optimizer_state": found.optimizer_state_bytes,
        "inputs": found.inputs_bytes,
        "activations": activations,
    }
    fixed = {role: float(size) for role, size in sizes.items() if size}
    return MemoryStack(fixed, found.step, "saved" if peak is None else "peak", per_step)


def peak_bytes(view: RunView) -> float | None:
    """Return the most that the allocator had handed out so far; the categories' sum where no allocator has told."""
    told = [] if view.allocator is None else [view.allocator.allocated_peak_bytes]
    of_steps = view.steps.values("allocated_peak_bytes")
    there = of_steps if not isnan(sum(of_steps)) else [value for value in of_steps if not isnan(value)]
    known = [value for value in (*told, max(there, default=None)) if value is not None]
    return max(known) if known else memory_stack(view).total


def layers(
    stack: MemoryStack, allocated: Sequence[float | None], steps: Sequence[int | None]
) -> dict[str, list[float | None]]:
    """Return bytes by role for each column, from its largest allocated peak and its last step (`None`: no step yet)."""
    parts = [{} if step is None else stack.at(peak, step) for peak, step in zip(allocated, steps, strict=True)]
    roles = [role for role in ROLES if any(part.get(role) for part in parts)]
    return {role: [part.get(role, 0.0) if part else None for part in parts] for role in roles}
