"""Exact time: decimal microseconds to integer nanoseconds."""

from decimal import ROUND_FLOOR, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from traceanalyzer.sources.torch_trace.times import exact_nanoseconds, nanoseconds

_PLAIN = st.from_regex(r"\A[0-9]{1,17}(\.[0-9]{1,6})?\Z")
_SIGNED = st.from_regex(r"\A-?[0-9]{1,20}(\.[0-9]{0,30})?([eE][-+]?[0-9]{1,2})?\Z")


def _expected(text: str) -> int | None:
    value = int((Decimal(text) * 1000 + Decimal("0.5")).to_integral_value(rounding=ROUND_FLOOR))
    return value if abs(value) < 1 << 63 else None


@given(st.lists(_PLAIN | _SIGNED, max_size=12))
@example(["1712195495406752.797"])  # 19 digits
@example(["0E20", "1E20", "1e-99"])
@example(["4458676522690.655"])  # the window in which rounding through doubles is wrong
@example(["9223372036854775.807", "9223372036854775.808", "8999999999999999.999", "9000000000000000"])
@example(["0.0005", "0.00049999", "1.9995", "12.77012757357446", "-0.0005", "-1.0006", "1."])
def test_any_decimal_text_is_read_exactly(texts: list[str]) -> None:
    values, valid = nanoseconds([text.encode() for text in texts])
    got = [int(v) if ok else None for v, ok in zip(values, valid, strict=True)]
    assert got == [_expected(text) for text in texts]


def test_quotes_around_numbers_are_dropped() -> None:
    values, valid = nanoseconds([b'"1704161511420306.491"', b"13.08", b'" 7 "', b'"1,2"'])
    assert values.tolist() == [1704161511420306491, 13080, 7000, 0]
    assert valid.tolist() == [True, True, True, False]


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"-inf", b"null", b"true", b"", b'""', b"1e400", b"12x", b"[1]"])
def test_what_is_no_finite_number_is_none(text: bytes) -> None:
    assert exact_nanoseconds(text) is None
    assert nanoseconds([b"1.5", text])[1].tolist() == [True, False]
    assert nanoseconds([b"1.5", text])[0][0] == 1500


def test_nothing_gives_nothing() -> None:
    values, valid = nanoseconds([])
    assert len(values) == len(valid) == 0
