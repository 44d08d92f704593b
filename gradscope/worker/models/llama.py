"""Llama, causal language modelling: the Llama 3.2 1B shape (arXiv 2407.21783), or a small one over bytes.

Llama's config has a dropout in attention only, so `model.dropout` goes there.
"""

from typing import Any

from transformers import LlamaConfig, LlamaForCausalLM

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.worker.contract import TrainingModel
from gradscope.worker.data.tokens import TINY_VOCABULARY
from gradscope.worker.models.losses import causal_loss, count_next_token_labels
from gradscope.worker.models.overrides import checked, make_config, text_spec

SCALES: dict[str, dict[str, Any]] = {
    "full": {
        "vocab_size": 128256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        "tie_word_embeddings": True,
        "bos_token_id": 128000,
        "eos_token_id": 128001,
    },
    "tiny": {
        "vocab_size": TINY_VOCABULARY,
        "hidden_size": 96,
        "intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    },
}
"""`full` has 1,235,814,400 parameters."""


def build(settings: ModelSettings, data: DataSettings) -> TrainingModel:
    """Build a Llama; rows are `input_ids` and `labels` `[length]`, and each token but the first is a label."""
    config = make_config(LlamaConfig, SCALES[settings.scale], settings)
    spec = text_spec("causal-lm", config, data.sequence_length)
    module = checked(lambda: LlamaForCausalLM(config), "model.options")
    return TrainingModel(
        name=settings.name,
        module=module,
        loss=causal_loss,
        count=count_next_token_labels,
        counts_tokens=True,
        spec=spec,
    )
