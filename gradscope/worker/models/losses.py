"""Losses as sums, and label counts on the host, so that micro-batches of any size add up to the big batch's mean."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradscope.worker.contract import IGNORED_LABEL, Batch


def sum_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the float32 cross-entropy summed over the positions that have a label.

    Args:
        logits: `[..., classes]`, of any floating type.
        labels: `[...]`, integer, `-100` where there is none.
    """
    flat = labels.reshape(-1)
    scores = logits.reshape(-1, logits.shape[-1]).float()
    return functional.cross_entropy(scores, flat, ignore_index=IGNORED_LABEL, reduction="sum")


def next_token_labels(labels: Tensor) -> Tensor:
    """Return `[rows, length]` labels moved one to the left, so that position t holds the token after it.

    The labels move rather than the logits: a slice of the logits would be copied, and they are the largest tensor of
    all.
    """
    return functional.pad(labels[:, 1:], (0, 1), value=IGNORED_LABEL)


def classification_loss(module: nn.Module, batch: Batch) -> Tensor:
    """Loss of an image classifier of transformers: `pixel_values` `[rows, 3, h, w]`, `labels` `[rows]`."""
    return sum_cross_entropy(module(pixel_values=batch["pixel_values"]).logits, batch["labels"])


def causal_loss(module: nn.Module, batch: Batch) -> Tensor:
    """Loss of a causal language model of transformers: `input_ids` and `labels` `[rows, length]`, not shifted."""
    logits = module(input_ids=batch["input_ids"], use_cache=False).logits
    return sum_cross_entropy(logits, next_token_labels(batch["labels"]))


def count_labels(batch: Batch) -> int:
    """Count the positions with a label, on the host."""
    return int(torch.count_nonzero(batch["labels"] != IGNORED_LABEL))


def count_next_token_labels(batch: Batch) -> int:
    """Count the labels that a causal model is scored on: all but each row's first position."""
    return int(torch.count_nonzero(batch["labels"][:, 1:] != IGNORED_LABEL))
