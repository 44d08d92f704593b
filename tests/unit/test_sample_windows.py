"""Utilization and energy over a window: each sample stands for the interval since the one before."""

import pytest

from gradscope.core.samples import GpuSample, HostSample, Sample
from gradscope.sampling.energy import Energy, energy_series
from gradscope.sampling.windows import Series, WindowMean, card_figure, host_figure

MS = 1_000_000


def sample(t_ms, interval_ms=100.0, uuid="GPU-A", **figures):
    return Sample(t_ns=t_ms * MS, interval_ms=interval_ms, gpus=[GpuSample(uuid=uuid, **figures)])


BUSY = [sample(1000, 0.0, gpu_busy_pct=7), *(sample(1000 + 100 * n, gpu_busy_pct=10.0 * n) for n in range(1, 6))]
"""10 % from 1000 to 1100 ms, 20 % to 1200, ... 50 % to 1500."""


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "expected"),
    [
        (1000, 1500, WindowMean(30.0, 500 * MS, 5, False)),
        (1050, 1250, WindowMean((50 * 10 + 100 * 20 + 50 * 30) / 200, 200 * MS, 3, False)),
        (1100, 1200, WindowMean(20.0, 100 * MS, 1, False)),
        (1110, 1120, WindowMean(20.0, 10 * MS, 1, True)),
        (1400, 1600, WindowMean(50.0, 100 * MS, 1, False)),
        (900, 1000, None),
        (1500, 1600, None),
        (1200, 1200, None),
    ],
)
def test_utilization_of_a_window_is_weighted_by_time(start_ms, end_ms, expected):
    series = Series.of(BUSY, card_figure("GPU-A", "gpu_busy_pct"))
    assert series.mean(start_ms * MS, end_ms * MS) == expected


def test_a_sample_without_the_figure_leaves_its_interval_uncovered():
    samples = [sample(100, gpu_busy_pct=40), sample(200), sample(300, gpu_busy_pct=80)]
    series = Series.of(samples, card_figure("GPU-A", "gpu_busy_pct"))
    assert series.mean(0, 300 * MS) == WindowMean(60.0, 200 * MS, 2, False)
    assert series.mean(110 * MS, 190 * MS) is None


def test_another_cards_figures_do_not_count():
    series = Series.of(BUSY, card_figure("GPU-B", "gpu_busy_pct"))
    assert series.mean(0, 2000 * MS) is None


def test_values_of_a_window_are_those_sampled_in_it():
    series = Series.of(BUSY, card_figure("GPU-A", "gpu_busy_pct"))
    assert series.within(1100 * MS, 1300 * MS) == [20.0, 30.0]


def test_host_figures_are_picked_the_same_way():
    samples = [Sample(t_ns=100 * MS, interval_ms=100, host=HostSample(tree_cpu_pct=150)), sample(200)]
    assert Series.of(samples, host_figure("tree_cpu_pct")).values == [150.0]


COUNTED = [sample(1000 + 100 * n, energy_mj=50_000 + 20_000 * n, power_w=1.0) for n in range(6)]
"""200 W by the counter; the power figure is wrong on purpose."""


def test_energy_is_read_off_the_counter_between_its_samples():
    energy = energy_series(COUNTED, "GPU-A").window(1050 * MS, 1350 * MS)
    assert energy == Energy(mj=60_000.0, source="counter", shared=False)


def test_a_window_within_one_interval_shares_its_energy():
    assert energy_series(COUNTED, "GPU-A").window(1110 * MS, 1120 * MS) == Energy(2000.0, "counter", shared=True)


def test_a_counter_bridges_samples_that_lack_it():
    samples = [sample(0, energy_mj=0), sample(100), sample(200, energy_mj=40_000)]
    assert energy_series(samples, "GPU-A").window(50 * MS, 150 * MS) == Energy(20_000.0, "counter", shared=True)


def test_without_a_counter_power_is_integrated_and_the_figure_says_so():
    samples = [sample(100, power_w=100.0), sample(200, power_w=300.0)]
    # 50 ms at 100 W and 100 ms at 300 W: 5 J + 30 J
    energy = energy_series(samples, "GPU-A").window(50 * MS, 200 * MS)
    assert energy is not None
    assert energy.mj == pytest.approx(35_000)
    assert energy.source == "power integral"


def test_a_small_gap_in_the_power_samples_is_filled_with_their_mean():
    samples = [sample(100 * n, power_w=None if n == 3 else 200.0) for n in range(1, 21)]
    energy = energy_series(samples, "GPU-A").window(0, 2000 * MS)
    assert energy is not None
    assert energy.mj == pytest.approx(400_000)


@pytest.mark.parametrize(("start_ms", "end_ms"), [(900, 1100), (1400, 1600), (1200, 1200), (1300, 1200)])
def test_a_window_that_the_samples_do_not_cover_has_no_energy(start_ms, end_ms):
    counted = [sample(1000 + 100 * n, 0.0 if n == 0 else 100.0, energy_mj=20_000 * n, power_w=200.0) for n in range(6)]
    assert energy_series(counted, "GPU-A").window(start_ms * MS, end_ms * MS) is None
