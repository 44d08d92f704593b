"""ModernBERT-base, masked-language modelling (Warner et al. 2024, arXiv 2412.13663), or a small one over bytes.

Logits are computed only where there is a label (`sparse_prediction`, which ModernBERT was trained with): 30 % of the
positions. To pick those, the forward pass waits for the device once; `model.options.sparse_prediction = false`
computes all logits instead.
"""

from typing import Any

from torch import Tensor, nn
from transformers import ModernBertConfig, ModernBertForMaskedLM

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.worker.contract import Batch, TrainingModel
from gradscope.worker.data.tokens import PAD, TINY_VOCABULARY
from gradscope.worker.models.losses import count_labels
from gradscope.worker.models.overrides import checked, make_config, text_spec

SCALES: dict[str, dict[str, Any]] = {
    "full": {"sparse_prediction": True},
    "tiny": {
        "sparse_prediction": True,
        "vocab_size": TINY_VOCABULARY,
        "hidden_size": 96,
        "intermediate_size": 144,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "local_attention": 32,
        "max_position_embeddings": 2048,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": None,
        "cls_token_id": None,
        "sep_token_id": None,
    },
}
"""`full` is the config's own default, ModernBERT-base: 149,655,232 parameters. Every third layer attends globally."""


def build(settings: ModelSettings, data: DataSettings) -> TrainingModel:
    """Build a ModernBERT; rows are `input_ids` and `labels` `[length]`, with labels at hidden tokens only."""
    config = make_config(ModernBertConfig, SCALES[settings.scale], settings)
    spec = text_spec("masked-lm", config, data.sequence_length)
    module = checked(lambda: ModernBertForMaskedLM(config), "model.options")
    return TrainingModel(
        name=settings.name,
        module=module,
        loss=masked_loss,
        count=count_labels,
        counts_tokens=True,
        spec=spec,
    )


def masked_loss(module: nn.Module, batch: Batch) -> Tensor:
    """Return the sum of the loss over hidden tokens.

    transformers picks the labelled positions and computes the float32 cross-entropy; with `num_items_in_batch` 1 it
    returns the sum, undivided.
    """
    total: Tensor = module(input_ids=batch["input_ids"], labels=batch["labels"], num_items_in_batch=1).loss
    return total
