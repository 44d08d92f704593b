"""Is the strategy's gradient the gradient? Compared with the plain strategy's on the same rows, after training."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gradscope.worker.contract import Batch, Strategy, TrainingModel, row_count
from gradscope.worker.failures import is_out_of_memory, print_traceback
from gradscope.worker.gradient import accumulate_gradient
from gradscope.worker.memory import SavedActivations
from gradscope.worker.recompute import Recomputation
from gradscope.worker.undisturbed import dropout_rate, seed_everything, undisturbed

REPLAY_BOUNDS = {"fp32": 1e-6, "bf16": 2.0**-9, "fp16": 2.0**-12}
"""Most that a gradient may differ where the same operations run on the same rows: in half precision half a unit
roundoff."""

SPLIT_BOUNDS = {"fp32": 1e-5, "bf16": 2.0**-6, "fp16": 2.0**-9}
"""Most where rows run in parts, so that sums are taken in another order: in half precision four unit roundoffs."""

DROPOUT = 0.1
SEED = 20_608
FP16_SCALE = 1024.0
"""Keeps small gradients from vanishing; a power of two, so that taking it back is exact."""

CHUNK = 1 << 22
"""Elements compared at a time, so that double precision costs no second copy of a gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutcome:
    """What the audit found; see the event `Audited` for what each field means."""

    error: float | None = None
    bound: float | None = None
    passed: bool | None = None
    reason: str | None = None
    without_gradient: tuple[str, ...] = ()
    no_effect: str | None = None


@dataclass(frozen=True, slots=True)
class _Difference:
    """|g - g0|, |g0|, and the parameter that contributes most to the first."""

    distance: float
    norm: float
    worst: str


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One way in which a strategy is compared with the plain one."""

    dropout: float
    split: bool
    bounds: dict[str, float]


@dataclass(slots=True)
class _Gradient:
    """One evaluation: the gradient of each trainable parameter on the host, and the most that a forward saved."""

    by_name: dict[str, Tensor | None]
    saved_bytes: int


class _NotAuditedError(Exception):
    """The audit cannot be made; the message says why."""


def audit_gradient(
    model: TrainingModel,
    strategy: Strategy,
    recomputation: Recomputation,
    rows: Batch,
    *,
    device: torch.device,
    precision: str = "fp32",
) -> AuditOutcome:
    """Compare the gradient under `strategy` with the plain one.

    The plain gradient of all `rows` in one batch is the reference; it is kept on the host. Checkpointing is compared
    with dropout set and random numbers replayed; accumulation, row by row, with dropout off, since masks of a row alone
    and in a batch cannot coincide; a strategy that does both, in both ways, and the worse is reported. The plain
    strategy is compared with itself, which shows that the model repeats itself at all.

    Parameters, buffers, modes, dropout rates and random states are as before when it returns, and the strategy is
    applied. Gradients are gone.

    Args:
        model: What was trained; its module is audited as it is, not what torch.compile made of it.
        strategy: Taken back and applied again on the way.
        recomputation: What checkpointed blocks report to.
        rows: Two rows, on the host.
        device: Where the model is.
        precision: A preset's `run.precision`; half precision has wider bounds.
    """
    try:
        with undisturbed(model.module, device):
            return _Audit(model, strategy, recomputation, device, precision).run(rows)
    except _NotAuditedError as error:
        return AuditOutcome(reason=str(error))
    except Exception as error:
        # training is over and its numbers stand: whatever goes wrong here is the audit's result, not the run's
        if is_out_of_memory(error):
            return AuditOutcome(reason="out of memory: the audit holds a second gradient, on the host")
        print_traceback(error)
        return AuditOutcome(reason=f"the audit failed: {type(error).__name__}: {error}")
    finally:
        if strategy.apply is not None:
            strategy.apply(model.module, recomputation.context)


class _Audit:
    """What one audit knows."""

    def __init__(
        self,
        model: TrainingModel,
        strategy: Strategy,
        recomputation: Recomputation,
        device: torch.device,
        precision: str,
    ) -> None:
        self._model = model
        self._strategy = strategy
        self._recomputation = recomputation
        self._device = device
        self._precision = precision

    def run(self, rows: Batch) -> AuditOutcome:
        outcomes = [self._compare(rows, comparison) for comparison in _comparisons(self._strategy)]
        return max(outcomes, key=_badness)

    def _compare(self, rows: Batch, comparison: _Comparison) -> AuditOutcome:
        module, strategy = self._model.module, self._strategy
        window = cut_rows(rows) if comparison.split else [rows]
        with dropout_rate(module, comparison.dropout):
            if strategy.remove is not None:
                strategy.remove(module)
            reference = self._evaluate([rows])
            taken = 0 if strategy.apply is None else strategy.apply(module, self._recomputation.context)
            count = self._recomputation.count
            gradient = self._evaluate(window)
            recomputed = self._recomputation.count - count
        without = tuple(name for name, value in reference.by_name.items() if value is None)
        no_effect = None
        if strategy.checkpoints:
            no_effect = self._without_effect(taken, recomputed, reference, gradient, split=comparison.split)
        bound = comparison.bounds[self._precision]
        error, passed, reason = _judge(difference(reference.by_name, gradient.by_name), bound)
        if passed is False and comparison.split and _uses_batch_statistics(module):
            reason = "batch normalization sees each micro-batch alone, so accumulation trains another function"
        return AuditOutcome(
            error=error, bound=bound, passed=passed, reason=reason, without_gradient=without, no_effect=no_effect
        )

    def _evaluate(self, window: Sequence[Batch]) -> _Gradient:
        """Return the gradient of a window, from the same random numbers each time, and leave none behind."""
        module = self._model.module
        fixed = [*module.parameters(), *module.buffers()]
        saved_bytes = 0

        @contextmanager
        def watch(batch: Batch) -> Iterator[None]:
            nonlocal saved_bytes
            with SavedActivations(exclude=[*fixed, *batch.values()]) as saved:
                yield
            saved_bytes = max(saved_bytes, saved.bytes or 0)

        module.zero_grad(set_to_none=True)
        seed_everything(SEED)
        scaled = self._precision == "fp16"
        loss = accumulate_gradient(
            self._model,
            module,
            window,
            device=self._device,
            precision=self._precision,
            scale=(lambda share: share * FP16_SCALE) if scaled else None,
            around_forward=watch,
        )
        if loss is None:
            raise _NotAuditedError("none of the audited rows has a label")
        return _Gradient(_take_gradients(module, FP16_SCALE if scaled else 1.0), saved_bytes)

    def _without_effect(
        self, taken: int, recomputed: int, reference: _Gradient, gradient: _Gradient, *, split: bool
    ) -> str | None:
        """Say why checkpointing did nothing, if it did nothing."""
        module = self._model.module
        if taken == 0:
            return "the model has no blocks that could be checkpointed"
        if recomputed == 0:
            if not module.training:
                return "the model is in eval mode, in which nothing is checkpointed"
            return f"{taken} blocks are checkpointed, and none was recomputed in backward"
        if not split and gradient.saved_bytes >= reference.saved_bytes:
            return (
                f"{taken} blocks are recomputed, and yet {gradient.saved_bytes:,} bytes of activations stay saved, "
                f"where the plain strategy saves {reference.saved_bytes:,}"
            )
        return None


def _comparisons(strategy: Strategy) -> list[_Comparison]:
    replay = _Comparison(DROPOUT, split=False, bounds=REPLAY_BOUNDS)
    split = _Comparison(0.0, split=True, bounds=SPLIT_BOUNDS)
    if not strategy.accumulates:
        return [replay]
    return [replay, split] if strategy.checkpoints else [split]


def _badness(outcome: AuditOutcome) -> tuple[int, float]:
    """Order outcomes: failed before not judged before passed, and by how much of the bound is used up."""
    rank = {False: 2, None: 1, True: 0}[outcome.passed]
    return rank, 0.0 if outcome.error is None or not outcome.bound else outcome.error / outcome.bound


def cut_rows(rows: Batch) -> list[Batch]:
    """Cut a batch into micro-batches of one row.

    Raises:
        _NotAuditedError: Its tensors do not all have the same number of rows, or there is only one.
    """
    counts = {name: value.shape[0] if value.dim() else None for name, value in rows.items()}
    if len(set(counts.values())) != 1 or None in counts.values():
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in rows.items())
        raise _NotAuditedError(f"the batch cannot be cut into rows: {shapes}")
    count = row_count(rows)
    if count < 2:
        raise _NotAuditedError("accumulation needs two rows to be audited")
    return [{name: value[row : row + 1] for name, value in rows.items()} for row in range(count)]


def _take_gradients(module: nn.Module, scale: float) -> dict[str, Tensor | None]:
    """Move gradients to the host, one parameter at a time, and leave none behind."""
    taken: dict[str, Tensor | None] = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        gradient, parameter.grad = parameter.grad, None
        if gradient is None:
            taken[name] = None
            continue
        host = gradient.detach().to("cpu")
        host = host.to_dense() if host.layout != torch.strided else host
        host = torch.view_as_real(host) if host.is_complex() else host
        taken[name] = host if scale == 1.0 else host / scale
    return taken


def difference(reference: dict[str, Tensor | None], gradient: dict[str, Tensor | None]) -> _Difference:
    """Return how far two gradients are apart, over all parameters as one vector; a missing gradient is 0."""
    squares = norm_squares = 0.0
    worst, most = "", -1.0
    for name, expected in reference.items():
        found = gradient[name]
        own = 0.0
        present = expected if expected is not None else found
        if present is None:
            continue
        for start in range(0, present.numel(), CHUNK):
            first, second = (_chunk(one, start, present) for one in (expected, found))
            apart = second - first
            own += float(apart @ apart)
            norm_squares += float(first @ first)
        squares += own
        if own > most or math.isnan(own):
            worst, most = name, own
    return _Difference(math.sqrt(squares), math.sqrt(norm_squares), worst)


def _chunk(tensor: Tensor | None, start: int, like: Tensor) -> Tensor:
    if tensor is None:
        return torch.zeros(min(CHUNK, like.numel() - start), dtype=torch.float64)
    return tensor.reshape(-1)[start : start + CHUNK].double()


def _judge(found: _Difference, bound: float) -> tuple[float | None, bool | None, str | None]:
    """Return error, verdict and reason."""
    if not (math.isfinite(found.distance) and math.isfinite(found.norm)):
        return None, False, f"the gradient is not finite, in {found.worst} among others"
    if found.norm == 0:
        if found.distance == 0:
            return None, None, "the gradient of the audited rows is 0"
        return None, False, "the plain gradient of the audited rows is 0, the strategy's is not"
    error = found.distance / found.norm
    if error <= bound:
        return error, True, None
    return error, False, f"the gradient is off by {error:.1e} of its norm, most of it in {found.worst}"


def _uses_batch_statistics(module: nn.Module) -> bool:
    return any(isinstance(part, _BatchNorm) and part.training for part in module.modules())
