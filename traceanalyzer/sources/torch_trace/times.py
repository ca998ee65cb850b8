"""Decimal microseconds as they stand in the file -> integer nanoseconds, exactly: no number passes through a float."""

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

_INT64_MAX = (1 << 63) - 1
_CONTEXT = Context(prec=200)
_COMMA, _DOT, _ZERO, _NINE = b",.09"
_POWERS = np.array([1000, 100, 10, 1], np.int64)
_HALF = Decimal("0.5")


def exact_nanoseconds(text: bytes) -> int | None:
    """Nanoseconds of one decimal text in microseconds, rounded half up.

    Accepts what JSON and careless writers give: signs, exponents, quotes around the number, white space.
    None where it is no finite number or leaves 64 bits.
    """
    try:
        value = Decimal(text.strip().strip(b'"').strip().decode("ascii"))
        if not value.is_finite() or (value and value.adjusted() > 18):
            return None
        scaled = _CONTEXT.multiply(value, Decimal(1000))
        whole = int(_CONTEXT.add(scaled, _HALF).to_integral_value(rounding=ROUND_FLOOR))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return whole if -_INT64_MAX <= whole <= _INT64_MAX else None


def nanoseconds(tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Nanoseconds of many decimal texts (anything with the buffer protocol); second: which of them could be read.

    Plain decimals of at most three decimal places that surely fit are converted together from their digits; the others
    one by one.
    """
    count = len(tokens)
    if not count:
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    joined = b",".join(tokens).replace(b'"', b"") + b","
    letters = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(letters == _COMMA)
    if len(ends) != count:
        return _one_by_one(tokens, np.arange(count))
    starts = np.concatenate(([0], ends[:-1] + 1))
    dots = np.flatnonzero(letters == _DOT)
    owner = np.searchsorted(ends, dots)
    places = np.zeros(count, np.int64)
    places[owner] = ends[owner] - dots - 1
    has_dot = np.zeros(count, np.int64)
    np.add.at(has_dot, owner, 1)
    digits = ends - starts - has_dot
    width = digits - places + 3
    too_wide = (width > 19) | ((width == 19) & (letters[starts] >= _NINE))
    odd = too_wide | (digits <= places) | (places > 3) | (has_dot > 1) | ((has_dot == 1) & (places == 0))
    strange = np.flatnonzero(((letters < _ZERO) | (letters > _NINE)) & (letters != _COMMA) & (letters != _DOT))
    odd[np.searchsorted(ends, strange)] = True
    if odd.any():
        return _with_odd(tokens, odd)
    whole = np.fromstring(joined[:-1].replace(b".", b"").decode("ascii"), np.int64, sep=",")
    return whole * _POWERS[places], np.ones(count, np.bool_)


def _with_odd(tokens: Sequence[bytes], odd: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    values, valid = _one_by_one(tokens, np.flatnonzero(odd))
    plain = np.flatnonzero(~odd)
    values[plain], valid[plain] = nanoseconds([tokens[i] for i in plain.tolist()])
    return values, valid


def _one_by_one(tokens: Sequence[bytes], which: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    values, valid = np.zeros(len(tokens), np.int64), np.zeros(len(tokens), np.bool_)
    for i in which.tolist():
        value = exact_nanoseconds(bytes(tokens[i]))
        if value is not None:
            values[i], valid[i] = value, True
    return values, valid
