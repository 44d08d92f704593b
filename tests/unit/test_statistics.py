import pytest

from gradscope.core.statistics import Spread, quantile, spread


def test_spread_of_the_numbers_one_to_five():
    assert spread([5.0, 3.0, 1.0, 2.0, 4.0]) == Spread(
        count=5, median=3.0, mean=3.0, p5=1.2, p25=2.0, p75=4.0, p95=4.8, minimum=1.0, maximum=5.0
    )


def test_iqr_is_the_distance_of_the_quartiles():
    described = spread([1, 2, 3, 4])
    assert described is not None
    assert (described.p25, described.p75, described.iqr) == (1.75, 3.25, 1.5)


def test_one_value_has_no_spread():
    described = spread([7.5])
    assert described is not None
    assert {described.median, described.mean, described.p5, described.p95, described.minimum, described.maximum} == {
        7.5
    }
    assert described.iqr == 0


def test_missing_and_nonfinite_values_are_left_out_and_not_counted():
    described = spread([None, 1.0, float("nan"), 3.0, float("inf")])
    assert described is not None
    assert (described.count, described.mean) == (2, 2.0)


@pytest.mark.parametrize("values", [[], [None], [float("nan")]])
def test_nothing_is_described_as_nothing(values):
    assert spread(values) is None


def test_quantile_interpolates_between_neighbours():
    assert quantile([10.0, 20.0], 0.25) == 12.5
    assert quantile([10.0, 20.0], 0.0) == 10.0
    assert quantile([10.0, 20.0], 1.0) == 20.0
