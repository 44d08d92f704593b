"""Watches the forwards of one update: what they save for backward, and what they were given."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from gradscope.worker.contract import Batch
from gradscope.worker.memory import SavedActivations


class ForwardWatch:
    """Makes the context in which a micro-batch's forward runs; pass it as `around_forward`."""

    def __init__(self, module: nn.Module) -> None:
        self.saved_bytes: int | None = None
        """Saved activations at the end of forward, of the micro-step that saved most."""
        self.inputs: Batch = {}
        """The last micro-batch, on the device."""
        self._fixed = [*module.parameters(), *module.buffers()]

    @contextmanager
    def _watching(self, batch: Batch) -> Iterator[None]:
        self.inputs = batch
        with SavedActivations(exclude=[*self._fixed, *batch.values()]) as saved:
            yield
        self.saved_bytes = max(self.saved_bytes or 0, saved.bytes or 0)

    __call__ = _watching

    def release(self) -> None:
        """Let go of the tensors."""
        self.inputs = {}
        self._fixed = []
