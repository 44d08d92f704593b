"""What one step of conjugate gradient descent uses, remembers, and does when a search goes wrong."""

import io
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from gradscope.worker.optimizers.cgd import BETAS, CGD, Restart

DIAGONAL = torch.tensor([1.0, 4.0], dtype=torch.float64)


def parameter(*values: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def closure_of(x: nn.Parameter, loss_of: Callable[[Tensor], Tensor]) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        x.grad = None
        loss = loss_of(x)
        loss.backward()
        return loss.detach()

    return closure


def bowl(x: Tensor) -> Tensor:
    """(x^2 + 4 y^2) / 2."""
    return 0.5 * (DIAGONAL * x * x).sum()


def exact(direction: Tensor, gradient: Tensor) -> float:
    return float(-(gradient @ direction) / (direction @ (DIAGONAL * direction)))


def state_bytes(optimizer: CGD) -> int:
    return sum(
        value.untyped_storage().nbytes()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, Tensor)
    )


class TestRestarts:
    def test_orthogonal_gradients_do_not_restart(self) -> None:
        # from (4, 1) exact: t = 0.4, g1 = (2.4, -2.4), orthogonal to g0 = (4, 4); beta = 11.52 / 32 = 0.36 either way
        for beta in BETAS:
            x = parameter(4.0, 1.0)
            optimizer = CGD([x], beta=beta, step_length=exact)
            optimizer.step(closure_of(x, bowl))
            assert optimizer.last_restart is Restart.FIRST
            assert x.tolist() == pytest.approx([2.4, -0.6])
            optimizer.step(closure_of(x, bowl))
            assert optimizer.last_restart is Restart.NO
            assert x.tolist() == pytest.approx([0.0, 0.0], abs=1e-15)

    @pytest.mark.parametrize(("powell", "restarts"), [(0.2, True), (0.26, True), (0.27, False)])
    def test_powells_test_compares_the_two_gradients_of_one_batch(self, powell: float, restarts: bool) -> None:
        # at rate 0.45: g1 = (2.2, -3.2), |g1.g0| / |g1|^2 = 4 / 15.08 = 0.265
        x = parameter(4.0, 1.0)
        optimizer = CGD([x], lr=0.45, line_search="none", powell=powell)
        optimizer.step(closure_of(x, bowl))
        optimizer.step(closure_of(x, bowl))
        assert optimizer.last_restart is (Restart.POWELL if restarts else Restart.NO)
        if restarts:
            assert x.tolist() == pytest.approx([2.2 - 0.45 * 2.2, -0.8 + 0.45 * 3.2])

    def test_a_polak_ribiere_beta_below_zero_restarts_and_fletcher_reeves_does_not(self) -> None:
        # at rate 0.2: g1 = (3.2, 0.8), |g1|^2 = 10.88 < g1.g0 = 16
        for beta, expected in (("polak-ribiere", Restart.BETA), ("fletcher-reeves", Restart.NO)):
            x = parameter(4.0, 1.0)
            optimizer = CGD([x], lr=0.2, beta=beta, line_search="none", powell=math.inf)
            optimizer.step(closure_of(x, bowl))
            optimizer.step(closure_of(x, bowl))
            assert optimizer.last_restart is expected

    def test_a_direction_that_ascends_on_the_next_batch_is_not_taken(self) -> None:
        # after the exact first step beta d0 = 0.36 (-4, -4); on a batch with gradient (-0.1, -0.1) that climbs
        x = parameter(4.0, 1.0)
        optimizer = CGD([x], step_length=lambda d, g: exact(d, g) if optimizer.evaluations < 2 else 1.0)
        optimizer.step(closure_of(x, bowl))
        optimizer.step(closure_of(x, lambda p: -0.1 * p.sum()))
        assert optimizer.last_restart is Restart.ASCENT
        assert x.tolist() == pytest.approx([2.5, -0.5])


class TestOneBatchAStep:
    def test_both_gradients_of_a_beta_and_all_of_a_search_come_from_one_batch(self) -> None:
        torch.manual_seed(1)
        curvatures = [torch.rand(5, dtype=torch.float64) * 9 + 1 for _ in range(6)]
        centres = [torch.randn(5, dtype=torch.float64) for _ in range(6)]
        x = nn.Parameter(torch.randn(5, dtype=torch.float64))
        optimizer = CGD([x], powell=math.inf)
        seen: list[tuple[int, Tensor, Tensor]] = []
        conjugate = 0
        for batch, (curvature, centre) in enumerate(zip(curvatures, centres, strict=True)):
            evaluate = closure_of(x, lambda p, k=curvature, c=centre: 0.5 * (k * (p - c) ** 2).sum())

            def closure(batch: int = batch, evaluate: Callable[[], Tensor] = evaluate) -> Tensor:
                loss = evaluate()
                seen.append((batch, x.detach().clone(), x.grad.clone()))
                return loss

            before = [entry for entry in seen if entry[0] == batch - 1]
            direction_before = optimizer.state[x]["direction"].clone() if before else None
            start = x.detach().clone()
            optimizer.step(closure)
            this = seen[len(seen) - optimizer.last_evaluations :]
            assert [entry[0] for entry in this] == [batch] * len(this)
            assert torch.equal(this[0][1], start), "a step starts with a gradient of its own batch where it stands"
            assert torch.equal(this[-1][1], x.detach()), "the last evaluation is at the point that is kept"
            direction = optimizer.state[x]["direction"]
            if optimizer.last_restart is Restart.NO:
                conjugate += 1
                old, new = before[0][2], before[-1][2]
                beta = float(new @ (new - old) / (old @ old))
                assert torch.allclose(direction, -this[0][2] + beta * direction_before, rtol=1e-12, atol=1e-12)
            else:
                assert torch.equal(direction, -this[0][2])
        assert conjugate >= 3

    def test_a_search_through_dropout_works_where_every_evaluation_replays_the_random_state(self) -> None:
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 1)).double()
        rows, target = torch.randn(16, 6, dtype=torch.float64), torch.randn(16, 1, dtype=torch.float64)
        optimizer = CGD(model.parameters())
        for _ in range(5):
            state = torch.get_rng_state()

            def closure(state: Tensor = state) -> Tensor:
                torch.set_rng_state(state)
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(rows), target)
                loss.backward()
                return loss.detach()

            loss = float(optimizer.step(closure))
            kept = [p.grad.clone() for p in model.parameters()]
            after = float(closure())
            assert after < loss, "with the same masks the loss is lower than at the start of the step"
            for gradient, p in zip(kept, model.parameters(), strict=True):
                assert torch.equal(gradient, p.grad), "the step left the gradient of the point it chose"


class TestState:
    def test_one_vector_lives_between_steps_and_three_within_a_search(self) -> None:
        x, y = nn.Parameter(torch.randn(7, 3)), nn.Parameter(torch.randn(4))
        optimizer = CGD([x, y])
        seen: list[int] = []

        def closure() -> Tensor:
            seen.append(state_bytes(optimizer))
            optimizer.zero_grad()
            loss = (x**4).sum() + (y**2).sum()
            loss.backward()
            return loss.detach()

        vector = (7 * 3 + 4) * 4
        assert state_bytes(optimizer) == 0
        optimizer.step(closure)
        assert state_bytes(optimizer) == vector
        assert seen[0] == 0
        assert set(seen[1:]) == {3 * vector}
        seen.clear()
        optimizer.step(closure)
        assert seen[0] == vector
        assert set(seen[1:]) == {3 * vector}
        assert state_bytes(optimizer) == vector

    def test_a_resumed_run_goes_on_bit_by_bit(self) -> None:
        def loss_of(p: Tensor) -> Tensor:
            return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2

        x = parameter(-1.2, 1.0)
        optimizer = CGD([x])
        for _ in range(5):
            optimizer.step(closure_of(x, loss_of))
        buffer = io.BytesIO()
        torch.save({"x": x.detach(), "optimizer": optimizer.state_dict()}, buffer)
        buffer.seek(0)
        saved = torch.load(buffer, weights_only=True)
        again = nn.Parameter(saved["x"])
        resumed = CGD([again])
        resumed.load_state_dict(saved["optimizer"])
        assert resumed.evaluations == optimizer.evaluations
        for _ in range(5):
            optimizer.step(closure_of(x, loss_of))
            resumed.step(closure_of(again, loss_of))
            assert x.tolist() == again.tolist()
            assert resumed.last_restart is optimizer.last_restart
        assert resumed.state_dict()["state"][0]["evaluations"] == optimizer.evaluations


class TestWhenASearchGoesWrong:
    def test_a_loss_that_is_not_a_number_beyond_a_border_is_searched_up_to_it(self) -> None:
        # x - 5 log(x - 4) has its minimum at 9; below 4 it is NaN. The first trial from 20 lands at -75.
        x = parameter(20.0)
        optimizer = CGD([x], lr=100.0)
        losses: list[float] = []

        def closure() -> Tensor:
            loss = closure_of(x, lambda p: (p - 5 * torch.log(p - 4)).sum())()
            losses.append(float(loss))
            return loss

        optimizer.step(closure)
        assert math.isnan(losses[1])
        assert x.item() == pytest.approx(9.0, abs=0.5)
        for _ in range(4):
            optimizer.step(closure)
        assert x.item() == pytest.approx(9.0, abs=1e-6)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("line_search", ["strong-wolfe", "none"])
    def test_a_search_that_finds_nothing_finite_returns_to_the_start_and_restarts(
        self, value: float, line_search: str
    ) -> None:
        start = [0.1, 0.7]
        x = parameter(*start)
        optimizer = CGD([x], lr=0.3, line_search=line_search)
        broken = True

        def loss_of(p: Tensor) -> Tensor:
            return bowl(p) * (value if broken and p.tolist() != start else 1.0)

        assert float(optimizer.step(closure_of(x, loss_of))) == pytest.approx(0.985)
        assert x.tolist() == start
        broken = False
        optimizer.step(closure_of(x, loss_of))
        assert optimizer.last_restart is Restart.NONFINITE
        assert float(bowl(x.detach())) < 0.985

    def test_a_start_that_is_not_finite_moves_nothing(self) -> None:
        x = parameter(1.0, 1.0)
        optimizer = CGD([x])
        assert math.isnan(float(optimizer.step(closure_of(x, lambda p: p.sum() * math.nan))))
        assert x.tolist() == [1.0, 1.0]
        assert optimizer.last_evaluations == 1
        # a finite loss with a gradient that is not: sqrt at 0
        y = parameter(0.0)
        assert float(CGD([y]).step(closure_of(y, lambda p: torch.sqrt(p).sum()))) == 0.0
        assert y.tolist() == [0.0]

    def test_where_no_decrease_is_found_it_stays_bit_by_bit_and_restarts(self) -> None:
        x = parameter(0.1, 0.7)
        optimizer = CGD([x])

        def liar() -> Tensor:
            loss = closure_of(x, bowl)()
            x.grad.neg_()
            return loss

        optimizer.step(liar)
        assert x.tolist() == [0.1, 0.7]
        optimizer.step(closure_of(x, bowl))
        assert optimizer.last_restart is Restart.TAKEN_BACK
        assert float(bowl(x.detach())) < 0.985

    def test_a_failed_conjugate_direction_is_followed_by_steepest_descent_in_the_same_step(self) -> None:
        # d1 = (0, -1) + 0.36 (-4, -4) descends by its gradient, but this loss jumps as soon as x changes
        x = parameter(4.0, 1.0)
        first = CGD([x], step_length=exact)
        first.step(closure_of(x, bowl))
        optimizer = CGD([x])
        optimizer.load_state_dict(first.state_dict())
        at = x[0].item()

        def cliff(p: Tensor) -> Tensor:
            return (0.5 * (p[1] + 1.6) ** 2) + (100.0 if p[0].item() != at else 0.0)

        optimizer.step(closure_of(x, cliff))
        assert optimizer.last_restart is Restart.TAKEN_BACK
        assert x.tolist() == pytest.approx([at, -1.6])

    def test_a_closure_that_raises_leaves_the_parameters_where_the_step_began(self) -> None:
        x = parameter(-1.2, 1.0)
        optimizer = CGD([x])
        optimizer.step(closure_of(x, bowl))
        start, calls = x.tolist(), []

        def closure() -> Tensor:
            calls.append(x.tolist())
            if len(calls) == 2:
                raise KeyboardInterrupt
            return closure_of(x, bowl)()

        with pytest.raises(KeyboardInterrupt):
            optimizer.step(closure)
        assert calls[1] != start
        assert x.tolist() == start
        assert state_bytes(optimizer) == 2 * 8

    def test_a_search_that_runs_out_of_evaluations_keeps_the_best_point_and_restarts(self) -> None:
        x = parameter(-1.2, 1.0)
        optimizer = CGD([x], max_evaluations=2)
        losses: list[float] = []
        for _ in range(6):

            def closure() -> Tensor:
                return closure_of(x, lambda p: (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2)()

            losses.append(float(optimizer.step(closure)))
            assert optimizer.last_evaluations <= 1 + 2 * 3
        assert losses == sorted(losses, reverse=True)
