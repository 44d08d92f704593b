"""Nonlinear conjugate gradient descent over all parameters as one vector.

One step on batch t, from x with gradient g (Nocedal and Wright, Numerical Optimization, 2nd ed., chapters 3.5 and 5.2):

1. g is evaluated at x on batch t. The direction is d = -g + beta d_before, or -g on a restart.
2. A step length is searched along d, on batch t only.
3. The gradient g' at the new point, on batch t, is there from the search. The next step's beta is made of g and g',
   which so belong to one batch: Fletcher-Reeves |g'|^2 / |g|^2, or Polak-Ribiere+ max(0, g'.(g' - g) / |g|^2).

The next step evaluates its first gradient again although the point is the same, since the batch is another.

It restarts with steepest descent when |g'.g| >= 0.2 |g'|^2 (Powell: successive gradients are far from orthogonal), when
d is not a descent direction, and after a step that had to be taken back.

Memory in vectors of the parameters' size, beside parameters and gradients: 1 between steps (the direction), 3 during a
step (direction, start point, start gradient). All of them are in `state` while they live, so that whoever sums up
optimizer state sees them.
"""

import math
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gradscope.worker.optimizers.flat import copy_into, dot, flat_like, gradients, views
from gradscope.worker.optimizers.line import Line, strong_wolfe, torch_search

BETAS = ("polak-ribiere", "fletcher-reeves")
LINE_SEARCHES = ("strong-wolfe", "none")
SEARCH_RATE = 1.0
FIXED_RATE = 1e-3


class Restart(IntEnum):
    """Why a direction is steepest descent."""

    NO = 0
    """It is not: the direction is conjugate."""
    FIRST = 1
    """The first step."""
    BETA = 2
    """Polak-Ribiere+ came out at 0."""
    POWELL = 3
    """Successive gradients were far from orthogonal."""
    ASCENT = 4
    """The conjugate direction would not have descended on this batch."""
    NONFINITE = 5
    """A loss or gradient was not finite, and the step was taken back."""
    TAKEN_BACK = 6
    """The search found no decrease, and the step was taken back."""
    UNFINISHED = 7
    """The search ended at another point than its last evaluated one, whose gradient is gone."""


StepLength = Callable[[Tensor, Tensor], float]
"""Returns a step length for a direction and a gradient, both flat: for losses whose curvature is known."""


class _Start(NamedTuple):
    """What is known at the start of a step."""

    loss: float
    gradient: list[Tensor]
    """Views of the flat copy, in the parameters' shapes."""
    slope: float


class CGD(torch.optim.Optimizer):
    """Nonlinear conjugate gradient with a strong-Wolfe line search, or at a fixed rate.

    Args:
        params: One group of parameters of one dtype (float32 or float64), all on one device.
        lr: With a search, scales the first trial, min(1, 1 / |g|) (default 1). Without one, the step length (1e-3).
        beta: `polak-ribiere` or `fletcher-reeves`.
        line_search: `strong-wolfe`; or `none`, the fixed rate, which costs one more evaluation a step, for the second
            gradient of beta. At small rates successive gradients are nearly parallel, so that Powell's test restarts at
            every step; `powell = inf` turns it off.
        c1: Sufficient decrease of the search.
        c2: Curvature condition of the search.
        powell: Restart threshold.
        max_evaluations: Most evaluations in one search.
        step_length: Takes the place of search and fixed rate.

    Raises:
        ValueError: A parameter or option that does not fit; the message names it.
        GradscopeError: This torch has no strong-Wolfe search.
    """

    needs_closure = True

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float | None = None,
        *,
        beta: str = "polak-ribiere",
        line_search: str = "strong-wolfe",
        c1: float = 1e-4,
        c2: float = 0.1,
        powell: float = 0.2,
        max_evaluations: int = 25,
        step_length: StepLength | None = None,
    ) -> None:
        if beta not in BETAS:
            raise ValueError(f"beta must be one of {', '.join(BETAS)}, not {beta!r}")
        if line_search not in LINE_SEARCHES:
            raise ValueError(f"line_search must be one of {', '.join(LINE_SEARCHES)}, not {line_search!r}")
        if not 0 < c1 < c2 < 1:
            raise ValueError(f"c1 and c2 must be 0 < c1 < c2 < 1, not {c1} and {c2}")
        if powell < 0:
            raise ValueError(f"powell must be at least 0, not {powell}")
        if max_evaluations < 1:
            raise ValueError(f"max_evaluations must be at least 1, not {max_evaluations}")
        searches = line_search == "strong-wolfe" and step_length is None
        rate = lr if lr is not None else SEARCH_RATE if searches else FIXED_RATE
        if not rate > 0:
            raise ValueError(f"lr must be greater than 0, not {rate}")
        super().__init__(params, {"lr": rate, "c1": c1, "c2": c2, "powell": powell, "max_evaluations": max_evaluations})
        if len(self.param_groups) != 1:
            raise ValueError("cgd takes one group of parameters: they are one vector")
        self._parameters: list[nn.Parameter] = self.param_groups[0]["params"]
        _check(self._parameters)
        if searches:
            torch_search()
        self._fletcher_reeves = beta == "fletcher-reeves"
        self._searches = searches
        self._step_length = step_length
        self.last_evaluations = 0
        """Evaluations of loss and gradient in the latest step."""
        self.last_restart = Restart.NO
        """Why the latest step went along the negative gradient, if it did."""

    @property
    def evaluations(self) -> int:
        """Evaluations of loss and gradient in all steps."""
        return int(self._memory["evaluations"])

    def without_search(self) -> None:
        """Take steps of length 1 from here on: for tensors without data, on which no search can decide anything.

        A step then holds the vectors that it holds with a search, and evaluates as a search's first trial does.
        """
        self._searches = False
        self._step_length = lambda _direction, _gradient: 1.0

    @property
    def _memory(self) -> dict[str, Any]:
        """All that outlives a step, as state of the first parameter as torch's LBFGS has it, so that state_dict has it.

        Beside tensors only numbers: `load_state_dict` rebuilds whatever can be iterated over, text included.
        """
        memory: dict[str, Any] = self.state[self._parameters[0]]
        if not memory:
            memory.update(evaluations=0, beta=0.0, restart=int(Restart.FIRST), length=None, slope=None)
        return memory

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Tensor:  # type: ignore[override]  # torch allows a step without closure
        """Take one step and return the loss at its start, as `closure` returned it.

        Args:
            closure: Zeroes gradients, computes loss and gradients on this step's batch, returns the loss. All its calls
                within one step must compute the same function: the same batch, the same dropout masks.
        """
        evaluate_with_gradient = torch.enable_grad()(closure)
        memory = self._memory
        self.last_evaluations = 0

        def evaluate() -> Tensor:
            self.last_evaluations += 1
            memory["evaluations"] += 1
            loss: Tensor = evaluate_with_gradient()
            return loss

        loss = evaluate()
        gradient = gradients(self._parameters)
        if not (math.isfinite(float(loss)) and math.isfinite(dot(gradient, gradient))):
            self._forget(Restart.NONFINITE)
            self.last_restart = Restart.NO
            return loss
        if "direction" not in memory:
            memory["direction"] = flat_like(self._parameters)
        memory["start_gradient"] = torch.empty_like(memory["direction"])
        memory["start_point"] = torch.empty_like(memory["direction"])
        copy_into(memory["start_gradient"], gradient, self._parameters)
        copy_into(memory["start_point"], [p.detach() for p in self._parameters], self._parameters)
        line = Line(self._parameters, memory["start_point"], memory["direction"], evaluate)
        try:
            self._descend(line, float(loss))
        except BaseException:
            line.back()  # whoever stops a search midway finds the parameters where the step began
            raise
        finally:
            del memory["start_gradient"], memory["start_point"]
        return loss

    def _descend(self, line: Line, loss: float) -> None:
        """Choose a direction, move along it, and prepare the next step's beta."""
        slope = self._choose_direction()
        start = _Start(loss, views(self._memory["start_gradient"], self._parameters), slope)
        if slope == 0:
            return
        length = self._move(line, start)
        if length == 0 and self.last_restart is Restart.NO:
            self._forget(Restart.TAKEN_BACK)
            start = start._replace(slope=self._choose_direction())
            length = self._move(line, start)
        if length == 0:
            self._forget(Restart.TAKEN_BACK if math.isfinite(line.loss) else Restart.NONFINITE)
        elif line.position != length:
            line.move(length)
            self._forget(Restart.UNFINISHED)
        else:
            self._make_beta(start, length)

    def _choose_direction(self) -> float:
        """Write the direction and return the slope of the loss along it: negative, or 0 where the gradient is 0."""
        memory = self._memory
        direction, gradient = memory["direction"], memory["start_gradient"]
        self.last_restart = Restart(memory["restart"])
        if self.last_restart is Restart.NO:
            direction.mul_(memory["beta"]).sub_(gradient)
            slope = dot([direction], [gradient])
            if -math.inf < slope < 0:
                return slope
            self.last_restart = Restart.ASCENT
        torch.neg(gradient, out=direction)
        return dot([direction], [gradient])

    def _move(self, line: Line, start: _Start) -> float:
        """Move along the direction and evaluate there; return the step length, or come back and return 0."""
        group = self.param_groups[0]
        if self._searches:
            length = strong_wolfe(
                line,
                loss=start.loss,
                slope=start.slope,
                first=self._first_trial(start),
                c1=group["c1"],
                c2=group["c2"],
                max_evaluations=group["max_evaluations"],
                width=torch.finfo(self._parameters[0].dtype).eps,
            )
        else:
            memory = self._memory
            hook = self._step_length
            length = float(group["lr"] if hook is None else hook(memory["direction"], memory["start_gradient"]))
            if not math.isfinite(line.at(length)[0]):
                length = 0.0
        if length == 0:
            line.back()
        return length

    def _first_trial(self, start: _Start) -> float:
        """Guess a step length: to first order the loss falls as in the last step (Nocedal and Wright, 3.60).

        Where there is none, move by at most `lr` in all: the 1-norm that torch's LBFGS goes by makes that step shorter
        the more parameters there are, and the search then has to find its way back up.
        """
        memory = self._memory
        if memory["length"] is not None:
            guess = float(memory["length"] * memory["slope"] / start.slope)
            if math.isfinite(guess) and guess > 0:
                return guess
        norm = math.sqrt(dot(start.gradient, start.gradient))
        return float(self.param_groups[0]["lr"]) * min(1.0, 1.0 / norm)

    def _make_beta(self, start: _Start, length: float) -> None:
        """Make beta of the two gradients of this step's batch: at its start, and at its end, which `.grad` holds."""
        end = gradients(self._parameters)
        end_end, end_start, start_start = dot(end, end), dot(end, start.gradient), dot(start.gradient, start.gradient)
        beta = end_end / start_start if self._fletcher_reeves else max(0.0, (end_end - end_start) / start_start)
        restart = Restart.NO
        if abs(end_start) >= self.param_groups[0]["powell"] * end_end:
            restart = Restart.POWELL
        elif not 0 < beta < math.inf:
            restart = Restart.BETA
        self._memory.update(beta=beta, restart=int(restart), length=length, slope=start.slope)

    def _forget(self, reason: Restart) -> None:
        """Make the next direction steepest descent, and its first trial a short step."""
        self._memory.update(beta=0.0, restart=int(reason), length=None, slope=None)


def _check(parameters: list[nn.Parameter]) -> None:
    """Refuse parameters that are not one real vector of enough precision to tell two losses apart."""
    for what, values in (
        ("dtype", {str(p.dtype) for p in parameters}),
        ("device", {str(p.device) for p in parameters}),
    ):
        if len(values) > 1:
            raise ValueError(
                f"cgd needs all parameters on one {what}, they are one vector; found {', '.join(sorted(values))}"
            )
    dtype = parameters[0].dtype
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"cgd needs parameters in float32 or float64, not {dtype}: a search compares nearly equal losses"
        )
