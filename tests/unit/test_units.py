import pytest

from gradscope.core.units import (
    format_bytes,
    format_count,
    format_ms,
    format_number,
    format_number_of,
    format_pct,
    format_rate,
    format_seconds,
    format_si,
)


@pytest.mark.parametrize(
    "text",
    [
        format_bytes(None),
        format_count(None),
        format_ms(None),
        format_number(None),
        format_pct(None),
        format_rate(None, "samples"),
        format_seconds(None),
        format_si(None, "FLOP"),
    ],
)
def test_a_missing_number_is_not_available(text):
    assert text == "n/a"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (10 * 1024, "10.0 KiB"),
        (1024 * 1024 - 1, "1.00 MiB"),
        (123456789, "118 MiB"),
        (2**30 * 16, "16.0 GiB"),
        (-1536, "-1.50 KiB"),
    ],
)
def test_bytes(size, text):
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0.0, "0.000 ms"),
        (-0.0001, "0.000 ms"),
        (0.1234, "0.123 ms"),
        (0.9996, "1.00 ms"),
        (9.996, "10.0 ms"),
        (45.64, "45.6 ms"),
        (1234.4, "1234 ms"),
        (12345.0, "12.3 s"),
        (float("nan"), "nan ms"),
        (float("inf"), "inf ms"),
    ],
)
def test_milliseconds(duration, text):
    assert format_ms(duration) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0.345, "0.34 s"),
        (3.456, "3.46 s"),
        (99.96, "1 min 40 s"),
        (125, "2 min 05 s"),
        (3599.6, "1 h 00 min"),
        (3720, "1 h 02 min"),
        (-125, "-2 min 05 s"),
        (47 * 3600, "47 h 00 min"),
        (50.6 * 3600, "2 days 3 h"),
        (64945 * 3600, "2706 days"),
    ],
)
def test_seconds(duration, text):
    assert format_seconds(duration) == text


def test_percentages():
    assert format_pct(12.34) == "12.3 %"
    assert format_pct(-0.04) == "0.0 %"
    assert format_pct(5.0, signed=True) == "+5.0 %"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (512, "512"),
        (999_600, "1.00 M"),
        (12_345, "12.3 k"),
        (86_567_656, "86.6 M"),
        (1_235_814_400, "1.24 B"),
    ],
)
def test_counts(count, text):
    assert format_count(count) == text


def test_rates():
    assert format_rate(45.64, "samples") == "45.6 samples/s"
    assert format_rate(8, "samples") == "8 samples/s"
    assert format_rate(12_345.6, "tokens") == "12.3 k tokens/s"


def test_si_prefixes():
    assert format_si(1.234e12, "FLOP/s") == "1.23 TFLOP/s"
    assert format_si(2.5, "J") == "2.50 J"
    assert format_si(0.9996, "J") == "1.00 J"
    assert format_si(0.0456, "J") == "45.6 mJ"
    assert format_si(0, "J") == "0 J"


def test_one_thing_is_not_plural():
    assert [format_number_of(count, "thread") for count in (1, 2, 16)] == ["1 thread", "2 threads", "16 threads"]


def test_plain_numbers():
    assert format_number(2.302585) == "2.303"
    assert format_number(1e-9) == "1e-09"
