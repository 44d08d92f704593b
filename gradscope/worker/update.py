"""One optimizer update: the gradient of a window of micro-batches, then the optimizer and its line search."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradscope.errors import GradscopeError
from gradscope.worker.contract import Batch, TrainingModel
from gradscope.worker.gradient import EnterPhase, accumulate_gradient
from gradscope.worker.optimizers import needs_closure

AroundForward = Callable[[Batch], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What one update gave."""

    loss: Tensor | None
    """Mean loss before the update, detached, on the device; `None` if the window held no label: nothing was updated."""
    evaluations: int
    """Evaluations of loss and gradient."""


class RandomState:
    """The generators a forward draws from, as they stood at one moment."""

    def __init__(self, device: torch.device) -> None:
        self._host = torch.get_rng_state()
        self._device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        self._cuda = device

    def restore(self) -> None:
        """Set them back."""
        torch.set_rng_state(self._host)
        if self._device is not None:
            torch.cuda.set_rng_state(self._device, self._cuda)


class Updater:
    """Applies updates to one model with one optimizer."""

    def __init__(
        self,
        model: TrainingModel,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        device: torch.device,
        precision: str,
    ) -> None:
        """`module` is the model's own module, or what torch.compile made of it.

        Raises:
            GradscopeError: The optimizer evaluates the loss itself, and would search along gradients scaled for fp16.
        """
        self.model = model
        self.module = module
        self.optimizer = optimizer
        self.device = device
        self.precision = precision
        self._searches = needs_closure(optimizer)
        if self._searches and precision == "fp16":
            raise GradscopeError(
                f"run.precision = fp16 with {type(optimizer).__name__}, which evaluates the loss itself",
                "use -s run.precision=bf16 or fp32, or another optimizer.name",
            )
        self._scaler = torch.amp.GradScaler(device.type) if precision == "fp16" else None

    def run(
        self, window: Sequence[Batch], *, enter: EnterPhase, around_forward: AroundForward | None = None
    ) -> UpdateResult:
        """Update the parameters once from a window of host micro-batches.

        Leaves gradients in `.grad` until the next call, so that they can be measured.
        """
        if self._searches:
            return self._search(window, enter, around_forward)
        loss = self._evaluate(window, enter, around_forward)
        enter("optimizer")
        if loss is not None:
            if self._scaler is None:
                self.optimizer.step()
            else:
                self._scaler.step(self.optimizer)
                self._scaler.update()
        return UpdateResult(loss, evaluations=1)

    def _evaluate(
        self, window: Sequence[Batch], enter: EnterPhase, around_forward: AroundForward | None
    ) -> Tensor | None:
        self.optimizer.zero_grad(set_to_none=True)
        return accumulate_gradient(
            self.model,
            self.module,
            window,
            device=self.device,
            precision=self.precision,
            scale=None if self._scaler is None else self._scaler.scale,
            around_forward=around_forward,
            enter=enter,
        )

    def _search(self, window: Sequence[Batch], enter: EnterPhase, around_forward: AroundForward | None) -> UpdateResult:
        """Let the optimizer evaluate as often as it likes, always on this window and with the same random numbers."""
        if sum(self.model.count(batch) for batch in window) == 0:
            return UpdateResult(None, evaluations=0)
        start = RandomState(self.device)
        losses: list[Tensor] = []

        def closure() -> Tensor:
            start.restore()
            with torch.enable_grad():
                loss = self._evaluate(window, enter, around_forward)
            enter("optimizer")
            assert loss is not None, "the window holds labels"
            losses.append(loss)
            return loss

        enter("optimizer")
        self.optimizer.step(closure)  # type: ignore[arg-type]  # torch types closures as returning float
        return UpdateResult(losses[0], evaluations=len(losses))
