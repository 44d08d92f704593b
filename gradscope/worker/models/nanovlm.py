"""nanoVLM-222M, image captioning (https://github.com/huggingface/nanoVLM), from transformers' own classes.

A SigLIP-B/16-224 vision tower without its pooling head, a pixel shuffle by 2 that turns 196 patches of 768 into 49
tokens of 3072, a linear projector, and SmolLM2-135M, whose input is the image's tokens followed by the caption's. The
loss is on caption tokens only; the image's last token predicts the first of them.

`model.options` has the tables `vision` (SiglipVisionConfig) and `text` (LlamaConfig), and the number `pixel_shuffle`.
Both configs have a dropout in attention only, so `model.dropout` goes there.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, SiglipVisionConfig, SiglipVisionModel

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.errors import GradscopeError
from gradscope.worker.contract import Batch, DataSpec, TrainingModel
from gradscope.worker.models.llama import SCALES as LLAMA_SCALES
from gradscope.worker.models.losses import count_labels, sum_cross_entropy
from gradscope.worker.models.overrides import check_images, check_length, check_options, checked, make_config

VISION: dict[str, dict[str, Any]] = {
    "full": {"vision_use_head": False},
    "tiny": {
        "vision_use_head": False,
        "image_size": 64,
        "patch_size": 8,
        "hidden_size": 96,
        "intermediate_size": 192,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
    },
}
"""`full` is the config's own default, SigLIP-B/16-224: 85,797,120 parameters without the head."""

TEXT: dict[str, dict[str, Any]] = {
    "full": {
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
        "initializer_range": 0.041666666666666664,
        "tie_word_embeddings": True,
    },
    "tiny": LLAMA_SCALES["tiny"],
}
"""`full` is SmolLM2-135M: 134,515,008 parameters."""

PIXEL_SHUFFLE = 2
PROJECTOR_STD = 0.02


def pixel_shuffle(patches: Tensor, factor: int) -> Tensor:
    """Merge each `factor` x `factor` square of patches into one token with all their channels.

    Args:
        patches: `[rows, side * side, channels]`, in reading order.
        factor: Divides `side`.

    Returns:
        `[rows, (side / factor)**2, channels * factor**2]`.
    """
    rows, count, channels = patches.shape
    side = round(count**0.5)
    small = side // factor
    squares = patches.reshape(rows, small, factor, small, factor, channels).transpose(2, 3)
    return squares.reshape(rows, small * small, channels * factor * factor)


class NanoVlm(nn.Module):
    """The vision tower, the projector and the language model."""

    def __init__(self, vision: SiglipVisionConfig, text: LlamaConfig, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.vision = SiglipVisionModel(vision)
        self.projector = nn.Linear(vision.hidden_size * factor * factor, text.hidden_size, bias=False)
        nn.init.normal_(self.projector.weight, std=PROJECTOR_STD)
        self.text = LlamaForCausalLM(text)

    def forward(self, pixel_values: Tensor, input_ids: Tensor) -> Tensor:
        """Return the logits that predict each caption token.

        Args:
            pixel_values: `[rows, 3, size, size]`.
            input_ids: `[rows, length]`, the caption, padding last.

        Returns:
            `[rows, length, vocabulary]`; position t is computed from the image and the caption before token t.
        """
        patches = self.vision(pixel_values=pixel_values).last_hidden_state
        image = self.projector(pixel_shuffle(patches, self.factor))
        caption = self.text.get_input_embeddings()(input_ids)
        hidden = self.text.model(inputs_embeds=torch.cat([image, caption], dim=1), use_cache=False).last_hidden_state
        logits: Tensor = self.text.lm_head(hidden[:, image.shape[1] - 1 : -1])
        return logits


def build(settings: ModelSettings, data: DataSettings) -> TrainingModel:
    """Build a nanoVLM; rows are `pixel_values` `[3, size, size]`, `input_ids` and `labels` `[length]`."""
    options = settings.options
    check_options(options, {"vision", "text", "pixel_shuffle"}, "model.options")
    factor = options.get("pixel_shuffle", PIXEL_SHUFFLE)
    if not isinstance(factor, int) or factor < 1:
        raise GradscopeError(f"model.options.pixel_shuffle is {factor!r}", "it must be a whole number of at least 1")
    vision_fields = dict(VISION[settings.scale])
    if data.image_size is not None:
        vision_fields["image_size"] = data.image_size
    vision = make_config(
        SiglipVisionConfig, vision_fields, settings, options.get("vision", {}), where="model.options.vision"
    )
    text = make_config(LlamaConfig, TEXT[settings.scale], settings, options.get("text", {}), where="model.options.text")
    check_images(vision, factor)
    image_tokens = (vision.image_size // vision.patch_size // factor) ** 2
    check_length(text, image_tokens + data.sequence_length)
    return TrainingModel(
        name=settings.name,
        module=checked(lambda: NanoVlm(vision, text, factor), "model.options"),
        loss=caption_loss,
        count=count_labels,
        counts_tokens=True,
        spec=DataSpec(
            task="image-caption",
            image_size=vision.image_size,
            sequence_length=data.sequence_length,
            vocabulary=text.vocab_size,
        ),
    )


def caption_loss(module: nn.Module, batch: Batch) -> Tensor:
    """Return the sum of the loss over caption tokens."""
    logits = module(pixel_values=batch["pixel_values"], input_ids=batch["input_ids"])
    return sum_cross_entropy(logits, batch["labels"])
