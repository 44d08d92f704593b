"""The catalogue's models: published sizes, losses that add up, gradients everywhere, checkpointing that takes hold."""

import math

import pytest
import torch
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from gradscope.config.catalogue import MODELS
from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.errors import GradscopeError
from gradscope.worker.contract import IGNORED_LABEL
from gradscope.worker.data import build_dataset
from gradscope.worker.models import build_model
from gradscope.worker.models.nanovlm import pixel_shuffle

PUBLISHED = {"vit": 86_567_656, "modernbert": 149_655_232, "llama": 1_235_814_400, "nanovlm": 222_081_600}
DATA = DataSettings(sequence_length=96)


def build(name, data=DATA, **settings):
    torch.manual_seed(0)
    return build_model(ModelSettings(name=name, **settings), data)


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def batch_of(model, rows, data=DATA, first=0):
    dataset = build_dataset(data, model.spec, 0)
    return torch.utils.data.default_collate([dataset[first + i] for i in range(rows)])


@pytest.mark.parametrize("name", PUBLISHED)
def test_full_size_is_the_published_one(name):
    with torch.device("meta"):
        model = build(name, scale="full")
    assert parameters(model.module) == PUBLISHED[name]
    assert all(parameter.dtype == torch.float32 for parameter in model.module.parameters())


def test_the_parts_of_nanovlm_have_their_published_sizes():
    with torch.device("meta"):
        model = build("nanovlm", scale="full")
    assert parameters(model.module.vision) == 85_797_120
    assert parameters(model.module.projector) == 768 * 4 * 576 == 1_769_472
    assert parameters(model.module.text) == 134_515_008


def test_llama_is_tied_and_grouped_as_published():
    with torch.device("meta"):
        config = build("llama", scale="full").module.config
    assert (config.hidden_size, config.num_hidden_layers, config.intermediate_size) == (2048, 16, 8192)
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (32, 8, 64)
    assert (config.vocab_size, config.tie_word_embeddings, config.use_cache) == (128256, True, False)


@pytest.mark.parametrize("name", MODELS)
def test_tiny_is_tiny_and_has_blocks_to_checkpoint(name):
    model = build(name)
    assert 200_000 < parameters(model.module) < 2_000_000
    assert sum(isinstance(part, GradientCheckpointingLayer) for part in model.module.modules()) >= 4
    assert model.module.training


@pytest.mark.parametrize("name", MODELS)
def test_attention_is_sdpa_everywhere(name):
    owners = [part for part in build(name).module.modules() if isinstance(part, PreTrainedModel)]
    assert owners
    assert {part.config._attn_implementation for part in owners} == {"sdpa"}


@pytest.mark.parametrize("name", MODELS)
def test_counts_and_losses_of_micro_batches_add_up(name):
    model = build(name)
    big = batch_of(model, 4)
    whole = model.loss(model.module, big)
    small = [{key: value[rows] for key, value in big.items()} for rows in (slice(1), slice(1, 4))]
    parts = [model.loss(model.module, batch) for batch in small]
    assert model.count(big) == sum(model.count(batch) for batch in small) > 0
    assert math.isclose(sum(part.item() for part in parts), whole.item(), rel_tol=1e-5)
    assert whole.dtype == torch.float32
    assert whole.dim() == 0


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_gets_a_gradient(name):
    model = build(name)
    model.loss(model.module, batch_of(model, 2)).backward()
    assert [key for key, parameter in model.module.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("name", MODELS)
def test_an_untrained_model_is_near_the_uniform_loss(name):
    model = build(name)
    batch = batch_of(model, 4)
    result = model.loss(model.module, batch)
    uniform = math.log(model.spec.vocabulary or model.spec.classes)
    assert abs(result.item() / model.count(batch) - uniform) < 0.6


@pytest.mark.parametrize("name", ["modernbert", "llama", "nanovlm"])
def test_rows_without_labels_weigh_nothing_and_give_no_nan(name):
    model = build(name)
    batch = batch_of(model, 2)
    batch["labels"] = torch.full_like(batch["labels"], IGNORED_LABEL)
    result = model.loss(model.module, batch)
    assert (result.item(), model.count(batch)) == (0.0, 0)


@pytest.mark.parametrize("sparse", [True, False])
def test_modernbert_is_scored_on_hidden_tokens_alone(sparse):
    model = build("modernbert", options={"sparse_prediction": sparse})
    batch = batch_of(model, 2)
    with torch.no_grad():
        logits = model.module(input_ids=batch["input_ids"]).logits
        expected = functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum")
        assert torch.allclose(model.loss(model.module, batch), expected, rtol=1e-4)


def test_llama_is_scored_on_each_next_token():
    model = build("llama")
    batch = batch_of(model, 2)
    with torch.no_grad():
        logits = model.module(input_ids=batch["input_ids"]).logits[:, :-1].flatten(0, 1)
        expected = functional.cross_entropy(logits, batch["labels"][:, 1:].flatten(), reduction="sum")
        assert torch.allclose(model.loss(model.module, batch), expected, rtol=1e-4)
    assert model.count(batch) == int((batch["labels"][:, 1:] != IGNORED_LABEL).sum())


def test_nanovlm_predicts_each_caption_token_from_the_image_and_what_came_before():
    model = build("nanovlm")
    batch = batch_of(model, 1)
    changed = {**batch, "input_ids": batch["input_ids"].clone()}
    changed["input_ids"][0, 5] = 7
    other_image = {**batch, "pixel_values": -batch["pixel_values"]}
    with torch.no_grad():
        logits, later, imaged = (
            model.module(sample["pixel_values"], sample["input_ids"])[0] for sample in (batch, changed, other_image)
        )
    assert logits.shape == (96, model.spec.vocabulary)
    assert torch.equal(logits[:6], later[:6])
    assert not torch.allclose(logits[6], later[6])
    assert not torch.allclose(logits[0], imaged[0])


def test_pixel_shuffle_merges_squares_of_patches():
    patches = torch.arange(16).reshape(1, 16, 1)
    assert pixel_shuffle(patches, 2).tolist() == [[[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]]
    assert pixel_shuffle(torch.zeros(2, 196, 768), 2).shape == (2, 49, 3072)


DROPOUTS = {
    "vit": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "modernbert": ("attention_dropout", "embedding_dropout", "mlp_dropout"),
    "llama": ("attention_dropout",),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_reaches_every_dropout_of_the_config(name):
    config = build(name, dropout=0.25).module.config
    assert [getattr(config, key) for key in DROPOUTS[name]] == [0.25] * len(DROPOUTS[name])
    assert [getattr(build(name).module.config, key) for key in DROPOUTS[name]] == [0.0] * len(DROPOUTS[name])


def test_dropout_reaches_both_towers_and_an_option_wins_over_it():
    module = build("nanovlm", dropout=0.25, options={"text": {"attention_dropout": 0.5}}).module
    assert (module.vision.config.attention_dropout, module.text.config.attention_dropout) == (0.25, 0.5)


def test_options_override_fields():
    assert len(build("vit", options={"num_hidden_layers": 2, "num_labels": 5}).module.vit.layers) == 2
    assert build("vit", options={"num_labels": 5}).spec.classes == 5
    assert len(build("nanovlm", options={"vision": {"num_hidden_layers": 1}}).module.vision.encoder.layers) == 1


@pytest.mark.parametrize(
    ("name", "options", "message", "hint"),
    [
        ("vit", {"num_hiden_layers": 2}, "model.options.num_hiden_layers: no such option", "num_hidden_layers"),
        ("nanovlm", {"txt": {}}, "model.options.txt: no such option", "did you mean text"),
        ("nanovlm", {"text": {"vocab": 5}}, "model.options.text.vocab: no such option", "vocab_size"),
        ("nanovlm", {"pixel_shuffle": 0}, "model.options.pixel_shuffle is 0", "at least 1"),
        ("llama", {"hidden_size": "wide"}, "does not accept these values", ""),
        ("llama", {"hidden_size": 97}, "does not accept these values", ""),
        ("vit", {"num_attention_heads": 0}, "does not accept these values", ""),
        ("vit", {"num_labels": 0}, "num_labels is 0", "at least 1"),
        ("vit", {"num_channels": 1}, "num_channels is 1, and data sets give 3", "leave"),
        ("vit", {"image_size": [64, 32]}, "both must be one whole number", "data.image_size"),
    ],
)
def test_an_option_that_does_not_fit_is_told(name, options, message, hint):
    with pytest.raises(GradscopeError, match=message) as caught:
        build(name, options=options)
    assert hint in caught.value.hint


def test_image_size_is_the_models_own_or_the_presets():
    assert build("vit").spec.image_size == 64
    assert build("vit", DataSettings(image_size=32)).spec.image_size == 32
    with pytest.raises(GradscopeError, match="image_size is 60, and the model needs a multiple of 8") as caught:
        build("vit", DataSettings(image_size=60))
    assert caught.value.hint == "set data.image_size to 56 or 64"
    with pytest.raises(GradscopeError, match="multiple of 16"):
        build("nanovlm", DataSettings(image_size=40))


@pytest.mark.parametrize("name", ["modernbert", "llama", "nanovlm"])
def test_a_row_longer_than_the_models_positions_is_told(name):
    with pytest.raises(GradscopeError, match="and the model has 2048 positions"):
        build(name, DataSettings(sequence_length=2049))


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_weights(name):
    first, second = build(name).module.state_dict(), build(name).module.state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
