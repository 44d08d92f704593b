"""What a checkpointing strategy takes hold of, that it changes nothing but memory, and that it lets go exactly."""

import gc
import weakref

import pytest
import torch
from torch import nn

from gradscope.config.catalogue import STRATEGIES
from gradscope.errors import GradscopeError
from gradscope.worker.recompute import Recomputation
from gradscope.worker.strategies import get_strategy
from gradscope.worker.strategies.blocks import find_blocks
from tests.training import Blocks, Residual, regression, rows

CHECKPOINT = get_strategy("checkpoint")
assert CHECKPOINT.apply is not None
assert CHECKPOINT.remove is not None
apply, remove = CHECKPOINT.apply, CHECKPOINT.remove


def gradient(module: nn.Module, seed: int = 0) -> torch.Tensor:
    model, batch = regression(module), rows(8)
    module.zero_grad()
    torch.manual_seed(seed)
    model.loss(module, batch).backward()
    return torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_catalogues_strategies_are_what_their_names_say(name: str) -> None:
    strategy = get_strategy(name)
    assert strategy.name == name
    assert strategy.checkpoints == ("checkpoint" in name)
    assert strategy.accumulates == ("accumulate" in name)
    assert (strategy.apply is not None) == strategy.checkpoints


def test_an_unknown_strategy_is_the_users_error() -> None:
    with pytest.raises(GradscopeError, match="checkpiont") as caught:
        get_strategy("checkpiont")
    assert "checkpoint" in caught.value.hint


def test_children_of_a_list_are_blocks() -> None:
    module = Blocks(count=3)
    assert list(find_blocks(module)) == list(module.blocks)


def test_children_of_a_sequence_with_parameters_are_blocks() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    assert list(find_blocks(module)) == [module[0], module[2]]


def test_only_outermost_blocks_count() -> None:
    inner = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    outer = nn.ModuleList([inner, nn.ReLU(), nn.Linear(2, 2)])
    assert list(find_blocks(nn.ModuleDict({"body": outer}))) == [inner, outer[2]]


def test_lists_of_lists_are_looked_into_since_they_have_no_forward() -> None:
    inner = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    assert list(find_blocks(nn.ModuleList([inner]))) == list(inner)


def test_a_block_used_twice_is_taken_once() -> None:
    shared = nn.Linear(2, 2)
    assert list(find_blocks(nn.ModuleList([shared, shared]))) == [shared]


def test_direct_children_where_there_is_no_list() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.act, self.second = nn.Linear(2, 2), nn.ReLU(), Residual(2, 2)

    module = Plain()
    assert list(find_blocks(module)) == [module.first, module.second]


def test_a_single_layer_has_no_blocks() -> None:
    assert apply(nn.Linear(2, 2), Recomputation().context) == 0


def test_a_transformer_encoder_of_torch() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    module = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    recomputation = Recomputation()
    assert apply(module, recomputation.context) == 3
    module(torch.randn(2, 5, 16)).sum().backward()
    assert recomputation.count == 3


def test_the_gradient_and_the_loss_are_the_same_with_dropout() -> None:
    torch.manual_seed(0)
    module = Blocks(count=4, dropout=0.5)
    recomputation = Recomputation()
    plain = gradient(module)
    assert apply(module, recomputation.context) == 4
    assert torch.equal(gradient(module), plain)
    assert recomputation.count == 4
    assert not torch.equal(gradient(module, seed=1), plain)


def test_taking_hold_twice_checkpoints_once() -> None:
    module, recomputation = Blocks(count=2), Recomputation()
    apply(module, recomputation.context)
    apply(module, recomputation.context)
    gradient(module)
    assert recomputation.count == 2


def test_letting_go_restores_every_attribute() -> None:
    module = Blocks(count=2)

    def replaced(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    module.blocks[1].forward = replaced
    before = [dict(vars(part)) for part in module.modules()]
    recomputation = Recomputation()
    apply(module, recomputation.context)
    assert "forward" in vars(module.blocks[0])
    remove(module)
    remove(module)
    assert [dict(vars(part)) for part in module.modules()] == before
    gradient(module)
    assert recomputation.count == 0


def test_nothing_is_checkpointed_in_eval_mode_or_without_gradients() -> None:
    module, recomputation = Blocks(count=2), Recomputation()
    apply(module, recomputation.context)
    with torch.no_grad():
        module(rows(2)["x"])
    module.eval()
    gradient(module)
    assert recomputation.count == 0


def test_blocks_with_keyword_arguments_several_outputs_and_plain_values() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x, *, shift, scale: float, flag=None):
            assert flag == "yes"
            first, (second, note) = shift
            assert note == "note"
            return self.linear(x) * scale + first, self.linear(x) + second

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Odd(), Odd()])

        def forward(self, x):
            shift = (torch.ones(4), [torch.zeros(4), "note"])
            for layer in self.layers:
                x, other = layer(x, shift=shift, scale=2.0, flag="yes")
            return (x + other).sum(dim=1, keepdim=True)

    torch.manual_seed(0)
    module = Model()
    batch = {"x": torch.randn(8, 4), "y": torch.zeros(8, 1)}
    model = regression(module)
    results = []
    recomputation = Recomputation()
    for strategy in ("standard", "checkpoint"):
        if strategy == "checkpoint":
            apply(module, recomputation.context)
        module.zero_grad()
        model.loss(module, batch).backward()
        results.append(torch.cat([p.grad.flatten() for p in module.parameters()]))
    assert torch.equal(*results)
    assert recomputation.count == 2


def test_a_checkpointed_module_can_be_forgotten() -> None:
    module, recomputation = Blocks(count=1), Recomputation()
    apply(module, recomputation.context)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None


def test_compiled_blocks_recompute_inside_their_graph() -> None:
    torch.manual_seed(0)
    module = Blocks(count=2)
    plain = gradient(module)
    apply(module, Recomputation().context)
    compiled = torch.compile(module, backend="aot_eager")
    assert torch.allclose(gradient(compiled), plain, rtol=1e-5, atol=1e-6)
