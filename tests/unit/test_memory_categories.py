"""Memory by category on an MLP whose sizes are worked out by hand, and against torch's own allocator."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from gradscope.worker.allocator import CpuAllocatorWindow
from gradscope.worker.memory import SavedActivations, categories, optimizer_tensors, unique_bytes
from gradscope.worker.optimizers.cgd import CGD
from gradscope.worker.recompute import Recomputation
from gradscope.worker.strategies import get_strategy
from tests.training import Blocks, annotated_update, rows

ROWS, WIDTH, HIDDEN = 8, 16, 32
# Linear(16, 32), ReLU, Linear(32, 1) in float32
WEIGHTS_BYTES = 4 * (16 * 32 + 32 + 32 * 1 + 1)


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


@contextmanager
def allocator_growth() -> Iterator[Callable[[], int]]:
    """Give what tells, afterwards, by how many bytes torch's CPU allocator holds more than before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        yield lambda: sum(one.self_cpu_memory_usage for one in seen.key_averages())


def squared(module: nn.Module):
    return lambda batch: (module(batch["x"]) - batch["y"]).square().sum()


def test_categories_of_an_mlp_by_hand() -> None:
    module = mlp()
    module.register_buffer("steps", torch.zeros(10, dtype=torch.int64))
    optimizer = torch.optim.Adam(module.parameters())
    batch = rows(ROWS)
    squared(module)(batch).backward()
    optimizer.step()

    found = categories(module, optimizer, batch)

    assert WEIGHTS_BYTES == 2308
    assert found.parameters_bytes == WEIGHTS_BYTES
    assert found.buffers_bytes == 80
    assert found.gradients_bytes == WEIGHTS_BYTES
    assert found.optimizer_state_bytes == 2 * WEIGHTS_BYTES + 4 * 4  # two moments, and a float32 step for each of 4
    assert found.inputs_bytes == 4 * ROWS * (WIDTH + 1)


def test_saved_activations_of_an_mlp_by_hand_and_by_the_allocator() -> None:
    module = mlp()
    batch = rows(ROWS)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with SavedActivations(exclude=[*module.parameters(), *batch.values()]) as saved:
        loss = squared(module)(batch)
    # ReLU keeps its output, which the second layer shares; square keeps the difference
    assert saved.bytes == 4 * ROWS * HIDDEN + 4 * ROWS * 1
    loss.backward()

    with CpuAllocatorWindow(module.parameters()) as window:
        annotated_update(squared(module), [batch], optimizer)

    seen = window.result()
    # exactly that, and the loss itself, which nothing saves
    assert seen.forward_end_bytes == saved.bytes + 4
    assert seen.gradients_bytes == categories(module, optimizer, batch).gradients_bytes


def test_gradients_of_earlier_micro_steps_are_not_activations() -> None:
    module = mlp()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    seen = {}
    for parts in (1, 2):
        with CpuAllocatorWindow(module.parameters()) as window:
            annotated_update(squared(module), [rows(ROWS)] * parts, optimizer)
        seen[parts] = window.result()
    assert seen[1].forward_end_bytes == seen[2].forward_end_bytes == 4 * ROWS * (HIDDEN + 1) + 4
    assert seen[1].gradients_bytes == seen[2].gradients_bytes == WEIGHTS_BYTES


def test_backward_peak_of_a_chain_by_hand() -> None:
    """x -> exp -> exp, both saved: backward adds two gradients of that size before the first one goes."""

    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1000))

        def forward(self, x: Tensor) -> Tensor:
            return (self.weight + x).exp().exp().sum()

    module = Chain()
    batch = {"x": torch.zeros(1000)}
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with CpuAllocatorWindow(module.parameters(), held_bytes=4000) as window:
        annotated_update(lambda batch: module(batch["x"]), [batch], optimizer)
    seen = window.result()
    assert seen.forward_end_bytes == 2 * 4000 + 4
    # two saved tensors, the scalar loss and its gradient (a sum's gradient is an expanded scalar), and the product
    # that the outer exp's backward makes
    assert seen.peak_activations_bytes == 3 * 4000 + 2 * 4
    assert seen.phase_peak_bytes["forward"] == 4000 + 2 * 4000 + 4
    # the inner exp's backward makes the gradient while both of its inputs are there
    assert seen.phase_peak_bytes["backward"] == 4000 + 3 * 4000 + 2 * 4
    assert seen.allocated_peak_bytes == max(seen.phase_peak_bytes.values())


def test_checkpointing_saves_less_and_still_peaks_higher_than_it_saves() -> None:
    torch.manual_seed(0)
    module = Blocks(count=8, width=16, hidden=256)
    batch = rows(32)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    recomputation = Recomputation()
    strategy = get_strategy("checkpoint")
    saved_bytes, seen = {}, {}
    for name in ("plain", "checkpoint"):
        if name == "checkpoint":
            assert strategy.apply is not None
            assert strategy.apply(module, recomputation.context) == 8
        with SavedActivations(exclude=[*module.parameters(), *batch.values()]) as saved:
            loss = squared(module)(batch)
        saved_bytes[name] = saved.bytes
        del loss
        with CpuAllocatorWindow(module.parameters()) as window:
            annotated_update(squared(module), [batch], optimizer)
        seen[name] = window.result()
    hidden, width = 4 * 32 * 256, 4 * 32 * 16
    # plain: a block keeps its input, the GELU's input and its output; checkpointed: its input alone
    assert saved_bytes["plain"] == 8 * (2 * hidden + width) + width + 4 * 32
    assert saved_bytes["checkpoint"] == 8 * width + width + 4 * 32
    assert seen["plain"].forward_end_bytes == saved_bytes["plain"] + 4
    # the loss, and the state of the random generator, which each checkpointed block keeps for its replay
    states = 8 * torch.get_rng_state().nbytes
    assert seen["checkpoint"].forward_end_bytes == saved_bytes["checkpoint"] + states + 4
    assert recomputation.count == 8
    # one block's activations come back at a time
    assert seen["checkpoint"].peak_activations_bytes > saved_bytes["checkpoint"] + 2 * hidden
    assert seen["checkpoint"].peak_activations_bytes < saved_bytes["checkpoint"] + 6 * hidden
    assert seen["checkpoint"].peak_activations_bytes < 0.4 * seen["plain"].peak_activations_bytes


def test_a_storage_that_dies_within_the_forward_is_not_saved() -> None:
    weight = torch.ones(100, requires_grad=True)
    with SavedActivations() as saved:
        dropped = (weight * 2).exp()
        del dropped
        kept = (weight * 3).exp()
    assert saved.bytes == 400
    del kept


def test_views_of_one_storage_count_once() -> None:
    weight = torch.ones(100, requires_grad=True)
    with SavedActivations(exclude=[weight]) as saved:
        base = weight * 2
        kept = [base[:50].exp(), base[50:].square(), base[10:20].square()]
    assert saved.bytes == 200 + 400  # one exp's output, and the whole of `base`
    del kept


@pytest.mark.parametrize("with_backward", [True, False])
def test_nothing_is_kept_alive(with_backward: bool) -> None:
    weight = torch.ones(100, requires_grad=True)
    with allocator_growth() as growth:
        with SavedActivations() as saved:
            out = weight.exp()
            loss = out.sum()
        if with_backward:
            loss.backward()
            weight.grad = None
        del out, loss
    assert saved.bytes == 400
    # whatever was born is gone by now, without the garbage collector
    assert growth() == 0


def test_gradients_are_the_same_with_and_without_counting() -> None:
    weight = torch.linspace(0.1, 1, 50, requires_grad=True)

    def value() -> Tensor:
        return (weight.exp() * weight.sqrt() / weight.tanh()).sum()

    (plain,) = torch.autograd.grad(value(), weight)
    with SavedActivations():
        counted = value()
    assert torch.equal(torch.autograd.grad(counted, weight)[0], plain)


def test_tied_parameters_and_views_count_once() -> None:
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    assert categories(nn.ModuleList([first, second]), None, {}).parameters_bytes == 64
    whole = torch.zeros(100)
    assert unique_bytes([whole[:10], whole[50:], whole]) == 400
    assert unique_bytes([whole, torch.zeros(5)], exclude=[whole[3:4]]) == 20


def test_sparse_gradients_count_indices_and_values() -> None:
    module = nn.Embedding(1000, 4, sparse=True)
    module(torch.tensor([1, 2, 3])).sum().backward()
    assert categories(module, None, {}).gradients_bytes == 3 * 8 + 3 * 4 * 4


P = WEIGHTS_BYTES
STATES = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), 0),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), P),
    "adam": (torch.optim.Adam, 2 * P + 4 * 4),
    "adagrad": (torch.optim.Adagrad, P + 4 * 4),
    "adadelta": (torch.optim.Adadelta, 2 * P + 4 * 4),
    "lr as a tensor": (lambda p: torch.optim.Adam(p, lr=torch.tensor(1e-3)), 2 * P + 4 * 4 + 4),
}


@pytest.mark.parametrize("name", STATES)
def test_optimizer_state_by_hand_and_by_the_allocator(name: str) -> None:
    make, expected = STATES[name]
    module = mlp()
    with allocator_growth() as growth:
        optimizer = make(module.parameters())
        annotated_update(squared(module), [rows(ROWS)], optimizer)
    assert unique_bytes(optimizer_tensors(optimizer)) == expected
    assert growth() == expected + P  # and the gradients


@pytest.mark.parametrize("make", [CGD, torch.optim.LBFGS])
def test_state_of_searching_optimizers_agrees_with_the_allocator(make) -> None:
    """Their state lives partly outside `state[parameter]`; what the allocator sees survive must all be found."""
    module = mlp()
    batch = rows(ROWS)
    optimizer = make(module.parameters())

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = squared(module)(batch)
        loss.backward()
        return loss

    with allocator_growth() as growth:
        for _ in range(3):
            optimizer.step(closure)
    state = unique_bytes(optimizer_tensors(optimizer))
    assert state >= P
    assert growth() - P == pytest.approx(state, rel=0.001)


def test_cgd_keeps_one_vector_between_steps() -> None:
    module = mlp()
    optimizer = CGD(module.parameters())
    batch = rows(ROWS)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = squared(module)(batch)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert unique_bytes(optimizer_tensors(optimizer)) == P


def test_state_in_attributes_and_wrapped_optimizers_is_found() -> None:
    module = mlp()

    class Wrapping(torch.optim.Optimizer):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            super().__init__(inner.param_groups, {})
            self.inner = inner
            self.slow = [torch.zeros(10), {"deep": (torch.zeros(5),)}]
            self.parameters_again = list(module.parameters())

    inner = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    squared(module)(rows(ROWS)).backward()
    inner.step()
    assert unique_bytes(optimizer_tensors(Wrapping(inner))) == P + 60
