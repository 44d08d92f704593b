"""Operations counted against products worked out by hand."""

import pytest
import torch
from torch import nn

from gradscope.worker.flops import count_flops
from gradscope.worker.gradient import accumulate_gradient
from gradscope.worker.recompute import Recomputation
from gradscope.worker.strategies import get_strategy
from tests.training import Blocks, regression, rows

CPU = torch.device("cpu")


def counted(module: nn.Module, window, recomputation: Recomputation) -> tuple[int, int]:
    model = regression(module)
    return count_flops(lambda: accumulate_gradient(model, module, window, device=CPU), recomputation)


def test_an_mlp_by_hand() -> None:
    module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    first, second = 2 * 8 * 16 * 32, 2 * 8 * 32 * 1
    # backward: each layer's weight gradient costs what its forward does; so does its input's gradient, which the
    # first layer does not need
    expected = (first + second) + (first + second) + second
    assert counted(module, [rows(8)], Recomputation()) == (expected, expected)


def test_two_micro_batches_cost_what_one_of_both_sizes_does() -> None:
    module = Blocks(count=2)
    recomputation = Recomputation()
    assert counted(module, [rows(6)], recomputation) == counted(module, [rows(2), rows(4)], recomputation)


def test_recomputation_is_executed_and_not_the_models() -> None:
    module = Blocks(count=3, width=16, hidden=64)
    recomputation = Recomputation()
    plain, plain_executed = counted(module, [rows(8)], recomputation)
    strategy = get_strategy("checkpoint")
    assert strategy.apply is not None
    strategy.apply(module, recomputation.context)
    model, executed = counted(module, [rows(8)], recomputation)
    assert plain == plain_executed == model
    # recomputing stops once all that backward needs is there: before the block's second product, of which nothing is
    # saved
    assert executed - model == 3 * (2 * 8 * 16 * 64)
    assert recomputation.listeners == []


def test_attention_counts() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            q = x * self.scale
            return nn.functional.scaled_dot_product_attention(q, q, q)

    module = Attention()
    x = torch.randn(2, 4, 8, 16)

    def run() -> None:
        module(x).sum().backward()

    products = 2 * (2 * 4) * 8 * 8 * 16  # q k^T, and as much for the product with v
    assert count_flops(run, Recomputation())[0] == 2 * products + 4 * products


def test_an_error_leaves_no_listener() -> None:
    recomputation = Recomputation()

    def run() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        count_flops(run, recomputation)
    assert recomputation.listeners == []
