"""Every model under every strategy: the same gradient, less memory, and numbers that torch's own counters confirm."""

from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch.utils.data import default_collate

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.worker.allocator import allocator_window
from gradscope.worker.audit import audit_gradient
from gradscope.worker.contract import Batch, TrainingModel
from gradscope.worker.data import build_dataset
from gradscope.worker.flops import count_flops
from gradscope.worker.gradient import accumulate_gradient
from gradscope.worker.memory import SavedActivations, categories
from gradscope.worker.models import build_model
from gradscope.worker.recompute import Recomputation
from gradscope.worker.strategies import get_strategy
from tests.training import annotated_update

CPU = torch.device("cpu")
DATA = {"vit": "shapes", "modernbert": "text", "llama": "text", "nanovlm": "shapes"}
STRATEGIES = ("standard", "checkpoint", "accumulate", "checkpoint-accumulate")
ROWS = 4


@dataclass(frozen=True)
class Subject:
    model: TrainingModel
    rows: tuple[Batch, ...]

    def batch(self, count: int = ROWS) -> Batch:
        return default_collate(list(self.rows[:count]))


@cache
def subject(name: str) -> Subject:
    torch.manual_seed(0)
    data = DataSettings(name=DATA[name], sequence_length=64)
    model = build_model(ModelSettings(name=name), data)
    assert model.spec is not None
    dataset = build_dataset(data, model.spec, 0)
    return Subject(model, tuple(dataset[index] for index in range(ROWS)))


class Applied:
    """A strategy on a model for as long as the context lasts."""

    def __init__(self, name: str, model: TrainingModel) -> None:
        self.strategy, self.model, self.recomputation = get_strategy(name), model, Recomputation()
        self.blocks = 0

    def __enter__(self) -> "Applied":
        if self.strategy.apply is not None:
            self.blocks = self.strategy.apply(self.model.module, self.recomputation.context)
        return self

    def __exit__(self, *_: object) -> None:
        if self.strategy.remove is not None:
            self.strategy.remove(self.model.module)
        self.model.module.zero_grad(set_to_none=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", DATA)
def test_the_strategys_gradient_is_the_gradient(name: str, strategy: str) -> None:
    on = subject(name)
    with Applied(strategy, on.model) as applied:
        outcome = audit_gradient(on.model, applied.strategy, applied.recomputation, on.batch(2), device=CPU)
    assert outcome.reason is None
    assert outcome.passed is True
    assert outcome.bound == (1e-5 if "accumulate" in strategy else 1e-6)
    assert outcome.no_effect is None
    assert outcome.without_gradient == ()


@pytest.mark.parametrize("name", DATA)
def test_saved_activations_and_gradients_agree_with_the_allocator(name: str) -> None:
    on = subject(name)
    model, batch = on.model, on.batch()
    fixed = [*model.module.parameters(), *model.module.buffers(), *batch.values()]
    optimizer = torch.optim.SGD(model.module.parameters(), lr=1e-3)
    weight = model.count(batch)
    saved_bytes, peaks = {}, {}
    for strategy in ("standard", "checkpoint"):
        with Applied(strategy, model) as applied:
            with SavedActivations(exclude=fixed) as saved:
                loss = model.loss(model.module, batch) / weight
            saved_bytes[strategy] = saved.bytes
            del loss
            with allocator_window(CPU, model.module, optimizer) as window:
                annotated_update(lambda batch: model.loss(model.module, batch) / weight, [batch], optimizer)
            peaks[strategy] = seen = window.result()
            assert seen.gradients_bytes == categories(model.module, optimizer, batch).gradients_bytes
            blocks = applied.blocks
    # a checkpointed block also keeps the random generator's state for its replay, which is no activation
    states = blocks * torch.get_rng_state().nbytes
    assert peaks["standard"].forward_end_bytes == pytest.approx(saved_bytes["standard"], rel=0.001)
    assert peaks["checkpoint"].forward_end_bytes - states == pytest.approx(saved_bytes["checkpoint"], rel=0.001)
    assert saved_bytes["checkpoint"] < 0.25 * saved_bytes["standard"]
    # recomputation brings one block's activations back at a time: the hooks cannot see them, the allocator can
    assert 1.5 * saved_bytes["checkpoint"] < peaks["checkpoint"].peak_activations_bytes
    assert peaks["checkpoint"].peak_activations_bytes < 0.6 * peaks["standard"].peak_activations_bytes


@pytest.mark.parametrize("name", DATA)
def test_model_operations_do_not_depend_on_the_strategy(name: str) -> None:
    on = subject(name)
    counted = {}
    for strategy in ("standard", "checkpoint"):
        with Applied(strategy, on.model) as applied:
            counted[strategy] = count_flops(
                lambda: accumulate_gradient(on.model, on.model.module, [on.batch()], device=CPU), applied.recomputation
            )
    model_flops, executed = counted["checkpoint"]
    assert counted["standard"] == (model_flops, model_flops)
    assert model_flops < executed < 1.5 * model_flops


@pytest.mark.parametrize("name", DATA)
def test_transformers_models_are_let_go_as_they_were(name: str) -> None:
    module = subject(name).model.module
    before = [dict(vars(part)) for part in module.modules()]
    hooks = [dict(part._forward_hooks) for part in module.modules()]
    with Applied("checkpoint", subject(name).model) as applied:
        layers = [part for part in module.modules() if type(part).__name__.endswith(("Layer", "EncoderLayer"))]
        assert applied.blocks == len(layers) > 1
        assert [dict(part._forward_hooks) for part in module.modules()] == hooks
    after = [dict(vars(part)) for part in module.modules()]
    assert [list(one) for one in after] == [list(one) for one in before]
    for first, second in zip(before, after, strict=True):
        assert all(first[key] is second[key] for key in first)
