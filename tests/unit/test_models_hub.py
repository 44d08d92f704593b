"""`hf:` models: from a folder, by what the config says; ways of not having one told, without waiting for a network."""

import json

import pytest
import torch
from huggingface_hub import constants
from transformers import (
    BertConfig,
    BertForMaskedLM,
    CLIPTextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    ResNetConfig,
    ResNetForImageClassification,
)

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.contract import IGNORED_LABEL
from gradscope.worker.data import build_dataset
from gradscope.worker.models import build_model

GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 300, "n_positions": 64}
BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 300,
    "max_position_embeddings": 64,
}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 5}
DATA = DataSettings(sequence_length=32, image_size=32)


@pytest.fixture
def gpt2(tmp_path):
    torch.manual_seed(1)
    GPT2LMHeadModel(GPT2Config(**GPT2)).save_pretrained(tmp_path)
    return tmp_path


def build(source, data=DATA, **settings):
    torch.manual_seed(0)
    return build_model(ModelSettings(name=f"hf:{source}", **settings), data)


def batch_of(model, rows=3):
    dataset = build_dataset(DATA, model.spec, 0)
    return torch.utils.data.default_collate([dataset[index] for index in range(rows)])


def save(tmp_path, config, **fields):
    config.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return tmp_path


@pytest.mark.parametrize(
    ("model_class", "config", "task"),
    [
        (GPT2LMHeadModel, GPT2Config(**GPT2), "causal-lm"),
        (BertForMaskedLM, BertConfig(**BERT), "masked-lm"),
        (ResNetForImageClassification, ResNetConfig(**RESNET), "image-class"),
    ],
)
def test_the_architecture_says_the_task_and_losses_add_up(tmp_path, model_class, config, task):
    model = build(save(tmp_path, config, architectures=[model_class.__name__]))
    assert model.spec.task == task
    assert isinstance(model.module, model_class)
    model.module.eval()  # batch norm would couple the rows
    batch = batch_of(model)
    whole = model.loss(model.module, batch)
    parts = [model.loss(model.module, {key: value[i : i + 1] for key, value in batch.items()}) for i in range(3)]
    assert torch.allclose(whole, sum(part for part in parts), rtol=1e-4)
    whole.backward()


def test_without_an_architecture_the_type_says_the_task(tmp_path):
    assert build(save(tmp_path, BertConfig(**BERT))).spec.task == "masked-lm"
    assert build(tmp_path, options={"task": "causal-lm", "is_decoder": True}).spec.task == "causal-lm"


def test_weights_are_random_unless_asked_for(gpt2):
    saved = GPT2LMHeadModel.from_pretrained(gpt2).transformer.wte.weight
    random, loaded = build(gpt2), build(gpt2, pretrained=True)
    assert not torch.equal(random.module.transformer.wte.weight, saved)
    assert torch.equal(loaded.module.transformer.wte.weight, saved)
    assert loaded.module.training
    assert "byte tokens" in loaded.notes[0]
    assert random.notes == []


def test_weights_load_whatever_the_default_device_is(gpt2):
    with torch.device("meta"):
        loaded = build(gpt2, pretrained=True)
    assert {parameter.device.type for parameter in loaded.module.parameters()} == {"cpu"}


def test_options_and_dropout_reach_the_config(gpt2):
    config = build(gpt2, dropout=0.25, options={"num_hidden_layers": 1}).module.config
    assert (config.n_layer, config.resid_pdrop, config.embd_pdrop, config.attn_pdrop) == (1, 0.25, 0.25, 0.25)
    assert not config.use_cache
    assert build(gpt2).module.config.resid_pdrop == 0.0


def test_a_batch_without_labels_is_zero_and_not_nan(gpt2):
    model = build(gpt2)
    batch = batch_of(model)
    batch["labels"] = torch.full_like(batch["labels"], IGNORED_LABEL)
    result = model.loss(model.module, batch)
    result.backward()
    assert (result.item(), model.count(batch)) == (0.0, 0)
    assert all(torch.count_nonzero(parameter.grad) == 0 for parameter in model.module.parameters())


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"options": {"n_layr": 1}}, "n_layr: no such option", "n_layer"),
        ({"options": {"task": "causal"}}, "no such task 'causal'", "causal-lm"),
        ({"options": {"task": "masked-lm"}}, "type gpt2 cannot do masked-lm", "causal-lm"),
        ({"data": DataSettings(sequence_length=65)}, "the model has 64 positions", "64"),
    ],
)
def test_settings_that_do_not_fit_are_told(gpt2, settings, message, hint):
    with pytest.raises(GradscopeError, match=message) as caught:
        build(gpt2, **settings)
    assert hint in caught.value.hint


def test_a_folder_without_weights_or_config_is_told(tmp_path):
    with pytest.raises(GradscopeError, match="cannot be loaded"):
        build(tmp_path)
    save(tmp_path, LlamaConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, vocab_size=300))
    with pytest.raises(GradscopeError, match="cannot be loaded"):
        build(tmp_path, pretrained=True)


def test_weights_that_do_not_fit_the_overrides_are_told(gpt2):
    with pytest.raises(GradscopeError, match="cannot be loaded"):
        build(gpt2, pretrained=True, options={"n_embd": 32})
    (gpt2 / "model.safetensors").write_bytes(b"rubbish")
    with pytest.raises(GradscopeError, match="cannot be loaded"):
        build(gpt2, pretrained=True)


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "no-such-type"}', '{"model_type": "gpt2", "n_embd": "x"}'])
def test_a_broken_config_is_told(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(GradscopeError, match=r"cannot be loaded|does not accept"):
        build(tmp_path)


def test_a_type_without_a_loss_of_ours_is_told(tmp_path):
    with pytest.raises(GradscopeError, match="of type clip_text_model") as caught:
        build(save(tmp_path, CLIPTextConfig()))
    assert "py:MODULE:FACTORY" in caught.value.hint


def test_a_model_that_brings_code_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps(
            {"model_type": "strange", "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.M"}}
        )
    )
    (tmp_path / "code.py").write_text("raise SystemExit('ran')")
    with pytest.raises(GradscopeError, match="gradscope runs none"):
        build(tmp_path)


def test_a_missing_folder_is_told(tmp_path):
    for source in (tmp_path / "missing", "./missing", "~/missing/away"):
        with pytest.raises(GradscopeError, match="there is no folder"):
            build(source)


def test_an_unreachable_hub_is_told_without_retries(monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(GradscopeError, match=r"127.0.0.1:9 cannot be reached") as caught:
        build("nobody/has-this-model")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert "local folder" in caught.value.hint


def test_offline_means_the_cache_alone(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(GradscopeError, match="HF_HUB_OFFLINE is set") as caught:
        build("nobody/has-this-model")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
