"""Numbers as people read them."""

import pytest

from traceanalyzer.units import Unit, counted, format_value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, Unit.NS, ""),
        (-4_949, Unit.NS, "-4.949 us"),
        (1_500_000, Unit.NS, "1.500 ms"),
        (3e9, Unit.BYTES_PER_S, "3.000 GB/s"),
        (1_234, Unit.COUNT, "1,234"),
        (18.485, Unit.COUNT, "18.48"),
        (0.5, Unit.SHARE, "50.0 %"),
        (2048, Unit.BYTES, "2.000 KiB"),
    ],
)
def test_values_are_scaled_with_their_unit(value, unit, text):
    assert format_value(value, unit) == text


def test_counts_agree_with_their_nouns():
    assert [counted(n, "step") for n in (0, 1, 1_200)] == ["0 steps", "1 step", "1,200 steps"]
    assert [counted(n, "launch", "launches") for n in (1, 2)] == ["1 launch", "2 launches"]
