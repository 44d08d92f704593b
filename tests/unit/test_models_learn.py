"""The made-up data has something to learn, and the tiny models learn it in a few dozen steps."""

import math

import pytest
import torch

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.worker.data import build_dataset
from gradscope.worker.data.loader import BatchStream
from gradscope.worker.models import build_model


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads that wait for each other on a busy machine take many times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def losses(name, data, steps, lr=1e-3):
    """Train with Adam, batches of 8, and return the mean losses."""
    torch.manual_seed(0)
    model = build_model(ModelSettings(name=name), data)
    stream = BatchStream(build_dataset(data, model.spec, 0), data, [8], device=torch.device("cpu"), seed=0)
    optimizer = torch.optim.Adam(model.module.parameters(), lr=lr)
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        batch = stream.next()
        mean = model.loss(model.module, batch) / model.count(batch)
        mean.backward()
        optimizer.step()
        history.append(mean.item())
    return model.spec, history


def mean(values):
    return sum(values) / len(values)


def test_vit_learns_shapes():
    spec, history = losses("vit", DataSettings(), 60)
    assert mean(history[-8:]) < 0.8 * mean(history[:4])
    assert mean(history[-8:]) < 0.8 * math.log(spec.classes)


@pytest.mark.parametrize("name", ["nanovlm", "llama"])
def test_captions_are_learnt(name):
    spec, history = losses(name, DataSettings(sequence_length=64), 40, lr=3e-3)
    assert mean(history[-5:]) < 0.6 * mean(history[:2])
    assert mean(history[-5:]) < 0.6 * math.log(spec.vocabulary)


def test_modernbert_learns_english():
    spec, history = losses("modernbert", DataSettings(name="text", sequence_length=64), 40, lr=3e-3)
    assert mean(history[-5:]) < 0.75 * history[0]
    assert mean(history[-5:]) < 0.75 * math.log(spec.vocabulary)
