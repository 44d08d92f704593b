"""Sampling on a real card: the mapping agrees with torch, and the figures are there."""

import os
import threading
from importlib.metadata import version

import pytest

from gradscope.core.samples import Sample, SamplerStarted
from gradscope.launch.probe import TorchFacts, probe_torch
from gradscope.sampling import nvml
from gradscope.sampling.devices import list_cards
from gradscope.sampling.loop import Sampler
from gradscope.sampling.visible import map_devices

pytestmark = pytest.mark.gpu


@pytest.fixture
def device():
    if nvml.open_library() is not None:
        pytest.skip("no NVML here")
    nvml.close_library()
    facts = probe_torch()
    if not isinstance(facts, TorchFacts) or not facts.devices:
        pytest.skip(f"torch {version('torch')} sees no CUDA device")
    return facts.devices[0]


def test_a_guess_that_is_not_marked_uncertain_is_what_torch_says(device):
    assert nvml.open_library() is None
    cards = list_cards()
    nvml.close_library()
    guess, settled = (map_devices(cards, os.environ, uuid)[0] for uuid in (None, device.uuid))
    assert settled.mapped_by == "uuid"
    assert guess.mapped_by == "uncertain" or guess.uuid == settled.uuid


def test_a_card_gives_its_figures(device, tmp_path):
    lines, enough = [], threading.Event()

    def emit(line):
        lines.append(line)
        if len(lines) > 15:
            enough.set()

    sampler = Sampler(root_pid=os.getpid(), disk_path=tmp_path, emit=emit, interval_ms=50.0)
    sampler.start()
    sampler.worker_started("cuda:0", device.uuid)
    assert enough.wait(60)
    assert sampler.stop()
    assert [line for line in lines if isinstance(line, SamplerStarted)][-1].gpus[0]["mapped_by"] == "uuid"
    card = [line for line in lines if isinstance(line, Sample)][-1].gpus[0]
    assert 0 < card.used_bytes <= card.total_bytes
    assert not card.lost
    assert card.power_w is None or card.power_w > 0
    assert card.gpu_busy_pct is None or 0 <= card.gpu_busy_pct <= 100
