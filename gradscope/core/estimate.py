"""What an update is foretold to need of memory, before it ever ran."""

import msgspec

CATEGORIES = ("parameters", "buffers", "gradients", "optimizer", "inputs", "activations", "workspace")
"""What a block can be that is held at the peak, in the order of tables."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one update in the steady state, in bytes; `docs/estimates.md` says how it is found."""

    parameters_bytes: int
    buffers_bytes: int
    gradients_bytes: int
    optimizer_state_bytes: int
    """Held between two updates."""
    inputs_bytes: int
    """One micro-batch, the largest."""
    saved_activations_bytes: int | None
    """Born in a forward and alive at its end."""
    peak_activations_bytes: int | None
    """Most alive in backward of what its micro-step gave birth to, without gradients."""
    at_peak_bytes: dict[str, int]
    """What is held at the peak by `CATEGORIES`; adds up to `peak_bytes`. `workspace` is what lives within backward or
    within the optimizer's step only."""
    peak_bytes: int
    """Most that torch's allocator will have handed out."""
    peak_phase: str
    """The phase in which that is."""
    phase_peak_bytes: dict[str, int]
    attention: list[str]
    """Attention kernels that were assumed, by torch's names; none where the model calls none of torch's."""
    device: str
    """`cpu` or `cuda`: what the rules for inputs, block sizes and the optimizer's loops were taken from."""
    device_free_bytes: int | None = None
    """Of the card, where there is one."""
    notes: list[str] = []
    """What the figure leaves out or assumes."""
    seconds: float = 0.0
    """Time the estimate took, without importing torch."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no estimate."""

    message: str
    hint: str = ""
    exit_code: int = 1


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the estimating process: one of the two."""

    estimate: Estimate | None = None
    refusal: Refusal | None = None
