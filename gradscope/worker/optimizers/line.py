"""A line search that keeps no gradient: the loss along a direction is a function of one number.

torch's own strong-Wolfe search (`torch.optim.lbfgs._strong_wolfe`) remembers up to four gradients in its bracket, but
only uses their products with the direction. Here it is handed those products, the slopes, as vectors of one element,
and decides as it always does.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.optimizers.flat import dot, gradients, views


class Line:
    """The loss at `start + t * direction`, on one batch.

    Args:
        parameters: Hold the point being looked at; at `start` when the line is made.
        start: Flat copy of them, to come back to exactly.
        direction: Flat; may be changed by its owner, who then comes `back` first.
        evaluate: Returns the loss and leaves gradients in `.grad`.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], start: Tensor, direction: Tensor, evaluate: Callable[[], Tensor]
    ) -> None:
        self._parameters = parameters
        self._start = views(start, parameters)
        self._direction = views(direction, parameters)
        self._evaluate = evaluate
        self.position = 0.0
        """The t that the parameters stand at."""
        self.loss = math.nan
        """Loss at the last evaluated point; `inf` where it or its slope was not finite."""

    def move(self, t: float) -> None:
        """Put the parameters at `t`, without evaluating."""
        for parameter, start, direction in zip(self._parameters, self._start, self._direction, strict=True):
            torch.add(start, direction, alpha=t, out=parameter)
        self.position = t

    def back(self) -> None:
        """Put the parameters at the start, bit for bit."""
        for parameter, start in zip(self._parameters, self._start, strict=True):
            parameter.copy_(start)
        self.position = 0.0

    def at(self, t: float) -> tuple[float, float]:
        """Move to `t` and return loss and slope there; `inf` and NaN where one of them is not finite."""
        self.move(t)
        loss = float(self._evaluate())
        slope = dot(gradients(self._parameters), self._direction)
        finite = math.isfinite(loss) and math.isfinite(slope)
        self.loss = loss if finite else math.inf
        return self.loss, slope if finite else math.nan


REFINED = 1e-4
"""A trial that passes with a slope below this share of the start's is as good as exact."""

LONGEST_STRIDE = 10
"""torch's search multiplies a trial that is still going down by at most this."""

Search = Callable[..., tuple[float, Tensor, Any, int]]


def torch_search() -> Search:
    """Return torch's strong-Wolfe search.

    Raises:
        GradscopeError: This torch has none under that name.
    """
    try:
        from torch.optim.lbfgs import _strong_wolfe
    except ImportError as error:
        raise GradscopeError(
            f"torch {torch.__version__} has no strong-Wolfe line search for cgd (torch.optim.lbfgs._strong_wolfe)",
            'give a fixed rate with optimizer.lr and optimizer.options.line_search = "none", or use torch 2.8 to 2.13',
            exit_code=ExitCode.ENVIRONMENT,
        ) from error
    search: Search = _strong_wolfe
    return search


def strong_wolfe(
    line: Line, *, loss: float, slope: float, first: float, c1: float, c2: float, max_evaluations: int, width: float
) -> float:
    """Search a step length t with f(t) <= f(0) + c1 t f'(0) and |f'(t)| <= c2 |f'(0)|.

    Where a loss is not finite the search goes on between that point and the best one so far. A trial that was a guess
    and passes by luck may be 10 % off the minimum, which costs the next directions their conjugacy: one secant step
    follows it, so that a quadratic is searched exactly.

    Args:
        line: Where to search; left at the last evaluated point.
        loss: Loss at its start.
        slope: Slope at its start, negative.
        first: First step length to try.
        c1: Sufficient decrease.
        c2: Curvature.
        max_evaluations: Most evaluations (one more may happen).
        width: Give up when the bracket is narrower than this share of `first`.

    Returns:
        The best step length found, 0 if none decreases the loss. It was evaluated last, unless `max_evaluations` or
        `width` ended the search.
    """
    trials: list[tuple[float, float]] = []

    def evaluate(_start: object, t: Any, _direction: object) -> tuple[float, Tensor]:
        value, slope_there = line.at(float(t))
        trials.append((float(t), slope_there))
        return value, torch.tensor([slope_there], dtype=torch.float64)

    found, _, t, _ = torch_search()(
        evaluate,
        None,
        first,
        torch.ones(1, dtype=torch.float64),
        loss,
        torch.tensor([slope], dtype=torch.float64),
        torch.tensor(slope, dtype=torch.float64),
        c1=c1,
        c2=c2,
        tolerance_change=width * first,
        max_ls=max_evaluations,
    )
    if not found < loss:
        return 0.0
    length, slope_there = trials[-1]
    if length != float(t):
        return float(t)
    guessed = len(trials) == 1 or math.isclose(length, LONGEST_STRIDE * trials[-2][0])
    if guessed and REFINED < abs(slope_there / slope) <= c2 and len(trials) < max_evaluations:
        secant = length * slope / (slope - slope_there)
        value, slope_there = line.at(secant)
        if value <= loss + c1 * secant * slope and abs(slope_there) <= c2 * abs(slope):
            return secant
    return length
