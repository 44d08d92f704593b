"""Byte-level tokens, the same for every text model, and rows made of them.

Ids 0 to 255 are bytes of UTF-8; three control ids follow. A full-size model keeps its own, larger vocabulary: the ids
above 258 are then never used, but its embedding and its logits have the published size.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.errors import GradscopeError
from gradscope.worker.contract import IGNORED_LABEL, Batch, DataSpec

PAD = 256
"""Fills a row up; never a label."""
MASK = 257
"""Hides a token from a masked-language model."""
END = 258
"""Ends a text or a caption."""
SMALLEST_VOCABULARY = 259
TINY_VOCABULARY = 320
"""Of tiny models: the smallest multiple of 64 that holds all ids."""

MASKED_SHARE = 0.3
"""Share of a row's tokens that a masked-language model has to guess, as ModernBERT was trained (arXiv 2412.13663)."""

Ids = NDArray[np.int64]


def require_vocabulary(spec: DataSpec) -> None:
    """Raise a `GradscopeError` where the model's vocabulary cannot hold the byte tokens."""
    if spec.vocabulary < SMALLEST_VOCABULARY:
        raise GradscopeError(
            f"the model's vocabulary has {spec.vocabulary} tokens, and byte-level text needs {SMALLEST_VOCABULARY}",
            "set data.name = 'random', or give the model a larger vocab_size",
        )


def encode(text: str) -> Ids:
    """Return the text's UTF-8 bytes as ids, with `END` after them."""
    return np.append(np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64), END)


def padded(ids: Ids, length: int, fill: int) -> torch.Tensor:
    """Return `ids` cut or filled up to `length`."""
    row = np.full(length, fill, dtype=np.int64)
    kept = ids[:length]
    row[: kept.size] = kept
    return torch.from_numpy(row)


def causal_row(ids: Ids, length: int) -> Batch:
    """Return a row for next-token prediction: every token is a label, padding is none.

    There is no attention mask: padding comes last, where a causal model's earlier positions do not see it.
    """
    return {"input_ids": padded(ids, length, PAD), "labels": padded(ids, length, IGNORED_LABEL)}


def masked_row(ids: Ids, length: int, mask_token: int, rng: np.random.Generator) -> Batch:
    """Return a row for masked-language modelling: 30 % of its tokens (at least one) hidden, and labels only there.

    Hidden tokens are always replaced by the mask token. Padding is an ordinary token that is never hidden.
    """
    kept = ids[:length]
    hidden = rng.choice(kept.size, size=max(1, round(MASKED_SHARE * kept.size)), replace=False)
    labels = np.full(kept.size, IGNORED_LABEL, dtype=np.int64)
    labels[hidden] = kept[hidden]
    seen = kept.copy()
    seen[hidden] = mask_token
    return {"input_ids": padded(seen, length, PAD), "labels": padded(labels, length, IGNORED_LABEL)}


def text_row(ids: Ids, spec: DataSpec, rng: np.random.Generator) -> Batch:
    """Return a row of `ids` for the task of `spec`, `masked-lm` or `causal-lm`."""
    if spec.task == "masked-lm":
        return masked_row(ids, spec.sequence_length, spec.mask_token, rng)
    return causal_row(ids, spec.sequence_length)
