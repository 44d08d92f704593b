"""Blocks followed by hand, and CUDA's peaks read from a made-up allocator."""

from typing import Any

import pytest
import torch
from torch import nn

from gradscope.worker.allocator import CpuAllocatorWindow, CudaAllocatorWindow, allocator_window
from gradscope.worker.lifetimes import Change, PhaseRange, analyse
from tests.training import Blocks, annotated_update, regression, rows


def changes(*turns: tuple[int, int, int]) -> list[Change]:
    return [Change(at_ns, size, address) for at_ns, size, address in turns]


def test_a_micro_step_by_hand() -> None:
    seen = analyse(
        changes(
            (5, -64, 99),  # unknown: older than the window
            (10, 100, 1),  # the micro-batch
            (22, 30, 2),  # saved
            (23, 8, 3),
            (24, -8, 3),  # gone before the forward ends
            (41, 50, 4),  # a gradient: outlives its backward
            (42, 20, 5),  # its work space
            (43, -30, 2),
            (44, -20, 5),
            (61, 70, 6),  # optimizer state
            (62, 9, 7),
            (63, -9, 7),
        ),
        [
            PhaseRange("h2d", 8, 12),
            PhaseRange("forward", 20, 30),
            PhaseRange("backward", 40, 50),
            PhaseRange("optimizer", 60, 70),
        ],
        held_bytes=1000,
        gradient_addresses=[4],
        events=12,
    )
    assert seen.forward_end_bytes == 30
    assert seen.peak_activations_bytes == 50
    assert seen.phase_peak_bytes == {"h2d": 1100, "forward": 1138, "backward": 1200, "optimizer": 1229}
    assert seen.allocated_peak_bytes == 1229
    assert seen.gradients_bytes == 50
    assert seen.events == 12


def test_an_address_used_again_is_another_block() -> None:
    seen = analyse(
        changes((21, 30, 1), (22, -30, 1), (23, 40, 1), (41, -40, 1), (42, 50, 1)),
        [PhaseRange("forward", 20, 30), PhaseRange("backward", 40, 50)],
        gradient_addresses=[1],
    )
    assert seen.forward_end_bytes == 40
    assert seen.peak_activations_bytes == 40
    assert seen.gradients_bytes == 50


def test_the_largest_micro_step_counts_and_earlier_gradients_do_not() -> None:
    ranges = [PhaseRange("forward", 20, 30), PhaseRange("backward", 40, 50)]
    ranges += [PhaseRange("forward", 60, 70), PhaseRange("backward", 80, 90)]
    seen = analyse(
        changes((21, 10, 1), (41, 500, 2), (42, -10, 1), (61, 25, 3), (81, 500, 4), (82, -500, 4), (83, -25, 3)),
        ranges,
        gradient_addresses=[2],
    )
    assert seen.forward_end_bytes == 25
    assert seen.peak_activations_bytes == 525  # the second gradient is there until it has been added to the first


def test_a_forward_without_backward_is_an_evaluation() -> None:
    seen = analyse(changes((21, 10, 1), (31, -10, 1)), [PhaseRange("forward", 20, 30)])
    assert (seen.forward_end_bytes, seen.peak_activations_bytes) == (10, None)


def test_an_update_without_phases_says_nothing_of_them() -> None:
    seen = analyse(changes((21, 10, 1)), [])
    assert (seen.forward_end_bytes, seen.peak_activations_bytes, seen.phase_peak_bytes) == (None, None, {})
    assert seen.allocated_peak_bytes == 10


def test_phase_peaks_on_a_cpu_hold_what_is_held_throughout() -> None:
    torch.manual_seed(0)
    module = Blocks(count=2)
    model = regression(module)
    optimizer = torch.optim.Adam(module.parameters())
    batch = rows(8)
    peaks = []
    for _ in range(2):
        with allocator_window(torch.device("cpu"), module, optimizer) as window:
            annotated_update(lambda batch: model.loss(module, batch), [batch], optimizer)
        peaks.append(window.result())
    parameters_bytes = sum(parameter.nbytes for parameter in module.parameters())
    count = len(list(module.parameters()))
    state_bytes = 2 * parameters_bytes + 4 * count
    # the first update makes what the second one holds from its start
    assert peaks[1].phase_peak_bytes["forward"] - peaks[0].phase_peak_bytes["forward"] == state_bytes
    assert peaks[1].phase_peak_bytes["optimizer"] == peaks[0].phase_peak_bytes["optimizer"]


def test_gradients_that_are_kept_and_zeroed_count_as_held() -> None:
    module = nn.Linear(16, 1)
    model = regression(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    model.loss(module, rows(8)).backward()

    class Keeping(torch.optim.SGD):
        def zero_grad(self, set_to_none: bool = True) -> None:
            del set_to_none
            super().zero_grad(set_to_none=False)

    peaks = []
    for chosen in (optimizer, Keeping(module.parameters(), lr=0.1)):
        with CpuAllocatorWindow(module.parameters()) as window:
            annotated_update(lambda batch: model.loss(module, batch), [rows(8)], chosen)
        peaks.append(window.result())
    assert peaks[0].gradients_bytes == 17 * 4
    assert peaks[1].gradients_bytes == 0
    assert peaks[1].phase_peak_bytes["forward"] == peaks[0].phase_peak_bytes["forward"] + 17 * 4


def test_an_update_that_raises_passes_its_error_on_and_ends_the_profiler() -> None:
    module = nn.Linear(16, 1)
    with pytest.raises(ValueError, match="in the update"), CpuAllocatorWindow(module.parameters()):
        raise ValueError("in the update")
    assert not torch._C._autograd._profiler_enabled()


class FakeAllocator:
    """What `torch.cuda` says of memory, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current = self.peak = 0
        monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", self.stats)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", self.reset)

    def stats(self, device: torch.device) -> dict[str, Any]:
        assert device == torch.device("cuda", 0)
        return {
            "allocated_bytes": {"all": {"current": self.current, "peak": self.peak}},
            "reserved_bytes": {"all": {"current": 4096, "peak": 4096}},
        }

    def reset(self, device: torch.device) -> None:
        del device
        self.peak = self.current

    def allocate(self, size_bytes: int) -> None:
        self.current += size_bytes
        self.peak = max(self.peak, self.current)


def test_cuda_peaks_by_phase_and_activations_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAllocator(monkeypatch)
    first, second = nn.Parameter(torch.zeros(10)), nn.Parameter(torch.zeros(5))
    fake.allocate(1000)  # parameters and state
    fake.peak = 9999  # of an earlier update
    with CudaAllocatorWindow(torch.device("cuda", 0), [first, second]) as window:
        window.border("h2d")
        fake.allocate(100)
        window.border("forward")
        fake.allocate(300)
        fake.allocate(-50)
        window.border("backward")
        # a hook runs when a gradient is handed over: 40 bytes are born, then 80 of work space come and go
        fake.allocate(40)
        (first * 1).sum().backward()
        fake.allocate(80)
        fake.allocate(-280)
        fake.allocate(20)
        (second * 1).sum().backward()
        window.border("optimizer")
        fake.allocate(500)
        fake.allocate(-500)
    seen = window.result()
    assert seen.forward_end_bytes == 250
    # 250 saved and 40 being computed; 250 and 80 with the first gradient's 40 taken off
    assert seen.peak_activations_bytes == 330
    assert seen.phase_peak_bytes["h2d"] == 1100
    assert seen.phase_peak_bytes["forward"] == 1400
    assert seen.phase_peak_bytes["backward"] == 1100 + 250 + 40 + 80
    assert seen.phase_peak_bytes["optimizer"] == fake.current + 500
    assert seen.allocated_peak_bytes == fake.current + 500
    assert seen.reserved_peak_bytes == 4096
    assert seen.events is None


def test_cuda_gradients_of_a_later_micro_step_are_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAllocator(monkeypatch)
    weight = nn.Parameter(torch.zeros(10))
    activations = []
    with CudaAllocatorWindow(torch.device("cuda", 0), [weight]) as window:
        for _ in range(2):
            window.border("h2d")
            window.border("forward")
            fake.allocate(200)
            window.border("backward")
            if weight.grad is None:
                fake.allocate(40)
            (weight * 1).sum().backward()
            fake.allocate(60)
            fake.allocate(-60)
            fake.allocate(-200)
            window.border("optimizer")
            activations.append(window.result().peak_activations_bytes)
    assert activations == [260, 260]
    assert fake.current == 40


def test_the_window_for_cuda_needs_no_device_to_be_made() -> None:
    window = allocator_window(torch.device("cuda", 0), nn.Linear(1, 1), None)
    assert isinstance(window, CudaAllocatorWindow)
