"""What is told otherwise while an update is traced, since tensors without data cannot tell."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from gradscope.worker.optimizers import flat

MASKS = "transformers.masking_utils"
PACKED = "find_packed_sequence_indices"


@contextmanager
def rows_not_packed() -> Iterator[None]:
    """Let transformers know that a row is one sequence, as in all of our data.

    With values it finds that out by itself, makes no mask, and attention gets `is_causal`. Of a tensor without data it
    assumes the opposite, and a mask the size of the attention is made. A transformers that has no such function is left
    alone: the estimate then holds that mask.
    """
    masks = sys.modules.get(MASKS)
    if not hasattr(masks, PACKED):
        yield
        return
    with _replaced(masks, PACKED, lambda *_args, **_kwargs: None):
        yield


@contextmanager
def whole_dot_products() -> Iterator[None]:
    """Let `cgd` take a dot product at once: in blocks, a model of a billion parameters takes 20,000 operators each."""
    with _replaced(flat, "CPU_BLOCK", flat.DEVICE_BLOCK):
        yield


@contextmanager
def random_states_seen(see: Callable[[Tensor], None]) -> Iterator[None]:
    """Tell `see` of each copy of the generator's state, 5 kB that a checkpointed block keeps: no operator makes it."""
    original = torch.get_rng_state

    def get_rng_state() -> Tensor:
        state = original()
        see(state)
        return state

    with _replaced(torch, "get_rng_state", get_rng_state):
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
