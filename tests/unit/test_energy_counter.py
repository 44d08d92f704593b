"""An energy counter that wraps, starts anew, or steps back never makes energy negative or huge."""

import pytest

from gradscope.sampling.counter import MonotonicCounter

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("readings_mj", "totals_mj", "resets"),
    [
        ([1000, 1500, 1500, 2500], [1000, 1500, 1500, 2500], 0),
        ([2**32 - 100, 200], [2**32 - 100, 2**32 + 200], 0),
        ([5_000_000_000, 300], [5_000_000_000, 5_000_000_300], 1),
        ([900_000, 899_990, 900_010], [900_000, 900_000, 900_020], 0),
        ([100_000, 0, 50], [100_000, 100_000, 100_050], 1),
    ],
    ids=["rises", "wraps at 32 bits", "starts anew", "steps back", "starts at nothing"],
)
def test_the_total_never_goes_down(readings_mj, totals_mj, resets):
    counter = MonotonicCounter()
    assert [counter.advance(reading, n * SECOND // 10) for n, reading in enumerate(readings_mj)] == totals_mj
    assert counter.resets == resets
