"""Floating-point operations of an update: what the model asks for, and what is executed with recomputation."""

from collections.abc import Callable

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from gradscope.worker.recompute import Recomputation


def count_flops(run: Callable[[], object], recomputation: Recomputation) -> tuple[int, int]:
    """Count the operations of `run`, a forward and backward over one update's micro-batches.

    Attention runs by the math kernel, since torch's counter knows no formula for the CPU's flash kernel and takes it as
    0. A multiplication and an addition are two operations; element-wise work counts as nothing.

    Args:
        run: Called once.
        recomputation: What checkpointed blocks report to.

    Returns:
        Operations of the model, as the plain strategy executes them, and operations executed.
    """
    counter = FlopCounterMode(display=False)
    recomputed = 0
    started_at: list[int] = []

    def listen(starts: bool) -> None:
        nonlocal recomputed
        total = counter.get_total_flops()
        if starts:
            started_at.append(total)
            return
        since = total - started_at.pop()
        if not started_at:
            recomputed += since

    recomputation.listeners.append(listen)
    try:
        with sdpa_kernel(SDPBackend.MATH), counter:
            run()
    finally:
        recomputation.listeners.remove(listen)
    executed = counter.get_total_flops()
    return executed - recomputed, executed
