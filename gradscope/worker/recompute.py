"""Recomputation made visible: when a checkpointed block runs again in backward, who listens is told."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from torch.profiler import record_function

from gradscope.worker.phases import RANGE_PREFIX

RECOMPUTE_RANGE = RANGE_PREFIX + "recompute"
"""Name of the range that a trace shows around every recomputed block."""

Listener = Callable[[bool], None]
"""Called with True when a recomputation starts and with False when it ends."""


class Recomputation:
    """Hands checkpointing strategies the context in which they recompute, and counts how often it was entered."""

    def __init__(self) -> None:
        self.count = 0
        """Blocks recomputed so far."""
        self.listeners: list[Listener] = []
        self.annotate = False
        """Whether ranges are recorded for torch.profiler; only inside its windows, since a range costs some µs."""

    def context(self) -> AbstractContextManager[None]:
        """Return a new context for one block's recomputation; pass this method to `Strategy.apply`."""
        return self._recomputing()

    @contextmanager
    def _recomputing(self) -> Iterator[None]:
        self.count += 1
        for listener in self.listeners:
            listener(True)
        try:
            if self.annotate:
                with record_function(RECOMPUTE_RANGE):
                    yield
            else:
                yield
        finally:
            # early stop leaves a recomputed block by an exception of torch's own, so the end is told in `finally`
            for listener in self.listeners:
                listener(False)
