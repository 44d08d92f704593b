"""Verdicts over runs: exact small numbers, and how often simulated runs are judged wrongly."""

import math
import random

import pytest

from gradscope.analysis.interval import of_difference, of_mean, t_quantile
from gradscope.analysis.quantities import QUANTITIES
from gradscope.analysis.verdict_runs import Verdict, judge
from tests.made_summaries import noisy_pairs

STEP = QUANTITIES["step_time_ms"]
PEAK = QUANTITIES["peak_memory_bytes"]
LOSS = QUANTITIES["loss_last"]
BUSY = QUANTITIES["gpu_busy_pct"]
RATE = QUANTITIES["samples_per_s"]


@pytest.mark.parametrize(
    ("freedom", "probability", "printed"),
    [(1, 0.975, 12.706), (2, 0.975, 4.303), (3, 0.975, 3.182), (4, 0.995, 4.604), (9, 0.99, 2.821), (30, 0.975, 2.042)],
)
def test_quantiles_are_those_of_printed_tables(freedom: int, probability: float, printed: float) -> None:
    assert t_quantile(freedom, probability) == pytest.approx(printed, abs=5e-4)


def test_the_interval_of_a_mean() -> None:
    # 1 2 3 4 5: variance 2.5, standard error sqrt(0.5), t(4, 0.995) = 4.6041
    found = of_mean([1, 2, 3, 4, 5], 0.99)
    assert found.mean == 3
    assert found.high - 3 == pytest.approx(4.6041 * math.sqrt(0.5), rel=1e-4)


def test_the_interval_of_a_difference_of_unpaired_values() -> None:
    # both variances 2.5: standard error 1, 8 degrees of freedom, t(8, 0.995) = 3.3554
    found = of_difference([1, 2, 3, 4, 5], [3, 4, 5, 6, 7], 0.99)
    assert (found.mean, found.low) == (2, pytest.approx(2 - 3.3554, abs=1e-4))
    same = of_difference([1, 1], [2, 2], 0.99)
    assert (same.low, same.high) == (1, 1)


def test_one_run_a_side_proves_nothing_but_says_the_difference() -> None:
    found = judge(STEP, [100], [150], paired=True)
    assert found.verdict is Verdict.UNDECIDED
    assert (found.relative, found.absolute, found.low, found.beyond_noise) == (0.5, 50, None, None)
    assert found.reason == "one run a side; --repeat 5 decides"


def test_fewer_than_five_pairs_are_undecided_however_clear_they_look() -> None:
    found = judge(STEP, [100, 101, 99, 100], [200, 201, 199, 200], paired=True)
    assert (found.verdict, found.runs, found.reason) == (Verdict.UNDECIDED, 4, "4 pairs; --repeat 5 decides")


def test_five_pairs_decide() -> None:
    # log ratios ln 1.5 + (-2, -1, 0, 1, 2) %: standard error 0.7071 %, half of the interval 3.2556 %
    base = [100.0, 100.0, 100.0, 100.0, 100.0]
    other = [150 * math.exp(percent / 100) for percent in (-2, -1, 0, 1, 2)]
    found = judge(STEP, base, other, paired=True)
    assert (found.verdict, found.good, found.beyond_noise) == (Verdict.HIGHER, False, True)
    assert found.relative == pytest.approx(0.5)
    assert found.low == pytest.approx(1.5 * math.exp(-0.032556) - 1, abs=1e-5)
    assert found.high == pytest.approx(1.5 * math.exp(0.032556) - 1, abs=1e-5)
    assert judge(RATE, base, other, paired=True).good is True


def test_a_difference_below_the_threshold_is_none_even_if_it_is_proved() -> None:
    found = judge(STEP, [100] * 5, [101.0, 101.01, 101.0, 101.01, 101.0], paired=True)
    assert (found.verdict, found.beyond_noise) == (Verdict.NOISE, True)
    finer = judge(STEP, [100] * 5, [101.0, 101.01, 101.0, 101.01, 101.0], paired=True, threshold=0.005)
    assert finer.verdict is Verdict.HIGHER


def test_noise_is_called_noise() -> None:
    found = judge(STEP, [100, 120, 90, 110, 105], [104, 101, 118, 95, 108], paired=True)
    assert (found.verdict, found.good, found.beyond_noise) == (Verdict.NOISE, None, False)
    assert found.low is not None
    assert found.low < 0 < (found.high or 0)


def test_an_outlier_does_not_hide_what_every_pair_shows() -> None:
    found = judge(STEP, [100] * 5, [150, 150, 150, 150, 400], paired=True)
    assert found.low is not None
    assert found.low < 0, "the interval alone would not see it"
    assert found.verdict is Verdict.HIGHER


def test_what_drifts_cancels_within_pairs() -> None:
    base = [100, 130, 160, 190, 220]
    other = [110, 142, 177, 208, 243]
    assert judge(STEP, base, other, paired=True).verdict is Verdict.HIGHER
    assert judge(STEP, base, other, paired=False).verdict is Verdict.NOISE


def test_sizes_are_compared_exactly_with_one_run_a_side() -> None:
    assert judge(PEAK, [1000], [1000], paired=True).verdict is Verdict.SAME
    found = judge(PEAK, [1000], [999], paired=True)
    assert (found.verdict, found.good, found.exact, found.absolute) == (Verdict.LOWER, True, True, -1)


def test_sizes_that_vary_from_run_to_run_are_measured_after_all() -> None:
    assert judge(PEAK, [1000, 1001], [1100, 1100], paired=True).verdict is Verdict.UNDECIDED


def test_losses_of_equal_seeds_that_agree_are_the_same() -> None:
    assert judge(LOSS, [1.5], [1.5], paired=True, exact=True).verdict is Verdict.SAME
    losses = [1.5, 1.6, 1.4, 1.55, 1.45]
    assert judge(LOSS, losses, losses, paired=True).verdict is Verdict.SAME
    found = judge(LOSS, losses, [value - 0.5 for value in losses], paired=True)
    assert (found.verdict, found.good) == (Verdict.LOWER, True)
    assert found.relative == pytest.approx(-0.5 / 1.5)


def test_percentages_are_compared_by_points() -> None:
    found = judge(BUSY, [50, 50.1, 50, 50.1, 50], [51, 51.1, 51, 51.1, 51], paired=True)
    assert (found.verdict, found.low) == (Verdict.NOISE, pytest.approx(1.0)), "1 point is below the threshold of 2"
    found = judge(BUSY, [50, 50.1, 50, 50.1, 50], [60, 60.1, 60, 60.1, 60], paired=True)
    assert (found.verdict, found.good, found.absolute) == (Verdict.HIGHER, True, pytest.approx(10))


def test_missing_numbers_are_missing() -> None:
    assert judge(STEP, [None], [1], paired=True).reason == "not measured on the baseline"
    assert judge(STEP, [1], [None], paired=False).reason == "not measured on this side"
    five = judge(STEP, [100] * 6, [None, 150, 150, 150, 150, 150], paired=True)
    assert (five.verdict, five.runs) == (Verdict.HIGHER, 5)


@pytest.mark.parametrize(("kind", "most_pct"), [("quiet", 1.0), ("drift", 1.2), ("bursts", 1.0)])
def test_equal_runs_are_hardly_ever_called_different(kind: str, most_pct: float) -> None:
    pick, draws = random.Random(1), 2000
    wrong = 0
    for _ in range(draws):
        a, b = noisy_pairs(pick, 5, 1.0, kind)
        wrong += judge(STEP, a, b, paired=True).verdict is Verdict.HIGHER
    assert wrong <= draws * most_pct / 100


@pytest.mark.parametrize(("kind", "least_pct"), [("quiet", 100.0), ("drift", 90.0)])
def test_a_step_slower_by_half_is_found(kind: str, least_pct: float) -> None:
    pick, draws = random.Random(2), 500
    found = 0
    for _ in range(draws):
        a, b = noisy_pairs(pick, 5, 1.5, kind)
        found += judge(STEP, a, b, paired=True).verdict is Verdict.HIGHER
    assert found >= draws * least_pct / 100
