"""`shapes`: made-up scenes for every task, with something to learn in each.

- image-class: the label is the subject's colour and shape, as many of the 48 pairs as the model has classes.
- image-caption: the picture, and its sentence as bytes with an end token.
- masked-lm, causal-lm: one to four sentences about scenes; rows differ in length and are filled up with padding.
"""

from functools import partial

import numpy as np
import torch
from torch.utils.data import Dataset

from gradscope.config.schema import DataSettings
from gradscope.worker.contract import Batch, DataSpec
from gradscope.worker.data.rows import MadeRows, check_data_options, require_task
from gradscope.worker.data.scenes import draw, sample_scene
from gradscope.worker.data.tokens import causal_row, encode, require_vocabulary, text_row

MOST_SENTENCES = 4


def class_row(spec: DataSpec, rng: np.random.Generator) -> Batch:
    """Return `pixel_values` `[3, size, size]` and `labels` `[]`."""
    scene = sample_scene(rng, spec.classes)
    image = torch.from_numpy(draw(scene, spec.image_size, rng))
    return {"pixel_values": image, "labels": torch.tensor(scene.label)}


def caption_row(spec: DataSpec, rng: np.random.Generator) -> Batch:
    """Return `pixel_values` `[3, size, size]`, `input_ids` and `labels` `[length]`."""
    scene = sample_scene(rng)
    image = torch.from_numpy(draw(scene, spec.image_size, rng))
    return {"pixel_values": image, **causal_row(encode(scene.caption()), spec.sequence_length)}


def sentences_row(spec: DataSpec, rng: np.random.Generator) -> Batch:
    """Return `input_ids` and `labels` `[length]` of a few sentences."""
    count = int(rng.integers(1, MOST_SENTENCES + 1))
    text = ". ".join(sample_scene(rng).caption() for _ in range(count)) + "."
    return text_row(encode(text), spec, rng)


_MAKERS = {
    "image-class": class_row,
    "image-caption": caption_row,
    "masked-lm": sentences_row,
    "causal-lm": sentences_row,
}


def build(settings: DataSettings, spec: DataSpec, seed: int) -> Dataset[Batch]:
    """Return made-up scenes for the task of `spec`."""
    require_task("shapes", spec, _MAKERS)
    check_data_options(settings)
    if spec.task != "image-class":
        require_vocabulary(spec)
    return MadeRows(partial(_MAKERS[spec.task], spec), seed)
