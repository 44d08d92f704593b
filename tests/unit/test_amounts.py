"""Numbers with a unit as people write them."""

import pytest

from gradscope.core.amounts import BYTES, MILLISECONDS, PLAIN, SECONDS, read_amount


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GiB", 1024**3),
        ("1.5 gib", 1.5 * 1024**3),
        ("2G", 2 * 1024**3),
        ("1GB", 10**9),
        (".5k", 512),
        ("1e3", 1000),
        ("0", 0),
        ("-1 MiB", -(1024**2)),
    ],
)
def test_sizes(text: str, size: float) -> None:
    assert read_amount(text, BYTES) == size


@pytest.mark.parametrize("text", ["", "GiB", "1 GiX", "1 2", "1,5", "nan", "inf", "1e999", "--1", "1 ms"])
def test_what_is_no_size(text: str) -> None:
    assert read_amount(text, BYTES) is None


def test_other_units() -> None:
    assert read_amount("2w", SECONDS) == 14 * 86_400
    assert read_amount("30", SECONDS) is None
    assert read_amount("0.2s", MILLISECONDS) == 200
    assert read_amount("5", MILLISECONDS) == 5
    assert read_amount("1.2k", PLAIN) == 1200
