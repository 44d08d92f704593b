"""A window's gradient and loss do not depend on how its rows are split into micro-batches."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradscope.worker.contract import IGNORED_LABEL, Batch, TrainingModel
from gradscope.worker.gradient import accumulate_gradient

CPU = torch.device("cpu")


def loss_of(module: nn.Module, batch: Batch) -> Tensor:
    labels = batch["labels"]
    return cross_entropy(module(batch["x"]).float(), labels, ignore_index=IGNORED_LABEL, reduction="sum")


def classifier() -> TrainingModel:
    torch.manual_seed(0)
    return TrainingModel(
        name="linear",
        module=nn.Linear(3, 5),
        loss=loss_of,
        count=lambda batch: int((batch["labels"] != IGNORED_LABEL).sum()),
        counts_tokens=False,
        spec=None,
    )


def rows(count: int) -> Batch:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 3, generator=generator)
    return {"x": x, "labels": torch.randint(0, 5, (count,), generator=generator)}


def split(batch: Batch, sizes: list[int]) -> list[Batch]:
    parts = {name: torch.split(value, sizes) for name, value in batch.items()}
    return [{name: part[index] for name, part in parts.items()} for index in range(len(sizes))]


def gradient_of(window: list[Batch], **options: object) -> tuple[Tensor, Tensor | None]:
    """Return the window's gradient as one vector, and its loss."""
    model = classifier()
    loss = accumulate_gradient(model, model.module, window, device=CPU, **options)  # type: ignore[arg-type]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.module.parameters()]
    return torch.cat([grad.flatten() for grad in grads]), loss


def relative_error(gradient: Tensor, reference: Tensor) -> float:
    return float(torch.linalg.vector_norm(gradient - reference) / torch.linalg.vector_norm(reference))


def test_micro_batches_of_1_and_9_rows_give_the_gradient_of_the_10_rows() -> None:
    batch = rows(10)
    whole, loss = gradient_of([batch])
    parts, parts_loss = gradient_of(split(batch, [1, 9]))
    assert relative_error(parts, whole) < 1e-6
    assert float(parts_loss) == pytest.approx(float(loss), abs=1e-6)
    # what the usual fault gives: each micro-batch's own mean, averaged
    halves = [gradient_of([part])[0] for part in split(batch, [1, 9])]
    assert relative_error(sum(halves) / 2, whole) > 0.1


def test_it_equals_torchs_own_mean() -> None:
    batch = rows(10)
    model = classifier()
    loss = cross_entropy(model.module(batch["x"]), batch["labels"])
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in model.module.parameters()])
    gradient, ours = gradient_of([batch])
    assert relative_error(gradient, expected) < 1e-6
    assert float(ours) == pytest.approx(loss.item(), abs=1e-6)


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_the_logged_loss_is_on_one_scale_whatever_the_factor(factor: int) -> None:
    batch = rows(16)
    batch["labels"][[0, 1, 2, 7]] = IGNORED_LABEL  # the parts hold different numbers of labels
    model = classifier()
    expected = cross_entropy(model.module(batch["x"]), batch["labels"], ignore_index=IGNORED_LABEL).item()
    _, loss = gradient_of(split(batch, [16 // factor] * factor))
    assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_a_micro_batch_without_a_label_adds_nothing() -> None:
    batch = rows(10)
    batch["labels"][:4] = IGNORED_LABEL
    whole, loss = gradient_of([batch])
    parts, parts_loss = gradient_of(split(batch, [4, 6]))
    assert relative_error(parts, whole) < 1e-6
    assert float(parts_loss) == pytest.approx(float(loss), abs=1e-6)
    assert torch.isfinite(parts).all()


@pytest.mark.parametrize("sizes", [[4], [2, 2]])
def test_a_window_without_any_label_computes_nothing_and_has_no_loss(sizes: list[int]) -> None:
    batch = rows(4)
    batch["labels"][:] = IGNORED_LABEL
    entered: list[str] = []
    model = classifier()
    loss = accumulate_gradient(model, model.module, split(batch, sizes), device=CPU, enter=entered.append)
    assert loss is None
    assert entered == []
    assert all(p.grad is None for p in model.module.parameters())


def test_a_last_shorter_window_is_divided_by_its_own_count() -> None:
    batch = rows(3)
    whole, _ = gradient_of([batch])
    parts, _ = gradient_of(split(batch, [2, 1]))
    assert relative_error(parts, whole) < 1e-6


def test_the_gradient_is_added_to_what_is_there() -> None:
    model, batch = classifier(), rows(6)
    once, _ = gradient_of([batch])
    for _ in range(2):
        accumulate_gradient(model, model.module, [batch], device=CPU)
    twice = torch.cat([p.grad.flatten() for p in model.module.parameters()])
    assert torch.allclose(twice, 2 * once)


def test_phases_and_contexts_come_in_order_once_a_micro_step() -> None:
    seen: list[str] = []

    @contextmanager
    def around(batch: Batch) -> Iterator[None]:
        seen.append(f"forward of {len(batch['x'])} rows")
        yield
        seen.append("forward done")

    gradient_of(split(rows(10), [1, 9]), enter=seen.append, around_forward=around)
    step = ["h2d", "forward", "forward of {} rows", "forward done", "backward"]
    assert seen == [text.format(count) for count in (1, 9) for text in step]


def test_a_gradient_scaler_scales_the_gradient_and_not_the_loss() -> None:
    batch = rows(8)
    plain, loss = gradient_of([batch])
    scaled, scaled_loss = gradient_of(split(batch, [3, 5]), scale=lambda share: share * 1024)
    assert relative_error(scaled, plain * 1024) < 1e-6
    assert float(scaled_loss) == pytest.approx(float(loss), abs=1e-6)


def test_bf16_computes_under_autocast_and_leaves_fp32_gradients() -> None:
    batch = rows(8)
    plain, loss = gradient_of([batch])
    rounded, rounded_loss = gradient_of([batch], precision="bf16")
    assert rounded.dtype is torch.float32
    assert 0 < relative_error(rounded, plain) < 0.05
    assert float(rounded_loss) == pytest.approx(float(loss), rel=0.02)


def test_the_loss_is_detached_and_micro_batches_move_to_the_device_one_at_a_time() -> None:
    meta = torch.device("meta")
    model = classifier()
    module = nn.Linear(3, 5, device=meta)
    window, seen = split(rows(10), [1, 9]), []

    @contextmanager
    def around(batch: Batch) -> Iterator[None]:
        seen.append([value.device.type for value in batch.values()])
        yield

    loss = accumulate_gradient(model, module, window, device=meta, around_forward=around)
    assert seen == [["meta", "meta"]] * 2
    assert loss is not None
    assert loss.device.type == "meta"
    assert not loss.requires_grad
    assert loss.shape == ()
    assert [value.device.type for batch in window for value in batch.values()] == ["cpu"] * 4
    assert all(p.grad.device.type == "meta" for p in module.parameters())
