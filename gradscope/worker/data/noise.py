"""`random`: inputs of the right shape for every task, with nothing to learn in them."""

from functools import partial

import numpy as np
import torch
from torch.utils.data import Dataset

from gradscope.config.schema import DataSettings
from gradscope.worker.contract import Batch, DataSpec
from gradscope.worker.data.rows import MadeRows, check_data_options, require_task
from gradscope.worker.data.tokens import Ids, causal_row, masked_row


def class_row(spec: DataSpec, rng: np.random.Generator) -> Batch:
    """Return `pixel_values` `[3, size, size]` and `labels` `[]`."""
    return {"pixel_values": _pixels(spec, rng), "labels": torch.tensor(int(rng.integers(spec.classes)))}


def caption_row(spec: DataSpec, rng: np.random.Generator) -> Batch:
    """Return `pixel_values` `[3, size, size]`, `input_ids` and `labels` `[length]`."""
    return {"pixel_values": _pixels(spec, rng), **causal_row(_tokens(spec, rng), spec.sequence_length)}


def masked_text_row(spec: DataSpec, rng: np.random.Generator) -> Batch:
    """Return `input_ids` and `labels` `[length]`, with labels at hidden tokens."""
    token = min(spec.mask_token, spec.vocabulary - 1)
    return masked_row(_tokens(spec, rng), spec.sequence_length, token, rng)


def causal_text_row(spec: DataSpec, rng: np.random.Generator) -> Batch:
    """Return `input_ids` and `labels` `[length]`, every token a label."""
    return causal_row(_tokens(spec, rng), spec.sequence_length)


MAKERS = {
    "image-class": class_row,
    "image-caption": caption_row,
    "masked-lm": masked_text_row,
    "causal-lm": causal_text_row,
}


def build(settings: DataSettings, spec: DataSpec, seed: int) -> Dataset[Batch]:
    """Return random rows for the task of `spec`."""
    require_task("random", spec, MAKERS)
    check_data_options(settings)
    return MadeRows(partial(MAKERS[spec.task], spec), seed)


def _pixels(spec: DataSpec, rng: np.random.Generator) -> torch.Tensor:
    image = rng.random((3, spec.image_size, spec.image_size), dtype=np.float32)
    return torch.from_numpy(image * np.float32(2.0) - np.float32(1.0))


def _tokens(spec: DataSpec, rng: np.random.Generator) -> Ids:
    return rng.integers(spec.vocabulary, size=spec.sequence_length, dtype=np.int64)
