"""The CUDA window against sizes worked out by hand, on a real device."""

import pytest
import torch
from torch import nn

from gradscope.worker.allocator import allocator_window
from gradscope.worker.gradient import accumulate_gradient
from gradscope.worker.memory import SavedActivations
from tests.training import regression, rows

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_saved_activations_agree_with_the_allocator_at_the_end_of_forward() -> None:
    device = torch.device("cuda", 0)
    module = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(6)), nn.Linear(512, 1))
    module.to(device)
    model, batch = regression(module), rows(4096, width=512)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    saved_bytes = []

    def watch(given):
        saved_bytes.append(SavedActivations(exclude=[*module.parameters(), *given.values()]))
        return saved_bytes[-1]

    for _ in range(2):
        optimizer.zero_grad()
        accumulate_gradient(model, module, [batch], device=device, around_forward=watch)
        optimizer.step()
    optimizer.zero_grad()
    with allocator_window(device, module, optimizer) as window:
        accumulate_gradient(model, module, [batch], device=device, enter=window.border)
        window.border("optimizer")
        optimizer.step()
    seen = window.result()
    assert seen.forward_end_bytes == pytest.approx(saved_bytes[-1].bytes, rel=0.02)
    assert seen.peak_activations_bytes is not None
    assert seen.peak_activations_bytes >= 0.98 * seen.forward_end_bytes
    assert seen.phase_peak_bytes["backward"] <= seen.allocated_peak_bytes
