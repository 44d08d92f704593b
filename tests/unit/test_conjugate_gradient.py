"""Conjugate gradient descent minimises: quadratics in as many steps as theory says, and Rosenbrock's valley."""

import math
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lbfgs import _strong_wolfe

from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.optimizers import line as line_module
from gradscope.worker.optimizers.cgd import BETAS, CGD
from gradscope.worker.optimizers.flat import dot

CONDITION = 100.0


def quadratic(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return A and b of x.A.x / 2 - b.x.

    A's eigenvalues run from 1 to 100, evenly (odd seeds) or evenly in their logarithm, times a power of ten.
    """
    generator = torch.Generator().manual_seed(seed)
    rotation, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64, generator=generator))
    spread = torch.linspace(1, CONDITION, n) if seed % 2 else torch.logspace(0, math.log10(CONDITION), n)
    a = rotation @ torch.diag(spread.double() * 10.0 ** (seed % 5 - 2)) @ rotation.T
    return (a + a.T) / 2, torch.randn(n, dtype=torch.float64, generator=generator)


def quadratic_closure(x: nn.Parameter, a: Tensor, b: Tensor) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        x.grad = None
        loss = 0.5 * x @ a @ x - b @ x
        loss.backward()
        return loss.detach()

    return closure


def parameter(*values: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 20])
def test_with_an_exact_step_a_quadratic_is_minimised_in_n_steps_along_the_textbook_iterates(n: int, beta: str) -> None:
    # with 20 eigenvalues, most of them small, rounding keeps the textbook itself 1e-5 away from the solution
    for seed in (0, 1, 2, 3, 4) if n < 10 else (1, 3):
        a, b = quadratic(n, seed)
        x = nn.Parameter(torch.zeros(n, dtype=torch.float64))
        optimizer = CGD([x], beta=beta, step_length=lambda d, g, a=a: float(-(g @ d) / (d @ a @ d)))
        closure = quadratic_closure(x, a, b)
        # linear conjugate gradients (Hestenes and Stiefel)
        y, r = torch.zeros_like(b), b.clone()
        d = r.clone()
        solution = torch.linalg.solve(a, b)
        for _ in range(n):
            optimizer.step(closure)
            alpha = (r @ r) / (d @ a @ d)
            y = y + alpha * d
            r, before = r - alpha * (a @ d), r
            d = r + (r @ r) / (before @ before) * d
            assert torch.linalg.vector_norm(x.detach() - y) <= 1e-8 * torch.linalg.vector_norm(solution)
        assert torch.linalg.vector_norm(x.detach() - solution) <= 1e-8 * torch.linalg.vector_norm(solution)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 10, 20, 50])
def test_with_the_default_search_a_quadratic_is_minimised_in_2n_steps(n: int, beta: str) -> None:
    for seed in range(6 if n < 10 else 2):
        a, b = quadratic(n, seed)
        x = nn.Parameter(torch.zeros(n, dtype=torch.float64))
        optimizer = CGD([x], beta=beta)
        closure = quadratic_closure(x, a, b)
        for _ in range(2 * n):
            optimizer.step(closure)
        assert torch.linalg.vector_norm(b - a @ x.detach()) <= 1e-6 * torch.linalg.vector_norm(b)


@pytest.mark.parametrize("beta", BETAS)
def test_rosenbrock_is_minimised_to_1e_8_in_40_steps_and_130_evaluations(beta: str) -> None:
    x = parameter(-1.2, 1.0)
    optimizer = CGD([x], beta=beta)

    def closure() -> Tensor:
        x.grad = None
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss.detach()

    for _ in range(40):
        loss = float(optimizer.step(closure))
        if loss < 1e-17:
            break
    assert (x.detach() - 1).abs().max() < 1e-8
    assert optimizer.evaluations <= 130


def test_both_betas_are_made_of_squared_norms() -> None:
    # f = (x^2 + 4 y^2) / 2 from (4, 1) at rate 0.45: g0 = (4, 4), x1 = (2.2, -0.8), g1 = (2.2, -3.2),
    # |g0|^2 = 32, |g1|^2 = 15.08, g1.g0 = -4; d1 = -g1 + beta d0 with d0 = (-4, -4)
    expected = {"fletcher-reeves": 15.08 / 32, "polak-ribiere": (15.08 + 4) / 32}
    for beta, value in expected.items():
        x = parameter(4.0, 1.0)
        optimizer = CGD([x], lr=0.45, beta=beta, line_search="none", powell=math.inf)
        closure = quadratic_closure(
            x, torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64)), torch.zeros(2).double()
        )
        optimizer.step(closure)
        assert x.tolist() == pytest.approx([2.2, -0.8], abs=1e-12)
        optimizer.step(closure)
        assert x.tolist() == pytest.approx(
            [2.2 + 0.45 * (-2.2 - 4 * value), -0.8 + 0.45 * (3.2 - 4 * value)], abs=1e-12
        )


def test_the_search_tries_the_points_that_torchs_own_tries_with_whole_gradients() -> None:
    def rosenbrock(point: Tensor) -> tuple[float, Tensor]:
        point = point.clone().requires_grad_()
        loss = (1 - point[0]) ** 2 + 100 * (point[1] - point[0] ** 2) ** 2
        loss.backward()
        return loss.item(), point.grad

    start = torch.tensor([-1.2, 1.0], dtype=torch.float64)
    loss, gradient = rosenbrock(start)
    direction, slope = -gradient, -(gradient @ gradient)
    tried: list[float] = []

    def evaluate(x: Tensor, t: float, d: Tensor) -> tuple[float, Tensor]:
        tried.append(float(t))
        return rosenbrock(x + t * d)

    width = 1e-12
    *_, t, evaluations = _strong_wolfe(
        evaluate, start, 1.0, direction, loss, gradient, slope, c1=1e-4, c2=0.1, tolerance_change=width
    )

    x = nn.Parameter(start.clone())
    ours: list[float] = []

    def closure() -> Tensor:
        x.grad = None
        value = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        value.backward()
        return value.detach()

    with torch.no_grad():
        line = line_module.Line([x], start, direction, torch.enable_grad()(closure))
        move = line.move
        line.move = lambda t: (ours.append(t), move(t))[1]  # type: ignore[method-assign]
        found = line_module.strong_wolfe(
            line, loss=loss, slope=float(slope), first=1.0, c1=1e-4, c2=0.1, max_evaluations=25, width=width
        )
    assert evaluations > 3
    assert ours == pytest.approx(tried, rel=1e-9)
    assert found == pytest.approx(float(t), rel=1e-9)


def test_a_guess_that_passes_by_luck_is_refined_to_the_minimum_of_a_quadratic() -> None:
    # f = x^2 / 2 from 1 along -1: the minimum is at t = 1, and 1.05 passes both conditions
    x = parameter(1.0)
    closure = quadratic_closure(x, torch.eye(1).double(), torch.zeros(1).double())
    with torch.no_grad():
        line = line_module.Line([x], torch.ones(1).double(), -torch.ones(1).double(), torch.enable_grad()(closure))
        found = line_module.strong_wolfe(
            line, loss=0.5, slope=-1.0, first=1.05, c1=1e-4, c2=0.1, max_evaluations=25, width=1e-12
        )
    assert found == pytest.approx(1.0, abs=1e-14)
    assert line.position == found


def test_a_long_dot_product_in_fp32_does_not_stop_growing() -> None:
    ones = torch.full((40_000_000,), 1.1)
    assert dot([ones, None], [ones, ones]) == pytest.approx(40e6 * float(ones[0]) ** 2, rel=1e-4)


def test_two_runs_are_equal_to_the_last_bit() -> None:
    def run() -> tuple[list[float], list[float]]:
        a, b = quadratic(6, 3)
        x = nn.Parameter(torch.zeros(6, dtype=torch.float64))
        optimizer = CGD([x])
        return [float(optimizer.step(quadratic_closure(x, a, b))) for _ in range(8)], x.tolist()

    assert run() == run()


def test_evaluations_are_counted_apart_from_steps() -> None:
    a, b = quadratic(4, 2)
    for options in ({}, {"line_search": "none", "lr": 0.05}):
        x = nn.Parameter(torch.zeros(4, dtype=torch.float64))
        optimizer = CGD([x], **options)
        evaluate, calls = quadratic_closure(x, a, b), []

        def closure(evaluate: Callable[[], Tensor] = evaluate, calls: list[None] = calls) -> Tensor:
            calls.append(None)
            return evaluate()

        total = 0
        for _ in range(5):
            optimizer.step(closure)
            total += optimizer.last_evaluations
            assert len(calls) == optimizer.evaluations == total
            assert optimizer.last_evaluations >= 2
        if options:
            assert total == 2 * 5, "a fixed rate costs one more evaluation a step, for beta"


def test_a_fixed_rate_of_its_own_default() -> None:
    x = parameter(1.0)
    optimizer = CGD([x], line_search="none")
    optimizer.step(quadratic_closure(x, torch.eye(1).double(), torch.zeros(1).double()))
    assert x.item() == pytest.approx(1 - 1e-3)


def test_a_torch_without_the_search_is_named_and_the_fixed_rate_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["torch.optim.lbfgs"], "_strong_wolfe")
    with pytest.raises(GradscopeError, match="no strong-Wolfe line search") as caught:
        CGD([parameter(1.0)])
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert 'line_search = "none"' in caught.value.hint
    CGD([parameter(1.0)], line_search="none")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([torch.zeros(2), torch.zeros(2, dtype=torch.float64)], "one dtype"),
        ([torch.zeros(2), torch.zeros(2, device="meta")], "one device"),
        ([torch.zeros(2, dtype=torch.bfloat16)], "float32 or float64, not torch.bfloat16"),
        ([torch.zeros(2, dtype=torch.complex64)], "float32 or float64, not torch.complex64"),
    ],
)
def test_parameters_that_are_not_one_real_vector_are_refused(parameters: list[Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CGD([nn.Parameter(tensor) for tensor in parameters])


def test_parameters_without_gradient_stay_and_layouts_do_not_matter() -> None:
    torch.manual_seed(0)
    weight, rows = torch.randn(4, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)

    def train(start: Tensor, *, unused: bool) -> tuple[Tensor, Tensor]:
        w, extra = nn.Parameter(start), parameter(7.0, 8.0)
        optimizer = CGD([extra, w] if unused else [w])
        for _ in range(4):

            def closure() -> Tensor:
                w.grad = None
                loss = (rows @ w.T - 1).pow(4).sum()
                loss.backward()
                return loss.detach()

            optimizer.step(closure)
        return w.detach(), extra.detach()

    plain, _ = train(weight.clone(), unused=False)
    transposed, extra = train(weight.T.clone().T, unused=True)
    assert extra.tolist() == [7.0, 8.0]
    assert torch.allclose(plain, transposed, rtol=0, atol=1e-9)


def test_nothing_moves_where_the_gradient_is_zero() -> None:
    x = parameter(0.0, 0.0)
    optimizer = CGD([x])
    closure = quadratic_closure(x, torch.eye(2).double(), torch.zeros(2).double())
    assert [float(optimizer.step(closure)) for _ in range(2)] == [0.0, 0.0]
    assert optimizer.last_evaluations == 1
    assert x.tolist() == [0.0, 0.0]
