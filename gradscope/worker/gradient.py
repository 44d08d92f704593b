"""The gradient of one update: micro-batches whose losses are summed, not averaged twice."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from gradscope.worker.contract import Batch, TrainingModel

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}

EnterPhase = Callable[[str], None]
"""Called with `h2d`, `forward`, `backward` when that phase of a micro-step begins, and what came before it ends."""


def _unobserved(phase: str) -> None:
    """Ignore the phases of a micro-step."""


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """Return the autocast context of a preset's precision; nothing at all for `fp32`."""
    dtype = AUTOCAST.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def accumulate_gradient(
    model: TrainingModel,
    module: nn.Module,
    window: Sequence[Batch],
    *,
    device: torch.device,
    precision: str = "fp32",
    scale: Callable[[Tensor], Tensor] | None = None,
    around_forward: Callable[[Batch], AbstractContextManager[object]] | None = None,
    enter: EnterPhase = _unobserved,
) -> Tensor | None:
    """Add the gradient of the window's mean loss to `.grad` of the module's parameters.

    Every micro-batch's loss *sum* is divided by the label count of the whole window, so that the result does not
    depend on how rows were split, also where they hold different numbers of labels (huggingface/transformers#35203).

    Args:
        model: What computes the loss and counts the labels.
        module: `model.module`, or what torch.compile made of it.
        window: The update's micro-batches, on the host.
        device: Where they are moved, one at a time.
        precision: A preset's `run.precision`.
        scale: A gradient scaler's `scale` (fp16).
        around_forward: Makes a context for one micro-batch's forward, given the batch on the device.
        enter: Told when a phase begins.

    Returns:
        The mean loss as a detached scalar on the device, or `None` if no row of the window has a label.
    """
    weight = sum(model.count(batch) for batch in window)
    if weight == 0:
        return None
    mean: Tensor | None = None
    for host_batch in window:
        enter("h2d")
        batch = {name: value.to(device, non_blocking=True) for name, value in host_batch.items()}
        enter("forward")
        hooks = nullcontext() if around_forward is None else around_forward(batch)
        with hooks, autocast(device, precision):
            share = model.loss(module, batch) / weight
        enter("backward")
        (share if scale is None else scale(share)).backward()  # type: ignore[no-untyped-call]
        mean = share.detach() if mean is None else mean + share.detach()
    return mean
