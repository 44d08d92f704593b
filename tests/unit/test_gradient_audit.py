"""The audit accepts right strategies, catches wrong ones, leaves no trace, and never ends a run."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradscope.worker import audit
from gradscope.worker.audit import AuditOutcome, audit_gradient, difference
from gradscope.worker.contract import IGNORED_LABEL, Batch, Strategy, TrainingModel
from gradscope.worker.recompute import Recomputation
from gradscope.worker.strategies import get_strategy
from gradscope.worker.undisturbed import dropout_rate
from tests.training import Blocks, regression, rows

CPU = torch.device("cpu")
NAMES = ("standard", "checkpoint", "accumulate", "checkpoint-accumulate")


def audited(
    module: nn.Module | TrainingModel, strategy: str | Strategy, batch: Batch | None = None, precision: str = "fp32"
) -> AuditOutcome:
    model = regression(module) if isinstance(module, nn.Module) else module
    chosen = get_strategy(strategy) if isinstance(strategy, str) else strategy
    return audit_gradient(
        model, chosen, Recomputation(), rows(2) if batch is None else batch, device=CPU, precision=precision
    )


def blocks(**options) -> Blocks:
    torch.manual_seed(0)
    return Blocks(count=4, **options)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_right_strategies_pass(name: str, precision: str) -> None:
    outcome = audited(blocks(dropout=0.2), name, precision=precision)
    assert outcome.passed is True
    assert outcome.error is not None
    assert outcome.bound is not None
    assert outcome.error <= outcome.bound
    if name in ("standard", "checkpoint"):
        assert outcome.error == 0.0
    assert (outcome.reason, outcome.no_effect, outcome.without_gradient) == (None, None, ())


def test_bounds_are_the_stated_ones() -> None:
    assert [audited(blocks(), name).bound for name in ("standard", "checkpoint", "accumulate")] == [1e-6, 1e-6, 1e-5]


def test_the_worse_of_both_is_reported_where_a_strategy_does_both() -> None:
    outcome = audited(blocks(), "checkpoint-accumulate")
    assert outcome.bound == 1e-5  # the replay is exact, so splitting uses up more of its bound


def test_rows_with_different_label_counts_split_exactly() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 8), nn.Linear(8, 7)

        def forward(self, ids):
            return self.head(self.embed(ids))

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        return nn.functional.cross_entropy(module(batch["ids"]).transpose(1, 2), batch["labels"], reduction="sum")

    torch.manual_seed(0)
    labels = torch.tensor([[1, 2, 3, 4], [5, *[IGNORED_LABEL] * 3]])
    model = TrainingModel(
        name="tokens",
        module=Tokens(),
        loss=loss,
        count=lambda batch: int((batch["labels"] != IGNORED_LABEL).sum()),
        counts_tokens=True,
        spec=None,
    )
    batch = {"ids": torch.tensor([[1, 2, 3, 4], [5, 6, 0, 1]]), "labels": labels}
    outcome = audited(model, "accumulate", batch)
    assert outcome.passed is True
    unlabelled = {**batch, "labels": torch.full((2, 4), IGNORED_LABEL)}
    outcome = audited(model, "accumulate", unlabelled)
    assert (outcome.error, outcome.passed) == (None, None)
    assert outcome.reason == "none of the audited rows has a label"


def scaling(factor: float, dropped_at: int | None = None) -> Strategy:
    """A wrong strategy: it scales all gradients, or those of one block's output on one call."""
    handles = []

    def apply(module: nn.Module, context: Callable) -> int:
        del context
        calls = 0

        def hook(inner: nn.Module, inputs, output):
            nonlocal calls
            calls += 1
            if output.requires_grad and (dropped_at is None or calls == dropped_at):
                output.register_hook(lambda grad: grad * factor)

        handles.append(module.register_forward_hook(hook))
        return 1

    def remove(module: nn.Module) -> None:
        while handles:
            handles.pop().remove()

    return Strategy(name="wrong", accumulates=dropped_at is not None, apply=apply, remove=remove)


def test_a_strategy_that_scales_gradients_fails() -> None:
    outcome = audited(blocks(), scaling(0.5))
    assert outcome.passed is False
    assert outcome.error == pytest.approx(0.5, rel=1e-5)
    assert outcome.reason is not None
    assert "off by 5.0e-01" in outcome.reason


def test_a_strategy_that_drops_a_micro_batch_fails() -> None:
    outcome = audited(blocks(), scaling(0.0, dropped_at=2))
    assert outcome.passed is False
    assert outcome.error is not None
    assert outcome.error > 0.01


def test_accumulation_by_the_mean_of_means_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """huggingface/transformers#35203: each micro-batch divided by its own count."""
    real = audit.accumulate_gradient

    def faulty(model, module, window, **options):
        for batch in window:
            loss = real(model, module, [batch], **options)
        return loss

    monkeypatch.setattr(audit, "accumulate_gradient", faulty)
    assert audited(blocks(), "accumulate").passed is False


def test_a_recomputation_with_other_dropout_masks_fails() -> None:
    class Careless(nn.Module):
        """Draws from a generator of its own, which no replay restores."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)
            self.generator = torch.Generator()

        def forward(self, x):
            return self.linear(x) * torch.rand(x.shape, generator=self.generator)

    torch.manual_seed(0)
    module = nn.Sequential(Careless(), Careless(), nn.Linear(16, 1))
    outcome = audited(module, "checkpoint")
    assert outcome.passed is False


def test_eval_mode_shows_as_no_effect() -> None:
    outcome = audited(blocks().eval(), "checkpoint")
    assert outcome.passed is True
    assert outcome.no_effect == "the model is in eval mode, in which nothing is checkpointed"


def test_no_blocks_show_as_no_effect() -> None:
    outcome = audited(nn.Linear(16, 1), "checkpoint")
    assert outcome.no_effect == "the model has no blocks that could be checkpointed"


def test_recomputing_without_saving_anything_shows_as_no_effect() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 1))  # a layer keeps its input, checkpointed or not
    outcome = audited(module, "checkpoint")
    assert outcome.passed is True
    assert outcome.no_effect is not None
    assert outcome.no_effect.startswith("2 blocks are recomputed, and yet")


def test_parameters_without_gradient_are_named() -> None:
    module = blocks()
    module.unused = nn.Linear(3, 3)
    module.last.bias.requires_grad_(False)
    outcome = audited(module, "checkpoint")
    assert outcome.passed is True
    assert outcome.without_gradient == ("unused.weight", "unused.bias")


def test_everything_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(Blocks):
        def __init__(self) -> None:
            super().__init__(count=2, dropout=0.25)
            self.norm = nn.BatchNorm1d(16)
            self.attention_dropout = 0.3
            self.dropout = 2  # no rate

        def forward(self, x):
            return super().forward(self.norm(nn.functional.dropout(x, self.attention_dropout, self.training)))

    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    torch.manual_seed(0)
    module = Odd()
    module.last.eval()
    strategy, recomputation = get_strategy("checkpoint"), Recomputation()
    assert strategy.apply is not None
    strategy.apply(module, recomputation.context)

    def state() -> list:
        return [
            {name: value.clone() for name, value in module.state_dict().items()},
            [part.training for part in module.modules()],
            [module.blocks[0].drop.p, module.attention_dropout, module.dropout],
            torch.backends.cuda.matmul.allow_tf32,
            torch.are_deterministic_algorithms_enabled(),
            torch.get_rng_state(),
            random.getstate(),
            np.random.get_state()[1].tolist(),
        ]

    before = state()
    outcome = audit_gradient(regression(module), strategy, recomputation, rows(2), device=CPU)
    assert outcome.passed is True
    after = state()
    for first, second in zip(before, after, strict=True):
        if isinstance(first, torch.Tensor):
            assert torch.equal(first, second)
        elif isinstance(first, dict):
            assert all(torch.equal(first[name], second[name]) for name in first)
        else:
            assert first == second
    assert all(parameter.grad is None for parameter in module.parameters())
    # and the strategy is applied
    count = recomputation.count
    regression(module).loss(module, rows(2)).backward()
    assert recomputation.count == count + 2


def test_dropout_is_set_in_modules_and_in_rates_kept_as_numbers() -> None:
    module = blocks(dropout=0.0)
    module.attention_dropout = 0.0
    with dropout_rate(module, 0.1) as count:
        assert count == 5
        assert module.blocks[3].drop.p == module.attention_dropout == 0.1
    assert module.blocks[3].drop.p == module.attention_dropout == 0.0


def test_batch_normalization_is_named_as_the_reason() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Unflatten(1, (1, 16)), nn.BatchNorm1d(1), nn.Flatten(), nn.Linear(16, 1))
    outcome = audited(module, "accumulate")
    assert outcome.passed is False
    assert outcome.reason is not None
    assert outcome.reason.startswith("batch normalization")


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ({"x": torch.ones(2, 16), "y": torch.ones(3, 1)}, "cannot be cut into rows: x (2, 16), y (3, 1)"),
        ({"x": torch.ones(2, 16), "y": torch.tensor(1.0)}, "cannot be cut into rows: x (2, 16), y ()"),
        (rows(1), "needs two rows"),
    ],
)
def test_rows_that_cannot_be_cut_are_a_reason(batch: Batch, reason: str) -> None:
    outcome = audited(blocks(), "accumulate", batch)
    assert (outcome.error, outcome.passed) == (None, None)
    assert outcome.reason is not None
    assert reason in outcome.reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory"),
        (ValueError("expected 7 rows"), "the audit failed: ValueError: expected 7 rows"),
    ],
)
def test_an_error_inside_is_a_reason_and_leaves_the_strategy_applied(error: Exception, reason: str) -> None:
    module, recomputation = blocks(), Recomputation()
    model = regression(module)

    def failing(inner: nn.Module, batch: Batch) -> Tensor:
        raise error

    outcome = audit_gradient(
        replace(model, loss=failing), get_strategy("checkpoint"), recomputation, rows(2), device=CPU
    )
    assert (outcome.error, outcome.bound, outcome.passed) == (None, None, None)
    assert outcome.reason is not None
    assert outcome.reason.startswith(reason)
    model.loss(module, rows(2)).backward()
    assert recomputation.count == 4


def test_a_gradient_that_is_not_finite_fails() -> None:
    outcome = audited(blocks(), "standard", {"x": torch.full((2, 16), torch.inf), "y": torch.ones(2, 1)})
    assert (outcome.error, outcome.passed) == (None, False)
    assert outcome.reason is not None
    assert "not finite" in outcome.reason


def test_a_gradient_of_zero_is_not_judged() -> None:
    module = nn.Linear(16, 1, bias=False)
    outcome = audited(module, "standard", {"x": torch.zeros(2, 16), "y": torch.ones(2, 1)})
    assert (outcome.error, outcome.passed) == (None, None)


def test_the_error_is_of_all_parameters_as_one_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "CHUNK", 2)
    found = difference(
        {"a": torch.tensor([3.0, 0.0, 0.0]), "b": torch.tensor([[4.0]]), "c": None, "d": None},
        {"a": torch.tensor([3.0, 0.0, 2.0]), "b": None, "c": torch.tensor([1.0]), "d": None},
    )
    assert found.norm == 5.0
    assert found.distance == pytest.approx((4 + 16 + 1) ** 0.5)
    assert found.worst == "b"
